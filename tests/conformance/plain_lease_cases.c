/* SPDX-License-Identifier: Apache-2.0 */
/* plain_lease_cases.c: ID leases on stores without sessions; run by main.c. */
#include "conformance/leases.h"

static void test_any_client_renews_and_releases_a_plain_lease(void **state)
{
    (void)state;
    const char *name = bed_name("plain any");
    hf_lease lease, renewed;
    hf_error err;
    take(one, name, NULL, &lease);
    assert_held(one, name);
    assert_held(two, name);
    assert_code(HF_OK, hf_lease_renew(two, lease.id, &renewed, &err), &err);
    assert_int_equal(renewed.token, lease.token);
    assert_true(renewed.left_ms > 0 && renewed.left_ms < renewed.ttl_ms);
    release(two, &lease);
    assert_code(HF_LOST, hf_lease_renew(one, lease.id, NULL, &err), &err);
    assert_code(HF_LOST, hf_lease_release(one, lease.id, &err), &err);
    assert_free(one, name);
}

static void test_a_plain_lease_outlives_who_took_it(void **state)
{
    (void)state;
    const char *name = bed_name("plain outlives");
    hf_client *maker = bed_client("maker", 5000);
    hf_lease lease;
    hf_error err;
    take(maker, name, NULL, &lease);
    hf_close(maker);
    assert_held(two, name);
    assert_code(HF_OK, hf_lease_renew(two, lease.id, NULL, &err), &err);
    release(two, &lease);
    assert_free(one, name);
}

/* Its maker's beats do not renew it. */
static void test_unless_renewed_a_plain_lease_ends(void **state)
{
    (void)state;
    const char *name = bed_name("plain ends");
    const hf_lease_options brief = {.ttl_ms = bed.expires ? 0 : BED_TTL};
    hf_lease lease;
    hf_error err;
    take(one, name, &brief, &lease);
    int64_t began = bed_now_ms(), began_idle = idle_ms();
    hf_lock *lock = bed_acquire(two, name, NULL);
    assert_true(bed_now_ms() - began >= lease.left_ms - 100);
    assert_true(idle_ms() - began_idle <= bed_takeover_ms() + 5000);
    assert_code(HF_LOST, hf_lease_renew(one, lease.id, NULL, &err), &err);
    assert_code(HF_LOST, hf_lease_release(one, lease.id, &err), &err);
    bed_release(lock);
}

static void test_the_same_key_finds_a_plain_lease(void **state)
{
    (void)state;
    const char *name = bed_name("plain key");
    const hf_lease_options keyed = {.key = "order 4711"},
                           other = {.key = "order 4712", .lock.wait_ms = HF_TRY};
    hf_lease lease, again;
    hf_error err;
    take(one, name, &keyed, &lease);
    assert_false(lease.was_there);
    take(two, name, &keyed, &again);
    assert_true(again.was_there);
    assert_string_equal(again.id, lease.id);
    assert_code(HF_HELD, hf_lease_acquire(two, name, &other, &again, &err), &err);
    assert_held(one, name);
    release(two, &lease);
    assert_free(one, name);
}

/* Calls with one key that wait at two clients: one lease, which the later call finds. */
static void *take_keyed(void *name)
{
    const hf_lease_options keyed = {.key = "order 1", .lock.wait_ms = BED_SOON};
    hf_lease *out = calloc(1, sizeof *out);
    take(two, name, &keyed, out);
    return out;
}

static void test_waits_with_one_key_have_one_plain_lease(void **state)
{
    (void)state;
    const char *name = bed_name("plain waits");
    const hf_lease_options keyed = {.key = "order 1", .lock.wait_ms = BED_SOON};
    hf_lease first, mine;
    void *theirs;
    pthread_t thread;
    take(one, name, NULL, &first);
    assert_int_equal(pthread_create(&thread, NULL, take_keyed, (void *)(uintptr_t)name), 0);
    release(one, &first);
    take(one, name, &keyed, &mine);
    assert_int_equal(pthread_join(thread, &theirs), 0);
    assert_string_equal(((hf_lease *)theirs)->id, mine.id);
    free(theirs);
    release(one, &mine);
    assert_free(two, name);
}

static void test_a_forced_break_ends_a_plain_lease(void **state)
{
    (void)state;
    const char *name = bed_name("plain forced");
    const hf_break_options now = {.reason = "stuck", .force = true};
    hf_lease lease;
    hf_error err;
    take(one, name, NULL, &lease);
    assert_code(HF_OK, hf_break(two, name, &now, &err), &err);
    assert_code(HF_LOST, hf_lease_renew(one, lease.id, NULL, &err), &err);
    assert_free(two, name);
}

int run_plain_lease_cases(void)
{
    const struct bed_case plain_lease_cases[] = {
        CASE(test_any_client_renews_and_releases_a_plain_lease),
        CASE(test_a_plain_lease_outlives_who_took_it),
        CASE_IF(BED_MAKES, test_unless_renewed_a_plain_lease_ends),
        CASE(test_the_same_key_finds_a_plain_lease),
        CASE(test_waits_with_one_key_have_one_plain_lease),
        CASE(test_a_forced_break_ends_a_plain_lease),
    };
    return CASES(plain_lease_cases);
}
