/* SPDX-License-Identifier: Apache-2.0 */
/* test_record_pass.c: proves what becomes of a lock's record when its place goes over to a lease's
 * session, and what does not when that comes late; run by ctest. */
#include "record_bed.h"

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
