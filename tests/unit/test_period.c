/* SPDX-License-Identifier: Apache-2.0 */
/* test_period.c: proves which period a time falls into, and when its work counts as done; run by
 * ctest. */
#include "unit.h"

#include "core/period.h"

#define HOUR ((int64_t)3600000)

static hf_last_mark done_at(int64_t ms, int64_t length_ms)
{
    return (hf_last_mark){.outcome = HF_OUTCOME_RELEASED,
                          .period = period_at((hf_dbtime){ms}, length_ms)};
}

/* Whether a holder granted the lock at that time finds the work done. */
static bool finds_done(int64_t ms, int64_t length_ms, hf_last_mark last)
{
    return period_is_done(period_at((hf_dbtime){ms}, length_ms), &last);
}

static void test_periods_are_counted_from_1970(void **state)
{
    (void)state;
    const int64_t noon = 1795262400000; /* 2026-11-21 12:00 UTC */
    hf_period day = period_at((hf_dbtime){noon + 5}, 24 * HOUR);
    assert_int_equal(day.start.ms, noon - 12 * HOUR);
    assert_int_equal(day.end.ms, noon + 12 * HOUR);
    hf_period hour = period_at((hf_dbtime){noon}, HOUR);
    assert_int_equal(hour.start.ms, noon);
    assert_int_equal(period_at((hf_dbtime){noon - 1}, HOUR).end.ms, noon);
}

static void test_no_length_no_period(void **state)
{
    (void)state;
    assert_false(period_is_any(period_at((hf_dbtime){5 * HOUR}, 0)));
    assert_false(period_is_any(period_at((hf_dbtime){-1}, HOUR)));
    assert_false(finds_done(5 * HOUR, 0, done_at(5 * HOUR, HOUR)));
    assert_false(finds_done(HOUR / 2, HOUR, done_at(0, 0)));
}

static void test_done_once_in_each_period(void **state)
{
    (void)state;
    hf_last_mark last = done_at(5 * HOUR + 1, HOUR);
    assert_true(finds_done(5 * HOUR + 2, HOUR, last));
    assert_true(finds_done(6 * HOUR - 1, HOUR, last));
    assert_false(finds_done(6 * HOUR, HOUR, last));
    assert_false(finds_done(9 * HOUR, HOUR, last));
}

static void test_who_died_has_not_done_it(void **state)
{
    (void)state;
    hf_last_mark last = done_at(5 * HOUR, HOUR);
    last.outcome = HF_OUTCOME_ABANDONED;
    assert_false(finds_done(5 * HOUR, HOUR, last));
    last.done.period = period_at((hf_dbtime){5 * HOUR}, HOUR);
    assert_true(finds_done(5 * HOUR, HOUR, last)); /* another has */
    assert_false(period_is_over(&last, (hf_dbtime){6 * HOUR - 1}));
}

static void test_a_clock_that_goes_back_a_little_does_not_repeat_it(void **state)
{
    (void)state;
    hf_last_mark last = done_at(6 * HOUR + 1, HOUR);
    assert_true(finds_done(6 * HOUR - 1, HOUR, last));
    assert_false(finds_done(5 * HOUR - 1, HOUR, last)); /* a clock that was far ahead */
}

/* Work of every hour that is found within a day counts for that day. Work of a day that began at
 * midnight counts for the first hour only. */
static void test_another_length(void **state)
{
    (void)state;
    const int64_t day = 24 * HOUR, midnight = 100 * day;
    assert_true(finds_done(midnight + 11 * HOUR, day, done_at(midnight + 10 * HOUR, HOUR)));
    assert_false(finds_done(midnight + 1, day, done_at(midnight - HOUR, HOUR)));
    assert_true(finds_done(midnight + 5, HOUR, done_at(midnight + 1, day)));
    assert_false(finds_done(midnight + 11 * HOUR, HOUR, done_at(midnight + 10 * HOUR, day)));
}

static void test_what_is_over(void **state)
{
    (void)state;
    hf_last_mark last = done_at(5 * HOUR, HOUR), none = done_at(0, 0);
    assert_false(period_is_over(&last, (hf_dbtime){6 * HOUR - 1}));
    assert_true(period_is_over(&last, (hf_dbtime){6 * HOUR}));
    assert_true(period_is_over(&none, (hf_dbtime){5 * HOUR}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_periods_are_counted_from_1970),
        cmocka_unit_test(test_no_length_no_period),
        cmocka_unit_test(test_done_once_in_each_period),
        cmocka_unit_test(test_who_died_has_not_done_it),
        cmocka_unit_test(test_a_clock_that_goes_back_a_little_does_not_repeat_it),
        cmocka_unit_test(test_another_length),
        cmocka_unit_test(test_what_is_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
