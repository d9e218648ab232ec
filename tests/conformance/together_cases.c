/* SPDX-License-Identifier: Apache-2.0 */
/* together_cases.c: several locks that are taken together: all or none, in one order, and lost
 * together; on every store; run by main.c. */
#include "conformance/two_clients.h"

#include <stdatomic.h>

#define N 3

static void name_them(const char *names[N], const char *stem)
{
    for (int i = 0; i < N; i++)
        names[i] = bed_name(stem);
}

static hf_code take_all(hf_client *client, const char *const *names, int64_t wait_ms,
                        hf_lock *locks[N], hf_error *err)
{
    hf_lock_options options = {.wait_ms = wait_ms};
    return hf_lock_acquire_all(client, names, N, &options, locks, err);
}

static void release_all(hf_lock *locks[N])
{
    hf_error err;
    for (int i = 0; i < N; i++) {
        assert_code(HF_OK, hf_lock_release(locks[i], &err), &err);
        hf_lock_close(locks[i]);
    }
}

static void assert_free(const char *name)
{
    hf_lock_options options = {.wait_ms = BED_SOON};
    bed_release(bed_acquire(two, name, &options));
}

static void test_all_are_had_in_the_order_of_the_names(void **state)
{
    (void)state;
    const char *names[N];
    hf_lock *locks[N], *other;
    hf_error err;
    name_them(names, "all");
    const char *turned[N] = {names[2], names[0], names[1]};
    assert_code(HF_OK, take_all(one, turned, 0, locks, &err), &err);
    for (int i = 0; i < N; i++) {
        assert_string_equal(hf_lock_name(locks[i]), turned[i]);
        assert_code(HF_OK, hf_lock_check(locks[i], NULL, &err), &err);
        assert_int_equal(bed_try(two, turned[i], HF_EXCLUSIVE, &other), HF_HELD);
    }
    release_all(locks);
    for (int i = 0; i < N; i++)
        assert_free(names[i]);
}

static void test_a_name_is_taken_once(void **state)
{
    (void)state;
    const char *name = bed_name("twice"), *names[] = {name, bed_name("once"), name};
    hf_lock *locks[N];
    hf_error err;
    assert_code(HF_INVALID, take_all(one, names, 0, locks, &err), &err);
    assert_contains(err.text, name);
    assert_code(HF_INVALID, hf_lock_acquire_all(one, names, 0, NULL, locks, &err), &err);
    names[0] = "";
    assert_code(HF_INVALID, take_all(one, names, 0, locks, &err), &err);
    assert_free(name);
}

static void test_all_or_none(void **state)
{
    (void)state;
    const char *names[N];
    hf_lock *locks[N];
    hf_error err;
    name_them(names, "none");
    for (int i = 0; i < N; i++) {
        hf_lock *held = bed_acquire(two, names[i], NULL);
        assert_code(HF_HELD, take_all(one, names, HF_TRY, locks, &err), &err);
        assert_contains(err.text, names[i]);
        int64_t began = bed_now_ms();
        assert_code(HF_TIMEOUT, take_all(one, names, 300, locks, &err), &err);
        assert_true(bed_now_ms() - began >= 300);
        assert_contains(err.text, names[i]);
        bed_release(held);
        for (int j = 0; j < N; j++)
            assert_free(names[j]);
    }
}

/* A lock held only until another one turned out to be taken saw no work. */
static void test_what_was_given_back_leaves_no_trace(void **state)
{
    (void)state;
    const char *names[N];
    hf_lock *locks[N];
    hf_error err;
    hf_last before;
    name_them(names, "trace");
    hf_lock *first = bed_acquire(two, names[0], NULL);
    hf_lock_set_exit_status(first, 7);
    bed_release(first);
    hf_lock *held = bed_acquire(two, names[N - 1], NULL);
    assert_code(HF_TIMEOUT, take_all(one, names, 300, locks, &err), &err);
    hf_lock_options options = {.wait_ms = BED_SOON};
    first = bed_acquire(two, names[0], &options);
    assert_code(HF_OK, hf_lock_previous(first, &before, &err), &err);
    assert_true(before.has_exit_status && before.exit_status == 7);
    bed_release(first);
    bed_release(held);
}

struct rounds {
    pthread_t thread;
    hf_client *client;
    const char *names[N];
    int n;
    hf_code code;
    hf_error err;
    bool has_met; /* another one inside */
};

static atomic_int inside;

static void *take_turns(void *arg)
{
    struct rounds *r = arg;
    hf_lock *locks[N];
    for (int i = 0; i < r->n && !r->code; i++) {
        r->code = take_all(r->client, r->names, 60000, locks, &r->err);
        if (r->code)
            break;
        r->has_met |= inside++ > 0;
        inside--;
        for (int j = 0; j < N; j++)
            hf_lock_close(locks[j]);
    }
    return NULL;
}

/* In whatever order they name them, nobody waits for ever. */
static void test_those_who_take_several_do_not_block_each_other(void **state)
{
    (void)state;
    struct rounds all[4] = {{.n = 6}};
    const char *names[N];
    name_them(names, "orders");
    for (int i = 0; i < 4; i++) {
        all[i] = (struct rounds){.client = i % 2 ? one : two, .n = bed.is_mongo ? 4 : 20};
        for (int j = 0; j < N; j++)
            all[i].names[j] = names[(i + (i / 2 ? j : N - j)) % N];
        pthread_create(&all[i].thread, NULL, take_turns, &all[i]);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(all[i].thread, NULL);
    for (int i = 0; i < 4; i++) {
        assert_code(HF_OK, all[i].code, &all[i].err);
        assert_false(all[i].has_met);
    }
}

static atomic_int told;

static void count(void *ctx, hf_lock *lock, const hf_error *err, int64_t left_ms)
{
    (void)ctx, (void)lock, (void)left_ms;
    assert_int_equal(err->code, HF_LOST);
    told++;
}

static bool is_told(void *ctx)
{
    (void)ctx;
    return told > 0;
}

static void *break_it(void *name)
{
    hf_error err;
    hf_break_options options = {.reason = "one of three"};
    assert_code(HF_OK, hf_break(two, name, &options, &err), &err);
    return NULL;
}

static void test_what_was_taken_together_is_lost_together(void **state)
{
    (void)state;
    const char *names[N];
    hf_lock *locks[N];
    hf_error err;
    pthread_t thread;
    hf_lock_options options = {.on_lost = count};
    name_them(names, "lost");
    told = 0;
    assert_code(HF_OK, hf_lock_acquire_all(one, names, N, &options, locks, &err), &err);
    /* It has nothing to do with it any more. */
    assert_code(HF_OK, hf_lock_release(locks[2], &err), &err);
    pthread_create(&thread, NULL, break_it, (void *)names[1]);
    bool was_told = bed_until(BED_SOON, is_told, NULL);
    hf_error why = {0}, why_too = {0};
    hf_lock_check(locks[1], NULL, &why);
    hf_lock_check(locks[0], NULL, &why_too);
    for (int i = 0; i < N; i++)
        hf_lock_close(locks[i]);
    pthread_join(thread, NULL); /* before anything is asserted: it uses what tear_down closes */
    assert_true(was_told);
    assert_int_equal(why.code, HF_LOST);
    assert_contains(why.text, "one of three");
    assert_int_equal(why_too.code, HF_LOST);
    assert_contains(why_too.text, names[1]);
    for (int i = 0; i < N; i++)
        assert_free(names[i]);
    assert_int_equal(told, 1);
}

struct all_taker {
    const char *names[N];
    hf_lock *locks[N];
    pthread_t thread;
    hf_code code;
    hf_error err;
};

static void *take_all_of(void *arg)
{
    struct all_taker *taker = arg;
    taker->code = take_all(one, taker->names, 60000, taker->locks, &taker->err);
    return NULL;
}

/* While the last was waited for, the first was taken away: what is had in the end is all of them.
 */
static void test_what_was_lost_while_the_next_was_waited_for_is_had_anew(void **state)
{
    (void)state;
    static struct all_taker taker;
    hf_error err;
    name_them(taker.names, "meanwhile");
    hf_lock *last = bed_acquire(two, taker.names[N - 1], NULL);
    pthread_create(&taker.thread, NULL, take_all_of, &taker);
    bed_wait_queued(two, taker.names[N - 1], 1);
    break_it((void *)(uintptr_t)taker.names[0]); /* returns when it cannot be believed any more */
    bed_release(last);
    pthread_join(taker.thread, NULL);
    assert_code(HF_OK, taker.code, &taker.err);
    for (int i = 0; i < N; i++)
        assert_code(HF_OK, hf_lock_check(taker.locks[i], NULL, &err), &err);
    release_all(taker.locks);
}

int run_together_cases(void)
{
    const struct bed_case together_cases[] = {
        CASE(test_all_are_had_in_the_order_of_the_names),
        CASE(test_a_name_is_taken_once),
        CASE(test_all_or_none),
        CASE_IF(HF_CAN_QUEUE, test_what_was_given_back_leaves_no_trace),
        CASE(test_those_who_take_several_do_not_block_each_other),
        CASE_IF(HF_CAN_QUEUE, test_what_was_taken_together_is_lost_together),
        CASE_IF(HF_CAN_QUEUE, test_what_was_lost_while_the_next_was_waited_for_is_had_anew),
    };
    return CASES(together_cases);
}
