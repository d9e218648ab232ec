/* SPDX-License-Identifier: Apache-2.0 */
/* test_element_name.c: proves that a name means one element, and that an element has one name. Run
 * by ctest. */
#include "unit.h"

#include "store/mongo/document/element.h"
#include "store/mongo/driver/text.h"

static void assert_name(const char *given, const char *expected)
{
    const mongo_uri uri = {.element = (char[]){"lines.id"}, .element_key = "id"};
    char name[HF_NAME_MAX + 1];
    hf_error err;
    assert_int_equal(mongo_element_canonical(&uri, given, name, &err), HF_OK);
    assert_string_equal(name, expected);
}

static void test_a_name_is_an_array_of_two(void **state)
{
    (void)state;
    assert_name("[\"A17\",7]", "[\"A17\",7]");
    assert_name(" [ \"A17\" , 7.0 ] ", "[\"A17\",7]");
    assert_name("[5,\"7\"]", "[5,\"7\"]");
    assert_name("[{\"$numberLong\":\"5\"},true]", "[5,true]");
    assert_name("[null,1.5]", "[null,1.5]");
    assert_name("[\"a, b\",\"[\\\"c\\\",1]\"]", "[\"a, b\",\"[\\\"c\\\",1]\"]");
    assert_name("[\"99999999999999999999\",-9223372036854775807]",
                "[\"99999999999999999999\",-9223372036854775807]");
    assert_name("[{\"$oid\":\"6512bd43d9caa6e02c990b0a\"},{\"a\":1}]",
                "[{\"$oid\":\"6512bd43d9caa6e02c990b0a\"},{\"a\":1}]");
}

static void test_all_else_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {"",
                                        "A17",
                                        "7",
                                        "[]",
                                        "[1]",
                                        "[1,2,3]",
                                        "[1,null]",
                                        "[[1],2]",
                                        "[1,[2]]",
                                        "{\"0\":1,\"1\":2}",
                                        "[1,2] x",
                                        "[1,2",
                                        "[{\"$a\":1},2]",
                                        "[99999999999999999999,1]",
                                        "[1,99999999999999999999]"};
    const mongo_uri uri = {.element = (char[]){"lines.id"}, .element_key = "id"};
    char name[HF_NAME_MAX + 1];
    hf_error err;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_int_equal(mongo_element_canonical(&uri, texts[i], name, &err), HF_INVALID);
        assert_non_null(strstr(err.text, "lines.id"));
    }
}

static void test_a_name_may_be_too_long(void **state)
{
    (void)state;
    char text[HF_NAME_MAX + 2], name[HF_NAME_MAX + 1];
    mongo_element_name parsed;
    int n = snprintf(text, sizeof text, "[1,\"");
    memset(text + n, 'x', HF_NAME_MAX - 6);
    memcpy(text + n + HF_NAME_MAX - 6, "\"]", 3);
    assert_int_equal(strlen(text), HF_NAME_MAX);
    assert_true(mongo_element_name_read(text, &parsed));
    assert_true(mongo_element_name_write(&parsed.id, &parsed.key, name));
    assert_string_equal(name, text);
    mongo_element_name_done(&parsed);
    memcpy(text + n + HF_NAME_MAX - 6, "x\"]", 4);
    assert_true(mongo_element_name_read(text, &parsed));
    assert_false(mongo_element_name_write(&parsed.id, &parsed.key, name));
    mongo_element_name_done(&parsed);
}

static void test_of_an_array_as_a_look_gives_it(void **state)
{
    (void)state;
    char name[HF_NAME_MAX + 1];
    bson_iter_t id;
    bson_t *doc = pipeline_json("{'_id': ['a', 7], 'x': ['a'], 'y': 'a'}");
    assert_true(bson_iter_init_find(&id, doc, "_id") && mongo_element_name_of(&id, name));
    assert_string_equal(name, "[\"a\",7]");
    assert_true(bson_iter_init_find(&id, doc, "x"));
    assert_false(mongo_element_name_of(&id, name));
    assert_true(bson_iter_init_find(&id, doc, "y"));
    assert_false(mongo_element_name_of(&id, name));
    bson_destroy(doc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_name_is_an_array_of_two),
        cmocka_unit_test(test_all_else_is_refused),
        cmocka_unit_test(test_a_name_may_be_too_long),
        cmocka_unit_test(test_of_an_array_as_a_look_gives_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
