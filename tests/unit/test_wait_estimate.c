/* SPDX-License-Identifier: Apache-2.0 */
/* test_wait_estimate.c: proves what a waiter expects of a lock's queue: nothing before it has
 * waited a few times, and never more than the quickest of its last waits allows; run by ctest. */
#include "unit.h"

#include "core/lease.h"
#include "core/wait_estimate.h"

#include <string.h>

enum { MS = 1000000, MOST = 8 };

static struct wait_estimate estimate;
static struct waiter waiter;

static int set_up(void **state)
{
    (void)state;
    memset(&estimate, 0, sizeof estimate);
    return 0;
}

/* How long a ticket behind n others rests, of which each wants so many of the 4 permits. */
static int64_t rest_of(const char *name, size_t n, int32_t permits, int32_t own_permits)
{
    hf_entry entries[MOST + 2] = {{.permits = 4}};
    hf_record record = {.exists = true, .limit = 4, .entries = entries, .holders = 1};
    strcpy(record.name, name);
    record.queued = n + 1;
    for (size_t i = 0; i < n; i++)
        entries[1 + i].permits = permits;
    entries[1 + n].permits = own_permits;
    wait_estimate_begin(&estimate, &record, &entries[1 + n], &waiter, (hf_mono){5});
    return waiter.quiet_until.ns - 5;
}

/* Waits of so many ms in all behind three others, with the holder's turn four. */
static void wait_for(const char *name, int64_t ms, int times)
{
    for (int i = 0; i < times; i++) {
        rest_of(name, 3, 4, 4);
        wait_estimate_learn(&estimate, name, &waiter, (hf_mono){5 + ms * MS});
    }
}

static void test_expects_nothing_of_the_first_waits(void **state)
{
    (void)state;
    for (int i = 0; i < WAIT_ESTIMATE_WAITS; i++) {
        assert_int_equal(rest_of("a", MOST, 4, 4), 0);
        wait_for("a", 40, 1);
    }
    assert_int_equal(rest_of("a", MOST, 4, 4), MOST * 10 * MS / 8 * 7);
    assert_int_equal(rest_of("a", 1, 4, 4), 10 * MS / 8 * 7);
    assert_int_equal(rest_of("a", 0, 4, 4), 0);
}

static void test_the_quickest_of_the_last_waits_counts(void **state)
{
    (void)state;
    wait_for("a", 40, WAIT_ESTIMATE_WAITS);
    wait_for("a", 4, 1);
    assert_int_equal(rest_of("a", 8, 4, 4), 7 * MS);
    wait_for("a", 40, WAIT_ESTIMATE_WAITS - 1);
    assert_int_equal(rest_of("a", 8, 4, 4), 7 * MS);
    wait_for("a", 40, 1);
    assert_int_equal(rest_of("a", 8, 4, 4), 70 * MS);
}

static void test_who_may_come_with_others_expects_nothing(void **state)
{
    (void)state;
    wait_for("a", 40, WAIT_ESTIMATE_WAITS);
    assert_int_equal(rest_of("a", 8, 1, 4), 0);
    assert_int_equal(rest_of("a", 8, 4, 1), 0);
}

static void test_their_waits_and_those_of_the_first_teach_nothing(void **state)
{
    (void)state;
    wait_for("a", 40, WAIT_ESTIMATE_WAITS);
    for (int i = 0; i < WAIT_ESTIMATE_WAITS; i++) {
        rest_of("a", 8, 4, 1);
        wait_estimate_learn(&estimate, "a", &waiter, (hf_mono){5 + 8 * 40 * MS});
        rest_of("a", 0, 4, 4);
        wait_estimate_learn(&estimate, "a", &waiter, (hf_mono){5 + 1 * MS});
    }
    assert_int_equal(rest_of("a", 8, 4, 4), 70 * MS);
}

static void test_nothing_is_expected_of_a_slow_queue(void **state)
{
    (void)state;
    wait_for("a", 4 * 50, WAIT_ESTIMATE_WAITS);
    assert_true(rest_of("a", 8, 4, 4) > 0);
    wait_for("a", 4 * 51, WAIT_ESTIMATE_WAITS);
    assert_int_equal(rest_of("a", 8, 4, 4), 0);
}

static void test_another_lock_is_another_queue(void **state)
{
    (void)state;
    char name[8];
    wait_for("a", 40, WAIT_ESTIMATE_WAITS);
    for (int i = 0; i < 10 * WAIT_ESTIMATE_LOCKS; i++) { /* some at the same place */
        snprintf(name, sizeof name, "b%d", i);
        assert_int_equal(rest_of(name, 8, 4, 4), 0);
        wait_for(name, 4, 1);
        assert_int_equal(rest_of(name, 8, 4, 4), 0);
    }
    assert_int_equal(rest_of("a", 8, 4, 4), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_expects_nothing_of_the_first_waits, set_up),
        cmocka_unit_test_setup(test_the_quickest_of_the_last_waits_counts, set_up),
        cmocka_unit_test_setup(test_who_may_come_with_others_expects_nothing, set_up),
        cmocka_unit_test_setup(test_their_waits_and_those_of_the_first_teach_nothing, set_up),
        cmocka_unit_test_setup(test_nothing_is_expected_of_a_slow_queue, set_up),
        cmocka_unit_test_setup(test_another_lock_is_another_queue, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
