/* SPDX-License-Identifier: Apache-2.0 */
/* test_lock_id.c: tickets as lockIds of each type, and what other programs write. */
#include "store/mongo/document/lock_id.h"
#include "store/mongo/driver/builder.h"
#include "unit/unit.h"

static const hf_id ticket = {
    {0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b}};
static const mongo_uri uris[] = {
    {.lock_id_type = MONGO_LOCK_ID_OBJECT_ID},
    {.lock_id_type = MONGO_LOCK_ID_UUID},
    {.lock_id_type = MONGO_LOCK_ID_UUID_LEGACY},
    {.lock_id_type = MONGO_LOCK_ID_STRING},
};

static bson_t doc;
static bson_iter_t value;

static int begin(void **state)
{
    (void)state;
    bson_init(&doc);
    return 0;
}

static int end(void **state)
{
    (void)state;
    bson_destroy(&doc);
    return 0;
}

static const bson_iter_t *find(void)
{
    assert_true(bson_iter_init_find(&value, &doc, "lockId"));
    return &value;
}

static void write_as(const mongo_uri *uri)
{
    bson_reinit(&doc);
    mongo_lock_id_append(uri, &doc, "lockId", ticket);
}

static const char *text(void)
{
    static char out[MONGO_LOCK_ID_TEXT];
    mongo_lock_id_text(find(), out);
    return out;
}

static void give_binary(bson_subtype_t subtype, const char *bytes, uint32_t size)
{
    bson_reinit(&doc);
    bson_append_binary(&doc, "lockId", -1, subtype, (const uint8_t *)bytes, size);
}

/* ---- Ours ---- */

static void test_what_was_written_is_read(void **state)
{
    (void)state;
    mongo_lock_id id;
    for (size_t i = 0; i < 4; i++)
        for (size_t j = 0; j < 4; j++) {
            write_as(&uris[i]);
            bool is_one = i < 3 || j == 3;
            assert_int_equal(mongo_lock_id_is_one(&uris[j], find()), is_one);
            assert_int_equal(mongo_lock_id_read(&uris[j], find(), &id), is_one);
            if (!is_one)
                continue;
            assert_memory_equal(id.ticket.bytes, ticket.bytes, sizeof ticket.bytes);
            assert_true(id.is_exact);
            assert_int_equal(id.is_our_type, i == j);
        }
}

static void test_how_they_look(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "000102030405060708090a0b", "00010203-0405-8666-8000-060708090a0b",
        "00010203-0405-8666-8000-060708090a0b", "000102030405060708090a0b"};
    for (size_t i = 0; i < 4; i++) {
        write_as(&uris[i]);
        assert_string_equal(text(), texts[i]);
    }
}

/* As .NET writes it. */
static void test_a_legacy_uuid_has_its_first_groups_backwards(void **state)
{
    (void)state;
    static const uint8_t bytes[] = {0x03, 0x02, 0x01, 0x00, 0x05, 0x04, 0x66, 0x86,
                                    0x80, 0x00, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b};
    bson_subtype_t subtype;
    uint32_t size;
    const uint8_t *data;
    write_as(&uris[MONGO_LOCK_ID_UUID_LEGACY]);
    bson_iter_binary(find(), &subtype, &size, &data);
    assert_int_equal(subtype, 3);
    assert_int_equal(size, sizeof bytes);
    assert_memory_equal(data, bytes, sizeof bytes);
}

/* ---- Others' ---- */

static void assert_foreign(const mongo_uri *uri, bool is_our_type)
{
    mongo_lock_id id, again;
    assert_true(mongo_lock_id_read(uri, find(), &id));
    assert_false(id.is_exact);
    assert_int_equal(id.is_our_type, is_our_type);
    assert_true(mongo_lock_id_read(uri, find(), &again));
    assert_memory_equal(id.ticket.bytes, again.ticket.bytes, sizeof again.ticket.bytes);
}

static void test_a_foreign_uuid_is_known_by_its_hash(void **state)
{
    (void)state;
    mongo_lock_id one, other;
    give_binary(BSON_SUBTYPE_UUID, "0123456789abcdef", 16);
    assert_foreign(&uris[MONGO_LOCK_ID_UUID], true);
    assert_foreign(&uris[MONGO_LOCK_ID_OBJECT_ID], false);
    assert_string_equal(text(), "30313233-3435-3637-3839-616263646566");
    mongo_lock_id_read(&uris[MONGO_LOCK_ID_UUID], find(), &one);
    give_binary(BSON_SUBTYPE_UUID, "0123456789abcdeg", 16);
    mongo_lock_id_read(&uris[MONGO_LOCK_ID_UUID], find(), &other);
    assert_memory_not_equal(one.ticket.bytes, other.ticket.bytes, sizeof other.ticket.bytes);
    give_binary(BSON_SUBTYPE_UUID_DEPRECATED, "0123456789abcdef", 16);
    assert_foreign(&uris[MONGO_LOCK_ID_UUID_LEGACY], true);
    assert_string_equal(text(), "33323130-3534-3736-3839-616263646566");
}

static void test_texts_are_lock_ids_only_where_the_uri_says_so(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "somebody", "000102030405060708090a0g",
                                        "000102030405060708090a0b0"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        bson_reinit(&doc);
        BSON_APPEND_UTF8(&doc, "lockId", texts[i]);
        assert_foreign(&uris[MONGO_LOCK_ID_STRING], true);
        assert_string_equal(text(), texts[i]);
        for (size_t j = 0; j < 3; j++)
            assert_false(mongo_lock_id_is_one(&uris[j], find()));
    }
}

static void test_a_long_text_is_cut_for_people(void **state)
{
    (void)state;
    char long_text[200];
    memset(long_text, 'x', sizeof long_text);
    long_text[199] = '\0';
    BSON_APPEND_UTF8(&doc, "lockId", long_text);
    assert_int_equal(strlen(text()), MONGO_LOCK_ID_TEXT - 1);
}

static void test_what_is_none(void **state)
{
    (void)state;
    mongo_lock_id id;
    for (size_t i = 0; i < 4; i++) {
        give_binary(BSON_SUBTYPE_UUID, "0123456789abcde", 15);
        assert_false(mongo_lock_id_read(&uris[i], find(), &id));
        give_binary(BSON_SUBTYPE_BINARY, "0123456789abcdef", 16);
        assert_false(mongo_lock_id_read(&uris[i], find(), &id));
        bson_reinit(&doc);
        BSON_APPEND_INT32(&doc, "lockId", 5);
        assert_false(mongo_lock_id_read(&uris[i], find(), &id));
    }
}

/* ---- The test ---- */

static void test_each_type_has_its_test(void **state)
{
    (void)state;
    static const char *const parts[] = {"'objectId'", "'subType': '04'", "'subType': '03'",
                                        "'string'"};
    for (size_t i = 0; i < 4; i++) {
        mongo_builder out = builder_begin("");
        mongo_lock_id_append_test(&uris[i], &out, "$a.b");
        assert_non_null(strstr(out.text, parts[i]));
        assert_non_null(strstr(out.text, "'$a.b'"));
        builder_done(&out);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_what_was_written_is_read),
        TEST(test_how_they_look),
        TEST(test_a_legacy_uuid_has_its_first_groups_backwards),
        TEST(test_a_foreign_uuid_is_known_by_its_hash),
        TEST(test_texts_are_lock_ids_only_where_the_uri_says_so),
        TEST(test_a_long_text_is_cut_for_people),
        TEST(test_what_is_none),
        TEST(test_each_type_has_its_test),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
