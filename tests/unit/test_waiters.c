/* SPDX-License-Identifier: Apache-2.0 */
/* test_waiters.c: proves that a waiter hears once what it was told (L2); run by ctest. */
#include "unit.h"

#include "core/waiters.h"

static void test_found_by_ticket_until_removed(void **state)
{
    (void)state;
    struct waiters waiters = {0};
    struct waiter a = {.ticket = id_of(1)}, b = {.ticket = id_of(2)}, c = {.ticket = id_of(3)};
    waiters_add(&waiters, &a);
    waiters_add(&waiters, &b);
    waiters_add(&waiters, &c);
    waiters_remove(&b);
    assert_ptr_equal(waiters_find(&waiters, id_of(1)), &a);
    assert_null(waiters_find(&waiters, id_of(2)));
    assert_ptr_equal(waiters_find(&waiters, id_of(3)), &c);
    waiters_remove(&c);
    waiters_remove(&a);
    assert_null(waiters.first);
}

static void test_removing_twice_or_never_added_is_harmless(void **state)
{
    (void)state;
    struct waiters waiters = {0};
    struct waiter a = {.ticket = id_of(1)}, b = {.ticket = id_of(2)}, c = {.ticket = id_of(3)};
    waiters_remove(&a);
    waiters_add(&waiters, &a);
    waiters_add(&waiters, &b);
    waiters_remove(&b);
    waiters_add(&waiters, &c);
    waiters_remove(&b);
    assert_ptr_equal(waiters_find(&waiters, id_of(1)), &a);
    assert_ptr_equal(waiters_find(&waiters, id_of(3)), &c);
    waiters_add(&waiters, &b);
    assert_ptr_equal(waiters_find(&waiters, id_of(2)), &b);
}

static void test_told_is_taken_once(void **state)
{
    (void)state;
    struct waiter waiter = {.ticket = id_of(1)};
    assert_false(waiter_take(&waiter));
    waiter_tell(&waiter, (hf_stamp){7});
    waiter_tell(&waiter, (hf_stamp){7});
    assert_true(waiter_take(&waiter));
    assert_false(waiter_take(&waiter));
}

static void test_stamp_never_goes_back(void **state)
{
    (void)state;
    struct waiter waiter = {.ticket = id_of(1)};
    waiter_tell(&waiter, (hf_stamp){7});
    waiter_tell(&waiter, (hf_stamp){3});
    assert_int_equal(waiter.stamp.value, 7);
    assert_true(waiter_take(&waiter));
    waiter_tell(&waiter, (hf_stamp){0});
    assert_int_equal(waiter.stamp.value, 7);
    waiter_tell(&waiter, (hf_stamp){9});
    assert_int_equal(waiter.stamp.value, 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_found_by_ticket_until_removed),
        cmocka_unit_test(test_removing_twice_or_never_added_is_harmless),
        cmocka_unit_test(test_told_is_taken_once),
        cmocka_unit_test(test_stamp_never_goes_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
