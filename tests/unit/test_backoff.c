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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_doubles_up_to_most),
        cmocka_unit_test(test_jitter_reaches_both_ends),
        cmocka_unit_test(test_any_count_and_chance_are_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
