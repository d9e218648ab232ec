/* SPDX-License-Identifier: Apache-2.0 */
/* test_lease_order.c: in which order waits for leases enter, by name; run by ctest. */
#include "unit.h"

#include "client/lease/lease_order.h"

#define MANY 2000

static struct newcomers all;
static struct newcomer one, two, three, other;

static int begin(void **state)
{
    (void)state;
    memset(&all, 0, sizeof all);
    return 0;
}

static int end(void **state)
{
    (void)state;
    for (size_t i = 0; i < NEWCOMER_LISTS; i++)
        assert_null(all.lists[i]);
    return 0;
}

static void join_three(void)
{
    assert_null(newcomers_join(&all, &one, "x"));
    assert_ptr_equal(newcomers_join(&all, &two, "x"), &one);
    assert_ptr_equal(newcomers_join(&all, &three, "x"), &two);
}

static void test_those_of_one_name_one_by_one(void **state)
{
    (void)state;
    join_three();
    assert_null(newcomers_join(&all, &other, "y"));
    assert_false(newcomer_is_behind(&one));
    assert_true(newcomer_is_behind(&two) && newcomer_is_behind(&three));
    assert_ptr_equal(newcomer_behind(&one), &two);
    assert_ptr_equal(newcomers_leave(&one), &two);
    assert_false(newcomer_is_behind(&two));
    assert_null(newcomers_leave(&one)); /* which it has done */
    assert_null(newcomers_leave(&other));
    assert_ptr_equal(newcomers_leave(&two), &three);
    assert_null(newcomers_leave(&three));
    assert_null(newcomers_join(&all, &one, "x"));
    assert_null(newcomers_leave(&one));
}

/* The one before takes too long; the next of its own still waits for it. */
static void test_one_is_let_go(void **state)
{
    (void)state;
    join_three();
    newcomers_let_go(&two);
    assert_false(newcomer_is_behind(&two));
    assert_true(newcomer_is_behind(&three));
    assert_null(newcomers_leave(&one));
    assert_ptr_equal(newcomers_leave(&two), &three);
    assert_null(newcomers_leave(&three));
}

/* Several names share a list. */
static void test_very_many_names(void **state)
{
    static struct newcomer many[MANY][2];
    static char names[MANY][12];
    (void)state;
    for (size_t i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof names[i], "%zu", i);
        assert_null(newcomers_join(&all, &many[i][0], names[i]));
    }
    for (size_t i = 0; i < MANY; i++)
        assert_ptr_equal(newcomers_join(&all, &many[i][1], names[i]), &many[i][0]);
    for (size_t i = 0; i < MANY; i++) {
        assert_ptr_equal(newcomers_leave(&many[i][0]), &many[i][1]);
        assert_null(newcomers_leave(&many[i][1]));
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_those_of_one_name_one_by_one),
        TEST(test_one_is_let_go),
        TEST(test_very_many_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
