/* SPDX-License-Identifier: Apache-2.0 */
/* test_backoff.c: proves the bounds of the pauses between tries, for any chance; run by ctest. */
#include "unit.h"

#include "core/backoff.h"

static void test_doubles_up_to_most(void **state)
{
    (void)state;
    const int64_t full[] = {10, 10, 20, 40, 80, 100, 100};
    for (unsigned failures = 0; failures < 7; failures++)
        for (uint64_t chance = 0; chance < 300; chance++) {
            int64_t ms = backoff_ms(failures, 10, 100, chance);
            assert_in_range(ms, full[failures] / 2, full[failures]);
        }
}

static void test_jitter_reaches_both_ends(void **state)
{
    (void)state;
    assert_int_equal(backoff_ms(1, 10, 100, 0), 5);
    assert_int_equal(backoff_ms(1, 10, 100, 5), 10);
}

static void test_any_count_and_chance_are_taken(void **state)
{
    (void)state;
    assert_in_range(backoff_ms(4000000000U, 1, 3600000, UINT64_MAX), 1800000, 3600000);
    assert_in_range(backoff_ms(3, 0, 0, 7), 0, 0);
}

static hf_record record_with_service(hf_entry *holder, int64_t waited_ms)
{
    *holder = (hf_entry){.since = {5000}, .granted_at = {5000 + waited_ms}};
    return (hf_record){.exists = true, .entries = holder, .holders = 1};
}

static void test_busy_comes_back_after_half_a_queue(void **state)
{
    (void)state;
    hf_entry holder;
    hf_record record = record_with_service(&holder, 2000);
    for (uint64_t chance = 0; chance < 3000; chance++)
        assert_in_range(backoff_busy_ms(&record, chance), 1000, 1500);
}

static void test_busy_is_bounded_and_reads_the_latest_grant(void **state)
{
    (void)state;
    hf_entry holders[2];
    hf_record slow = record_with_service(&holders[0], 9000000);
    assert_in_range(backoff_busy_ms(&slow, 1), 5000, 7500);
    slow = record_with_service(&holders[0], 20000);
    assert_in_range(backoff_busy_ms(&slow, 1), 5000, 7500);
    holders[1] = (hf_entry){.since = {1}, .granted_at = {2}};
    slow.holders = 2;
    assert_in_range(backoff_busy_ms(&slow, 1), 50, 75);
    assert_in_range(backoff_busy_ms(&(hf_record){.exists = true}, 12345), 50, 75);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_doubles_up_to_most),
        cmocka_unit_test(test_jitter_reaches_both_ends),
        cmocka_unit_test(test_any_count_and_chance_are_taken),
        cmocka_unit_test(test_busy_comes_back_after_half_a_queue),
        cmocka_unit_test(test_busy_is_bounded_and_reads_the_latest_grant),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
