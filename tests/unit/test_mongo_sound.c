/* SPDX-License-Identifier: Apache-2.0 */
/* test_mongo_sound.c: which replies the driver is given, and which would end the process in it. */
#include "unit.h"

#include "store/mongo/driver/sound.h"
#include "store/mongo/driver/text.h"

#include <string.h>

enum {
    HEAD = 17,
    OLD_HEAD = 32,
    OPCODE = 8,
    FLAGS = 12,
    KIND = 16
}; /* without the length of the message */

static uint8_t message[1000];
static size_t size; /* of it */

static void put_number(size_t at, uint32_t number)
{
    number = BSON_UINT32_TO_LE(number);
    memcpy(message + at, &number, sizeof number);
}

static void answer_with(const char *json)
{
    bson_t *body = pipeline_json(json);
    memset(message, 0, sizeof message);
    put_number(OPCODE, MONGO_OP_MSG);
    memcpy(message + HEAD, bson_get_data(body), body->len);
    size = HEAD + body->len;
    bson_destroy(body);
}

static bool is_sound(void)
{
    return mongo_reply_is_sound(message, size, true);
}

static bool is_sound_with(const char *json)
{
    answer_with(json);
    return is_sound();
}

/* Where these bytes begin in the message. */
static uint8_t *find(const char *bytes)
{
    return memmem(message, size, bytes, strlen(bytes) + 1);
}

static void test_what_servers_send(void **state)
{
    (void)state;
    assert_true(is_sound_with("{}"));
    assert_true(
        is_sound_with("{'ok': 1, 'n': 1, 'writeConcernError': {'code': 64, 'errmsg': 'slow'}}"));
    assert_true(
        is_sound_with("{'cursor': {'id': 0, 'ns': 'app.locks', 'firstBatch': [{'_id': 'x'}, {}]},"
                      " 'ok': 1}"));
    assert_true(is_sound_with("{'ok': 0, 'errmsg': 'no', 'code': 1, 'errorLabels': ['a']}"));
    put_number(FLAGS, 1u << 16); /* a flag that need not be known */
    assert_true(is_sound());
}

static void test_a_write_concern_error_that_is_no_document(void **state)
{
    (void)state;
    assert_false(is_sound_with("{'ok': 1, 'writeConcernError': 'slow'}"));
    assert_false(is_sound_with("{'ok': 1, 'writeConcernError': 64}"));
    assert_false(is_sound_with("{'ok': 1, 'writeConcernError': null}"));
    assert_true(is_sound_with("{'ok': 1, 'writeConcernError': []}"));
}

static void test_an_error_without_a_number(void **state)
{
    (void)state;
    assert_false(is_sound_with("{'ok': 0, 'code': 0}"));
    assert_false(is_sound_with("{'ok': 1, 'code': 1e300}"));
    assert_false(is_sound_with("{'ok': 1, 'code': {'$numberLong': '4294967296'}}"));
    assert_false(is_sound_with("{'ok': 1, 'writeConcernError': {'code': 0}}"));
    assert_true(is_sound_with("{'ok': 0, 'code': 11000.0}"));
    assert_true(is_sound_with("{'ok': 0, 'code': 'x'}"));
}

static void test_an_odd_hello(void **state)
{
    (void)state;
    assert_true(is_sound_with("{'ok': 1, 'compression': ['zlib']}"));
    assert_true(is_sound_with("{'ok': 1, 'speculativeAuthenticate': {}}"));
    assert_false(is_sound_with("{'ok': 1, 'compression': [5]}"));
    assert_false(is_sound_with("{'ok': 1, 'speculativeAuthenticate': 5}"));
}

static void answer_as_of_old(const char *json)
{
    bson_t *body = pipeline_json(json);
    memset(message, 0, sizeof message);
    put_number(OPCODE, 1);
    put_number(OLD_HEAD - 4, 1); /* one document */
    memcpy(message + OLD_HEAD, bson_get_data(body), body->len);
    size = OLD_HEAD + body->len;
    bson_destroy(body);
}

/* The first question of a connection is asked so. */
static void test_an_older_message_answers_a_hello_only(void **state)
{
    (void)state;
    answer_as_of_old("{'ok': 1, 'ismaster': true}");
    assert_true(mongo_reply_is_sound(message, size, false));
    assert_false(mongo_reply_is_sound(message, size, true));
    assert_false(mongo_reply_is_sound(message, size - 1, false));
    answer_as_of_old("{'ok': 1, 'compression': [5]}");
    assert_false(mongo_reply_is_sound(message, size, false));
}

static void test_a_cursor_whose_collection_is_no_text(void **state)
{
    (void)state;
    assert_false(is_sound_with("{'cursor': {'id': 0, 'ns': 5, 'firstBatch': []}, 'ok': 1}"));
    assert_true(is_sound_with("{'cursor': 5, 'ok': 1}"));
}

static void test_another_kind_of_message(void **state)
{
    (void)state;
    answer_with("{'ok': 1}");
    put_number(OPCODE, 1); /* the answer to an older question */
    assert_false(is_sound());
    put_number(OPCODE, 2012); /* compressed, which was not asked for */
    assert_false(is_sound());
    put_number(OPCODE, MONGO_OP_MSG);
    put_number(FLAGS, 2); /* more is to come */
    assert_false(is_sound());
    put_number(FLAGS, 0);
    message[KIND] = 1; /* a row of documents */
    assert_false(is_sound());
}

static void test_a_size_that_is_not_right(void **state)
{
    (void)state;
    answer_with("{'ok': 1}");
    size--;
    assert_false(is_sound());
    size += 2; /* as if another part came behind */
    assert_false(is_sound());
    size = HEAD;
    assert_false(is_sound());
    size = 0;
    assert_false(is_sound());
}

/* The driver takes for granted that what holds the cluster's time, or a document of a batch, ends.
 */
static void test_a_document_without_its_end(void **state)
{
    (void)state;
    answer_with("{'ok': 1, 'time': {'a': 'end'}}");
    find("end")[4] = 1;
    assert_false(is_sound());
    answer_with("{'cursor': {'id': 0, 'ns': 'a.b', 'firstBatch': [{'a': 'end'}]}, 'ok': 1}");
    find("end")[4] = 1;
    assert_false(is_sound());
    answer_with("{'ok': 1, 'text': 'end'}");
    find("text")[5] = 200; /* the length of the text */
    assert_false(is_sound());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_servers_send),
        cmocka_unit_test(test_a_write_concern_error_that_is_no_document),
        cmocka_unit_test(test_an_error_without_a_number),
        cmocka_unit_test(test_an_odd_hello),
        cmocka_unit_test(test_an_older_message_answers_a_hello_only),
        cmocka_unit_test(test_a_cursor_whose_collection_is_no_text),
        cmocka_unit_test(test_another_kind_of_message),
        cmocka_unit_test(test_a_size_that_is_not_right),
        cmocka_unit_test(test_a_document_without_its_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
