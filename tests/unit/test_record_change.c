/* SPDX-License-Identifier: Apache-2.0 */
/* test_record_change.c: proves what a downgrade and an upgrade do to a lock's record, and what they
 * do not when they come late; run by ctest. */
#include "record_bed.h"

static bool change(hf_record *record, unsigned ticket, int32_t permits)
{
    return step(record, (hf_step){.change = &(hf_change){id_of(ticket), permits}});
}

static int32_t permits_of(const hf_record *record, unsigned ticket)
{
    const hf_entry *entry = record_find(record, id_of(ticket));
    assert_non_null(entry);
    return entry->permits;
}

/* Ticket `by` wants the place of `ticket`, with all permits. */
static hf_enter upgrader(unsigned ticket, unsigned by)
{
    hf_enter enter = entrant(by, ALL);
    enter.replaces = id_of(ticket);
    enter.try_only = true;
    return enter;
}

static bool upgrade(hf_record *record, unsigned ticket, unsigned by)
{
    hf_enter enter = upgrader(ticket, by);
    return step(record, (hf_step){.enter = &enter});
}

/* ---- Downgrade ---- */

static void test_a_downgrade_keeps_ticket_and_token(void **state)
{
    hf_record *record = *state;
    enter(record, 1, ALL);
    assert_true(change(record, 1, 1));
    assert_true(holds(record, 1));
    assert_int_equal(permits_of(record, 1), 1);
    assert_int_equal(token_of(record, 1), FLOOR);
    assert_int_equal(record->last.outcome, HF_OUTCOME_NONE);
}

static void test_a_downgrade_lets_in_the_readers_behind_it(void **state)
{
    hf_record *record = *state;
    enter(record, 1, ALL);
    enter(record, 2, 1);
    enter(record, 3, 1);
    enter(record, 4, ALL);
    enter(record, 5, 1);
    change(record, 1, 1);
    assert_true(holds(record, 2));
    assert_true(holds(record, 3));
    assert_int_equal(token_of(record, 3), FLOOR + 2);
    assert_int_equal(place(record, 4), 1);
    assert_int_equal(place(record, 5), 2);
}

static void test_a_change_never_raises(void **state)
{
    hf_record *record = *state;
    enter(record, 1, 3);
    assert_false(change(record, 1, ALL));
    assert_false(change(record, 1, 3));
    assert_false(change(record, 1, 0));
    assert_false(change(record, 1, -1));
    assert_int_equal(permits_of(record, 1), 3);
    assert_true(change(record, 1, 2));
    assert_false(change(record, 1, 2)); /* repeated */
    assert_int_equal(permits_of(record, 1), 2);
}

static void test_a_change_of_who_waits_or_is_not_there_does_nothing(void **state)
{
    hf_record *record = *state;
    assert_false(change(record, 1, 1));
    assert_false(record->exists);
    enter(record, 1, ALL);
    enter(record, 2, ALL);
    assert_false(change(record, 2, 1));
    assert_false(change(record, 3, 1));
    assert_int_equal(permits_of(record, 2), ALL);
}

static void test_who_leaves_in_the_same_step_is_not_changed(void **state)
{
    hf_record *record = *state;
    enter(record, 1, ALL);
    enter(record, 2, ALL);
    step(record, (hf_step){.leaves = (hf_leave[]){leaver(1)},
                           .n_leaves = 1,
                           .change = &(hf_change){id_of(1), 1}});
    assert_null(record_find(record, id_of(1)));
    assert_true(holds(record, 2));
    assert_int_equal(record->last.outcome, HF_OUTCOME_RELEASED);
}

/* ---- Upgrade ---- */

static void test_the_only_reader_is_upgraded(void **state)
{
    hf_record *record = *state;
    enter(record, 1, 1);
    record->entries[0].since.ms = 4000;
    assert_true(upgrade(record, 1, 11));
    assert_int_equal(record->entries[0].since.ms, 4000); /* it has been there since then */
    assert_int_equal(record->entries[0].granted_at.ms, 5000);
    assert_null(record_find(record, id_of(1)));
    assert_true(holds(record, 11));
    assert_int_equal(permits_of(record, 11), ALL);
    assert_int_equal(token_of(record, 11), FLOOR + 1); /* it is a grant */
    assert_int_equal(record->holders, 1);
    assert_int_equal(record->last.outcome, HF_OUTCOME_NONE); /* nobody left */
}

static void test_beside_another_reader_nothing_changes(void **state)
{
    hf_record *record = *state;
    enter(record, 1, 1);
    enter(record, 2, 1);
    assert_false(upgrade(record, 1, 11));
    assert_true(holds(record, 1));
    assert_int_equal(token_of(record, 1), FLOOR);
    hf_enter again = upgrader(1, 11);
    assert_int_equal(record_judge(record, &again), RECORD_HELD);
}

static void test_two_upgraders_never_deadlock(void **state)
{
    hf_record *record = *state;
    enter(record, 1, 1);
    enter(record, 2, 1);
    assert_false(upgrade(record, 1, 11));
    assert_false(upgrade(record, 2, 12));
    leave(record, 1);
    assert_true(upgrade(record, 2, 12));
    assert_true(holds(record, 12));
}

static void test_an_upgrade_passes_nobody_who_waits(void **state)
{
    hf_record *record = *state;
    enter(record, 1, 1);
    enter(record, 2, ALL);
    assert_false(upgrade(record, 1, 11));
    assert_true(holds(record, 1));
    leave(record, 1);
    assert_true(holds(record, 2));
}

static void test_a_repeated_upgrade_changes_nothing(void **state)
{
    hf_record *record = *state;
    enter(record, 1, 1);
    upgrade(record, 1, 11);
    assert_false(upgrade(record, 1, 11));
    hf_enter again = upgrader(1, 11);
    assert_int_equal(record_judge(record, &again), RECORD_HOLDS);
    assert_int_equal(record->token, FLOOR + 1);
}

static void test_an_upgrade_of_who_waits_or_is_not_there_does_nothing(void **state)
{
    hf_record *record = *state;
    assert_false(upgrade(record, 1, 11));
    assert_false(record->exists); /* and makes no record */
    enter(record, 1, ALL);
    enter(record, 2, 1);
    assert_false(upgrade(record, 2, 12));
    assert_false(upgrade(record, 3, 13));
    assert_int_equal(place(record, 2), 1);
}

static void test_an_upgrade_with_another_limit_does_nothing(void **state)
{
    hf_record *record = *state;
    hf_enter other = upgrader(1, 11);
    enter(record, 1, 1);
    other.limit = other.entry.permits = 1;
    assert_false(step(record, (hf_step){.enter = &other}));
    assert_true(holds(record, 1));
    assert_int_equal(record->limit, ALL);
}

static void test_an_upgrade_in_the_step_that_makes_room(void **state)
{
    hf_record *record = *state;
    enter(record, 1, 1);
    enter(record, 2, 1);
    hf_enter up = upgrader(1, 11);
    step(record, (hf_step){.leaves = (hf_leave[]){leaver(2)}, .n_leaves = 1, .enter = &up});
    assert_true(holds(record, 11));
    assert_int_equal(record->holders, 1);
}

/* ---- Late ---- */

static void test_a_late_downgrade_finds_nobody_after_an_upgrade(void **state)
{
    hf_record *record = *state;
    enter(record, 1, ALL);
    change(record, 1, 1);
    upgrade(record, 1, 11);
    assert_false(change(record, 1, 1));
    assert_int_equal(permits_of(record, 11), ALL);
}

static void test_a_late_upgrade_finds_nobody_after_a_leave(void **state)
{
    hf_record *record = *state;
    enter(record, 1, 1);
    leave(record, 1);
    assert_false(upgrade(record, 1, 11));
    assert_int_equal(record->holders, 0);
    enter(record, 2, 1);
    assert_false(upgrade(record, 1, 11));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_a_downgrade_keeps_ticket_and_token),
        CASE(test_a_downgrade_lets_in_the_readers_behind_it),
        CASE(test_a_change_never_raises),
        CASE(test_a_change_of_who_waits_or_is_not_there_does_nothing),
        CASE(test_who_leaves_in_the_same_step_is_not_changed),
        CASE(test_the_only_reader_is_upgraded),
        CASE(test_beside_another_reader_nothing_changes),
        CASE(test_two_upgraders_never_deadlock),
        CASE(test_an_upgrade_passes_nobody_who_waits),
        CASE(test_a_repeated_upgrade_changes_nothing),
        CASE(test_an_upgrade_of_who_waits_or_is_not_there_does_nothing),
        CASE(test_an_upgrade_with_another_limit_does_nothing),
        CASE(test_an_upgrade_in_the_step_that_makes_room),
        CASE(test_a_late_downgrade_finds_nobody_after_an_upgrade),
        CASE(test_a_late_upgrade_finds_nobody_after_a_leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
