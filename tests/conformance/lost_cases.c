/* SPDX-License-Identifier: Apache-2.0 */
/* lost_cases.c: what is promised when a holder dies or is broken: to it, and to waiters; run
 * by main.c. A "dead" session here is one that nobody raises the beat of. */
#include "conformance/bed.h"

#include "core/id.h"
#include "core/record.h"

#define ALL HF_LIMIT_RW

static hf_store *store;
static hf_client *one, *two;

static int set_up(void **state)
{
    (void)state;
    store = bed_store();
    one = bed_client("one", BED_TTL);
    two = bed_client("two", BED_TTL);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    hf_close(one);
    hf_close(two);
    store->ops->close(store);
    return 0;
}

/* What on_lost was told. */
struct loss {
    pthread_mutex_t mutex;
    size_t n;
    hf_lock *lock;
    hf_error err;
    int64_t left_ms;
};

static void lose(void *ctx, hf_lock *lock, const hf_error *err, int64_t left_ms)
{
    struct loss *loss = ctx;
    pthread_mutex_lock(&loss->mutex);
    loss->n++;
    loss->lock = lock;
    loss->err = *err;
    loss->left_ms = left_ms;
    pthread_mutex_unlock(&loss->mutex);
}

static bool is_told(void *ctx)
{
    struct loss *loss = ctx;
    pthread_mutex_lock(&loss->mutex);
    size_t n = loss->n;
    pthread_mutex_unlock(&loss->mutex);
    return n > 0;
}

/* ---- Dead holders ---- */

/* A session that never beats takes the lock; bed_session() was its last sign of life. */
static hf_enter crash_holding(const char *name)
{
    hf_enter holder = bed_enter(bed_session(store, BED_TTL), ALL, ALL);
    holder.entry.ttl_ms = BED_TTL;
    bed_take(store, name, &holder, NULL);
    return holder;
}

static void test_a_dead_holders_lock_is_had_after_its_ttl(void **state)
{
    (void)state;
    const char *name = bed_name("crash");
    hf_lock *early = bed_acquire(one, bed_name("warm"), NULL); /* the session is there */
    int64_t began = bed_now_ms(), began_idle = idle_ms();
    hf_enter holder = crash_holding(name);
    hf_lock *lock = bed_acquire(one, name, NULL);
    assert_true(bed_now_ms() - began >= BED_TTL - 100);
    assert_true(idle_ms() - began_idle <= bed_takeover_ms());
    bed_previous(lock, HF_OUTCOME_ABANDONED, "conformance@here", 0);
    bed_rises(bed_last(lock).token, hf_lock_token(lock));
    bed_release(lock);
    bed_release(early);
    store->ops->session_end(store, holder.entry.session, false, NULL);
}

/* Each wait is too short to watch a session for its ttl. */
static void test_short_waits_take_over_what_has_ended(void **state)
{
    (void)state;
    const char *name = bed_name("short-waits");
    const hf_lease_options unrenewed = {.ttl_ms = BED_TTL};
    const hf_lock_options briefly = {.wait_ms = BED_TTL / 4};
    hf_lease lease;
    hf_lock *lock = NULL;
    int64_t began = bed_now_ms();
    hf_code code = hf_lease_acquire(two, name, &unrenewed, &lease, NULL);
    assert_code(HF_OK, code, NULL);
    do
        code = hf_lock_acquire(one, name, &briefly, &lock, NULL);
    while (code == HF_TIMEOUT && bed_now_ms() - began < 30 * BED_TTL);
    assert_code(HF_OK, code, NULL);
    bed_release(lock);
}

static void test_dead_waiters_ahead_are_passed(void **state)
{
    (void)state;
    const char *name = bed_name("dead-queue");
    hf_lock *lock = bed_acquire(one, name, NULL);
    hf_enter dead = bed_enter(bed_session(store, BED_TTL), ALL, ALL);
    static struct taker taker;
    bed_take(store, name, &dead, NULL);
    taker_start(&taker, two, name, NULL);
    bed_wait_queued(one, name, 2);
    bed_release(lock);
    taker_join(&taker);
    assert_code(HF_OK, taker.code, &taker.err);
    /* a waiter that died had held nothing, unless the release came before it was found dead */
    bed_release(taker.lock);
    store->ops->session_end(store, dead.entry.session, false, NULL);
}

/* False: the machine was so slow that the holder's beats were not acknowledged in time, or that the
 * waiter got no answer. */
static bool outlives_a_wait(const char *name)
{
    const hf_lock_options waiting = {.wait_ms = 2 * BED_TTL + BED_TTL / 2};
    hf_lock *lock = bed_acquire(one, name, NULL), *other = NULL;
    hf_code code = hf_lock_acquire(two, name, &waiting, &other, NULL);
    bool is_judged =
        hf_lock_check(lock, NULL, NULL) == HF_OK && code != HF_UNKNOWN && code != HF_UNREACHABLE;
    if (is_judged)
        assert_int_equal(code, HF_TIMEOUT);
    hf_lock_close(other);
    hf_lock_close(lock);
    return is_judged;
}

static void test_who_beats_is_not_taken_for_dead(void **state)
{
    (void)state;
    const char *name = bed_name("alive");
    int tries = 10;
    while (!outlives_a_wait(name))
        assert_true(--tries);
}

/* ---- Lost by this client ---- */

static bool find_holder(void *ctx, const hf_record *record)
{
    if (record->holders)
        *(hf_entry *)ctx = record->entries[0];
    return true;
}

static hf_entry holder_of(const char *name)
{
    hf_entry entry = {.token = 0};
    hf_error err;
    assert_code(HF_OK,
                store->ops->look(store, &name, 1, (hf_stamp){0}, false, find_holder, &entry, &err),
                &err);
    assert_true(entry.permits > 0);
    return entry;
}

static void mark_dead(hf_id session)
{
    hf_session_state seen;
    hf_error err = {0};
    hf_code code = HF_HELD;
    for (int i = 0; i < 20 && code == HF_HELD; i++) {
        assert_code(HF_OK, store->ops->sessions_look(store, &session, 1, -1, &seen, &err), &err);
        code = store->ops->session_mark(store, &seen, &err);
    }
    assert_code(HF_OK, code, &err);
}

static void test_a_marked_session_has_lost_its_locks(void **state)
{
    (void)state;
    const char *name = bed_name("marked");
    struct loss loss = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    const hf_lock_options options = {.on_lost = lose, .lost_ctx = &loss};
    hf_error err;
    hf_lock *lock = bed_acquire(one, name, &options);
    int64_t token = hf_lock_token(lock), began = idle_ms();
    mark_dead(holder_of(name).session);
    assert_true(bed_readable(hf_lock_fd(lock), BED_SOON));
    assert_in_range(idle_ms() - began, 0, BED_TTL);
    assert_code(HF_LOST, hf_lock_check(lock, NULL, &err), &err);
    assert_true(strlen(err.text) > 0);
    assert_true(bed_until(BED_SOON, is_told, &loss));
    assert_ptr_equal(loss.lock, lock);
    assert_int_equal(loss.err.code, HF_LOST);
    assert_code(HF_LOST, hf_lock_release(lock, &err), &err);
    hf_lock *again = bed_acquire(one, name, NULL); /* in a new session */
    bed_rises(token, hf_lock_token(again));
    assert_int_equal(bed_last(again).outcome, HF_OUTCOME_ABANDONED);
    assert_code(HF_LOST, hf_lock_check(lock, NULL, &err), &err);
    bed_release(again);
    hf_lock_close(lock);
    assert_int_equal(loss.n, 1);
}

/* L3: holders verify their tickets. */
static void test_a_ticket_that_vanished_is_lost(void **state)
{
    (void)state;
    const char *name = bed_name("vanished");
    hf_error err;
    hf_lock *lock = bed_acquire(one, name, NULL);
    bed_leave(store, name, holder_of(name).ticket, NULL);
    assert_true(bed_readable(hf_lock_fd(lock), BED_SOON));
    assert_code(HF_LOST, hf_lock_check(lock, NULL, &err), &err);
    hf_lock_close(lock);
}

static bool find_waiter(void *ctx, const hf_record *record)
{
    if (record->queued)
        *(hf_entry *)ctx = record->entries[record->holders];
    return true;
}

/* L3: a waiter whose ticket vanished enters again. */
static void test_a_waiter_whose_ticket_vanished_enters_again(void **state)
{
    (void)state;
    const char *name = bed_name("reenter");
    hf_entry entry = {.token = 0};
    hf_error err;
    hf_lock *lock = bed_acquire(one, name, NULL);
    static struct taker taker;
    taker_start(&taker, two, name, NULL);
    bed_wait_queued(one, name, 1);
    assert_code(HF_OK,
                store->ops->look(store, &name, 1, (hf_stamp){0}, false, find_waiter, &entry, &err),
                &err);
    bed_leave(store, name, entry.ticket, NULL);
    bed_release(lock);
    taker_join(&taker);
    assert_code(HF_OK, taker.code, &taker.err);
    bed_release(taker.lock);
}

/* ---- Break ---- */

static void test_a_broken_holder_is_told_and_the_lock_is_free(void **state)
{
    (void)state;
    const char *name = bed_name("break");
    struct loss loss = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    const hf_lock_options options = {.on_lost = lose, .lost_ctx = &loss};
    struct breaker breaker = {
        .client = two, .name = name, .options = {.reason = "it is stuck", .by = "the admin"}};
    hf_error err;
    hf_lock *lock = bed_acquire(one, name, &options),
            *other = bed_acquire(one, bed_name("b"), NULL);
    int64_t began = idle_ms();
    breaker_start(&breaker);
    bool readable = bed_readable(hf_lock_fd(lock), BED_SOON);
    int64_t told_after = idle_ms() - began;
    breaker_join(&breaker);
    assert_true(readable);
    assert_in_range(told_after, 0, BED_TTL);
    assert_in_range(breaker.ended_idle_ms - began, 0, 3 * BED_TTL);
    assert_code(HF_LOST, hf_lock_check(lock, NULL, &err), &err);
    assert_contains(err.text, "it is stuck");
    assert_contains(err.text, "the admin");
    assert_true(bed_until(BED_SOON, is_told, &loss));
    assert_int_equal(loss.n, 1);
    assert_code(HF_LOST, hf_lock_release(lock, &err), &err);
    assert_int_equal(hf_lock_check(other, NULL, NULL), HF_OK); /* only this one */
    hf_lock_close(lock);
    bed_release(other);
    lock = bed_acquire(two, name, NULL);
    assert_int_equal(bed_last(lock).outcome, HF_OUTCOME_ABANDONED);
    assert_string_equal(bed_last(lock).reason, "broken by the admin: it is stuck");
    bed_release(lock);
}

static void test_break_of_a_holder_that_leaves_at_once_is_quick(void **state)
{
    (void)state;
    const char *name = bed_name("break-quick");
    hf_client *slow = bed_client("slow", 9000);
    struct breaker breaker = {.client = two, .name = name, .options = {.reason = "stop"}};
    hf_lock *lock = bed_acquire(slow, name, NULL);
    int64_t began = idle_ms();
    breaker_start(&breaker);
    bool readable = bed_readable(hf_lock_fd(lock), BED_SOON);
    hf_lock_close(lock); /* its work has stopped */
    breaker_join(&breaker);
    assert_true(readable);
    assert_in_range(breaker.ended_idle_ms - began, 0, 6000); /* not the ttl */
    hf_close(slow);
}

static void test_break_if_token(void **state)
{
    (void)state;
    const char *name = bed_name("break-token");
    hf_error err;
    hf_lock *lock = bed_acquire(one, name, NULL);
    hf_break_options options = {.reason = "r", .if_token = hf_lock_token(lock) - 1, .force = true};
    assert_code(HF_NOT_FOUND, hf_break(two, name, &options, &err), &err);
    assert_int_equal(hf_lock_check(lock, NULL, NULL), HF_OK);
    options.if_token++;
    assert_code(HF_OK, hf_break(two, name, &options, &err), &err);
    assert_true(bed_readable(hf_lock_fd(lock), BED_SOON));
    hf_lock_close(lock);
}

static void test_break_by_force_is_at_once(void **state)
{
    (void)state;
    const char *name = bed_name("break-force");
    hf_error err;
    hf_client *slow = bed_client("slow", 30000);
    hf_lock *lock = bed_acquire(slow, name, NULL), *next = NULL;
    hf_break_options options = {.reason = "r", .by = "me", .force = true};
    int64_t began = idle_ms(), token = hf_lock_token(lock);
    assert_code(HF_OK, hf_break(two, name, &options, &err), &err);
    assert_in_range(idle_ms() - began, 0, 3000);
    assert_int_equal(bed_try(two, name, HF_EXCLUSIVE, &next), HF_OK);
    bed_rises(token, hf_lock_token(next));
    if (bed.can & HF_CAN_QUEUE)
        assert_string_equal(bed_last(next).reason, "broken by me: r");
    assert_code(HF_LOST, hf_lock_release(lock, &err), &err); /* it has not been told yet */
    bed_release(next);
    hf_lock_close(lock);
    hf_close(slow);
}

static void test_breaks_that_cannot_be(void **state)
{
    (void)state;
    const char *name = bed_name("break-nobody");
    hf_error err;
    hf_break_options options = {.reason = "r"};
    assert_code(HF_NOT_FOUND, hf_break(two, name, &options, &err), &err);
    bed_release(bed_acquire(one, name, NULL));
    assert_code(HF_NOT_FOUND, hf_break(two, name, &options, &err), &err);
    options.reason = NULL;
    assert_code(HF_INVALID, hf_break(two, name, &options, &err), &err);
    assert_code(HF_INVALID, hf_break(two, name, NULL, &err), &err);
}

static void test_a_dead_holder_is_broken_after_its_ttl(void **state)
{
    (void)state;
    const char *name = bed_name("break-dead");
    hf_error err;
    hf_enter holder = crash_holding(name);
    hf_lock *lock = NULL;
    hf_break_options options = {.reason = "r"};
    assert_code(HF_OK, hf_break(two, name, &options, &err), &err);
    assert_int_equal(bed_try(one, name, HF_EXCLUSIVE, &lock), HF_OK);
    bed_release(lock);
    store->ops->session_end(store, holder.entry.session, false, NULL);
}

int run_lost_cases(void)
{
    const struct bed_case lost_cases[] = {
        CASE_IF(BED_MAKES, test_a_dead_holders_lock_is_had_after_its_ttl),
        CASE_IF(HF_CAN_QUEUE | HF_CAN_PROCESSES, test_short_waits_take_over_what_has_ended),
        CASE_IF(HF_CAN_QUEUE, test_dead_waiters_ahead_are_passed),
        CASE(test_who_beats_is_not_taken_for_dead),
        CASE_IF(HF_CAN_QUEUE, test_a_marked_session_has_lost_its_locks),
        CASE(test_a_ticket_that_vanished_is_lost),
        CASE_IF(HF_CAN_QUEUE, test_a_waiter_whose_ticket_vanished_enters_again),
        CASE_IF(HF_CAN_QUEUE, test_a_broken_holder_is_told_and_the_lock_is_free),
        CASE_IF(HF_CAN_QUEUE, test_break_of_a_holder_that_leaves_at_once_is_quick),
        CASE_IF(HF_CAN_QUEUE, test_break_if_token),
        CASE(test_break_by_force_is_at_once),
        CASE(test_breaks_that_cannot_be),
        CASE_IF(HF_CAN_QUEUE, test_a_dead_holder_is_broken_after_its_ttl),
    };
    return CASES(lost_cases);
}
