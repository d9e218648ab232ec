/* SPDX-License-Identifier: Apache-2.0 */
/* test_mongo_documents.c: protocol document: what the user's documents say of a lock, and what the
 * store makes of each answer to a taking, a claim and a beat. */
#include "core/id.h"
#include "core/record.h"
#include "faults/mongo_answers.h"

#define KEYS "&hfProtocol=document&hfCollection=things&hfTokenField=fence&hfRefreshMS=4000"
#define US "000000070000000000000000"
#define OID(id) "{'$oid': '" id "'}"
#define DATE(ms) "{'$date': {'$numberLong': '" ms "'}}"
#define GUID(subtype, bytes) "{'$binary': {'base64': '" bytes "', 'subType': '" subtype "'}}"
#define BYTES_16 "AAECAwQFBgcICQoLDA0ODw=="
#define BYTES_15 "AAECAwQFBgcICQoLDA0O"

static mongo_store *store;

static int begin(void **state)
{
    (void)state;
    hf_error err;
    hf_session self = {.id = id_of(1), .app = "app", .host = "here", .pid = 5};
    store = answers_open(KEYS);
    return (int)store->base.ops->session_begin(&store->base, &self, &err);
}

static int begin_fair(void **state)
{
    (void)state;
    hf_error err;
    hf_session self = {.id = id_of(1), .app = "app", .host = "here", .pid = 5};
    store = answers_open("&hfProtocol=document&hfCollection=things&hfFair=1");
    return (int)store->base.ops->session_begin(&store->base, &self, &err);
}

static int end(void **state)
{
    (void)state;
    answers_close(store);
    return 0;
}

/* ---- Reading ---- */

static hf_code read_as(const char *json, hf_record *out, hf_error *err)
{
    bson_t *doc = pipeline_json(json);
    record_init(out, "");
    hf_code code = mongo_document_read(store, doc, out, err);
    bson_destroy(doc);
    return code;
}

static void assert_odd(const char *hf, const char *says)
{
    char json[300];
    hf_record record;
    hf_error err;
    snprintf(json, sizeof json, "{'_id': 'a', 'hf': {%s}}", hf);
    assert_int_equal(read_as(json, &record, &err), HF_SHAPE);
    if (!strstr(err.text, says) || !strstr(err.text, "things, _id a: "))
        fail_msg("%s: %s", json, err.text);
    record_done(&record);
}

static void test_documents_of_another_shape_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *hf, *says;
    } odd[] = {
        {"'odd': 'meta'", "field meta: expected an object, or nothing"},
        {"'lock': 5, 'time': " DATE("5"), "field lockId: expected an ObjectId, a UUID, or null"},
        {"'lock': 'x'", "field lockId: expected an ObjectId, a UUID, or null"},
        {"'lock': " GUID("04", BYTES_15) ", 'time': " DATE("5"), "field lockId: expected an Obj"},
        {"'lock': " GUID("00", BYTES_16) ", 'time': " DATE("5"), "field lockId: expected an Obj"},
        {"'lock': " OID(US), "field lockTs: expected a date, as it is locked"},
        {"'lock': " OID(US) ", 'time': null", "field lockTs: expected a date, as it is locked"},
        {"'lock': " OID(US) ", 'time': 5", "field lockTs: expected a date, as it is locked"},
        {"'time': 5", "field lockTs: expected a date, or null"},
        {"'lock': null, 'time': 'x'", "field lockTs: expected a date, or null"},
        {"'token': 'x'", "field fence: expected a whole number"},
        {"'token': 1.5", "field fence: expected a whole number"},
        {"'token': -1.5", "field fence: expected a whole number"},
        {"'token': {'$numberDouble': 'NaN'}", "field fence: expected a whole number"},
        {"'token': {'$numberDouble': '-Infinity'}", "field fence: expected a whole number"},
        {"'token': 1e300", "field fence: expected a whole number"},
        {"'token': {'$numberLong': '9223372036854775807'}", "field fence: expected a whole number"},
        {"'token': {'$numberLong': '9007199254740992'}", "field fence: expected a whole number"},
        {"'token': {'$numberLong': '-9007199254740992'}", "field fence: expected a whole number"},
    };
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
        assert_odd(odd[i].hf, odd[i].says);
}

static void test_a_setting_that_takes_such_documents_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *hf, *says;
    } odd[] = {{"'lock': 'x'", "hfLockIdType=string accepts it"},
               {"'lock': 5", "correct it, or name other fields"},
               {"'lock': " OID(US), "hfNoTimeMeans=stale accepts it"},
               {"'lock': " OID(US) ", 'time': 5", "correct it, or name other fields"}};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
        assert_odd(odd[i].hf, odd[i].says);
}

static void test_documents_that_nobody_holds(void **state)
{
    (void)state;
    static const char *const free_ones[] = {
        "{'_id': 'a'}",
        "{'_id': 'a', 'hf': {}}",
        "{'_id': 'a', 'hf': {'lock': null, 'time': null, 'token': null, 'odd': null}}",
        "{'_id': 'a', 'hf': {'time': " DATE("5") "}}",
        "{'_id': 'a', 'hf': {'token': 0.0}}",
    };
    for (size_t i = 0; i < sizeof free_ones / sizeof *free_ones; i++) {
        hf_record record;
        hf_error err;
        assert_int_equal(read_as(free_ones[i], &record, &err), HF_OK);
        assert_true(record.exists);
        assert_string_equal(record.name, "a");
        assert_int_equal(record.limit, HF_LIMIT_RW);
        assert_int_equal(record.holders, 0);
        assert_int_equal(record.token, 0);
        record_done(&record);
    }
}

static void read_held(const char *lock, hf_record *out)
{
    char json[300];
    hf_error err;
    snprintf(json, sizeof json,
             "{'_id': 'a', 'hf': {'lock': %s, 'time': " DATE("5") ", 'token': 9, 'left': 77}}",
             lock);
    assert_int_equal(read_as(json, out, &err), HF_OK);
    assert_int_equal(out->holders, 1);
    assert_int_equal(out->token, 9);
    assert_int_equal(out->entries[0].token, 9);
    assert_int_equal(out->entries[0].permits, HF_LIMIT_RW);
    assert_int_equal(out->entries[0].ttl_ms, mongo_document_stale_ms(&store->uri));
}

static void test_an_id_says_whose_it_is_and_since_when(void **state)
{
    (void)state;
    hf_record record;
    read_held(OID(US), &record);
    assert_true(id_equal(record.entries[0].ticket, id_of(7)));
    assert_true(id_equal(record.entries[0].session, id_of(7)));
    assert_int_equal(record.entries[0].since.ms, 7000);
    assert_int_equal(record.entries[0].granted_at.ms, 7000);
    assert_int_equal(record.lease_left_ms, 77);
    assert_string_equal(record.who, "lockId " US);
    record_done(&record);
}

static void test_of_ours_more_is_known(void **state)
{
    (void)state;
    hf_record record;
    mongo_held_add(store, "a", id_of(7));
    read_held(OID(US), &record);
    assert_true(id_equal(record.entries[0].session, id_of(1)));
    assert_string_equal(record.who, "app@here:5");
    record_done(&record);
}

/* They are held for as long as their program says, and do not tell since when. */
static void test_guids_of_the_article_are_held(void **state)
{
    (void)state;
    static const char *const guids[] = {GUID("03", BYTES_16), GUID("04", BYTES_16)};
    for (size_t i = 0; i < 2; i++) {
        hf_record record;
        read_held(guids[i], &record);
        assert_int_equal(record.lease_left_ms, 0);
        assert_int_equal(record.entries[0].since.ms, 0);
        assert_int_equal(record.entries[0].granted_at.ms, 0);
        assert_true(id_equal(record.entries[0].session, record.entries[0].ticket));
        assert_false(id_is_zero(record.entries[0].ticket));
        record_done(&record);
    }
}

static void test_two_guids_are_two_holders(void **state)
{
    (void)state;
    hf_record one, other;
    read_held(GUID("04", BYTES_16), &one);
    read_held(GUID("04", "AAECAwQFBgcICQoLDA0OEA=="), &other);
    assert_false(id_equal(one.entries[0].ticket, other.entries[0].ticket));
    record_done(&one);
    record_done(&other);
}

/* ---- What the URI may say ---- */

static hf_code check(const char *lock, const char *time, const char *token, int64_t ttl_ms)
{
    hf_error err;
    char l[20], t[20], f[20];
    mongo_uri uri = store->uri;
    snprintf(l, sizeof l, "%s", lock);
    snprintf(t, sizeof t, "%s", time);
    snprintf(f, sizeof f, "%s", token ? token : "");
    uri.lock_field = l;
    uri.time_field = t;
    uri.token_field = token ? f : NULL;
    return mongo_document_check(&uri, ttl_ms, &err);
}

static void test_fields_must_not_overlap(void **state)
{
    (void)state;
    static const char *const bad[][3] = {
        {"a", "a", NULL}, {"a", "a.b", NULL}, {"a.b", "a", NULL}, {"a", "b", "a"},
        {"a", "b", "b"},  {"a", "b", "b.c"},  {"a.b", "c", "a"},  {"a.b", "a.b", "c"},
    };
    static const char *const good[][3] = {{"a", "b", NULL},  {"a", "ab", NULL},
                                          {"ab", "a", NULL}, {"a.b", "a.c", "a.d"},
                                          {"a", "b", "c"},   {"a.b", "a.bc", NULL}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(check(bad[i][0], bad[i][1], bad[i][2], 1000), HF_INVALID);
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_int_equal(check(good[i][0], good[i][1], good[i][2], 1000), HF_OK);
}

static void test_a_ttl_must_not_be_longer_than_a_document_lasts(void **state)
{
    (void)state;
    int64_t stale_ms = mongo_document_stale_ms(&store->uri);
    assert_int_equal(stale_ms, 4000 * store->uri.multiplier);
    assert_int_equal(check("a", "b", NULL, stale_ms), HF_OK);
    assert_int_equal(check("a", "b", NULL, stale_ms + 1), HF_INVALID);
}

/* ---- Beats ---- */

static hf_session_state beat(hf_code expected)
{
    hf_error err;
    hf_session_state out;
    memset(&out, 5, sizeof out);
    assert_int_equal(
        store->base.ops->session_beat(&store->base, id_of(1), &(hf_beat){0}, &out, &err), expected);
    assert_true(id_equal(out.session.id, id_of(1)));
    assert_int_equal(out.presence, HF_LIVE);
    assert_false(out.is_gone);
    assert_int_equal(out.n_asked, 0);
    return out;
}

static void test_a_beat_that_has_nothing_to_renew_sends_nothing(void **state)
{
    (void)state;
    assert_false(beat(HF_OK).misses);
    assert_int_equal(answers_sent("update"), 0);
}

static void test_a_beat_says_whether_all_was_there(void **state)
{
    (void)state;
    mongo_held_add(store, "a", id_of(7));
    mongo_held_add(store, "b", id_of(8));
    answers_give("update", "{'ok': 1, 'n': 2}");
    assert_false(beat(HF_OK).misses);
    answers_give("update", "{'ok': 1, 'n': 1}");
    assert_true(beat(HF_OK).misses);
    answers_give("update", "{'ok': 1, 'n': 0}");
    assert_true(beat(HF_OK).misses);
    answers_give("update", NULL);
    beat(HF_UNKNOWN);
    const char *sent = answers_last("update");
    assert_non_null(strstr(sent, "'multi' : true"));
    assert_non_null(strstr(sent, "'_id' : { '$in' : [ 'b', 'a' ] }"));
    assert_non_null(strstr(sent, "'u' : [ { '$set' : { 'lockTs' : '$$NOW' } } ]"));
}

static hf_code refresh(hf_error *err)
{
    return store->base.ops->refresh(&store->base, "a", id_of(7), err);
}

static void test_a_refresh_says_what_is_lost(void **state)
{
    (void)state;
    hf_error err;
    answers_give("update", "{'ok': 1, 'n': 1}");
    assert_int_equal(refresh(&err), HF_OK);
    answers_give("update", "{'ok': 1, 'n': 0}");
    assert_int_equal(refresh(&err), HF_LOST);
    answers_give("update", NULL);
    assert_int_equal(refresh(&err), HF_UNKNOWN);
    answers_give("update", "{'ok': 0, 'code': 13}");
    assert_int_equal(refresh(&err), HF_DENIED);
}

/* ---- Taking ---- */

static hf_code enter(hf_record *record, hf_step_reply *reply)
{
    hf_error err;
    hf_enter in = {.entry = {.ticket = id_of(7), .session = id_of(1), .ttl_ms = 6000}};
    return store->base.ops->step(&store->base, "a", &(hf_step){.enter = &in}, record, reply, &err);
}

static bool is_held(void)
{
    return !id_equal(mongo_held_session(store, id_of(7)), id_of(7));
}

static void test_what_was_taken_is_known(void **state)
{
    (void)state;
    hf_record record;
    hf_step_reply reply;
    answers_give("findAndModify", "{'ok': 1, 'value': {'_id': 'a', 'fence': 3}}");
    assert_int_equal(enter(&record, &reply), HF_OK);
    assert_true(reply.confirmed);
    assert_int_equal(reply.again_ms, store->uri.poll_ms);
    assert_int_equal(record.token, 3);
    assert_int_equal(record.lease_left_ms, mongo_document_stale_ms(&store->uri));
    assert_true(is_held());
    record_done(&record);
}

static void take_it(void)
{
    hf_record record;
    hf_step_reply reply;
    answers_give("findAndModify", "{'ok': 1, 'value': {'_id': 'a'}}");
    assert_int_equal(enter(&record, &reply), HF_OK);
    record_done(&record);
}

static void see_another(void)
{
    hf_record record;
    hf_step_reply reply;
    answers_give("findAndModify", "{'ok': 1, 'value': null}");
    answers_give("aggregate",
                 "{'ok': 1, 'cursor': {'firstBatch': [{'_id': 'a', 'hf': {'lock': " OID(
                     "000000990000000000000000") ", 'time': " DATE("5") ", 'left': 5}}]}}");
    assert_int_equal(enter(&record, &reply), HF_OK);
    assert_int_equal(record.holders, 1);
    record_done(&record);
}

/* A document does not say whether another client of ours has locked it: it counts as another
 * program. */
static void test_after_a_turn_of_ours_others_get_theirs(void **state)
{
    (void)state;
    take_it();
    take_it();
    assert_string_equal(answers_paused(), "");
    see_another();
    take_it(); /* it may have been one of ours */
    assert_string_equal(answers_paused(), "26 ");
    take_it();
    assert_string_equal(answers_paused(), "26 26 ");
}

/* ---- Texts that are no UTF-8 ---- */

static hf_code read_taken(const bson_t *doc, hf_record *out, hf_error *err)
{
    record_init(out, "");
    return mongo_document_read_taken(store, doc, &(hf_entry){.ticket = id_of(7)}, out, err);
}

static void test_what_is_no_utf8_is_handed_over_all_the_same(void **state)
{
    (void)state;
    hf_record record;
    hf_error err;
    bson_t doc = BSON_INITIALIZER, inner;
    BSON_APPEND_INT32(&doc, "_id", 5);
    BSON_APPEND_UTF8(&doc, "name", "caf\xe9 \xc3\xa4");
    BSON_APPEND_INT32(&doc, "\xff", 1);
    BSON_APPEND_ARRAY_BEGIN(&doc, "list", &inner);
    BSON_APPEND_UTF8(&inner, "0", "\xc3");
    BSON_APPEND_BOOL(&inner, "1", true);
    bson_append_array_end(&doc, &inner);
    BSON_APPEND_DOCUMENT_BEGIN(&doc, "in", &inner);
    BSON_APPEND_CODE(&inner, "code", "\xc3");
    bson_append_document_end(&doc, &inner);
    assert_int_equal(read_taken(&doc, &record, &err), HF_OK);
    assert_string_equal(record.document,
                        "{ \"_id\" : 5, \"name\" : \"caf\xef\xbf\xbd \xc3\xa4\", "
                        "\"\xef\xbf\xbd\" : 1, \"list\" : [ \"\xef\xbf\xbd\", true ], "
                        "\"in\" : { \"code\" : \"\xef\xbf\xbd\" } }");
    record_done(&record);
    bson_destroy(&doc);
}

static void assert_unreadable(const uint8_t *data, size_t size)
{
    hf_record record;
    hf_error err;
    bson_t doc;
    assert_true(bson_init_static(&doc, data, size));
    assert_int_equal(read_taken(&doc, &record, &err), HF_SHAPE);
    assert_non_null(strstr(err.text, "things, _id 5: "));
    record_done(&record);
}

/* A boolean that is neither: no field behind it can be read. The same inside an object, at the end
 * and before another field. */
static void test_what_cannot_be_read_is_not_handed_over(void **state)
{
    (void)state;
    static const uint8_t odd[] = "\x12\0\0\0\x10_id\0\5\0\0\0\x08"
                                 "b\0\2";
    static const uint8_t inner[] = "\x1a\0\0\0\x10_id\0\5\0\0\0\x03"
                                   "d\0\x09\0\0\0\x08"
                                   "b\0\2\0";
    static const uint8_t behind[] = "\x21\0\0\0\x10_id\0\5\0\0\0\x03"
                                    "d\0\x09\0\0\0\x08"
                                    "b\0\2\0\x10"
                                    "e\0\6\0\0\0";
    assert_unreadable(odd, sizeof odd);
    assert_unreadable(inner, sizeof inner);
    assert_unreadable(behind, sizeof behind);
}

/* 513 bytes stand for all that cannot be named. */
static void test_what_cannot_be_named_is_given_back(void **state)
{
    (void)state;
    hf_record record;
    hf_step_reply reply;
    char json[700], sent[700], id[HF_NAME_MAX + 2];
    memset(id, 'x', sizeof id);
    id[HF_NAME_MAX + 1] = '\0';
    snprintf(json, sizeof json, "{'ok': 1, 'value': {'_id': '%s'}}", id);
    snprintf(sent, sizeof sent, "'q' : { '_id' : '%s', 'lockId' : ", id);
    answers_give("findAndModify", json);
    answers_give("update", "{'ok': 1, 'n': 1}");
    assert_int_equal(enter(&record, &reply), HF_SHAPE);
    assert_non_null(strstr(answers_last("update"), sent));
    assert_non_null(strstr(answers_last("update"), "'lockId' : null, 'lockTs' : null"));
    assert_false(is_held());
    record_done(&record);
}

static void test_a_taking_that_fails_is_forgotten_and_one_in_doubt_is_not(void **state)
{
    (void)state;
    hf_record record;
    hf_step_reply reply;
    answers_give("findAndModify", "{'ok': 0, 'code': 13}");
    assert_int_equal(enter(&record, &reply), HF_DENIED);
    assert_false(reply.confirmed);
    assert_false(is_held());
    answers_give("findAndModify", NULL);
    assert_int_equal(enter(&record, &reply), HF_UNKNOWN);
    assert_false(reply.confirmed);
    mongo_held_drop(store, id_of(7));
    assert_true(is_held());
}

static hf_code leave(int n, hf_step_reply *reply)
{
    hf_error err;
    hf_leave out[] = {{.ticket = id_of(7)}, {.ticket = id_of(8)}};
    hf_step step = {.leaves = out, .n_leaves = (size_t)n};
    return store->base.ops->step(&store->base, "a", &step, NULL, reply, &err);
}

static void test_a_leave_is_confirmed_when_all_were_there(void **state)
{
    (void)state;
    hf_step_reply reply;
    mongo_held_add(store, "a", id_of(7));
    answers_give("update", "{'ok': 1, 'n': 2, 'operationTime': {'$timestamp': {'t': 9, 'i': 1}}}");
    assert_int_equal(leave(2, &reply), HF_OK);
    assert_true(reply.confirmed);
    assert_int_equal(reply.stamp.value >> 32, 9);
    assert_false(is_held());
    answers_give("update", "{'ok': 1, 'n': 1}");
    assert_int_equal(leave(2, &reply), HF_OK);
    assert_false(reply.confirmed);
    answers_give("update", "{'ok': 1, 'n': 2, 'writeConcernError': {'code': 64}}");
    assert_int_equal(leave(2, &reply), HF_UNKNOWN);
    assert_false(reply.confirmed);
}

/* ---- Claims ---- */

static hf_code claim(const char *filter, const char *sort, hf_record *record, hf_error *err)
{
    hf_step_reply reply;
    hf_enter in = {.entry = {.ticket = id_of(7), .session = id_of(1), .ttl_ms = 6000}};
    hf_claim wanted = {.filter = filter, .sort = sort};
    return store->base.ops->claim(&store->base, &wanted, &in, record, &reply, err);
}

static void test_a_claim_that_is_not_understood_is_the_callers(void **state)
{
    (void)state;
    hf_error err;
    hf_record record;
    static const struct {
        const char *answer;
        hf_code code;
    } refusals[] = {
        {"{'ok': 0, 'code': 2}", HF_INVALID},  {"{'ok': 0, 'code': 9}", HF_INVALID},
        {"{'ok': 0, 'code': 14}", HF_INVALID}, {"{'ok': 0, 'code': 20}", HF_UNUSABLE},
        {"{'ok': 0, 'code': 13}", HF_DENIED},  {NULL, HF_UNKNOWN},
    };
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        answers_give("findAndModify", refusals[i].answer);
        assert_int_equal(claim(NULL, NULL, &record, &err), refusals[i].code);
        assert_int_equal(err.code, refusals[i].code);
        record_done(&record);
    }
}

static void test_a_claim_without_an_object_is_not_sent(void **state)
{
    (void)state;
    static const char *const bad[] = {"5", "[]", "'x'", "{", ""};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        hf_error err;
        hf_record record;
        assert_int_equal(claim(bad[i], NULL, &record, &err), HF_INVALID);
        assert_non_null(strstr(err.text, "the filter "));
        assert_int_equal(claim(NULL, bad[i], &record, &err), HF_INVALID);
        assert_non_null(strstr(err.text, "the sort order "));
        assert_int_equal(answers_sent("findAndModify"), 0);
        record_done(&record);
    }
}

static void test_what_was_claimed_is_renewed_by_its_name(void **state)
{
    (void)state;
    hf_error err;
    hf_record record;
    size_t n;
    answers_give("findAndModify", "{'ok': 1, 'value': {'_id': 'b', 'fence': 3}}");
    assert_int_equal(claim("{\"a\": 1}", "{\"a\": -1}", &record, &err), HF_OK);
    assert_string_equal(record.name, "b");
    record_done(&record);
    const char *sent = answers_last("findAndModify");
    assert_non_null(strstr(sent, "'$and' : [ { 'a' : 1 }, "));
    assert_non_null(strstr(sent, "'sort' : { 'a' : -1 }"));
    mongo_held *all = mongo_held_copy(store, &n);
    assert_int_equal(n, 1);
    assert_string_equal(all[0].name, "b");
    mongo_held_free_copy(all, n);
}

/* An object has no name that could be told from its size. */
static void test_a_claim_passes_by_what_cannot_be_named(void **state)
{
    (void)state;
    hf_error err;
    hf_record record;
    char json[700], passed[700], id[HF_NAME_MAX];
    memset(id, 'x', sizeof id);
    id[HF_NAME_MAX - 1] = '\0';
    snprintf(json, sizeof json, "{'ok': 1, 'value': {'_id': {'k': '%s'}}}", id);
    snprintf(passed, sizeof passed, "'$nin' : [ { 'k' : '%s' } ]", id);
    answers_give("findAndModify", json);
    answers_give("update", "{'ok': 1, 'n': 1}");
    answers_give("findAndModify", "{'ok': 1, 'value': {'_id': 'b', 'fence': 3}}");
    assert_int_equal(claim(NULL, NULL, &record, &err), HF_OK);
    assert_string_equal(record.name, "b");
    assert_non_null(strstr(answers_last("findAndModify"), passed));
    assert_true(is_held());
    record_done(&record);
}

static void test_a_claim_does_not_pass_by_for_ever(void **state)
{
    (void)state;
    hf_error err;
    hf_record record;
    char json[700], id[HF_NAME_MAX + 2];
    memset(id, 'x', sizeof id);
    id[HF_NAME_MAX + 1] = '\0';
    snprintf(json, sizeof json, "{'ok': 1, 'value': {'_id': '%s'}}", id);
    answers_give_always("findAndModify", json);
    answers_give_always("update", "{'ok': 1, 'n': 1}");
    assert_int_equal(claim(NULL, NULL, &record, &err), HF_SHAPE);
    assert_int_equal(answers_sent("findAndModify"), 101);
    assert_false(is_held());
    record_done(&record);
}

static void test_a_claim_of_nothing_leaves_nothing(void **state)
{
    (void)state;
    hf_error err;
    hf_record record;
    answers_give("findAndModify", "{'ok': 1, 'value': null}");
    answers_give("aggregate", "{'ok': 1, 'cursor': {'firstBatch': []}}");
    assert_int_equal(claim(NULL, NULL, &record, &err), HF_OK);
    assert_int_equal(record.holders, 0);
    assert_false(is_held());
    record_done(&record);
}

/* A count of what is passed by reads as much as a claim does. */
static void test_a_claim_of_nothing_counts_what_it_passes_by_once_a_minute(void **state)
{
    (void)state;
    hf_error err;
    hf_record record;
    answers_give_always("findAndModify", "{'ok': 1, 'value': null}");
    answers_give("aggregate", "{'ok': 1, 'cursor': {'firstBatch': []}}");
    answers_give("aggregate", "{'ok': 1, 'cursor': {'firstBatch': [{'n': 3, 'one': {'$binary': "
                              "{'base64': 'AAAAAAAAAAAAAAAAAAAAAA==', 'subType': '03'}}}]}}");
    for (int i = 0; i < 4; i++) {
        assert_int_equal(claim(NULL, NULL, &record, &err), HF_OK);
        record_done(&record);
        answers_pass(i < 1 ? 50000 : 20000);
    }
    assert_int_equal(answers_sent("aggregate"), 2);
    assert_non_null(strstr(answers_log(), "passed by 3 that match and are stale"));
    assert_non_null(strstr(answers_log(), "put hfLockIdType=uuidLegacy into the URI"));
    answers_pass(100000); /* it is said once */
    assert_int_equal(claim(NULL, NULL, &record, &err), HF_OK);
    assert_int_equal(answers_sent("aggregate"), 2);
    record_done(&record);
}

/* ---- Programs that refresh slowly ---- */

static int lines_logged(void)
{
    int n = 0;
    for (const char *at = answers_log(); *at; at++)
        n += *at == '\n';
    return n;
}

static void note(unsigned ticket, int64_t time_ms)
{
    mongo_document_note_refresh(store, "a", id_of(ticket), time_ms);
}

/* Expected every 4 s, looked at every second: up to 5 s may lie between two. */
static void test_a_refresh_that_comes_late_is_told(void **state)
{
    (void)state;
    store->uri.foreign_refresh_ms = 4000;
    note(7, 1000);
    note(7, 6000);
    assert_int_equal(lines_logged(), 0);
    note(7, 11001);
    assert_int_equal(lines_logged(), 1);
    assert_non_null(strstr(answers_log(), "refreshes it only every 5001 ms"));
}

static void test_between_looks_that_are_far_apart_nothing_is_known(void **state)
{
    (void)state;
    store->uri.foreign_refresh_ms = 4000;
    note(7, 1000);
    answers_pass(1000);
    note(7, 9000);
    assert_int_equal(lines_logged(), 0);
    answers_pass(999);
    note(7, 19000);
    assert_int_equal(lines_logged(), 1);
}

static void test_it_is_told_once_a_minute(void **state)
{
    (void)state;
    store->uri.foreign_refresh_ms = 4000;
    note(7, 1000);
    note(7, 9000);
    answers_pass(59999);
    note(8, 1000);
    note(8, 9000);
    assert_int_equal(lines_logged(), 1);
    answers_pass(1);
    note(9, 1000);
    note(9, 9000);
    assert_int_equal(lines_logged(), 2);
}

/* As a look shows it: 7 s after one was seen. */
static void test_a_look_notes_what_others_refresh(void **state)
{
    (void)state;
    static const char *const json[] = {
        "{'_id': 'a', 'hf': {'lock': " OID(US) ", 'time': " DATE("1000") "}}",
        "{'_id': 'a', 'hf': {'lock': " OID(US) ", 'time': " DATE("8000") "}}"};
    hf_error err;
    store->uri.foreign_refresh_ms = 4000;
    for (int i = 0; i < 4; i++) {
        hf_record record;
        if (i == 0)
            mongo_held_add(store, "a", id_of(7)); /* ours */
        if (i == 2) {
            assert_int_equal(lines_logged(), 0);
            mongo_held_drop(store, id_of(7));
        }
        assert_int_equal(read_as(json[i % 2], &record, &err), HF_OK);
        record_done(&record);
    }
    assert_int_equal(lines_logged(), 1);
    assert_non_null(
        strstr(answers_log(), "things, _id a: its holder refreshes it only every 7000"));
}

/* Beats are as many, within reason. */
static void test_how_often_ours_refresh(void **state)
{
    (void)state;
    assert_int_equal(store->base.beat_ms, 4000);
    answers_close(store);
    store = answers_open("&hfProtocol=document&hfCollection=things&hfRefreshMS=99");
    assert_int_equal(store->base.beat_ms, 100);
}

static void test_short_refreshes_are_looked_at_for_seven_tenths(void **state)
{
    (void)state;
    store->uri.foreign_refresh_ms = 400;
    note(7, 1000);
    answers_pass(699);
    note(7, 2100);
    assert_int_equal(lines_logged(), 0);
    note(7, 3201);
    assert_int_equal(lines_logged(), 1);
}

static void test_of_many_the_one_that_was_not_looked_at_for_longest_goes(void **state)
{
    (void)state;
    store->uri.foreign_refresh_ms = 4000;
    for (unsigned i = 1; i <= 32; i++) { /* MONGO_REFRESHES */
        note(i, 1000);
        answers_pass(1);
    }
    note(1, 1000);
    answers_pass(1);
    note(100, 1000); /* in the place of 2 */
    note(2, 9000);   /* in the place of 3 */
    assert_int_equal(lines_logged(), 0);
    note(1, 9000);
    assert_int_equal(lines_logged(), 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_documents_of_another_shape_are_named),
        TEST(test_a_setting_that_takes_such_documents_is_named),
        TEST(test_documents_that_nobody_holds),
        TEST(test_an_id_says_whose_it_is_and_since_when),
        TEST(test_of_ours_more_is_known),
        TEST(test_guids_of_the_article_are_held),
        TEST(test_two_guids_are_two_holders),
        TEST(test_fields_must_not_overlap),
        TEST(test_a_ttl_must_not_be_longer_than_a_document_lasts),
        TEST(test_a_beat_that_has_nothing_to_renew_sends_nothing),
        TEST(test_a_beat_says_whether_all_was_there),
        TEST(test_a_refresh_says_what_is_lost),
        TEST(test_what_was_taken_is_known),
        cmocka_unit_test_setup_teardown(test_after_a_turn_of_ours_others_get_theirs, begin_fair,
                                        end),
        TEST(test_what_is_no_utf8_is_handed_over_all_the_same),
        TEST(test_what_cannot_be_read_is_not_handed_over),
        TEST(test_what_cannot_be_named_is_given_back),
        TEST(test_a_taking_that_fails_is_forgotten_and_one_in_doubt_is_not),
        TEST(test_a_leave_is_confirmed_when_all_were_there),
        TEST(test_a_claim_that_is_not_understood_is_the_callers),
        TEST(test_a_claim_without_an_object_is_not_sent),
        TEST(test_what_was_claimed_is_renewed_by_its_name),
        TEST(test_a_claim_of_nothing_leaves_nothing),
        TEST(test_a_claim_of_nothing_counts_what_it_passes_by_once_a_minute),
        TEST(test_a_claim_passes_by_what_cannot_be_named),
        TEST(test_a_claim_does_not_pass_by_for_ever),
        TEST(test_a_refresh_that_comes_late_is_told),
        TEST(test_between_looks_that_are_far_apart_nothing_is_known),
        TEST(test_it_is_told_once_a_minute),
        TEST(test_a_look_notes_what_others_refresh),
        TEST(test_how_often_ours_refresh),
        TEST(test_short_refreshes_are_looked_at_for_seven_tenths),
        TEST(test_of_many_the_one_that_was_not_looked_at_for_longest_goes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
