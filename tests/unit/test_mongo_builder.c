/* SPDX-License-Identifier: Apache-2.0 */
/* test_mongo_builder.c: proves that a text that is put together has all its pieces, however long it
 * becomes. Run by ctest. */
#include "unit.h"

#include "store/mongo/driver/builder.h"

static void test_pieces_of_each_kind(void **state)
{
    (void)state;
    mongo_builder text = builder_begin("{");
    builder_add(&text, "'a': ");
    builder_add_format(&text, "%s%d", "", 17);
    builder_add_bytes(&text, "}...", 1);
    builder_add_char(&text, ';');
    assert_string_equal(text.text, "{'a': 17};");
    assert_int_equal(text.length, 10);
    builder_done(&text);
    assert_null(text.text);
}

static void test_nothing_is_a_text_too(void **state)
{
    (void)state;
    mongo_builder text = builder_begin("");
    assert_string_equal(text.text, "");
    builder_add(&text, "");
    builder_add_format(&text, "%s", "");
    builder_add_bytes(&text, "x", 0);
    assert_int_equal(text.length, 0);
    assert_string_equal(text.text, "");
    builder_done(&text);
}

/* Each length is once the length at which the text needs more room, for one byte or for many. */
static void test_it_grows_at_any_length(void **state)
{
    (void)state;
    static const char piece[] = "0123456789";
    for (size_t before = 0; before < 300; before++) {
        mongo_builder text = builder_begin("");
        for (size_t i = 0; i < before; i++)
            builder_add_char(&text, 'x');
        builder_add_format(&text, "%s", piece);
        builder_add(&text, piece);
        assert_int_equal(text.length, before + 20);
        assert_int_equal(strspn(text.text, "x"), before);
        assert_string_equal(text.text + before, "01234567890123456789");
        builder_done(&text);
    }
}

static void test_a_nul_is_a_byte(void **state)
{
    (void)state;
    mongo_builder text = builder_begin("a");
    builder_add_bytes(&text, "\0b", 2);
    assert_int_equal(text.length, 3);
    assert_memory_equal(text.text, "a\0b", 4);
    builder_done(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pieces_of_each_kind),
        cmocka_unit_test(test_nothing_is_a_text_too),
        cmocka_unit_test(test_it_grows_at_any_length),
        cmocka_unit_test(test_a_nul_is_a_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
