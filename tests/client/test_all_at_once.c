/* SPDX-License-Identifier: Apache-2.0 */
/* test_all_at_once.c: several locks on a store across a network: all are tried first, at the same
 * time, and none is kept that comes later than the one that is waited for; and how all of them end
 * with their client. Run by ctest. */
#include "client/client_bed.h"

static faulty *open_patient(const char *uri, const hf_options *options, hf_client **client)
{
    faulty *f = faulty_open(uri, options, client);
    f->base.is_remote = true;
    return f;
}

static faulty *open_remote(const char *uri, hf_client **client)
{
    return open_patient(uri, NULL, client);
}

static void close_all(hf_lock *const *locks, size_t n)
{
    for (size_t i = 0; i < n; i++)
        hf_lock_close(locks[i]);
}

static void test_what_is_free_costs_one_request_each(void **state)
{
    (void)state;
    const char *const names[] = {"c", "a", "b"};
    hf_client *client;
    hf_lock *locks[3];
    hf_error err;
    faulty *f = open_remote("memory:free", &client);
    assert_int_equal(hf_lock_acquire_all(client, names, 3, NULL, locks, &err), HF_OK);
    assert_int_equal(f->calls[FAULTY_STEP], 3);
    close_all(locks, 3);
    hf_close(client);
}

static hf_lock *both[2];

static void *take_both(void *client)
{
    static const char *const names[] = {"a", "b"};
    hf_error err;
    assert_int_equal(hf_lock_acquire_all(client, names, 2, NULL, both, &err), HF_OK);
    return NULL;
}

/* If b were kept by the one that waits for a, a deadlock would be found. */
static void test_what_comes_later_is_not_kept_in_a_wait(void **state)
{
    (void)state;
    hf_client *client, *other = open_client("memory:later", 10000);
    pthread_t thread;
    faulty *f = open_remote("memory:later", &client);
    hf_lock *a = take(other, "a");
    pthread_create(&thread, NULL, take_both, client);
    while (!look_at(f->inner, "a").queued)
        pause_ms(1);
    hf_lock_close(take(other, "b"));
    hf_lock_close(a);
    pthread_join(thread, NULL);
    close_all(both, 2);
    hf_close(client);
    hf_close(other);
}

#define MANY 20

/* Enters stay under way until so many are. */
static atomic_int inside, most_inside, awaited;

static hf_code gather(faulty *f, faulty_call call, const void *arg)
{
    (void)f;
    if (!is_enter(call, arg))
        return HF_OK;
    int now = ++inside;
    for (int most = most_inside; now > most;)
        if (atomic_compare_exchange_weak(&most_inside, &most, now))
            break;
    while (most_inside < awaited)
        pause_ms(1);
    if (now == awaited)
        pause_ms(50); /* one more would come now */
    inside--;
    return HF_OK;
}

static void test_eight_are_asked_for_at_a_time(void **state)
{
    (void)state;
    static char text[MANY][8];
    const char *names[MANY];
    hf_client *client;
    hf_lock *locks[MANY];
    hf_error err;
    faulty *f = open_remote("memory:eight", &client);
    for (int i = 0; i < MANY; i++) {
        snprintf(text[i], sizeof text[i], "%d", i);
        names[i] = text[i];
    }
    inside = most_inside = 0;
    awaited = 8;
    f->before = gather;
    assert_int_equal(hf_lock_acquire_all(client, names, MANY, NULL, locks, &err), HF_OK);
    assert_int_equal(most_inside, 8);
    assert_int_equal(f->calls[FAULTY_STEP], MANY);
    assert_int_equal(f->calls[FAULTY_BEGIN], 1);
    close_all(locks, MANY);
    hf_close(client);
}

static void test_as_many_threads_as_locks(void **state)
{
    (void)state;
    const char *const names[] = {"c", "a", "b"};
    hf_client *client;
    hf_lock *locks[3];
    hf_error err;
    faulty *f = open_remote("memory:three", &client);
    inside = most_inside = 0;
    awaited = 3;
    f->before = gather;
    assert_int_equal(hf_lock_acquire_all(client, names, 3, NULL, locks, &err), HF_OK);
    assert_int_equal(most_inside, 3);
    close_all(locks, 3);
    hf_close(client);
}

static const char *denied_name;

static hf_code deny_one(faulty *f, faulty_call call, const void *arg)
{
    (void)f;
    const struct faulty_step *step = arg;
    return is_enter(call, arg) && strcmp(step->name, denied_name) == 0 ? HF_DENIED : HF_OK;
}

static void assert_nobody_holds(faulty *f, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        while (look_at(f->inner, names[i]).holders) /* a close sends its leave soon */
            pause_ms(1);
}

static void test_one_that_is_refused_ends_it_for_all(void **state)
{
    (void)state;
    const char *const names[] = {"c", "a", "b"};
    for (size_t i = 0; i < 3; i++) {
        hf_client *client;
        hf_lock *locks[3];
        hf_error err = {.code = HF_OK};
        faulty *f = open_remote("memory:refused", &client);
        denied_name = names[i];
        f->before = deny_one;
        assert_int_equal(hf_lock_acquire_all(client, names, 3, NULL, locks, &err), HF_DENIED);
        assert_int_equal(err.code, HF_DENIED);
        assert_int_equal(hf_lock_acquire_all(client, names, 3, NULL, locks, NULL), HF_DENIED);
        assert_nobody_holds(f, names, 3);
        hf_close(client);
    }
}

static void count_wait(void *ctx, const hf_wait_info *info)
{
    (void)info;
    ++*(atomic_int *)ctx;
}

static void test_a_try_of_several_does_not_wait(void **state)
{
    (void)state;
    const char *const names[] = {"a", "b", "c"};
    atomic_int n_told = 0;
    hf_lock_options options = {.wait_ms = HF_TRY, .on_wait = count_wait, .wait_ctx = &n_told};
    hf_client *client, *other = open_client("memory:tried", 10000);
    hf_lock *locks[3];
    hf_error err = {.code = HF_OK};
    faulty *f = open_remote("memory:tried", &client);
    hf_lock *b = take(other, "b");
    assert_int_equal(hf_lock_acquire_all(client, names, 3, &options, locks, &err), HF_HELD);
    assert_int_equal(err.code, HF_HELD);
    assert_non_null(strstr(err.text, "b was not free"));
    assert_int_equal(n_told, 0);
    hf_lock_close(b);
    assert_nobody_holds(f, names, 3);
    hf_close(client);
    hf_close(other);
}

static hf_code refuse_sessions(faulty *f, faulty_call call, const void *arg)
{
    (void)f;
    (void)arg;
    return call == FAULTY_BEGIN ? HF_DENIED : HF_OK;
}

static void test_without_a_session_none_is_asked_for(void **state)
{
    (void)state;
    const char *const names[] = {"a", "b", "c"};
    hf_client *client;
    hf_lock *locks[3];
    hf_error err = {.code = HF_OK};
    faulty *f = open_remote("memory:no-session", &client);
    f->before = refuse_sessions;
    assert_int_equal(hf_lock_acquire_all(client, names, 3, NULL, locks, &err), HF_DENIED);
    assert_int_equal(err.code, HF_DENIED);
    assert_int_equal(f->calls[FAULTY_STEP], 0);
    assert_int_equal(f->calls[FAULTY_BEGIN], 2); /* by all, and then by the first of them */
    hf_close(client);
}

static void test_one_alone_is_not_tried_first(void **state)
{
    (void)state;
    const char *const names[] = {"a"};
    hf_client *client, *other = open_client("memory:alone", 10000);
    hf_lock_options options = {.wait_ms = 1000}; /* time to enter on a slow machine */
    hf_lock *lock;
    faulty *f = open_remote("memory:alone", &client);
    hf_lock *a = take(other, "a");
    assert_int_equal(hf_lock_acquire_all(client, names, 1, &options, &lock, NULL), HF_TIMEOUT);
    assert_int_equal(f->calls[FAULTY_STEP], 2); /* an enter and a leave */
    hf_lock_close(a);
    hf_close(client);
    hf_close(other);
}

/* ---- The end of the client ---- */

static bool count_released(void *ctx, const hf_turn *turn)
{
    *(size_t *)ctx += turn->end == HF_TURN_RELEASED;
    return true;
}

static int64_t back_at_ms;

static hf_code be_away(faulty *f, faulty_call call, const void *arg)
{
    (void)f;
    return is_enter(call, arg) && now_ms() < back_at_ms ? HF_UNREACHABLE : HF_OK;
}

/* The tries that come first have less patience than a wait. */
static void test_a_wait_of_several_bears_a_store_that_is_away(void **state)
{
    (void)state;
    const char *const names[] = {"a", "b"};
    hf_client *client;
    hf_lock *locks[2];
    hf_error err;
    faulty *f = open_patient("memory:away", &(hf_options){.patience_ms = 400}, &client);
    back_at_ms = now_ms() + 600;
    f->before = be_away;
    assert_int_equal(hf_lock_acquire_all(client, names, 2, NULL, locks, &err), HF_OK);
    close_all(locks, 2);
    hf_close(client);
}

static void test_all_are_released_when_the_client_is_closed(void **state)
{
    (void)state;
    const char *const names[] = {"a", "b", "c"};
    hf_client *client = open_client("memory:ended", 10000);
    hf_client *next = open_client("memory:ended", 10000);
    hf_lock *locks[3];
    hf_last last;
    hf_error err;
    size_t n_released = 0;
    assert_int_equal(hf_lock_acquire_all(client, names, 3, NULL, locks, &err), HF_OK);
    hf_close(client);
    close_all(locks, 3);
    assert_int_equal(hf_history(next, NULL, NULL, count_released, &n_released, &err), HF_OK);
    assert_int_equal(n_released, 3);
    for (size_t i = 0; i < 3; i++) {
        hf_lock *lock = take(next, names[i]);
        assert_int_equal(hf_lock_previous(lock, &last, &err), HF_OK);
        assert_int_equal(last.outcome, HF_OUTCOME_RELEASED);
        hf_lock_close(lock);
    }
    hf_close(next);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_free_costs_one_request_each),
        cmocka_unit_test(test_what_comes_later_is_not_kept_in_a_wait),
        cmocka_unit_test(test_eight_are_asked_for_at_a_time),
        cmocka_unit_test(test_as_many_threads_as_locks),
        cmocka_unit_test(test_one_that_is_refused_ends_it_for_all),
        cmocka_unit_test(test_a_try_of_several_does_not_wait),
        cmocka_unit_test(test_without_a_session_none_is_asked_for),
        cmocka_unit_test(test_one_alone_is_not_tried_first),
        cmocka_unit_test(test_a_wait_of_several_bears_a_store_that_is_away),
        cmocka_unit_test(test_all_are_released_when_the_client_is_closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
