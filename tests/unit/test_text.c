/* SPDX-License-Identifier: Apache-2.0 */
/* test_text.c: proves what is kept of a break: who broke a lock and why, cut to fit between two
 * characters. Run by ctest. */
#include "unit.h"

#include "core/text.h"
#include "core/utf8.h"

static void assert_broken(const char *by, const char *reason, const char *expected)
{
    hf_ask ask = {.ticket = {{0}}};
    char out[HF_TEXT_MAX + 1];
    snprintf(ask.by, sizeof ask.by, "%s", by);
    snprintf(ask.reason, sizeof ask.reason, "%s", reason);
    text_broken(out, &ask);
    assert_string_equal(out, expected);
}

static void test_who_broke_a_lock_and_why(void **state)
{
    (void)state;
    assert_broken("ops@host:5", "it hangs", "broken by ops@host:5: it hangs");
    assert_broken("", "released", ""); /* the release of a lease */
}

/* "broken by x: " takes 13 bytes, so that 243 are left: 121 characters of two bytes, and a half. */
static void test_it_is_cut_between_two_characters(void **state)
{
    (void)state;
    char reason[HF_TEXT_MAX + 1] = "", expected[HF_TEXT_MAX + 1] = "broken by x: ";
    for (int i = 0; i < 128; i++)
        strcat(reason, "\xc3\xa4");
    for (int i = 0; i < 121; i++)
        strcat(expected, "\xc3\xa4");
    assert_broken("x", reason, expected);
}

static void test_a_text_ends_before_what_is_no_utf8(void **state)
{
    (void)state;
    static const char *const texts[][2] = {{"", ""},
                                           {"abc", "abc"},
                                           {"ab\xc3", "ab"},
                                           {"\xe2\x82", ""},
                                           {"\xe2\x82\xac", "\xe2\x82\xac"},
                                           {"a\xff"
                                            "b",
                                            "a"}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char text[10];
        snprintf(text, sizeof text, "%s", texts[i][0]);
        utf8_end_whole(text);
        assert_string_equal(text, texts[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_broke_a_lock_and_why),
        cmocka_unit_test(test_it_is_cut_between_two_characters),
        cmocka_unit_test(test_a_text_ends_before_what_is_no_utf8),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
