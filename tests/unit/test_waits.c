/* SPDX-License-Identifier: Apache-2.0 */
/* test_waits.c: proves that what a session says of its waits survives being written and read, names
 * of any kind too, and that rubbish ends it; run by ctest. */
#include "unit.h"

#include "core/id.h"
#include "core/waits.h"

static waits_item item(unsigned n, const char *name)
{
    waits_item out = {.ticket = id_of(n)};
    snprintf(out.name, sizeof out.name, "%s", name);
    return out;
}

static void assert_item(const waits_item *a, const waits_item *b)
{
    assert_true(id_equal(a->ticket, b->ticket));
    assert_string_equal(a->name, b->name);
}

static void test_written_and_read_back(void **state)
{
    (void)state;
    waits_item holds[] = {item(1, "a b 3:c"), item(2, "line\nfeed"), item(3, "\xc3\xa4 0")};
    waits_entry said[] = {{item(4, "orders/7"), holds, 3, 0, 0},
                          {item(6, "+"), holds, 1, INT64_C(1) << 53, HF_LIMIT_RW},
                          {item(5, " "), NULL, 0, 0, 0}};
    char *text = NULL;
    for (int i = 0; i < 3; i++)
        assert_true(waits_write(&text, &said[i]));
    waits_entry *heard;
    assert_int_equal(waits_read(text, &heard), 3);
    for (int i = 0; i < 3; i++) {
        assert_item(&heard[i].on, &said[i].on);
        assert_int_equal(heard[i].number, said[i].number);
        if (heard[i].number)
            assert_int_equal(heard[i].permits, said[i].permits);
        assert_int_equal(heard[i].n_holds, said[i].n_holds);
        for (size_t j = 0; j < heard[i].n_holds; j++)
            assert_item(&heard[i].holds[j], &holds[j]);
    }
    waits_free(heard, 3);
    free(text);
}

static void test_what_does_not_fit_is_not_said(void **state)
{
    (void)state;
    waits_entry said = {.on = {.ticket = id_of(1)}}, *heard;
    memset(said.on.name, 'x', HF_NAME_MAX);
    char *text = NULL;
    size_t n = 0;
    while (waits_write(&text, &said))
        n++;
    assert_true(strlen(text) <= WAITS_TEXT_MAX && n > 10);
    assert_int_equal(waits_read(text, &heard), n);
    waits_free(heard, n);
    free(text);
}

static void test_rubbish_ends_it(void **state)
{
    (void)state;
#define TICKET "0001abcdef109900000000ff"
    static const char *const texts[] = {"",
                                        "x",
                                        TICKET,
                                        TICKET " ",
                                        TICKET " 1",
                                        TICKET " 1:",
                                        TICKET " 1:a",
                                        TICKET " 1:a ",
                                        TICKET " 1:a \n",
                                        TICKET " 1:a 0",
                                        TICKET " 2:a 0\n",
                                        TICKET " 1:a 1\n",
                                        TICKET " 1:a 1 x\n",
                                        TICKET " 1:a 99999999999999999999\n",
                                        TICKET " 99999999999999999999:a 0\n",
                                        TICKET " 513:a 0\n",
                                        TICKET " 1:a 33 " TICKET " 1:b\n",
                                        TICKET " 1:a -1\n",
                                        "+" TICKET " 1:a 0\n",
                                        "+7 " TICKET " 1:a 0\n",
                                        "+7 1073741825 " TICKET " 1:a 0\n",
                                        "+9007199254740993 1 " TICKET " 1:a 0\n",
                                        "+-7 1 " TICKET " 1:a 0\n"};
    waits_entry *heard;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_int_equal(waits_read(texts[i], &heard), 0);
        waits_free(heard, 0);
    }
    assert_int_equal(waits_read(TICKET " 1:a 0\n" TICKET " 1:b", &heard), 1);
    waits_free(heard, 1);
}

static void test_items_written_and_read_back(void **state)
{
    (void)state;
    waits_item held[] = {item(1, "a b 3:c"), item(2, "line\nfeed"), item(3, " ")};
    char *text = waits_items_write(&(waits_items){held, 3});
    waits_items heard = waits_items_read(text);
    assert_int_equal(heard.n, 3);
    for (size_t i = 0; i < heard.n; i++)
        assert_item(&heard.of[i], &held[i]);
    free(text);
    free(heard.of);
    text = waits_items_write(&(waits_items){NULL, 0});
    assert_string_equal(text, "");
    free(text);
}

static void test_rubbish_ends_the_items(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t n;
    } cases[] = {{"", 0},
                 {" ", 0},
                 {"x", 0},
                 {TICKET, 0},
                 {TICKET " 2:a", 0},
                 {TICKET " 513:a", 0},
                 {TICKET " 1:a", 1},
                 {TICKET " 1:a ", 1},
                 {TICKET " 1:ab", 1},
                 {TICKET " 1:a " TICKET, 1},
                 {TICKET " 1:a " TICKET " 1:b", 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        waits_items heard = waits_items_read(cases[i].text);
        assert_int_equal(heard.n, cases[i].n);
        free(heard.of);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_written_and_read_back),
        cmocka_unit_test(test_what_does_not_fit_is_not_said),
        cmocka_unit_test(test_rubbish_ends_it),
        cmocka_unit_test(test_items_written_and_read_back),
        cmocka_unit_test(test_rubbish_ends_the_items),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
