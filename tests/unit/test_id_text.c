/* SPDX-License-Identifier: Apache-2.0 */
/* test_id_text.c: proves that a name means one _id, of any type, and that an _id has one name; and
 * that paths with dots are found in documents and in change events. Run by ctest. */
#include "unit.h"

#include "store/mongo/driver/builder.h"
#include "store/mongo/driver/path.h"
#include "store/mongo/driver/text.h"
#include "store/mongo/shared/id_text.h"

#include <errno.h>

static char *value_of(const char *name)
{
    bson_t doc = BSON_INITIALIZER;
    mongo_id_append(&doc, "_id", name);
    char *json = bson_as_canonical_extended_json(&doc, NULL);
    bson_destroy(&doc);
    return json;
}

static void assert_means(const char *name, const char *value)
{
    char *json = value_of(name), whole[200];
    snprintf(whole, sizeof whole, "{ \"_id\" : %s }", value);
    assert_string_equal(json, whole);
    bson_free(json);
}

static void test_json_of_a_value_means_the_value(void **state)
{
    (void)state;
    assert_means("42", "{ \"$numberInt\" : \"42\" }");
    assert_means(" -7 ", "{ \"$numberInt\" : \"-7\" }");
    assert_means("9007199254740993", "{ \"$numberLong\" : \"9007199254740993\" }");
    assert_means("1.5", "{ \"$numberDouble\" : \"1.5\" }");
    assert_means("\"42\"", "\"42\"");
    assert_means("\"\"", "\"\"");
    assert_means("true", "true");
    assert_means("false", "false");
    assert_means("null", "null");
    assert_means("{\"$oid\":\"6512bd43d9caa6e02c990b0a\"}",
                 "{ \"$oid\" : \"6512bd43d9caa6e02c990b0a\" }");
    assert_means("{\"a\": {\"b\": 1}}", "{ \"a\" : { \"b\" : { \"$numberInt\" : \"1\" } } }");
    assert_means("{\"$date\":{\"$numberLong\":\"5\"}}",
                 "{ \"$date\" : { \"$numberLong\" : \"5\" } }");
}

/* Some of these libbson would take. */
static void test_all_else_means_itself(void **state)
{
    (void)state;
    static const char *const texts[] = {"plain",
                                        "A17",
                                        "nan",
                                        "Infinity",
                                        "[1]",
                                        "1} {2",
                                        "1, 2",
                                        "1,\"x\":2",
                                        "1,\"x\":2}",
                                        "1}",
                                        "1}, {",
                                        "01",
                                        "0x10",
                                        "6512bd43d9caa",
                                        "-",
                                        "{}}",
                                        "{",
                                        "1\" : 1",
                                        "tru",
                                        "True",
                                        "{\"$gt\":1}",
                                        "a b",
                                        "+5",
                                        "1e400",
                                        "{5}",
                                        "{\"$oid\":\"z\"}",
                                        "{\"$regex\":\"a\"}",
                                        "2026-01-01",
                                        "ä€",
                                        "1 // x"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        bson_t doc = BSON_INITIALIZER;
        bson_iter_t it;
        mongo_id_append(&doc, "_id", texts[i]);
        assert_int_equal(bson_count_keys(&doc), 1);
        assert_true(bson_iter_init_find(&it, &doc, "_id"));
        assert_true(BSON_ITER_HOLDS_UTF8(&it));
        assert_string_equal(bson_iter_utf8(&it, NULL), texts[i]);
        bson_destroy(&doc);
    }
}

static void test_integers_beyond_64_bits_are_texts(void **state)
{
    (void)state;
    assert_means("99999999999999999999", "\"99999999999999999999\"");
    assert_means("-99999999999999999999 ", "\"-99999999999999999999 \"");
    assert_means("99999999999999999999.5", "{ \"$numberDouble\" : \"1e+20\" }");
    errno = ERANGE; /* of something before */
    assert_means("42", "{ \"$numberInt\" : \"42\" }");
}

static void assert_known_as(const char *given, const char *name)
{
    char out[HF_NAME_MAX + 1], again[HF_NAME_MAX + 1];
    assert_true(mongo_id_canonical(given, out));
    assert_string_equal(out, name);
    assert_true(mongo_id_canonical(out, again));
    assert_string_equal(again, name);
}

static void test_what_is_one_id_has_one_name(void **state)
{
    (void)state;
    assert_known_as("42", "42");
    assert_known_as("42.0", "42");
    assert_known_as("{\"$numberLong\": \"42\"}", "42");
    assert_known_as("{\"$numberDecimal\": \"42\"}", "42");
    assert_known_as("{\"$numberDouble\": \"-0.0\"}", "0");
    assert_known_as("1.50", "1.5");
    assert_known_as("{ \"$oid\" : \"6512BD43d9caa6e02c990b0a\" }",
                    "{\"$oid\":\"6512bd43d9caa6e02c990b0a\"}");
    assert_known_as("{\"a\": \"b c\", \"d\": {\"$numberLong\": \"1\"}}", "{\"a\":\"b c\",\"d\":1}");
    assert_known_as("plain", "plain");
    assert_known_as("\"plain\"", "plain");
    assert_known_as("\"a\\\"b\"", "a\"b");
}

static void test_integers_are_known_as_such_while_they_are_exact(void **state)
{
    (void)state;
    assert_known_as("{\"$numberDouble\": \"9007199254740991\"}", "9007199254740991");
    assert_known_as("{\"$numberDouble\": \"-9007199254740991\"}", "-9007199254740991");
    assert_known_as("{\"$numberDouble\": \"9007199254740992\"}", "9007199254740992.0");
    assert_known_as("{\"$numberDouble\": \"-9007199254740992\"}", "-9007199254740992.0");
    assert_known_as("-1.5", "-1.5");
    assert_known_as("1e300", "1.0000000000000000525e+300");
    assert_known_as("-1e300", "-1.0000000000000000525e+300");
    assert_known_as("{\"$numberDecimal\": \"-42\"}", "-42");
    assert_known_as("{\"$numberDecimal\": \"999999999999999999\"}", "999999999999999999");
    assert_known_as("{\"$numberDecimal\": \"9999999999999999999\"}",
                    "{\"$numberDecimal\":\"9999999999999999999\"}");
    assert_known_as("{\"$numberDecimal\": \"1.5\"}", "{\"$numberDecimal\":\"1.5\"}");
    assert_known_as("{\"$numberDecimal\": \"Infinity\"}", "{\"$numberDecimal\":\"Infinity\"}");
    assert_known_as("{\"$numberDecimal\": \"NaN\"}", "{\"$numberDecimal\":\"NaN\"}");
}

static void test_blanks_in_texts_stay(void **state)
{
    (void)state;
    assert_known_as("{ \"a\" : \"x\\\" y\" }", "{\"a\":\"x\\\" y\"}");
    assert_known_as("{ \"a b\" : \"\\\\\", \"c\" : \" d\" }", "{\"a b\":\"\\\\\",\"c\":\" d\"}");
}

static void test_a_text_that_looks_like_a_value_is_quoted(void **state)
{
    (void)state;
    assert_known_as("\"42\"", "\"42\"");
    assert_known_as("\"true\"", "\"true\"");
    assert_known_as("\"\"", "\"\"");
    assert_known_as("\"\\\"x\\\"\"", "\"\\\"x\\\"\"");
    assert_known_as("\"a\\u0000b\"", "\"a\\u0000b\"");
}

static void test_long_ids_have_no_name(void **state)
{
    (void)state;
    char text[HF_NAME_MAX + 20], name[HF_NAME_MAX + 1];
    memset(text, 'x', sizeof text);
    text[HF_NAME_MAX] = '\0';
    assert_true(mongo_id_canonical(text, name));
    text[HF_NAME_MAX] = 'x';
    text[HF_NAME_MAX + 1] = '\0';
    assert_false(mongo_id_canonical(text, name));
    memcpy(text, "{\"k\":\"", 6);
    memcpy(text + HF_NAME_MAX - 2, "\"}", 3); /* 512 bytes */
    assert_true(mongo_id_canonical(text, name));
    assert_string_equal(name, text);
    memcpy(text + HF_NAME_MAX - 2, "x\"}", 4);
    assert_false(mongo_id_canonical(text, name));
}

static bool is_named(const bson_t *doc)
{
    char name[HF_NAME_MAX + 1];
    bson_iter_t id;
    return bson_iter_init_find(&id, doc, "_id") && mongo_id_read(&id, name);
}

static void test_ids_that_are_no_utf8_have_no_name(void **state)
{
    (void)state;
    bson_t text = BSON_INITIALIZER, object = BSON_INITIALIZER, inner, key = BSON_INITIALIZER;
    BSON_APPEND_UTF8(&text, "_id", "caf\xe9");
    BSON_APPEND_DOCUMENT_BEGIN(&object, "_id", &inner);
    BSON_APPEND_UTF8(&inner, "k", "caf\xe9");
    bson_append_document_end(&object, &inner);
    BSON_APPEND_DOCUMENT_BEGIN(&key, "_id", &inner);
    BSON_APPEND_INT32(&inner, "caf\xe9", 1);
    bson_append_document_end(&key, &inner);
    assert_false(is_named(&text));
    assert_false(is_named(&object));
    assert_false(is_named(&key));
    bson_destroy(&text);
    bson_destroy(&object);
    bson_destroy(&key);
}

/* Whatever the text: it has a name, and that name is its own. */
static void test_names_of_random_texts_stay(void **state)
{
    (void)state;
    static const char letters[] = "{}[]\":,0123456789.-eE$oidnatrufls \\xÄ";
    uint64_t random = test_seed("names") | 1;
    for (int i = 0; i < 20000; i++) {
        char text[24], name[HF_NAME_MAX + 1], again[HF_NAME_MAX + 1];
        size_t n = 1 + (size_t)(next_random(&random) % 20);
        for (size_t j = 0; j < n; j++)
            text[j] = letters[next_random(&random) % (sizeof letters - 3)];
        text[n] = '\0';
        assert_true(mongo_id_canonical(text, name));
        assert_true(mongo_id_canonical(name, again));
        assert_string_equal(name, again);
    }
}

/* ---- Paths ---- */

static bool updates(const char *fields, const char *path)
{
    bson_iter_t found;
    bson_t *doc = pipeline_json(fields);
    bool is_there = mongo_path_find_updated(doc, path, &found);
    bson_destroy(doc);
    return is_there;
}

static void test_updated_fields_are_paths_or_parents(void **state)
{
    (void)state;
    assert_true(updates("{'a.b.c': 1}", "a.b.c"));
    assert_true(updates("{'x': 1, 'a.b': {'c': 1}}", "a.b.c"));
    assert_true(updates("{'a': {'b': {'c': null}}}", "a.b.c"));
    assert_true(updates("{'lockId': 1}", "lockId"));
    assert_false(updates("{'a.b.d': 1}", "a.b.c"));
    assert_false(updates("{'a.b': 5}", "a.b.c"));
    assert_false(updates("{'a.b.cc': 5, 'aa': {}, 'a.b.c.d': 1}", "a.b.c"));
    assert_false(updates("{'a.b': {'d': 1}, 'a.bc': {'d': 1}}", "a.bcd"));
}

static void test_parents_of_a_path(void **state)
{
    (void)state;
    mongo_builder out = builder_begin("");
    mongo_path_parents(&out, "a.bc.d", "<", ">");
    mongo_path_parents(&out, "lockId", "<", ">");
    assert_string_equal(out.text, "<a><a.bc>");
    builder_done(&out);
}

static bool filters(const char *path, const char *part)
{
    bson_t *stages = mongo_path_filter(path);
    char *json = bson_as_relaxed_extended_json(stages, NULL);
    bool has = strstr(json, part) != NULL;
    bson_free(json);
    bson_destroy(stages);
    return has;
}

static void test_a_stream_is_filtered_by_a_path_and_its_parents(void **state)
{
    (void)state;
    assert_true(filters("a.b.c", "[ \"$$this.k\", [ \"a\", \"a.b\", \"a.b.c\" ] ]"));
    assert_true(filters("a.b.c", "{ \"$in\" : [ \"a\", \"a.b\", \"a.b.c\" ] }"));
    assert_true(filters("a.b.c", "\"fullDocument.a.b.c\" : 1"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json_of_a_value_means_the_value),
        cmocka_unit_test(test_all_else_means_itself),
        cmocka_unit_test(test_integers_beyond_64_bits_are_texts),
        cmocka_unit_test(test_what_is_one_id_has_one_name),
        cmocka_unit_test(test_integers_are_known_as_such_while_they_are_exact),
        cmocka_unit_test(test_blanks_in_texts_stay),
        cmocka_unit_test(test_a_text_that_looks_like_a_value_is_quoted),
        cmocka_unit_test(test_long_ids_have_no_name),
        cmocka_unit_test(test_ids_that_are_no_utf8_have_no_name),
        cmocka_unit_test(test_names_of_random_texts_stay),
        cmocka_unit_test(test_updated_fields_are_paths_or_parents),
        cmocka_unit_test(test_parents_of_a_path),
        cmocka_unit_test(test_a_stream_is_filtered_by_a_path_and_its_parents),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
