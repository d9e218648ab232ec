/* SPDX-License-Identifier: Apache-2.0 */
/* test_sharding_codes.c: proves which errors each call of protocol `sharding` is tried again on,
 * row by row of the table, and that the settings are MongoDB's; run by ctest. */
#include "unit.h"

#include "core/sharding.h"

static const int32_t not_primary[] = {10107, 13435, 13436};
static const int32_t retriable[] = {10107, 13435, 13436, 189, 11602, 6,
                                    7,     89,    262,   91,  11600, 9001};
static const int32_t others[] = {0, 1, 13, 46, 47, 50, 64, 79, 100, 112, 128, 129, 11000, 11601};

#define COUNT(array) (sizeof(array) / sizeof *(array))

static bool is_among(int32_t code, const int32_t *codes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (codes[i] == code)
            return true;
    return false;
}

/* Tried again on these codes and no others, and at most three times in all. */
static void assert_tried_again_on(sharding_call call, const int32_t *codes, size_t n)
{
    for (int32_t code = 0; code < 20000; code++)
        for (unsigned tried = 1; tried < 5; tried++)
            assert_int_equal(sharding_tries_again(&sharding_defaults, call, code, tried),
                             tried < 3 && is_among(code, codes, n));
}

static void test_the_retriable_codes_are_these_and_no_others(void **state)
{
    (void)state;
    for (int32_t code = -1; code < 20000; code++) {
        assert_int_equal(sharding_is_retriable(code), is_among(code, retriable, COUNT(retriable)));
        assert_int_equal(sharding_is_not_primary(code),
                         is_among(code, not_primary, COUNT(not_primary)));
    }
    for (size_t i = 0; i < COUNT(others); i++)
        assert_false(sharding_is_retriable(others[i]));
}

static void test_ping_is_tried_again_on_not_primary(void **state)
{
    (void)state;
    assert_tried_again_on(SHARDING_PING, not_primary, COUNT(not_primary));
}

static void test_stop_ping_is_tried_again_on_not_primary(void **state)
{
    (void)state;
    assert_tried_again_on(SHARDING_STOP_PING, not_primary, COUNT(not_primary));
}

static void test_grab_is_sent_once_only(void **state)
{
    (void)state;
    assert_tried_again_on(SHARDING_GRAB_LOCK, NULL, 0);
}

static void test_overtake_is_tried_again_on_not_primary(void **state)
{
    (void)state;
    assert_tried_again_on(SHARDING_OVERTAKE_LOCK, not_primary, COUNT(not_primary));
}

static void test_unlock_is_tried_again_on_any_retriable(void **state)
{
    (void)state;
    assert_tried_again_on(SHARDING_UNLOCK_ONE, retriable, COUNT(retriable));
}

static void test_unlock_all_is_tried_again_on_any_retriable(void **state)
{
    (void)state;
    assert_tried_again_on(SHARDING_UNLOCK_ALL, retriable, COUNT(retriable));
}

static void test_get_ping_and_get_lock_are_tried_again_on_any_retriable(void **state)
{
    (void)state;
    assert_tried_again_on(SHARDING_GET_PING, retriable, COUNT(retriable));
    assert_tried_again_on(SHARDING_GET_LOCK, retriable, COUNT(retriable));
}

static void test_server_info_is_tried_again_on_any_retriable(void **state)
{
    (void)state;
    assert_tried_again_on(SHARDING_SERVER_INFO, retriable, COUNT(retriable));
}

static void test_the_number_of_tries_can_be_set(void **state)
{
    (void)state;
    sharding_settings once = sharding_defaults;
    once.tries = 1;
    assert_false(sharding_tries_again(&once, SHARDING_UNLOCK_ONE, 189, 1));
}

static void test_the_defaults_are_those_of_mongodb(void **state)
{
    (void)state;
    const sharding_settings *s = &sharding_defaults;
    assert_int_equal(s->ping_ms, 30 * 1000);
    assert_int_equal(s->late_ping_ms, 10 * s->ping_ms);
    assert_int_equal(s->expiry_ms, 15 * 60 * 1000);
    assert_int_equal(s->poll_ms, 500);
    assert_int_equal(s->wait_ms, 20 * 1000);
    assert_int_equal(s->still_ms, 10 * 1000);
    assert_int_equal(s->grab_repeats, 2);
    assert_int_equal(s->tries, 3);
}

/* Check status: the document with my ts, and its state. */
static void test_a_lock_is_held_by_its_ts_and_its_state(void **state)
{
    (void)state;
    sharding_lock lock = {.process = "a:1:2:3", .ts = id_of(1), .state = 2};
    assert_true(sharding_is_held_by(&lock, id_of(1)));
    assert_false(sharding_is_held_by(&lock, id_of(2)));
    lock.state = 0;
    assert_false(sharding_is_held_by(&lock, id_of(1)));
    lock.state = 1;
    assert_true(sharding_is_held_by(&lock, id_of(1)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_retriable_codes_are_these_and_no_others),
        cmocka_unit_test(test_ping_is_tried_again_on_not_primary),
        cmocka_unit_test(test_stop_ping_is_tried_again_on_not_primary),
        cmocka_unit_test(test_grab_is_sent_once_only),
        cmocka_unit_test(test_overtake_is_tried_again_on_not_primary),
        cmocka_unit_test(test_unlock_is_tried_again_on_any_retriable),
        cmocka_unit_test(test_unlock_all_is_tried_again_on_any_retriable),
        cmocka_unit_test(test_get_ping_and_get_lock_are_tried_again_on_any_retriable),
        cmocka_unit_test(test_server_info_is_tried_again_on_any_retriable),
        cmocka_unit_test(test_the_number_of_tries_can_be_set),
        cmocka_unit_test(test_the_defaults_are_those_of_mongodb),
        cmocka_unit_test(test_a_lock_is_held_by_its_ts_and_its_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
