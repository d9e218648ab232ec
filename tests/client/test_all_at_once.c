/* SPDX-License-Identifier: Apache-2.0 */
/* test_all_at_once.c: several locks on a store across a network: all are tried first, at the same
 * time, and none is kept that comes later than the one that is waited for. Run by ctest. */
#include "client/client_bed.h"

static faulty *open_remote(const char *uri, hf_client **client)
{
    faulty *f = faulty_open(uri, NULL, client);
    f->base.is_remote = true;
    return f;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_free_costs_one_request_each),
        cmocka_unit_test(test_what_comes_later_is_not_kept_in_a_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
