/* SPDX-License-Identifier: Apache-2.0 */
/* test_record.c: proves who is granted by a step and who waits, case by case; run by ctest. How the
 * last holder left is in test_record_last.c, long random sequences in test_record_random.c. */
#include "record_bed.h"

/* ---- Queue and grants ---- */

static void test_first_come_first_served(void **state)
{
    hf_record *record = *state;
    assert_int_equal(enter(record, 1, ALL), RECORD_HOLDS);
    assert_int_equal(enter(record, 2, ALL), RECORD_WAITS);
    assert_int_equal(enter(record, 3, ALL), RECORD_WAITS);
    assert_int_equal(place(record, 2), 1);
    assert_int_equal(place(record, 3), 2);
    assert_true(leave(record, 1));
    assert_true(holds(record, 2));
    assert_int_equal(place(record, 3), 1);
    assert_true(leave(record, 2));
    assert_true(holds(record, 3));
}

static void test_readers_share_and_wait_behind_a_waiting_writer(void **state)
{
    hf_record *record = *state;
    assert_int_equal(enter(record, 1, 1), RECORD_HOLDS);
    assert_int_equal(enter(record, 2, 1), RECORD_HOLDS);
    assert_int_equal(enter(record, 3, ALL), RECORD_WAITS);
    assert_int_equal(enter(record, 4, 1), RECORD_WAITS);
    leave(record, 1);
    assert_false(holds(record, 3));
    leave(record, 2);
    assert_true(holds(record, 3));
    assert_false(holds(record, 4));
    enter(record, 5, 1);
    leave(record, 3);
    assert_true(holds(record, 4));
    assert_true(holds(record, 5));
}

static void test_a_head_that_does_not_fit_lets_nobody_pass(void **state)
{
    hf_record *record = *state;
    hf_enter three = entrant(1, 3), two = entrant(2, 2), one = entrant(3, 1);
    three.limit = two.limit = one.limit = 4;
    assert_int_equal(enter_as(record, three), RECORD_HOLDS);
    assert_int_equal(enter_as(record, two), RECORD_WAITS);
    assert_int_equal(enter_as(record, one), RECORD_WAITS);
    leave(record, 1);
    assert_true(holds(record, 2));
    assert_true(holds(record, 3));
}

static void test_k_of_n_and_never_more(void **state)
{
    hf_record *record = *state;
    for (unsigned n = 1; n <= 5; n++) {
        hf_enter two = entrant(n, 2);
        two.limit = 7;
        assert_int_equal(enter_as(record, two), n <= 3 ? RECORD_HOLDS : RECORD_WAITS);
    }
    leave(record, 2);
    assert_true(holds(record, 4));
    assert_false(holds(record, 5));
}

static void test_a_waiter_in_front_leaves_and_the_next_fit(void **state)
{
    hf_record *record = *state;
    enter(record, 1, 1);
    enter(record, 2, ALL);
    enter(record, 3, 1);
    assert_true(leave(record, 2));
    assert_true(holds(record, 3));
    assert_int_equal(record->last.outcome, HF_OUTCOME_NONE);
}

static void test_leave_comes_before_grant_and_enter_after_it(void **state)
{
    hf_record *record = *state;
    hf_leave gone = leaver(1);
    hf_enter again = entrant(3, ALL);
    enter(record, 1, ALL);
    enter(record, 2, ALL);
    assert_true(step(record, (hf_step){.leaves = &gone, .n_leaves = 1, .enter = &again}));
    assert_true(holds(record, 2));
    assert_int_equal(place(record, 3), 1);
}

static void test_release_and_next_acquire_are_one_step(void **state)
{
    hf_record *record = *state;
    hf_leave gone = leaver(1);
    hf_enter again = entrant(2, ALL);
    enter(record, 1, ALL);
    assert_true(step(record, (hf_step){.leaves = &gone, .n_leaves = 1, .enter = &again}));
    assert_true(holds(record, 2));
    assert_null(record_find(record, id_of(1)));
}

static void test_entering_again_changes_nothing(void **state)
{
    hf_record *record = *state;
    hf_enter holder = entrant(1, ALL), waiter = entrant(2, ALL);
    enter_as(record, holder);
    enter_as(record, waiter);
    enter(record, 3, ALL);
    int64_t token = record->token;
    assert_false(step(record, (hf_step){.enter = &holder}));
    assert_false(step(record, (hf_step){.enter = &waiter}));
    assert_int_equal(record_judge(record, &holder), RECORD_HOLDS);
    assert_int_equal(place(record, 2), 1);
    assert_int_equal(record->holders + record->queued, 3);
    assert_int_equal(record->token, token);
}

static void test_the_step_sets_times_and_tokens_not_the_entrant(void **state)
{
    hf_record *record = *state;
    hf_enter liar = entrant(1, ALL);
    liar.entry.token = 77;
    liar.entry.since = liar.entry.granted_at = (hf_dbtime){99};
    enter_as(record, liar);
    liar.entry.ticket = id_of(2);
    enter_as(record, liar);
    assert_int_equal(record->entries[0].token, FLOOR);
    assert_int_equal(record->entries[0].since.ms, 5000);
    assert_int_equal(record->entries[0].granted_at.ms, 5000);
    assert_int_equal(record->entries[1].token, 0);
    assert_int_equal(record->entries[1].since.ms, 5000);
    assert_int_equal(record->entries[1].granted_at.ms, 0);
    assert_string_equal(record->entries[1].why, "because");
    assert_string_equal(record->entries[1].actor, "main");
}

/* ---- Tokens and notices ---- */

static void test_tokens_rise_and_lag_by_a_second_at_most(void **state)
{
    hf_record *record = *state;
    enter(record, 1, 1);
    enter(record, 2, 1);
    assert_int_equal(token_of(record, 1), FLOOR);
    assert_int_equal(token_of(record, 2), FLOOR + 1);
    leave(record, 1);
    leave(record, 2);
    hf_enter third = entrant(3, 1), fourth = entrant(4, 1);
    record_step(record, &(hf_step){.enter = &third}, (hf_dbtime){1}, 1); /* the floor fell */
    assert_int_equal(token_of(record, 3), FLOOR + 2);
    int64_t later = 5 * FLOOR + RECORD_LAG;
    record_step(record, &(hf_step){.enter = &fourth}, (hf_dbtime){1}, later);
    assert_int_equal(token_of(record, 4), 5 * FLOOR);
    assert_int_equal(record->token, 5 * FLOOR);
}

static void test_notify_names_every_grant_of_the_step(void **state)
{
    hf_record *record = *state;
    enter(record, 1, ALL);
    enter(record, 2, 1);
    enter(record, 3, 1);
    assert_string_equal(record->notify, "000003e90000000000000000:000000010000000000000000:1000");
    leave(record, 1);
    assert_string_equal(record->notify, "000003ea0000000000000000:000000020000000000000000:1001 "
                                        "000003eb0000000000000000:000000030000000000000000:1002");
}

static void test_notify_stays_when_nobody_was_granted(void **state)
{
    hf_record *record = *state;
    enter(record, 1, ALL);
    char *before = strdup(record->notify);
    enter(record, 2, ALL);
    leave(record, 2);
    leave(record, 1);
    assert_string_equal(record->notify, before);
    free(before);
}

static void test_notify_takes_the_longest_tokens(void **state)
{
    hf_record *record = *state;
    for (unsigned n = 1; n <= 40; n++)
        enter(record, n, n == 1 ? ALL : 1);
    hf_leave gone = leaver(1);
    record_step(record, &(hf_step){.leaves = &gone, .n_leaves = 1}, (hf_dbtime){1},
                ((int64_t)1 << 53) - 100);
    assert_int_equal(record->holders, 39);
    assert_int_equal(strlen(record->notify), 39 * (24 + 1 + 24 + 1 + 16) + 38);
}

/* ---- Try, BUSY, limits ---- */

static void test_a_try_takes_its_ticket_out_again(void **state)
{
    hf_record *record = *state;
    hf_enter attempt = entrant(2, ALL);
    attempt.try_only = true;
    enter(record, 1, ALL);
    assert_false(step(record, (hf_step){.enter = &attempt}));
    assert_int_equal(record_judge(record, &attempt), RECORD_HELD);
    assert_null(record_find(record, id_of(2)));
    leave(record, 1);
    assert_int_equal(enter_as(record, attempt), RECORD_HOLDS);
}

static void test_a_try_does_not_pass_the_queue(void **state)
{
    hf_record *record = *state;
    hf_enter attempt = entrant(3, 1);
    attempt.try_only = true;
    enter(record, 1, 1);
    enter(record, 2, ALL);
    assert_int_equal(enter_as(record, attempt), RECORD_HELD); /* one permit would fit */
    assert_int_equal(record->queued, 1);
}

static void test_a_try_can_take_what_its_own_step_frees(void **state)
{
    hf_record *record = *state;
    hf_enter attempt = entrant(2, ALL);
    hf_death crashed = dead(1);
    attempt.try_only = true;
    enter(record, 1, ALL);
    step(record, (hf_step){.deaths = &crashed, .n_deaths = 1, .enter = &attempt});
    assert_int_equal(record_judge(record, &attempt), RECORD_HOLDS);
}

/* ---- Numbers ---- */

/* With a queue of four. A number of -1: it wants one. */
static record_verdict come(hf_record *record, unsigned n, int64_t number)
{
    hf_enter enter = entrant(n, ALL);
    enter.queue_max = 4;
    enter.wants_number = number < 0;
    enter.number = number < 0 ? 0 : number;
    return enter_as(record, enter);
}

/* Ticket 100 holds, 1 to 4 are in the queue, and 5 to 5 + outside - 1 have numbers like them. */
static void crowd(hf_record *record, unsigned outside)
{
    enter(record, 100, ALL);
    for (unsigned n = 1; n <= 4; n++)
        assert_int_equal(come(record, n, 0), RECORD_WAITS);
    for (unsigned n = 5; n < 5 + outside; n++) {
        assert_int_equal(come(record, n, -1), RECORD_BUSY);
        assert_int_equal(record->given, n);
    }
    assert_int_equal(record->reached, 4);
}

static void test_a_full_queue_gives_a_number_only_to_those_who_want_one(void **state)
{
    hf_record *record = *state;
    crowd(record, 0);
    assert_int_equal(come(record, 5, 0), RECORD_BUSY);
    assert_int_equal(record->given, 4);
    assert_int_equal(come(record, 5, -1), RECORD_BUSY);
    assert_int_equal(record->given, 5);
    assert_int_equal(record->queued, 4);
}

static void test_a_number_enters_when_its_place_is_free_and_not_before(void **state)
{
    hf_record *record = *state;
    crowd(record, 3);
    assert_int_equal(come(record, 5, 5), RECORD_BUSY);
    leave(record, 100); /* the head is granted, which frees a place */
    assert_int_equal(come(record, 6, 6), RECORD_BUSY);
    assert_int_equal(come(record, 5, 5), RECORD_WAITS);
    assert_int_equal(record->reached, 5);
    assert_int_equal(record->given, 7);
}

static void test_nobody_without_a_number_passes_those_outside(void **state)
{
    hf_record *record = *state;
    crowd(record, 2);
    leave(record, 100);
    leave(record, 1);
    assert_int_equal(come(record, 50, 0), RECORD_BUSY);
    assert_int_equal(come(record, 6, 6), RECORD_WAITS);
    assert_int_equal(come(record, 50, 0), RECORD_WAITS); /* 5 is late, and not passed for good: */
    assert_int_equal(come(record, 5, 5), RECORD_BUSY);
    leave(record, 2);
    assert_int_equal(come(record, 5, 5), RECORD_WAITS);
    assert_int_equal(record->entries[record->holders + 1].number, 5);
    assert_int_equal(record->entries[record->holders + 2].number, 6);
    assert_int_equal(record->entries[record->holders + 3].number, 7);
}

static void test_numbers_that_do_not_come_can_be_skipped(void **state)
{
    hf_record *record = *state;
    crowd(record, 20);
    hf_enter late = entrant(20, ALL);
    late.queue_max = 4;
    late.number = 20;
    late.skips = true;
    late.reached = 3; /* it has got further */
    leave(record, 100);
    assert_int_equal(enter_as(record, late), RECORD_BUSY);
    late.reached = 4;
    assert_int_equal(enter_as(record, late), RECORD_BUSY); /* one place, so one is passed over */
    assert_int_equal(record->reached, 5);
    leave(record, 1);
    leave(record, 2);
    leave(record, 3);
    for (late.reached = 5; late.reached < 17; late.reached += 4) {
        assert_int_equal(enter_as(record, late), late.reached < 13 ? RECORD_BUSY : RECORD_WAITS);
        assert_int_equal(record->reached, late.reached < 13 ? late.reached + 4 : 20);
    }
}

static void test_who_holds_others_stands_in_the_queue_with_its_number(void **state)
{
    hf_record *record = *state;
    hf_enter nested = entrant(20, ALL);
    crowd(record, 1);
    nested.queue_max = 4;
    nested.wants_number = nested.is_nested = true;
    assert_int_equal(enter_as(record, nested), RECORD_WAITS);
    assert_int_equal(record->queued, 5);
    assert_int_equal(record->entries[5].number, 6);
    assert_int_equal(record->reached, 4);
    leave(record, 100);
    leave(record, 1);
    assert_int_equal(come(record, 5, 5), RECORD_WAITS); /* before it */
    assert_int_equal(record->entries[4].number, 6);
    for (unsigned n = 30; n < 40; n++) {
        nested.entry.ticket = id_of(n);
        enter_as(record, nested);
    }
    assert_int_equal(record->queued, 8); /* twice as many as there are places */
}

static void test_a_late_number_is_granted_at_once_if_it_fits(void **state)
{
    hf_record *record = *state;
    hf_enter reader = entrant(9, 1);
    enter(record, 100, 1);
    enter(record, 101, ALL); /* waits for the reader */
    record->given = record->reached = 9;
    record->entries[1].number = 9;
    reader.number = 5;
    assert_int_equal(enter_as(record, reader), RECORD_HOLDS);
    assert_int_equal(record->queued, 1);
    assert_int_equal(record->reached, 9);
}

static void test_a_try_passes_only_a_line_that_nobody_stands_in(void **state)
{
    hf_record *record = *state;
    hf_enter attempt = entrant(50, 1);
    attempt.try_only = true;
    crowd(record, 1);
    for (unsigned n = 1; n <= 4; n++)
        leave(record, n);
    assert_int_equal(enter_as(record, attempt), RECORD_HELD);
    leave(record, 100);
    assert_int_equal(enter_as(record, attempt), RECORD_HOLDS);
}

static void test_a_writer_comes_in_behind_a_thousand_readers(void **state)
{
    hf_record *record = *state;
    for (unsigned n = 0; n < HF_ENTRIES_MAX; n++)
        assert_int_equal(enter(record, n, 1), RECORD_HOLDS);
    assert_int_equal(come(record, 2000, -1), RECORD_BUSY);
    leave(record, 1);
    assert_int_equal(enter(record, 2001, 1), RECORD_BUSY); /* a reader does not pass it */
    assert_int_equal(come(record, 2000, 1), RECORD_WAITS);
    assert_int_equal(enter(record, 2001, 1), RECORD_BUSY);
}

static void test_no_more_than_a_thousand_entries(void **state)
{
    hf_record *record = *state;
    for (unsigned n = 0; n < HF_ENTRIES_MAX; n++)
        assert_int_equal(enter(record, n, 1), RECORD_HOLDS);
    assert_int_equal(enter(record, 5000, 1), RECORD_BUSY);
    hf_enter attempt = entrant(5001, 1);
    attempt.try_only = true;
    assert_int_equal(enter_as(record, attempt), RECORD_HELD);
    assert_int_equal(record->holders + record->queued, HF_ENTRIES_MAX);
    leave(record, 7);
    assert_int_equal(enter(record, 5000, 1), RECORD_HOLDS);
}

static void test_a_limit_is_adopted_only_when_idle(void **state)
{
    hf_record *record = *state;
    hf_enter three = entrant(1, 1), four = entrant(2, 1);
    three.limit = 3;
    four.limit = 4;
    assert_int_equal(enter_as(record, three), RECORD_HOLDS);
    assert_false(step(record, (hf_step){.enter = &four}));
    assert_int_equal(record_judge(record, &four), RECORD_LIMIT);
    assert_int_equal(record->limit, 3);
    leave(record, 1);
    assert_int_equal(record->limit, 3);
    assert_int_equal(enter_as(record, four), RECORD_HOLDS);
    assert_int_equal(record->limit, 4);
}

static hf_enter setter(unsigned n, int32_t permits, int32_t limit)
{
    hf_enter enter = entrant(n, permits);
    enter.limit = limit;
    enter.sets_limit = true;
    return enter;
}

static void test_a_higher_limit_lets_in_those_that_wait_first(void **state)
{
    hf_record *record = *state;
    enter_as(record, setter(1, 2, 2));
    assert_int_equal(enter_as(record, setter(2, 1, 2)), RECORD_WAITS);
    assert_int_equal(enter_as(record, setter(3, 1, 3)), RECORD_WAITS);
    assert_int_equal(record->limit, 3);
    assert_true(holds(record, 2));
    assert_int_equal(enter_as(record, setter(4, 1, 4)), RECORD_WAITS);
    assert_true(holds(record, 3));
    assert_int_equal(enter_as(record, setter(5, 2, 9)), RECORD_HOLDS);
    assert_true(holds(record, 4));
}

static void test_a_lower_limit_leaves_the_holders(void **state)
{
    hf_record *record = *state;
    for (unsigned n = 1; n <= 3; n++)
        assert_int_equal(enter_as(record, setter(n, 1, 3)), RECORD_HOLDS);
    assert_int_equal(enter_as(record, setter(4, 1, 1)), RECORD_WAITS);
    assert_int_equal(record->limit, 1);
    leave(record, 1);
    leave(record, 2);
    assert_int_equal(record->holders, 1);
    leave(record, 3);
    assert_true(holds(record, 4));
}

static void test_a_try_that_is_refused_sets_the_limit_all_the_same(void **state)
{
    hf_record *record = *state;
    enter_as(record, setter(1, 1, 2));
    enter_as(record, setter(2, 1, 2));
    hf_enter attempt = setter(3, 1, 1);
    attempt.try_only = true;
    assert_int_equal(enter_as(record, attempt), RECORD_HELD);
    assert_int_equal(record->limit, 1);
}

static void test_no_limit_is_set_below_what_one_wants_that_waits(void **state)
{
    hf_record *record = *state;
    enter_as(record, setter(1, 1, 3));
    assert_int_equal(enter_as(record, setter(2, 3, 3)), RECORD_WAITS);
    hf_enter two = setter(3, 1, 2);
    assert_false(step(record, (hf_step){.enter = &two}));
    assert_int_equal(record_judge(record, &two), RECORD_LIMIT);
    assert_int_equal(record->limit, 3);
}

static void test_a_mutex_becomes_no_semaphore_in_use(void **state)
{
    hf_record *record = *state;
    enter(record, 1, ALL);
    hf_enter two = setter(2, 1, 2);
    assert_false(step(record, (hf_step){.enter = &two}));
    assert_int_equal(record_judge(record, &two), RECORD_LIMIT);
    leave(record, 1);
    assert_int_equal(enter_as(record, two), RECORD_HOLDS);
    hf_enter mutex = setter(3, ALL, ALL);
    assert_false(step(record, (hf_step){.enter = &mutex}));
    assert_int_equal(record->limit, 2);
}

static void test_a_repeat_sets_no_limit(void **state)
{
    hf_record *record = *state;
    hf_enter two = setter(1, 1, 2);
    enter_as(record, two);
    enter_as(record, setter(2, 1, 3));
    assert_false(step(record, (hf_step){.enter = &two}));
    assert_int_equal(record->limit, 3);
}

static void test_permits_above_the_limit_change_nothing(void **state)
{
    hf_record *record = *state;
    enter(record, 1, ALL);
    leave(record, 1);
    hf_enter greedy = entrant(2, 5);
    greedy.limit = 4;
    assert_false(step(record, (hf_step){.enter = &greedy}));
    assert_int_equal(record->holders + record->queued, 0);
    assert_int_equal(record->limit, ALL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_first_come_first_served),
        CASE(test_readers_share_and_wait_behind_a_waiting_writer),
        CASE(test_a_head_that_does_not_fit_lets_nobody_pass),
        CASE(test_k_of_n_and_never_more),
        CASE(test_a_waiter_in_front_leaves_and_the_next_fit),
        CASE(test_leave_comes_before_grant_and_enter_after_it),
        CASE(test_release_and_next_acquire_are_one_step),
        CASE(test_entering_again_changes_nothing),
        CASE(test_the_step_sets_times_and_tokens_not_the_entrant),
        CASE(test_tokens_rise_and_lag_by_a_second_at_most),
        CASE(test_notify_names_every_grant_of_the_step),
        CASE(test_notify_stays_when_nobody_was_granted),
        CASE(test_notify_takes_the_longest_tokens),
        CASE(test_a_try_takes_its_ticket_out_again),
        CASE(test_a_try_does_not_pass_the_queue),
        CASE(test_a_try_can_take_what_its_own_step_frees),
        CASE(test_a_full_queue_gives_a_number_only_to_those_who_want_one),
        CASE(test_a_number_enters_when_its_place_is_free_and_not_before),
        CASE(test_nobody_without_a_number_passes_those_outside),
        CASE(test_numbers_that_do_not_come_can_be_skipped),
        CASE(test_who_holds_others_stands_in_the_queue_with_its_number),
        CASE(test_a_late_number_is_granted_at_once_if_it_fits),
        CASE(test_a_try_passes_only_a_line_that_nobody_stands_in),
        CASE(test_a_writer_comes_in_behind_a_thousand_readers),
        CASE(test_no_more_than_a_thousand_entries),
        CASE(test_a_limit_is_adopted_only_when_idle),
        CASE(test_a_higher_limit_lets_in_those_that_wait_first),
        CASE(test_a_lower_limit_leaves_the_holders),
        CASE(test_a_try_that_is_refused_sets_the_limit_all_the_same),
        CASE(test_no_limit_is_set_below_what_one_wants_that_waits),
        CASE(test_a_mutex_becomes_no_semaphore_in_use),
        CASE(test_a_repeat_sets_no_limit),
        CASE(test_permits_above_the_limit_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
