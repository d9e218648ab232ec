/* SPDX-License-Identifier: Apache-2.0 */
/* test_caller.c: how an entry names the caller for whom its session waits. Run by ctest. */
#include "unit.h"

#include "core/caller.h"

#include <string.h>

static void assert_written(const char *name, const char *host, const char *expected)
{
    char actor[HF_ACTOR_MAX + 1];
    caller_write(name, host, actor);
    assert_string_equal(actor, expected);
    assert_ptr_equal(caller_of(actor), actor + 1);
}

static void test_a_name_and_a_host(void **state)
{
    (void)state;
    assert_written("shop", "10.0.0.7", "@shop@10.0.0.7");
    assert_written("", "10.0.0.7", "@@10.0.0.7");
    assert_written("a@b", "::1", "@a@b@::1");
}

#define TEN "0123456789"

/* 64 bytes in all: the host stays whole as long as it can. */
static void test_what_is_too_long_is_cut(void **state)
{
    (void)state;
    assert_written(TEN TEN TEN TEN TEN TEN, "host", "@" TEN TEN TEN TEN TEN "01234567@host");
    assert_written("\xc3\xa4", TEN TEN TEN TEN TEN TEN "0", "@@" TEN TEN TEN TEN TEN TEN "0");
    assert_written("shop", TEN TEN TEN TEN TEN TEN TEN, "@@" TEN TEN TEN TEN TEN TEN "01");
    assert_written("a", TEN TEN TEN TEN TEN TEN "0", "@a@" TEN TEN TEN TEN TEN TEN "0");
}

static void test_actors_are_none(void **state)
{
    static const char *const actors[] = {"", "till", "a@b", "@", "@till"};
    (void)state;
    for (size_t i = 0; i < sizeof actors / sizeof *actors; i++)
        assert_null(caller_of(actors[i]));
}

static void test_the_same_from_another_host(void **state)
{
    (void)state;
    assert_true(caller_is_same("@shop@10.0.0.7", "@shop@10.0.0.8"));
    assert_true(caller_is_same("@a@b@10.0.0.7", "@a@b@10.0.0.8"));
    assert_false(caller_is_same("@shop@10.0.0.7", "@shopping@10.0.0.7"));
    assert_false(caller_is_same("@shop@10.0.0.7", "shop"));
    assert_true(caller_is_same("shop", "shop"));
    assert_false(caller_is_same("shop", "shopping"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_name_and_a_host),
        cmocka_unit_test(test_what_is_too_long_is_cut),
        cmocka_unit_test(test_actors_are_none),
        cmocka_unit_test(test_the_same_from_another_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
