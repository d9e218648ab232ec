/* SPDX-License-Identifier: Apache-2.0 */
/* test_mongo_fault.c: proves what errors of driver and server mean to us: above all, that a write
 * that may have been done is unknown, never failed (R2). */
#include "unit.h"

#include "store/kernel_time.h"
#include "store/mongo/driver/command.h"
#include "store/mongo/driver/fault.h"
#include "store/mongo/driver/store.h"

static mongo_store store = {.uri = {.hosts = "db1,db2", .database = "locks"}};

static hf_code told(uint32_t domain, uint32_t code, const bson_t *reply, bool writes, hf_error *err)
{
    bson_error_t error;
    const mongo_call call = {.what = "acquiring", .name = "x", .writes = writes};
    bson_set_error(&error, domain, code, "as the driver says.");
    hf_code meaning = mongo_fault(&store, &call, &error, reply, err);
    assert_int_equal(err->code, meaning);
    return meaning;
}

static hf_code of_server(int32_t code, bool writes)
{
    hf_error err;
    bson_t *reply = BCON_NEW("ok", BCON_DOUBLE(0), "code", BCON_INT32(code));
    hf_code meaning = told(MONGOC_ERROR_SERVER, (uint32_t)code, reply, writes, &err);
    assert_int_equal(told(MONGOC_ERROR_QUERY, (uint32_t)code, NULL, writes, &err), meaning);
    bson_destroy(reply);
    return meaning;
}

static hf_code of_driver(uint32_t domain, uint32_t code, bool writes)
{
    hf_error err;
    return told(domain, code, NULL, writes, &err);
}

/* An authentication was refused a second ago. */
static void refuse_before(void)
{
    atomic_store(&store.refusal.first_ms, kernel_ms(CLOCK_MONOTONIC) - 1000);
}

/* By a server that is just starting or ending. */
static void test_only_a_second_refusal_judges(void **state)
{
    (void)state;
    mongo_refusal_forget(&store.refusal);
    assert_int_equal(of_server(18, true), HF_UNREACHABLE);
    assert_int_equal(of_driver(MONGOC_ERROR_CLIENT, MONGOC_ERROR_CLIENT_AUTHENTICATE, true),
                     HF_UNREACHABLE);
    refuse_before();
    assert_int_equal(of_driver(MONGOC_ERROR_CLIENT, MONGOC_ERROR_CLIENT_AUTHENTICATE, true),
                     HF_DENIED);
    mongo_refusal_forget(&store.refusal);
    assert_int_equal(of_server(13, true), HF_DENIED); /* that server is at work */
}

static void test_a_refusal_is_told_within_a_second_and_forgotten(void **state)
{
    (void)state;
    mongo_refusal refusal = {0};
    assert_false(mongo_refusal_judges(&refusal, 100000));
    assert_false(mongo_refusal_judges(&refusal, 100299));
    assert_true(mongo_refusal_judges(&refusal, 100300));
    assert_true(mongo_refusal_judges(&refusal, 109999));
    assert_false(mongo_refusal_judges(&refusal, 110000)); /* it begins anew */
    assert_false(mongo_refusal_judges(&refusal, 110299));
    mongo_refusal_forget(&refusal);
    assert_false(mongo_refusal_judges(&refusal, 110400));
}

static void test_a_write_that_was_interrupted_is_unknown(void **state)
{
    static const int32_t codes[] = {6,   7,   50,  64,   89,    91,    100,
                                    175, 189, 262, 9001, 11600, 11601, 11602};
    (void)state;
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        assert_int_equal(of_server(codes[i], true), HF_UNKNOWN);
        assert_int_equal(of_server(codes[i], false), HF_UNREACHABLE);
    }
    assert_int_equal(of_driver(MONGOC_ERROR_STREAM, MONGOC_ERROR_STREAM_SOCKET, true), HF_UNKNOWN);
    assert_int_equal(of_driver(MONGOC_ERROR_PROTOCOL, MONGOC_ERROR_PROTOCOL_INVALID_REPLY, true),
                     HF_UNKNOWN);
    assert_int_equal(of_driver(MONGOC_ERROR_WRITE_CONCERN, 64, true), HF_UNKNOWN);
}

static void test_what_never_began_may_be_tried_again(void **state)
{
    static const int32_t codes[] = {112, 133, 134, 10107, 13388, 13435, 13436};
    (void)state;
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        assert_int_equal(of_server(codes[i], true), HF_UNREACHABLE);
    assert_int_equal(of_driver(MONGOC_ERROR_STREAM, MONGOC_ERROR_STREAM_CONNECT, true),
                     HF_UNREACHABLE);
    assert_int_equal(of_driver(MONGOC_ERROR_STREAM, MONGOC_ERROR_STREAM_SOCKET, false),
                     HF_UNREACHABLE);
    assert_int_equal(of_driver(MONGOC_ERROR_PROTOCOL, MONGOC_ERROR_PROTOCOL_INVALID_REPLY, false),
                     HF_UNREACHABLE);
    assert_int_equal(
        of_driver(MONGOC_ERROR_SERVER_SELECTION, MONGOC_ERROR_SERVER_SELECTION_FAILURE, true),
        HF_UNREACHABLE);
    assert_int_equal(of_driver(MONGOC_ERROR_POOL, 0, true), HF_UNREACHABLE);
}

static void test_what_trying_again_does_not_mend(void **state)
{
    static const int32_t denied[] = {13, 18, 8000}, full[] = {10334, 14031, 17419, 17420};
    (void)state;
    refuse_before();
    for (size_t i = 0; i < sizeof denied / sizeof *denied; i++)
        assert_int_equal(of_server(denied[i], true), HF_DENIED);
    for (size_t i = 0; i < sizeof full / sizeof *full; i++)
        assert_int_equal(of_server(full[i], true), HF_FULL);
    assert_int_equal(of_server(2, true), HF_UNUSABLE);
    assert_int_equal(
        of_driver(MONGOC_ERROR_SERVER_SELECTION, MONGOC_ERROR_PROTOCOL_BAD_WIRE_VERSION, true),
        HF_UNUSABLE);
    assert_int_equal(of_driver(MONGOC_ERROR_SERVER_SELECTION,
                               MONGOC_ERROR_SERVER_SELECTION_BAD_WIRE_VERSION, true),
                     HF_UNUSABLE);
    assert_int_equal(of_driver(MONGOC_ERROR_PROTOCOL, MONGOC_ERROR_PROTOCOL_BAD_WIRE_VERSION, true),
                     HF_UNUSABLE);
    assert_int_equal(of_driver(MONGOC_ERROR_CLIENT, MONGOC_ERROR_CLIENT_AUTHENTICATE, true),
                     HF_DENIED);
    assert_int_equal(of_driver(MONGOC_ERROR_CLIENT, MONGOC_ERROR_CLIENT_NOT_READY, true),
                     HF_UNUSABLE);
    assert_int_equal(of_driver(MONGOC_ERROR_SCRAM, 0, true), HF_DENIED);
    assert_int_equal(of_driver(MONGOC_ERROR_SASL, 0, true), HF_DENIED);
    assert_int_equal(of_driver(MONGOC_ERROR_BSON, 0, true), HF_UNUSABLE);
}

static void test_a_text_names_the_place_the_lock_and_the_remedy(void **state)
{
    (void)state;
    refuse_before();
    hf_error err;
    told(MONGOC_ERROR_SCRAM, 0, NULL, true, &err);
    assert_string_equal(err.text,
                        "mongodb at db1,db2, database locks: acquiring \"x\" failed: as "
                        "the driver says; check user, password and authSource, and give the user "
                        "readWrite on this database");
}

static const char *sharding_text(uint32_t domain, uint32_t number, bool is_beat)
{
    static mongo_store sharding = {
        .uri = {.hosts = "db", .database = "d", .protocol = MONGO_SHARDING, .command_ms = 1500}};
    static hf_error err;
    bson_error_t error;
    const mongo_call call = {.what = "acquiring", .name = "x", .writes = true, .is_beat = is_beat};
    bool is_of_server = domain == MONGOC_ERROR_SERVER;
    bson_t *reply = BCON_NEW("ok", BCON_DOUBLE(0), "code", BCON_INT32((int32_t)number));
    bson_set_error(&error, domain, number, "no.");
    mongo_fault(&sharding, &call, &error, is_of_server ? reply : NULL, &err);
    bson_destroy(reply);
    return err.text;
}

/* Of protocol sharding it can be set, and of no other. */
static void test_what_may_be_late_names_the_key_of_its_limit(void **state)
{
    (void)state;
    hf_error err;
    const char *limit = "look (a command may take 1500 ms: hfCommandMS)";
    assert_non_null(strstr(sharding_text(MONGOC_ERROR_SERVER, 50, false), limit));
    assert_non_null(strstr(sharding_text(MONGOC_ERROR_SERVER, 64, false), limit));
    assert_non_null(
        strstr(sharding_text(MONGOC_ERROR_STREAM, MONGOC_ERROR_STREAM_SOCKET, false), limit));
    assert_null(strstr(sharding_text(MONGOC_ERROR_SERVER, 50, true), "hfCommandMS"));
    assert_null(strstr(sharding_text(MONGOC_ERROR_SERVER, 91, false), "hfCommandMS"));
    assert_null(strstr(sharding_text(MONGOC_ERROR_STREAM, MONGOC_ERROR_STREAM_CONNECT, false),
                       "hfCommandMS"));
    told(MONGOC_ERROR_STREAM, MONGOC_ERROR_STREAM_SOCKET, NULL, true, &err);
    assert_null(strstr(err.text, "hfCommandMS"));
}

static void assert_worded(const char *message, const char *as)
{
    hf_error err;
    bson_error_t error;
    char text[600];
    const mongo_call call = {.what = "trying"};
    bson_set_error(&error, MONGOC_ERROR_BSON, 1, "%s", message);
    mongo_fault(&store, &call, &error, NULL, &err);
    snprintf(text, sizeof text,
             "mongodb at db1,db2, database locks: trying failed: %s; see the server's log", as);
    assert_string_equal(err.text, text);
}

/* Some end with a full stop, quote the whole command, or are long. */
static void test_what_a_text_has_of_a_message(void **state)
{
    (void)state;
    char one[162], all[300], cut[200];
    memset(one, 'x', sizeof one);
    one[160] = '\0';
    memset(all, 'x', sizeof all);
    all[299] = '\0';
    assert_worded("no. : ", "no");
    assert_worded("...", "");
    assert_worded("", "");
    assert_worded("no such command: {find: 1}", "no such command");
    assert_worded("{find: 1}", "");
    assert_worded(one, one);
    snprintf(cut, sizeof cut, "%s ...", one);
    assert_worded(all, cut);
    all[100] = all[200] = ' ';
    snprintf(cut, sizeof cut, "%.100s ...", one);
    assert_worded(all, cut);
    all[160] = ' ';
    snprintf(cut, sizeof cut, "%.160s ...", all);
    assert_worded(all, cut);
}

static hf_code of_reply(int32_t number)
{
    hf_error err;
    const mongo_call call = {.what = "waking", .writes = true};
    mongo_reply reply = {.doc = BSON_INITIALIZER};
    BCON_APPEND(&reply.doc, "writeErrors", "[", "{", "code", BCON_INT32(number), "}", "]");
    hf_code code = mongo_write_fault(&store, &call, &reply, &err);
    assert_int_equal(reply.server_code, number);
    bson_destroy(&reply.doc);
    return code;
}

static void test_errors_of_writes_inside_a_reply(void **state)
{
    (void)state;
    assert_int_equal(of_reply(91), HF_UNKNOWN);
    assert_int_equal(of_reply(112), HF_UNREACHABLE);
    assert_int_equal(of_reply(11000), HF_UNUSABLE);
}

static void test_errors_that_stand_inside_a_reply(void **state)
{
    (void)state;
    hf_error err;
    const mongo_call call = {.what = "waking", .writes = true};
    mongo_reply reply = {.doc = BSON_INITIALIZER};
    assert_int_equal(mongo_write_fault(&store, &call, &reply, &err), HF_OK);
    BCON_APPEND(&reply.doc, "writeErrors", "[", "{", "code", BCON_INT32(13), "errmsg", "no", "}",
                "]");
    assert_int_equal(mongo_write_fault(&store, &call, &reply, &err), HF_DENIED);
    assert_int_equal(reply.server_code, 13);
    bson_reinit(&reply.doc);
    BCON_APPEND(&reply.doc, "writeConcernError", "{", "code", BCON_INT32(64), "}");
    assert_int_equal(mongo_write_fault(&store, &call, &reply, &err), HF_UNKNOWN);
    assert_non_null(strstr(err.text, "not acknowledged by a majority: no message"));
    bson_destroy(&reply.doc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_a_second_refusal_judges),
        cmocka_unit_test(test_a_refusal_is_told_within_a_second_and_forgotten),
        cmocka_unit_test(test_a_write_that_was_interrupted_is_unknown),
        cmocka_unit_test(test_what_never_began_may_be_tried_again),
        cmocka_unit_test(test_what_trying_again_does_not_mend),
        cmocka_unit_test(test_a_text_names_the_place_the_lock_and_the_remedy),
        cmocka_unit_test(test_what_may_be_late_names_the_key_of_its_limit),
        cmocka_unit_test(test_what_a_text_has_of_a_message),
        cmocka_unit_test(test_errors_of_writes_inside_a_reply),
        cmocka_unit_test(test_errors_that_stand_inside_a_reply),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
