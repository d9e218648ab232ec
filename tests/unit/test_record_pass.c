/* SPDX-License-Identifier: Apache-2.0 */
/* test_record_pass.c: proves what becomes of a lock's record when its place goes over to a lease's
 * session, and what does not when that comes late; run by ctest. */
#include "record_bed.h"

#include "core/notify.h"

#define LEASE 77
#define LEASE_TTL 4321

static hf_pass pass_of(unsigned ticket, int64_t token)
{
    return (hf_pass){.ticket = id_of(ticket),
                     .to = id_of(LEASE),
                     .session = id_of(LEASE + 1),
                     .ttl_ms = LEASE_TTL,
                     .token = token};
}

static bool pass(hf_record *record, unsigned ticket, int64_t token)
{
    hf_pass how = pass_of(ticket, token);
    return step(record, (hf_step){.pass = &how});
}

static void test_a_pass_keeps_the_place_and_the_token_in_use(void **state)
{
    hf_record *record = *state;
    hf_enter first = entrant(1, ALL);
    first.entry.block = 10;
    first.entry.yields = true;
    step(record, (hf_step){.enter = &first});
    enter(record, 2, ALL);
    assert_true(pass(record, 1, FLOOR + 4));
    const hf_entry *lease = record_find(record, id_of(LEASE));
    assert_non_null(lease);
    assert_true(holds(record, LEASE));
    assert_true(id_equal(lease->session, id_of(LEASE + 1)));
    assert_int_equal(lease->ttl_ms, LEASE_TTL);
    assert_int_equal(lease->token, FLOOR + 4);
    assert_false(lease->yields);
    assert_int_equal(lease->block, 0);
    assert_null(record_find(record, id_of(1)));
    assert_int_equal(place(record, 2), 1);
    assert_int_equal(record->last.outcome, HF_OUTCOME_NONE);
}

/* Threads of one client held under the ticket before: the record hears of the last of them now. */
static void test_a_pass_brings_how_the_turn_before_was_left(void **state)
{
    hf_record *record = *state;
    hf_leave before = leaver(1);
    before.has_exit_status = true;
    before.exit_status = 7;
    before.used_token = FLOOR + 3;
    hf_enter first = entrant(1, ALL);
    first.entry.block = 10;
    step(record, (hf_step){.enter = &first});
    int64_t highest = record->token;
    hf_pass how = pass_of(1, FLOOR + 4);
    how.before = &before;
    assert_true(step(record, (hf_step){.pass = &how}));
    assert_int_equal(record->token, highest);
    assert_int_equal(record->last.outcome, HF_OUTCOME_RELEASED);
    assert_int_equal(record->last.token, FLOOR + 3);
    assert_true(id_equal(record->last.session, id_of(1001)));
    assert_int_equal(record->last.exit_status, 7);
    hf_death death = {.session = id_of(LEASE + 1), .who = "lease"};
    assert_true(step(record, (hf_step){.deaths = &death, .n_deaths = 1}));
    assert_int_equal(record->last.outcome, HF_OUTCOME_ABANDONED);
    assert_true(record->last.done.is_known); /* P13 */
    assert_int_equal(record->last.done.exit_status, 7);
}

/* A pass that does nothing says nothing: the ticket may yet be left, which says it then. */
static void test_a_pass_that_does_nothing_brings_nothing(void **state)
{
    hf_record *record = *state;
    hf_leave before = leaver(1);
    enter(record, 1, ALL);
    enter(record, 2, ALL);
    assert_true(pass(record, 1, FLOOR));
    leave(record, LEASE);
    hf_pass late = pass_of(2, FLOOR + 1);
    late.before = &before;
    before.exit_status = before.has_exit_status = 1;
    assert_false(step(record, (hf_step){.pass = &late}));
    assert_true(id_equal(record->last.session, id_of(LEASE + 1)));
    assert_false(record->last.has_exit_status);
}

/* By another session it is judged now, which may never be renewed. */
static void test_the_head_of_the_queue_is_told_of_a_pass(void **state)
{
    hf_record *record = *state;
    notify_note note;
    enter(record, 1, ALL);
    enter(record, 2, ALL);
    enter(record, 3, ALL);
    assert_true(pass(record, 1, FLOOR));
    const char *at = record->notify;
    assert_true(notify_next(&at, &note));
    assert_int_equal(note.kind, NOTE_LOOK);
    assert_true(id_equal(note.session, record_find(record, id_of(2))->session));
    assert_true(id_equal(note.ticket, id_of(2)));
    assert_false(notify_next(&at, &note));
}

/* Who goes on waiting hears of it behind those that are granted by the same step. */
static void test_the_head_is_told_of_a_pass_behind_the_grants(void **state)
{
    hf_record *record = *state;
    notify_note note;
    for (unsigned i = 1; i <= 4; i++) {
        hf_enter each = entrant(i, 1);
        each.limit = 2;
        enter_as(record, each);
    }
    hf_pass how = pass_of(1, FLOOR);
    hf_leave leaves[] = {leaver(2)};
    assert_true(step(record, (hf_step){.pass = &how, .leaves = leaves, .n_leaves = 1}));
    const char *at = record->notify;
    assert_true(notify_next(&at, &note));
    assert_int_equal(note.kind, NOTE_GRANT);
    assert_true(id_equal(note.ticket, id_of(3)));
    assert_true(notify_next(&at, &note));
    assert_int_equal(note.kind, NOTE_LOOK);
    assert_true(id_equal(note.ticket, id_of(4)));
}

static void test_a_pass_that_nobody_waits_behind_tells_nobody(void **state)
{
    hf_record *record = *state;
    enter(record, 1, ALL);
    char *before = strdup(record->notify);
    assert_true(pass(record, 1, FLOOR));
    assert_string_equal(record->notify, before);
    free(before);
}

static void test_what_follows_a_pass_has_a_higher_token(void **state)
{
    hf_record *record = *state;
    hf_enter first = entrant(1, ALL);
    first.entry.block = 10;
    step(record, (hf_step){.enter = &first});
    enter(record, 2, ALL);
    pass(record, 1, FLOOR + 9);
    leave(record, LEASE);
    assert_true(holds(record, 2));
    assert_true(token_of(record, 2) > FLOOR + 9);
}

static void test_a_late_leave_of_the_old_ticket_takes_no_lease_out(void **state)
{
    hf_record *record = *state;
    enter(record, 1, ALL);
    pass(record, 1, FLOOR);
    assert_false(leave(record, 1));
    assert_true(holds(record, LEASE));
}

static void test_a_pass_that_comes_late_changes_nothing(void **state)
{
    hf_record *record = *state;
    enter(record, 1, ALL);
    leave(record, 1);
    enter(record, 2, ALL);
    assert_false(pass(record, 1, FLOOR));
    assert_true(holds(record, 2));
}

static void test_a_pass_of_one_that_waits_changes_nothing(void **state)
{
    hf_record *record = *state;
    enter(record, 1, ALL);
    enter(record, 2, ALL);
    assert_false(pass(record, 2, FLOOR));
    assert_int_equal(place(record, 2), 1);
}

static void test_where_the_lease_stands_the_caller_leaves(void **state)
{
    hf_record *record = *state;
    enter(record, 1, 1);
    enter(record, 2, 1);
    enter(record, 3, ALL);
    assert_true(pass(record, 1, FLOOR));
    assert_false(pass(record, 1, FLOOR));
    assert_true(pass(record, 2, FLOOR + 1));
    assert_null(record_find(record, id_of(2)));
    assert_int_equal(record->holders, 1);
    assert_true(holds(record, LEASE));
    assert_int_equal(record->last.outcome, HF_OUTCOME_NONE);
    assert_true(pass(record, 3, 0)); /* one that waits has nothing to wait for any more */
    assert_int_equal(record->queued, 0);
}

static void test_what_the_caller_held_goes_to_the_next(void **state)
{
    hf_record *record = *state;
    hf_enter entrants[] = {entrant(1, 1), entrant(2, 1), entrant(3, 1)};
    for (size_t i = 0; i < 3; i++) {
        entrants[i].limit = 2;
        enter_as(record, entrants[i]);
    }
    assert_true(pass(record, 1, FLOOR));
    assert_int_equal(place(record, 3), 1);
    assert_true(pass(record, 2, FLOOR + 1));
    assert_true(holds(record, 3));
    assert_true(holds(record, LEASE));
}

static void test_a_lease_does_not_take_itself_out(void **state)
{
    hf_record *record = *state;
    enter(record, LEASE, ALL);
    assert_false(pass(record, LEASE, FLOOR));
    assert_true(holds(record, LEASE));
}

static void test_a_lease_that_has_left_is_not_made_anew(void **state)
{
    hf_record *record = *state;
    enter(record, 1, ALL);
    enter(record, 2, ALL);
    assert_true(pass(record, 1, FLOOR));
    leave(record, LEASE);
    assert_true(holds(record, 2));
    assert_false(pass(record, 2, FLOOR + 1));
    assert_true(holds(record, 2));
}

static void test_a_death_is_remembered_beside_a_pass(void **state)
{
    hf_record *record = *state;
    enter(record, 1, 1);
    enter(record, 2, 1);
    pass(record, 1, FLOOR);
    hf_pass how = pass_of(2, FLOOR + 1);
    hf_death death = dead(2);
    assert_true(step(record, (hf_step){.pass = &how, .deaths = &death, .n_deaths = 1}));
    assert_null(record_find(record, id_of(2)));
    assert_int_equal(record->last.outcome, HF_OUTCOME_ABANDONED);
    assert_int_equal(record->last.token, FLOOR + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OLDER_CASE(test_a_pass_keeps_the_place_and_the_token_in_use),
        CASE(test_a_pass_brings_how_the_turn_before_was_left),
        CASE(test_a_pass_that_does_nothing_brings_nothing),
        CASE(test_the_head_of_the_queue_is_told_of_a_pass),
        CASE(test_the_head_is_told_of_a_pass_behind_the_grants),
        CASE(test_a_pass_that_nobody_waits_behind_tells_nobody),
        OLDER_CASE(test_what_follows_a_pass_has_a_higher_token),
        CASE(test_a_late_leave_of_the_old_ticket_takes_no_lease_out),
        CASE(test_a_pass_that_comes_late_changes_nothing),
        CASE(test_a_pass_of_one_that_waits_changes_nothing),
        CASE(test_where_the_lease_stands_the_caller_leaves),
        CASE(test_what_the_caller_held_goes_to_the_next),
        CASE(test_a_lease_does_not_take_itself_out),
        CASE(test_a_lease_that_has_left_is_not_made_anew),
        CASE(test_a_death_is_remembered_beside_a_pass),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
