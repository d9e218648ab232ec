/* SPDX-License-Identifier: Apache-2.0 */
/* test_mongo_reply.c: what is found in a reply by its path: a value of another type is none. */
#include "core/id.h"
#include "unit.h"

#include "store/mongo/driver/reply.h"
#include "store/mongo/driver/text.h"

static bson_t *doc;

static int begin(void **state)
{
    (void)state;
    doc = pipeline_json(
        "{'int': 5, 'long': {'$numberLong': '-9223372036854775808'}, 'double': 7.9,"
        " 'nan': {'$numberDouble': 'NaN'}, 'most': {'$numberDouble': 'Infinity'},"
        " 'least': {'$numberDouble': '-Infinity'}, 'large': 9.1e18, 'small': -9.1e18,"
        " 'edge': 9.2e18, 'low edge': -9.2e18, 'beyond': 9.3e18, 'below': -9.3e18,"
        " 'text': 'x', 'null': null, 'true': true, 'date': {'$date': {'$numberLong': '-5'}},"
        " 'stamp': {'$timestamp': {'t': 7, 'i': 3}}, 'id': {'$oid': '000000070000000000000000'},"
        " 'in': {'list': [{'a': 1}, {'b': 2}, 3, {'c': 4}], 'int': 6}}");
    return 0;
}

static int end(void **state)
{
    (void)state;
    bson_destroy(doc);
    return 0;
}

static int64_t number(const char *path)
{
    return mongo_int_at(doc, path, 99);
}

static void test_numbers(void **state)
{
    (void)state;
    static const char *const none[] = {"nan",   "most", "least", "edge",    "low edge", "beyond",
                                       "below", "text", "null",  "true",    "date",     "stamp",
                                       "id",    "in",   "gone",  "in.list", "int.a"};
    assert_int_equal(number("int"), 5);
    assert_true(number("long") == INT64_MIN);
    assert_int_equal(number("double"), 7);
    assert_true(number("large") == (int64_t)9.1e18);
    assert_true(number("small") == (int64_t)-9.1e18);
    assert_int_equal(number("in.int"), 6);
    assert_int_equal(number("in.list.1.b"), 2);
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        if (number(none[i]) != 99)
            fail_msg("%s is %lld", none[i], (long long)number(none[i]));
}

static void test_texts(void **state)
{
    (void)state;
    assert_string_equal(mongo_text_at(doc, "text", "-"), "x");
    assert_string_equal(mongo_text_at(doc, "int", "-"), "-");
    assert_string_equal(mongo_text_at(doc, "null", "-"), "-");
    assert_string_equal(mongo_text_at(doc, "gone", "-"), "-");
    assert_null(mongo_text_at(doc, "gone", NULL));
}

static void test_dates(void **state)
{
    (void)state;
    int64_t ms = 99;
    assert_false(mongo_date_at(doc, "int", &ms));
    assert_false(mongo_date_at(doc, "gone", &ms));
    assert_int_equal(ms, 99);
    assert_true(mongo_date_at(doc, "date", &ms));
    assert_int_equal(ms, -5);
}

static void test_stamps(void **state)
{
    (void)state;
    assert_true(mongo_stamp_at(doc, "stamp").value == ((uint64_t)7 << 32 | 3));
    assert_int_equal(mongo_stamp_at(doc, "date").value, 0);
    assert_int_equal(mongo_stamp_at(doc, "gone").value, 0);
}

static void test_ids(void **state)
{
    (void)state;
    hf_id id = id_of(1);
    assert_false(mongo_id_at(doc, "text", &id));
    assert_false(mongo_id_at(doc, "gone", &id));
    assert_true(id_equal(id, id_of(1)));
    assert_true(mongo_id_at(doc, "id", &id));
    assert_true(id_equal(id, id_of(7)));
}

static void test_parts(void **state)
{
    (void)state;
    bson_t part;
    assert_true(mongo_view(doc, "in", &part));
    assert_int_equal(mongo_int_at(&part, "int", 0), 6);
    assert_true(mongo_view(doc, "in.list", &part));
    assert_int_equal(mongo_int_at(&part, "1.b", 0), 2);
    assert_true(mongo_view(doc, "in.list.3", &part));
    assert_int_equal(mongo_int_at(&part, "c", 0), 4);
    assert_false(mongo_view(doc, "int", &part));
    assert_false(mongo_view(doc, "text", &part));
    assert_false(mongo_view(doc, "gone", &part));
}

/* One that is no document ends it. */
static void test_batches(void **state)
{
    (void)state;
    bson_t batch, one;
    bson_iter_t it;
    assert_true(mongo_view(doc, "in.list", &batch) && bson_iter_init(&it, &batch));
    assert_true(mongo_next(&it, &one));
    assert_int_equal(mongo_int_at(&one, "a", 0), 1);
    assert_true(mongo_next(&it, &one));
    assert_int_equal(mongo_int_at(&one, "b", 0), 2);
    assert_false(mongo_next(&it, &one));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_numbers), TEST(test_texts), TEST(test_dates),   TEST(test_stamps),
        TEST(test_ids),     TEST(test_parts), TEST(test_batches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
