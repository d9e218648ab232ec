/* SPDX-License-Identifier: Apache-2.0 */
/* period_cases.c: work that is done once per period, on every store; run by main.c. */
#include "conformance/two_clients.h"
#include "core/record.h"

#define TEN_YEARS (INT64_C(87600) * 3600 * 1000) /* none ends before 2029 */

static const hf_lock_options once = {.period_ms = TEN_YEARS};

static void work(hf_client *client, const char *name, int exit_status)
{
    hf_lock *lock = bed_acquire(client, name, &once);
    hf_lock_set_exit_status(lock, exit_status);
    bed_release(lock);
}

static void test_once_per_period(void **state)
{
    (void)state;
    const char *name = bed_name("once");
    hf_lock *lock = bed_acquire(one, name, &once);
    assert_false(hf_lock_has_run(lock));
    hf_lock_set_exit_status(lock, 3);
    bed_release(lock);
    for (int i = 0; i < 2; i++) { /* a run that skips does not overwrite one that worked */
        lock = bed_acquire(two, name, &once);
        assert_true(hf_lock_has_run(lock));
        hf_last last = bed_last(lock);
        assert_contains(last.who, "one@");
        assert_int_equal(last.exit_status, 3);
        assert_int_equal(last.period_end_ms - last.period_start_ms, TEN_YEARS);
        assert_int_equal(last.period_start_ms % TEN_YEARS, 0);
        assert_true(last.period_start_ms <= last.at_ms && last.at_ms < last.period_end_ms);
        if (i == 0)
            bed_release(lock);
        else
            hf_lock_close(lock);
    }
}

static void test_the_next_period_has_work_again(void **state)
{
    (void)state;
    const char *name = bed_name("next");
    hf_lock_options second = {.period_ms = 1000};
    hf_lock *lock = bed_acquire(one, name, &second);
    hf_lock_set_exit_status(lock, 0);
    bed_release(lock);
    int64_t deadline = bed_now_ms() + BED_SOON;
    bool has_run = true;
    while (has_run && bed_now_ms() < deadline) {
        lock = bed_acquire(two, name, &second);
        has_run = hf_lock_has_run(lock);
        bed_release(lock);
    }
    assert_false(has_run);
}

static void test_who_has_not_worked_leaves_the_work_to_others(void **state)
{
    (void)state;
    const char *name = bed_name("given-back");
    bed_release(bed_acquire(one, name, &once));
    hf_lock *lock = bed_acquire(two, name, &once);
    assert_false(hf_lock_has_run(lock));
    bed_previous(lock, HF_OUTCOME_NONE, "", 0);
    bed_release(lock);
}

static void test_what_was_broken_is_not_done(void **state)
{
    (void)state;
    const char *name = bed_name("broken");
    const hf_break_options now = {.reason = "stuck", .force = true};
    hf_error err;
    hf_lock *lock = bed_acquire(one, name, &once);
    assert_code(HF_OK, hf_break(two, name, &now, &err), &err);
    hf_lock *next = bed_acquire(two, name, &once);
    assert_int_equal(bed_last(next).outcome, HF_OUTCOME_ABANDONED);
    assert_false(hf_lock_has_run(next));
    hf_lock_set_exit_status(next, 0);
    bed_release(next);
    hf_lock_close(lock);
    lock = bed_acquire(one, name, &once);
    assert_true(hf_lock_has_run(lock));
    bed_release(lock);
}

/* As the next waiter does; without a queue, as a break does. */
static void take_out(hf_store *store, const char *name, hf_id session, hf_id ticket)
{
    const hf_death death = {.session = session, .who = "nobody"};
    const hf_leave leave = {.ticket = ticket, .outcome = HF_OUTCOME_ABANDONED, .told = true};
    const bool has_queue = bed.can & HF_CAN_QUEUE;
    const hf_step step = {.leaves = has_queue ? NULL : &leave,
                          .n_leaves = !has_queue,
                          .deaths = has_queue ? &death : NULL,
                          .n_deaths = has_queue};
    hf_step_reply reply;
    hf_error err;
    assert_code(HF_OK, store->ops->step(store, name, &step, NULL, &reply, &err), &err);
}

/* As of a waiter that was granted the lock and died before it knew. */
static void test_a_death_undoes_no_work(void **state)
{
    (void)state;
    const char *name = bed_name("undone");
    hf_record record;
    work(one, name, 3);
    hf_store *store = bed_store();
    hf_id session = bed_session(store, BED_TTL);
    hf_enter enter = bed_enter(session, HF_LIMIT_RW, HF_LIMIT_RW);
    bed_take(store, name, &enter, &record);
    record_done(&record);
    take_out(store, name, session, enter.entry.ticket);
    hf_lock *lock = bed_acquire(two, name, &once);
    hf_last last = bed_last(lock);
    assert_true(hf_lock_has_run(lock));
    assert_int_equal(last.outcome, HF_OUTCOME_ABANDONED);
    assert_contains(last.done.who, "one@");
    assert_int_equal(last.done.exit_status, 3);
    assert_int_equal(last.done.period_end_ms - last.done.period_start_ms, TEN_YEARS);
    bed_release(lock);
    store->ops->close(store);
}

static void test_who_waits_for_the_one_that_works_finds_it_done(void **state)
{
    (void)state;
    const char *name = bed_name("waits");
    static struct taker taker;
    hf_lock *lock = bed_acquire(one, name, &once);
    taker_start(&taker, two, name, &once);
    bed_wait_queued(one, name, 1);
    hf_lock_set_exit_status(lock, 0);
    bed_release(lock);
    taker_join(&taker);
    assert_code(HF_OK, taker.code, &taker.err);
    assert_true(hf_lock_has_run(taker.lock));
    bed_release(taker.lock);
}

static void test_without_a_period_nothing_has_run(void **state)
{
    (void)state;
    const char *name = bed_name("without");
    work(one, name, 0);
    hf_lock *lock = bed_acquire(two, name, NULL);
    assert_false(hf_lock_has_run(lock));
    bed_release(lock);
}

static void refuse(hf_lock_options options, hf_code code, const char *word)
{
    hf_error err;
    hf_lock *lock;
    assert_code(code, hf_lock_acquire(one, bed_name("refused"), &options, &lock, &err), &err);
    assert_contains(err.text, word);
}

static void test_periods_that_cannot_be(void **state)
{
    (void)state;
    refuse((hf_lock_options){.period_ms = 999}, HF_INVALID, "at least 1 s");
    refuse((hf_lock_options){.period_ms = TEN_YEARS + 1}, HF_INVALID, "87600 h");
    refuse((hf_lock_options){.period_ms = -1000}, HF_INVALID, "at least 1 s");
    refuse((hf_lock_options){.period_ms = 1000, .mode = HF_SHARED}, HF_INVALID, "exclusive");
    refuse((hf_lock_options){.period_ms = 1000, .permits = 1, .limit = 1}, HF_INVALID, "exclusive");
    if (!(bed.can & HF_CAN_LAST))
        refuse(once, HF_UNSUPPORTED, "hfProtocol=queue");
}

int run_period_cases(void)
{
    const struct bed_case period_cases[] = {
        CASE_IF(HF_CAN_LAST, test_once_per_period),
        CASE_IF(HF_CAN_LAST, test_the_next_period_has_work_again),
        CASE_IF(HF_CAN_LAST, test_who_has_not_worked_leaves_the_work_to_others),
        CASE_IF(HF_CAN_LAST, test_what_was_broken_is_not_done),
        CASE_IF(HF_CAN_LAST, test_a_death_undoes_no_work),
        CASE_IF(HF_CAN_LAST, test_who_waits_for_the_one_that_works_finds_it_done),
        CASE_IF(HF_CAN_LAST, test_without_a_period_nothing_has_run),
        CASE(test_periods_that_cannot_be),
    };
    return CASES(period_cases);
}
