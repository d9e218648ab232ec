/* SPDX-License-Identifier: Apache-2.0 */
/* test_record_last.c: proves what a record remembers of the holder that left, and what steps leave
 * alone, case by case; run by ctest. */
#include "record_bed.h"

#include "core/period.h"

static void test_last_tells_of_a_release(void **state)
{
    hf_record *record = *state;
    enter(record, 1, ALL);
    hf_leave gone = leaver(1);
    gone.has_exit_status = true;
    gone.exit_status = 3;
    step(record, (hf_step){.leaves = &gone, .n_leaves = 1});
    assert_int_equal(record->last.outcome, HF_OUTCOME_RELEASED);
    assert_int_equal(record->last.token, FLOOR);
    assert_true(record->last.has_exit_status);
    assert_int_equal(record->last.exit_status, 3);
    assert_int_equal(record->last.at.ms, 5000);
    assert_string_equal(record->last.who, "me@here:1");
    assert_true(id_equal(record->last.session, id_of(1001)));
}

static void test_give_back_leaves_last_as_it_is(void **state)
{
    hf_record *record = *state;
    enter(record, 1, ALL);
    leave(record, 1);
    enter(record, 2, ALL);
    hf_leave back = leaver(2);
    back.told = false;
    assert_true(step(record, (hf_step){.leaves = &back, .n_leaves = 1}));
    assert_int_equal(record->last.token, FLOOR);
    assert_int_equal(record->holders, 0);
}

static void test_last_tells_whose_period_it_was_until_another_holder_leaves(void **state)
{
    hf_record *record = *state;
    enter(record, 1, ALL);
    hf_leave gone = leaver(1);
    gone.period = (hf_period){{4000}, {8000}};
    step(record, (hf_step){.leaves = &gone, .n_leaves = 1});
    assert_int_equal(record->last.period.start.ms, 4000);
    assert_int_equal(record->last.period.end.ms, 8000);
    enter(record, 2, ALL);
    hf_leave back = leaver(2);
    back.told = false;
    step(record, (hf_step){.leaves = &back, .n_leaves = 1});
    assert_int_equal(record->last.period.end.ms, 8000);
    enter(record, 3, ALL);
    die(record, 3);
    assert_int_equal(record->last.outcome, HF_OUTCOME_ABANDONED);
    assert_int_equal(record->last.period.end.ms, 0);
}

static hf_leave finisher(unsigned ticket, int exit_status, hf_period period)
{
    hf_leave leave = leaver(ticket);
    leave.has_exit_status = true;
    leave.exit_status = exit_status;
    leave.period = period;
    return leave;
}

static void finish(hf_record *record, unsigned n, int exit_status, hf_period period)
{
    enter(record, n, ALL);
    step(record,
         (hf_step){.leaves = (hf_leave[]){finisher(n, exit_status, period)}, .n_leaves = 1});
}

static void test_no_death_undoes_what_was_done(void **state)
{
    hf_record *record = *state;
    finish(record, 1, 3, (hf_period){{4000}, {8000}});
    enter(record, 2, ALL);
    die(record, 2);
    assert_int_equal(record->last.outcome, HF_OUTCOME_ABANDONED);
    const hf_done_mark *done = &record->last.done;
    assert_true(done->is_known);
    assert_int_equal(done->exit_status, 3);
    assert_int_equal(done->token, FLOOR);
    assert_int_equal(done->at.ms, 5000);
    assert_string_equal(done->who, "me@here:1");
    assert_true(period_is_done((hf_period){{4000}, {8000}}, &record->last));
    assert_false(period_is_over(&record->last, (hf_dbtime){7999}));
}

static void test_who_lost_a_lock_has_finished_nothing(void **state)
{
    hf_record *record = *state;
    hf_leave lost = finisher(1, 0, (hf_period){{4000}, {8000}});
    lost.outcome = HF_OUTCOME_ABANDONED;
    enter(record, 1, ALL);
    step(record, (hf_step){.leaves = &lost, .n_leaves = 1});
    assert_false(record->last.done.is_known);
    hf_leave back = finisher(2, 0, (hf_period){{4000}, {8000}});
    back.told = false;
    enter(record, 2, ALL);
    step(record, (hf_step){.leaves = &back, .n_leaves = 1});
    assert_false(record->last.done.is_known);
}

/* The bed's time is 5000. */
static void test_work_of_a_period_stays_known_until_that_is_over(void **state)
{
    hf_record *record = *state;
    finish(record, 1, 3, (hf_period){{4000}, {8000}});
    finish(record, 2, 4, (hf_period){{0}, {0}});
    assert_int_equal(record->last.exit_status, 4);
    assert_int_equal(record->last.done.exit_status, 3);
    finish(record, 3, 5, (hf_period){{4500}, {5000}});
    assert_int_equal(record->last.done.exit_status, 5);
    finish(record, 4, 6, (hf_period){{0}, {0}});
    assert_int_equal(record->last.done.exit_status, 6);
}

static void test_a_dead_holder_abandons_and_a_dead_waiter_does_not(void **state)
{
    hf_record *record = *state;
    enter(record, 1, ALL);
    enter(record, 2, ALL);
    assert_true(die(record, 2));
    assert_int_equal(record->last.outcome, HF_OUTCOME_NONE);
    assert_true(die(record, 1));
    assert_int_equal(record->last.outcome, HF_OUTCOME_ABANDONED);
    assert_string_equal(record->last.who, "cron@web1:4711");
    assert_int_equal(record->last.at.ms, 5000);
    assert_int_equal(record->last.token, FLOOR);
    assert_false(record->last.has_exit_status);
}

static void test_abandoned_gives_way_only_to_a_higher_token(void **state)
{
    hf_record *record = *state;
    enter(record, 1, 1);
    enter(record, 2, 1);
    enter(record, 3, 1);
    die(record, 2);
    leave(record, 1);
    assert_int_equal(record->last.outcome, HF_OUTCOME_ABANDONED);
    assert_int_equal(record->last.token, FLOOR + 1);
    leave(record, 3);
    assert_int_equal(record->last.outcome, HF_OUTCOME_RELEASED);
    assert_int_equal(record->last.token, FLOOR + 2);
}

static void test_abandoned_stays_past_a_give_back(void **state)
{
    hf_record *record = *state;
    enter(record, 1, ALL);
    enter(record, 2, ALL);
    die(record, 1);
    hf_leave back = leaver(2);
    back.told = false;
    step(record, (hf_step){.leaves = &back, .n_leaves = 1});
    assert_int_equal(record->last.outcome, HF_OUTCOME_ABANDONED);
    assert_int_equal(record->last.token, FLOOR);
}

static void test_a_broken_lock_is_abandoned(void **state)
{
    hf_record *record = *state;
    enter(record, 1, ALL);
    hf_leave broken = leaver(1);
    broken.outcome = HF_OUTCOME_ABANDONED;
    strcpy(broken.reason, "stuck");
    step(record, (hf_step){.leaves = &broken, .n_leaves = 1});
    assert_int_equal(record->last.outcome, HF_OUTCOME_ABANDONED);
    assert_string_equal(record->last.reason, "stuck");
}

static void test_a_reason_is_that_of_the_last_holder(void **state)
{
    hf_record *record = *state;
    hf_leave lost = leaver(1);
    lost.outcome = HF_OUTCOME_ABANDONED;
    memset(lost.reason, 'r', HF_TEXT_MAX);
    enter(record, 1, ALL);
    step(record, (hf_step){.leaves = &lost, .n_leaves = 1});
    assert_int_equal(strlen(record->last.reason), HF_TEXT_MAX);
    enter(record, 2, ALL);
    die(record, 2);
    assert_string_equal(record->last.reason, "");
}

static void test_who_leaves_in_the_step_that_takes_it_for_dead_has_left(void **state)
{
    hf_record *record = *state;
    hf_leave gone = leaver(1);
    hf_death crashed = dead(1);
    enter(record, 1, ALL);
    step(record, (hf_step){.leaves = &gone, .n_leaves = 1, .deaths = &crashed, .n_deaths = 1});
    assert_int_equal(record->last.outcome, HF_OUTCOME_RELEASED);
    enter(record, 2, ALL);
    gone = leaver(2);
    crashed = dead(2);
    gone.told = false;
    step(record, (hf_step){.leaves = &gone, .n_leaves = 1, .deaths = &crashed, .n_deaths = 1});
    assert_int_equal(record->last.token, FLOOR);
}

static void test_of_several_that_die_the_latest_is_told(void **state)
{
    hf_record *record = *state;
    enter(record, 1, 1);
    enter(record, 2, 1);
    hf_death both[] = {dead(2), dead(1)};
    step(record, (hf_step){.deaths = both, .n_deaths = 2});
    assert_int_equal(record->last.token, FLOOR + 1);
    assert_true(id_equal(record->last.session, id_of(1002)));
}

static void test_a_death_takes_all_of_the_sessions_tickets(void **state)
{
    hf_record *record = *state;
    hf_enter holder = entrant(1, ALL), waiter = entrant(2, ALL);
    waiter.entry.session = holder.entry.session;
    enter_as(record, holder);
    enter_as(record, waiter);
    enter(record, 3, ALL);
    die(record, 1);
    assert_int_equal(record->holders + record->queued, 1);
    assert_true(holds(record, 3));
}

/* ---- Nothing for nothing ---- */

static void test_what_is_not_there_changes_nothing(void **state)
{
    hf_record *record = *state;
    assert_false(leave(record, 1));
    assert_false(die(record, 1));
    assert_false(record->exists);
    enter(record, 1, ALL);
    assert_true(record->exists);
    assert_false(leave(record, 2));
    assert_false(die(record, 2));
    assert_false(step(record, (hf_step){0}));
    assert_true(holds(record, 1));
}

static void test_gone_is_said_of_a_ticket_that_should_be_there(void **state)
{
    hf_record *record = *state;
    hf_enter mine = entrant(1, ALL);
    enter_as(record, mine);
    enter(record, 2, ALL);
    leave(record, 1);
    assert_int_equal(record_judge(record, &mine), RECORD_GONE);
    leave(record, 2);
    assert_int_equal(record_judge(record, &mine), RECORD_GONE);
}

static void test_a_copy_is_deep(void **state)
{
    hf_record *record = *state;
    hf_record copy;
    for (unsigned n = 1; n <= 9; n++)
        enter(record, n, n < 4 ? 1 : ALL);
    record_copy(&copy, record);
    leave(record, 1);
    leave(record, 5);
    assert_int_equal(copy.holders, 3);
    assert_int_equal(copy.queued, 6);
    assert_int_equal(place(&copy, 5), 2);
    assert_string_equal(copy.name, "a");
    assert_ptr_not_equal(copy.notify, record->notify);
    record_done(&copy);
    assert_null(copy.entries);
}

static void test_the_longest_texts_are_kept_whole(void **state)
{
    hf_record *record = *state;
    hf_enter wordy = entrant(1, ALL);
    memset(wordy.entry.why, 'w', HF_TEXT_MAX);
    memset(wordy.entry.actor, 'a', HF_ACTOR_MAX);
    enter_as(record, wordy);
    hf_leave gone = leaver(1);
    memset(gone.who, 'x', HF_TEXT_MAX);
    assert_int_equal(strlen(record->entries[0].why), HF_TEXT_MAX);
    assert_int_equal(strlen(record->entries[0].actor), HF_ACTOR_MAX);
    step(record, (hf_step){.leaves = &gone, .n_leaves = 1});
    assert_int_equal(strlen(record->last.who), HF_TEXT_MAX);
}

static void test_the_floor_of_a_wall_clock(void **state)
{
    (void)state;
    const int64_t year_2242 = 8583494400000, cluster_2024 = (int64_t)1704067200 << 20;
    assert_true(record_floor_of((hf_dbtime){year_2242}) < (int64_t)1 << 53);
    assert_int_equal(record_floor_of((hf_dbtime){1704067200000}), cluster_2024);
    assert_int_equal(record_floor_of((hf_dbtime){1704067200500}), cluster_2024 + RECORD_LAG / 2);
    assert_true(record_floor_of((hf_dbtime){2}) > record_floor_of((hf_dbtime){1}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_last_tells_of_a_release),
        CASE(test_give_back_leaves_last_as_it_is),
        CASE(test_last_tells_whose_period_it_was_until_another_holder_leaves),
        CASE(test_no_death_undoes_what_was_done),
        CASE(test_who_lost_a_lock_has_finished_nothing),
        CASE(test_work_of_a_period_stays_known_until_that_is_over),
        CASE(test_a_dead_holder_abandons_and_a_dead_waiter_does_not),
        CASE(test_abandoned_gives_way_only_to_a_higher_token),
        CASE(test_abandoned_stays_past_a_give_back),
        CASE(test_a_broken_lock_is_abandoned),
        CASE(test_a_reason_is_that_of_the_last_holder),
        CASE(test_who_leaves_in_the_step_that_takes_it_for_dead_has_left),
        CASE(test_of_several_that_die_the_latest_is_told),
        CASE(test_a_death_takes_all_of_the_sessions_tickets),
        CASE(test_what_is_not_there_changes_nothing),
        CASE(test_gone_is_said_of_a_ticket_that_should_be_there),
        CASE(test_a_copy_is_deep),
        CASE(test_the_longest_texts_are_kept_whole),
        CASE(test_the_floor_of_a_wall_clock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
