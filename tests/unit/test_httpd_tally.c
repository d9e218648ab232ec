/* SPDX-License-Identifier: Apache-2.0 */
/* test_httpd_tally.c: counts of texts, of few and of very many; run by ctest. */
#include "unit.h"

#include "httpd/tally.h"

#define MANY 1000

static void test_each_is_counted(void **state)
{
    tally t = {.n = 0};
    (void)state;
    assert_int_equal(tally_of(&t, "a"), 0);
    tally_add(&t, "a");
    tally_add(&t, "a");
    tally_add(&t, "");
    assert_int_equal(tally_of(&t, "a"), 2);
    assert_int_equal(tally_of(&t, ""), 1);
    assert_int_equal(tally_of(&t, "b"), 0);
    tally_remove(&t, "a");
    assert_int_equal(tally_of(&t, "a"), 1);
    tally_remove(&t, "a");
    assert_int_equal(tally_of(&t, "a"), 0);
    assert_int_equal(t.n, 1);
    tally_done(&t);
}

static void test_very_many(void **state)
{
    char text[12];
    tally t = {.n = 0};
    (void)state;
    for (int i = 0; i < 3 * MANY; i++) {
        snprintf(text, sizeof text, "%d", i % MANY);
        tally_add(&t, text);
    }
    assert_int_equal(t.n, MANY);
    for (int i = 0; i < MANY; i++) {
        snprintf(text, sizeof text, "%d", i);
        assert_int_equal(tally_of(&t, text), 3);
        tally_remove(&t, text);
        assert_int_equal(tally_of(&t, text), 2);
    }
    tally_done(&t);
    assert_int_equal(tally_of(&t, "0"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_is_counted),
        cmocka_unit_test(test_very_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
