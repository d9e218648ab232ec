/* SPDX-License-Identifier: Apache-2.0 */
/* test_wait_line.c: the line that shows a wait, in any number of columns; run by ctest. */
#include "unit.h"

#include "cli/terminal/wait_line.h"
#include "show/text.h"

#define OWN "this user's own file"

static hf_wait_info wait_for(const char *name)
{
    return (hf_wait_info){.name = name,
                          .waited_ms = 12900,
                          .position = 1,
                          .queued = 3,
                          .n_holders = 1,
                          .holder = "cron@web1:4711",
                          .why = "release 41",
                          .trouble = ""};
}

static void assert_line(const hf_wait_info *info, const char *store, size_t columns,
                        const char *expected)
{
    char *line = wait_line(info, store, columns);
    assert_string_equal(line, expected);
    assert_true(!columns || text_columns(line) <= columns);
    free(line);
}

static void test_the_holder_stays_longest(void **state)
{
    static const struct {
        size_t from, to; /* columns */
        const char *line;
    } forms[] = {
        {81, 200,
         "waiting for \"deploy\" 12s, 1 of 3 in the queue, held by cron@web1:4711: "
         "release 41"},
        {68, 80, "waiting for \"deploy\" 12s, 1 of 3, held by cron@web1:4711: release 41"},
        {67, 67, "waiting for \"deploy\" 12s, 1 of 3, held by cron@web1:4711: release \u2026"},
        {66, 66, "waiting for \"deploy\" 12s, 1 of 3, held by cron@web1:4711: release\u2026"},
        {56, 65, "waiting for \"deploy\" 12s, 1 of 3, held by cron@web1:4711"},
        {48, 55, "waiting for \"deploy\" 12s, held by cron@web1:4711"},
        {47, 47, "waiting for \"deploy\" 12s, held by cron@w\u20261:4711"},
        {20, 20, "waiting for \"deploy\u2026"},
        {1, 1, "\u2026"},
    };
    (void)state;
    const hf_wait_info info = wait_for("deploy");
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        for (size_t columns = forms[i].from; columns <= forms[i].to; columns++)
            assert_line(&info, "", columns, forms[i].line);
    assert_line(&info, "", 0, forms[0].line);
}

static void test_a_long_name_gives_way_to_the_holder(void **state)
{
    (void)state;
    const hf_wait_info info = wait_for("nightly-report/of/the/shop-in-the-north");
    assert_line(&info, "", 79,
                "waiting for \"nightly-report/of/\u2026/shop-in-the-north\" 12s, held by "
                "cron@web1:4711");
    assert_line(&info, "", 60,
                "waiting for \"nightly-r\u2026he-north\" 12s, held by cron@web1:4711");
    assert_line(&info, "", 49, "waiting for \"nigh\u2026rth\" 12s, held by cron@w\u20261:4711");
}

static void test_since_when_it_is_held(void **state)
{
    (void)state;
    hf_wait_info info = wait_for("x");
    info.held_since_ms = text_now_ms();
    char *when = text_when(info.held_since_ms);
    char *line = text_print(
        "waiting for \"x\" 12s, 1 of 3 in the queue, held by cron@web1:4711 since %s: release 41",
        when);
    char *narrow = text_print(
        "waiting for \"x\" 12s, 1 of 3, held by cron@web1:4711 since %s: release 41", when);
    const char *reason = "waiting for \"x\" 12s, 1 of 3, held by cron@web1:4711: release 41";
    assert_line(&info, "", 0, line);
    assert_line(&info, "", text_columns(line) - 1, narrow);
    assert_line(&info, "", text_columns(narrow), narrow);
    assert_line(&info, "", text_columns(narrow) - 1, reason);
    assert_line(&info, "", text_columns(reason), reason);
    free(narrow);
    free(line);
    free(when);
}

static void test_a_long_reason_is_cut(void **state)
{
    (void)state;
    hf_wait_info info = wait_for("x");
    info.held_since_ms = text_now_ms();
    info.why = "the accounts of the year, for the audit";
    assert_line(
        &info, "", 80,
        "waiting for \"x\" 12s, 1 of 3, held by cron@web1:4711: the accounts of the year, \u2026");
    info.why = "";
    char *when = text_when(info.held_since_ms);
    char *line = text_print("waiting for \"x\" 12s, 1 of 3, held by cron@web1:4711 since %s", when);
    assert_line(&info, "", text_columns(line), line);
    free(line);
    free(when);
}

static void test_which_store_it_is(void **state)
{
    (void)state;
    hf_wait_info info = wait_for("x");
    info.why = "";
    assert_line(&info, OWN, 0,
                "waiting for \"x\" 12s in this user's own file, 1 of 3 in the queue, held by "
                "cron@web1:4711");
    assert_line(&info, OWN, 78,
                "waiting for \"x\" 12s in this user's own file, 1 of 3, held by cron@web1:4711");
    assert_line(&info, OWN, 74, "waiting for \"x\" 12s, 1 of 3, held by cron@web1:4711");
    info.why = "rr";
    assert_line(
        &info, OWN, 80,
        "waiting for \"x\" 12s in this user's own file, 1 of 3, held by cron@web1:4711: rr");
    assert_line(&info, OWN, 78, "waiting for \"x\" 12s, 1 of 3, held by cron@web1:4711: rr");
}

static void test_what_is_not_known_is_not_said(void **state)
{
    (void)state;
    hf_wait_info info = wait_for("x");
    info.waited_ms = 999;
    info.position = 0;
    info.n_holders = 0;
    info.holder = info.why = "";
    assert_line(&info, "", 0, "waiting for \"x\" 0s");
    info.n_holders = 1;
    info.position = info.queued = 1;
    assert_line(&info, "", 0, "waiting for \"x\" 0s, 1 of 1 in the queue, held");
    info.n_holders = 3;
    info.holder = "a@b:1";
    assert_line(&info, "", 0,
                "waiting for \"x\" 0s, 1 of 1 in the queue, held by a@b:1 and 2 more");
}

static void test_a_store_that_is_away(void **state)
{
    (void)state;
    hf_wait_info info = wait_for("x\n");
    info.trouble = "no server answers";
    assert_line(&info, "", 0, "waiting for \"x\\x0a\" 12s, trying again: no server answers");
    assert_line(&info, "", 40, "waiting for \"x\\x0a\" 12s, trying again: \u2026");
    info = wait_for("x");
    info.trouble =
        "mongodb at db1.example:27017,db2.example:27017, database app: no answer in time";
    assert_line(&info, "", 114,
                "waiting for \"x\" 12s, trying again: mongodb at "
                "db1.example:27017,db2.example:27017, database app: no answer in time");
    assert_line(
        &info, "", 80,
        "waiting for \"x\" 12s, trying again: mongodb at db1.example:27\u2026: no answer in time");
    assert_line(&info, "", 62,
                "waiting for \"x\" 12s, trying again: mongodb\u2026: no answer in time");
    assert_line(&info, "", 61, "waiting for \"x\" 12s, trying again: no answer in time");
    assert_line(&info, "", 48, "waiting for \"x\" 12s, trying again: no answer in\u2026");
}

/* A character may take two columns. */
static void test_wide_characters(void **state)
{
    (void)state;
    hf_wait_info info = wait_for("x");
    info.why = "\u5b57\u5b57\u5b57\u5b57\u5b57\u5b57\u5b57\u5b57";
    for (size_t columns = 1; columns < 100; columns++) {
        char *line = wait_line(&info, "", columns);
        assert_true(text_columns(line) <= columns);
        free(line);
    }
}

static int begin(void **state)
{
    (void)state;
    text_init();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_holder_stays_longest),
        cmocka_unit_test(test_a_long_name_gives_way_to_the_holder),
        cmocka_unit_test(test_since_when_it_is_held),
        cmocka_unit_test(test_a_long_reason_is_cut),
        cmocka_unit_test(test_which_store_it_is),
        cmocka_unit_test(test_what_is_not_known_is_not_said),
        cmocka_unit_test(test_a_store_that_is_away),
        cmocka_unit_test(test_wide_characters),
    };
    return cmocka_run_group_tests(tests, begin, NULL);
}
