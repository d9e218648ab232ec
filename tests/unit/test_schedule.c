/* SPDX-License-Identifier: Apache-2.0 */
/* test_schedule.c: what is due first is known, whatever is moved or taken out; run by ctest. */
#include "unit.h"

#include "core/lease.h"
#include "core/schedule.h"

#define MANY 200

static void test_an_empty_one_is_never_due(void **state)
{
    (void)state;
    struct schedule schedule = {.n = 0};
    struct slot never = {.at = 0};
    schedule_remove(&schedule, &never);
    schedule_set(&schedule, &never, MONO_NEVER);
    assert_null(schedule_first(&schedule));
    assert_null(schedule_next_due(&schedule, at_ms(1000)));
    assert_int_equal(schedule_due(&schedule).ns, MONO_NEVER.ns);
    schedule_done(&schedule);
}

static void test_due_when_reached(void **state)
{
    (void)state;
    struct schedule schedule = {.n = 0};
    struct slot slot = {.at = 0};
    schedule_set(&schedule, &slot, at_ms(10));
    assert_null(schedule_next_due(&schedule, at_ms(9)));
    assert_ptr_equal(schedule_next_due(&schedule, at_ms(10)), &slot);
    schedule_set(&schedule, &slot, MONO_NEVER);
    assert_null(schedule_first(&schedule));
    assert_int_equal(slot.at, 0);
    schedule_done(&schedule);
}

static int64_t any_ms(void)
{
    static uint32_t last = 1;
    last = last * 1664525 + 1013904223;
    return last >> 23; /* so that several are due at one time */
}

/* Sets, moves and takes out at random, then takes all out in order. */
static void test_the_first_is_always_the_earliest(void **state)
{
    (void)state;
    static struct slot slots[MANY];
    struct schedule schedule = {.n = 0};
    for (int i = 0; i < 50 * MANY; i++) {
        struct slot *slot = &slots[any_ms() % MANY];
        if (any_ms() % 4)
            schedule_set(&schedule, slot, at_ms(any_ms()));
        else
            schedule_remove(&schedule, slot);
    }
    size_t n = schedule.n;
    assert_true(n > MANY / 2);
    for (struct slot before = {.at = 0}; schedule.n; n--) {
        struct slot *first = schedule_first(&schedule);
        assert_int_equal(schedule_due(&schedule).ns, first->due.ns);
        assert_true(first->due.ns >= before.due.ns);
        assert_true(first->due.ns > before.due.ns || first->order > before.order);
        before = *first;
        schedule_remove(&schedule, first);
    }
    assert_int_equal(n, 0);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(slots[i].at, 0);
    schedule_done(&schedule);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_empty_one_is_never_due),
        cmocka_unit_test(test_due_when_reached),
        cmocka_unit_test(test_the_first_is_always_the_earliest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
