/* SPDX-License-Identifier: Apache-2.0 */
/* test_mongo_queue.c: protocol queue: what the store makes of each answer to a step, a look and the
 * calls on sessions, and how often it tries again. */
#include "core/id.h"
#include "core/record.h"
#include "faults/mongo_answers.h"

#define DATE(ms) "{'$date': {'$numberLong': '" ms "'}}"
#define BATCH(docs) "{'ok': 1, 'cursor': {'firstBatch': [" docs "]}}"
#define SESSION(n, more)                                                                           \
    "{'_id': {'$oid': '000000" n "0000000000000000'}, 'beat': {'$numberLong': '3'},"               \
    " 'ttl_ms': 6000, 'pid': {'$numberLong': '5'}, 'host': 'h', 'app': 'a', 'asked': [],"          \
    " 'started_at': {'$date': {'$numberLong': '5'}}," more                                         \
    " 'expires_at': {'$date': {'$numberLong': '6'}}}"
#define RECORD(name)                                                                               \
    "{'_id': '" name "', 'limit': 1, 'token': {'$numberLong': '0'}, 'holders': [], 'queue': [],"   \
    " 'notify': ''}"
#define BEHIND "{'ok': 0, 'code': 72}"
#define DUPLICATE "{'ok': 0, 'code': 11000}"

static mongo_store *store;
static hf_step_reply reply;
static hf_error err;

static int begin(void **state)
{
    (void)state;
    store = answers_open("");
    return 0;
}

static int end(void **state)
{
    (void)state;
    answers_close(store);
    return 0;
}

static void give_times(int n, const char *verb, const char *json)
{
    for (int i = 0; i < n; i++)
        answers_give(verb, json);
}

/* ---- Steps ---- */

static hf_code enter(hf_record *out)
{
    hf_enter in = {.entry = {.ticket = id_of(7), .session = id_of(1), .ttl_ms = 6000, .permits = 1},
                   .limit = 1,
                   .queue_max = HF_QUEUE_MAX,
                   .try_only = true};
    return store->base.ops->step(&store->base, "x", &(hf_step){.enter = &in}, out, &reply, &err);
}

static void test_an_upsert_that_lost_is_sent_again_eight_times(void **state)
{
    (void)state;
    hf_record record;
    give_times(8, "findAndModify", DUPLICATE);
    answers_give("findAndModify", "{'ok': 0, 'code': 13}");
    assert_int_equal(enter(&record), HF_DENIED);
    assert_int_equal(answers_sent("findAndModify"), 9);
    give_times(9, "findAndModify", DUPLICATE);
    answers_give("find", BATCH(""));
    assert_int_equal(enter(&record), HF_UNUSABLE);
    assert_int_equal(answers_sent("findAndModify"), 18);
}

static void test_other_errors_are_not_sent_again(void **state)
{
    (void)state;
    hf_record record;
    answers_give("findAndModify", "{'ok': 0, 'code': 189}");
    assert_int_equal(enter(&record), HF_UNKNOWN);
    assert_false(reply.confirmed);
    assert_int_equal(answers_sent("findAndModify"), 1);
}

static void test_a_document_that_is_in_the_way_is_named(void **state)
{
    (void)state;
    hf_record record;
    answers_give("findAndModify", "{'ok': 0, 'code': 4}");
    answers_give("find", BATCH("{'_id': 'x', 'holders': 'me'}"));
    assert_int_equal(enter(&record), HF_SHAPE);
    assert_int_equal(err.code, HF_SHAPE);
    answers_give("findAndModify", "{'ok': 0, 'code': 4, 'errmsg': 'what?'}");
    answers_give("find", BATCH(""));
    assert_int_equal(enter(&record), HF_UNUSABLE);
    assert_non_null(strstr(err.text, "what?"));
}

static hf_code leave(const char *answer)
{
    hf_leave out = {.ticket = id_of(7), .outcome = HF_OUTCOME_RELEASED};
    hf_step step = {.leaves = &out, .n_leaves = 1};
    answers_give("findAndModify", answer);
    return store->base.ops->step(&store->base, "x", &step, NULL, &reply, &err);
}

static void test_a_leave_is_confirmed_when_it_changed_something(void **state)
{
    (void)state;
    assert_int_equal(leave("{'ok': 1, 'value': {'_id': 'x'}}"), HF_OK);
    assert_true(reply.confirmed);
    assert_int_equal(leave("{'ok': 1, 'value': null}"), HF_OK);
    assert_false(reply.confirmed);
    assert_int_equal(leave("{'ok': 1, 'value': {'_id': 'x'}, 'writeConcernError': {'code': 64}}"),
                     HF_UNKNOWN);
    assert_false(reply.confirmed);
    assert_int_equal(leave("{'ok': 0, 'code': 13}"), HF_DENIED);
    assert_false(reply.confirmed);
    assert_int_equal(leave(NULL), HF_UNKNOWN);
}

/* ---- Looks ---- */

static bool add_name(void *ctx, const hf_record *record)
{
    size_t used = strlen(ctx);
    snprintf((char *)ctx + used, 100 - used, "<%s %d>", record->name, record->exists);
    return strcmp(record->name, "stop") != 0;
}

static hf_code look(const char *const *names, size_t n, char said[100])
{
    said[0] = '\0';
    return store->base.ops->look(&store->base, names, n, (hf_stamp){0}, false, add_name, said,
                                 &err);
}

static void test_a_look_tells_what_is_not_there(void **state)
{
    (void)state;
    char said[100];
    answers_give("find", BATCH(""));
    assert_int_equal(look((const char *const[]){"a", "b"}, 2, said), HF_OK);
    assert_string_equal(said, "<a 0><b 0>");
    answers_give("find", BATCH(""));
    assert_int_equal(look((const char *const[]){"a", "stop", "b"}, 3, said), HF_OK);
    assert_string_equal(said, "<a 0><stop 0>");
    assert_non_null(strstr(answers_last("find"), "'batchSize' : 4"));
}

/* A reply of more than 8 MB: what did not fit is asked for with a further one. Two can be given. */
static const char *large(const char *docs)
{
    enum { SIZE = (8 << 20) + 1000 };
    static char texts[2][SIZE];
    static int next;
    char *json = texts[next++ % 2];
    size_t used =
        (size_t)snprintf(json, SIZE, "{'ok': 1, 'cursor': {'firstBatch': [%s]}, 'x': '", docs);
    memset(json + used, 'x', SIZE - used - 3);
    memcpy(json + SIZE - 3, "'}", 3);
    return json;
}

static void test_what_does_not_fit_is_asked_for_again(void **state)
{
    (void)state;
    char said[100];
    static const char *const names[] = {"a", "b", "c"};
    answers_give("find", large(RECORD("b")));
    answers_give("find", BATCH(RECORD("c")));
    assert_int_equal(look(names, 3, said), HF_OK);
    assert_string_equal(said, "<b 1><c 1><a 0>");
    assert_int_equal(answers_sent("find"), 2);
    assert_non_null(strstr(answers_last("find"), "'$in' : [ 'a', 'c' ] } }, 'batchSize' : 3"));
    answers_give("find", large(RECORD("b")));
    answers_give("find", large(""));
    assert_int_equal(look(names, 3, said), HF_OK);
    assert_string_equal(said, "<b 1><a 0><c 0>");
    assert_int_equal(answers_sent("find"), 4);
    answers_give("find", large(RECORD("b")));
    assert_int_equal(look(names + 1, 1, said), HF_OK);
    assert_string_equal(said, "<b 1>");
    assert_int_equal(answers_sent("find"), 5);
}

static void test_a_large_reply_is_not_followed_after_an_end(void **state)
{
    (void)state;
    char said[100];
    static const char *const names[] = {"a", "stop", "c"};
    answers_give("find", large(RECORD("a") ", {'_id': 'c', 'holders': 5}"));
    assert_int_equal(look(names, 3, said), HF_SHAPE);
    assert_string_equal(said, "<a 1>");
    answers_give("find", large(RECORD("stop") ", " RECORD("a")));
    assert_int_equal(look(names, 3, said), HF_OK);
    assert_string_equal(said, "<stop 1>");
    answers_give("find", BATCH(RECORD("stop") ", " RECORD("a")));
    assert_int_equal(look(names, 3, said), HF_OK);
    assert_string_equal(said, "<stop 1>");
    assert_int_equal(answers_sent("find"), 3);
}

/* Only protocol document has locks that have no name yet. */
static void test_a_lock_without_a_name_is_not_asked_for(void **state)
{
    (void)state;
    char said[100];
    answers_give("find", BATCH(""));
    assert_int_equal(look((const char *const[]){"", "a"}, 2, said), HF_OK);
    assert_string_equal(said, "< 0><a 0>");
    assert_non_null(strstr(answers_last("find"), "'$in' : [ 'a' ]"));
}

static void test_a_look_that_fails_tells_nothing(void **state)
{
    (void)state;
    char said[100];
    static const char *const bad[] = {NULL, "{'ok': 1}", "{'ok': 0, 'code': 13}"};
    static const hf_code codes[] = {HF_UNREACHABLE, HF_UNUSABLE, HF_DENIED};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        answers_give("find", bad[i]);
        assert_int_equal(look((const char *const[]){"a"}, 1, said), codes[i]);
        assert_null(strstr(err.text, "behind"));
        assert_string_equal(said, "");
    }
}

static void test_a_server_that_is_behind_is_asked_six_times_more(void **state)
{
    (void)state;
    char said[100];
    give_times(6, "find", BEHIND);
    answers_give("find", BATCH(""));
    assert_int_equal(look((const char *const[]){"a"}, 1, said), HF_OK);
    assert_int_equal(answers_sent("find"), 7);
    assert_string_equal(answers_paused(), "20 40 80 160 320 640 ");
    give_times(7, "find", BEHIND);
    assert_int_equal(look((const char *const[]){"a"}, 1, said), HF_UNREACHABLE);
    assert_non_null(strstr(err.text, "the primary is behind"));
    assert_int_equal(answers_sent("find"), 14);
}

static hf_code list(const char *prefix, const char *answer, char said[100])
{
    said[0] = '\0';
    answers_give("list", answer);
    return store->base.ops->list(&store->base,
                                 &(hf_list_part){.prefix = prefix ? prefix : "", .after = ""},
                                 add_name, said, &err);
}

/* A document that is no record hides no others, and is told. */
static void test_a_list_has_what_can_be_read_and_begins_so(void **state)
{
    (void)state;
    char said[100];
    const char *docs = "{'ok': 1, 'docs': [" RECORD("a1") ", {'_id': 'a2', 'holders': 5}," RECORD(
        "b") "," RECORD("a3") "]}";
    assert_int_equal(list("a", "{'ok': 1, 'docs': []}", said), HF_OK);
    assert_non_null(strstr(answers_last("list"), "'$gte' : 'a', '$lt' : 'b'"));
    assert_int_equal(list("a", docs, said), HF_OK);
    assert_string_equal(said, "<a1 1><a3 1>");
    assert_int_equal(list("a.z", docs, said), HF_OK);
    assert_non_null(strstr(answers_last("list"), "'$gte' : 'a.z', '$lt' : 'a.{'"));
    assert_string_equal(said, "");
    assert_int_equal(list("a", NULL, said), HF_UNREACHABLE);
    assert_int_equal(list(NULL, "{'ok': 0, 'code': 13, 'docs': []}", said), HF_DENIED);
    assert_non_null(strstr(answers_log(), "a2"));
}

/* ---- Sessions ---- */

static hf_code look_at(const char *answer, hf_session_state states[2])
{
    const hf_id ids[] = {id_of(1), id_of(2)};
    memset(states, 5, 2 * sizeof *states);
    answers_give("aggregate", answer);
    return store->base.ops->sessions_look(&store->base, ids, 2, -1, states, &err);
}

static void test_sessions_are_told_in_the_order_that_was_asked(void **state)
{
    (void)state;
    hf_session_state states[2];
    assert_int_equal(look_at(BATCH(SESSION("02", "'dead': true,")), states), HF_OK);
    assert_int_equal(states[0].presence, HF_MISSING);
    assert_true(id_equal(states[0].session.id, id_of(1)));
    assert_int_equal(states[1].presence, HF_DEAD);
    assert_int_equal(states[1].beat, 3);
    assert_false(states[1].is_gone);
    assert_int_equal(look_at(BATCH(SESSION("02", "") "," SESSION("01", "")), states), HF_OK);
    assert_int_equal(states[0].presence, HF_LIVE);
    assert_int_equal(states[1].presence, HF_LIVE);
}

static void test_a_look_at_sessions_that_fails_says_so(void **state)
{
    (void)state;
    hf_session_state states[2];
    assert_int_equal(look_at(NULL, states), HF_UNREACHABLE);
    assert_int_equal(look_at("{'ok': 1}", states), HF_UNUSABLE);
    assert_int_equal(look_at(BATCH("{'_id': {'$oid': '000000010000000000000000'}}"), states),
                     HF_SHAPE);
}

/* It is neither missing nor dead; and the first of several is named. */
static void test_an_odd_session_hides_no_other(void **state)
{
    (void)state;
    hf_session_state states[2];
    static const char odd[] = "{'_id': {'$oid': '000000010000000000000000'}, 'beat': 'x'}";
    char answer[1000];
    snprintf(answer, sizeof answer, BATCH("%s, " SESSION("02", "'dead': true,")), odd);
    assert_int_equal(look_at(answer, states), HF_SHAPE);
    assert_non_null(strstr(err.text, "000000010000"));
    assert_int_equal(states[0].presence, HF_ODD);
    assert_true(id_equal(states[0].session.id, id_of(1)));
    assert_int_equal(states[1].presence, HF_DEAD);
    snprintf(answer, sizeof answer, BATCH("%s, {'_id': {'$oid': '000000020000000000000000'}}"),
             odd);
    assert_int_equal(look_at(answer, states), HF_SHAPE);
    assert_non_null(strstr(err.text, "000000010000"));
    assert_int_equal(states[1].presence, HF_ODD);
}

static hf_code begin_session(const char *answer)
{
    hf_session self = {.id = id_of(1), .ttl_ms = 6000, .app = "a", .host = "h", .pid = 1};
    answers_give("update", answer);
    return store->base.ops->session_begin(&store->base, &self, &err);
}

/* A clash in another unique index says nothing about this id. */
static void test_only_its_id_tells_that_a_session_has_begun_before(void **state)
{
    (void)state;
    static const char *const there[] = {
        "{'ok': 1, 'writeErrors': [{'code': 11000}]}",
        "{'ok': 1, 'writeErrors': [{'code': 11000, 'keyPattern': {'_id': 1}}]}",
        ("{'ok': 1, 'writeErrors': [{'code': 11000, 'errmsg': 'E11000 duplicate key error "
         "collection: app.holdfast.sessions index: _id_ dup key: {}'}]}")};
    static const char *const foreign[] = {
        ("{'ok': 1, 'writeErrors': [{'code': 11000, 'keyPattern': {'user': 1},"
         " 'errmsg': 'E11000 duplicate key error collection: app.holdfast.sessions index: user_1 "
         "dup'}]}"),
        ("{'ok': 1, 'writeErrors': [{'code': 11000, 'errmsg': 'E11000 duplicate key error "
         "collection: app.holdfast.sessions index: user_1 dup key: {}'}]}")};
    for (size_t i = 0; i < sizeof there / sizeof *there; i++)
        assert_int_equal(begin_session(there[i]), HF_HELD);
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) {
        assert_int_equal(begin_session(foreign[i]), HF_UNUSABLE);
        assert_non_null(strstr(err.text, "app.holdfast.sessions index: user_1"));
        assert_non_null(strstr(err.text, "have an administrator drop the index"));
    }
}

static void test_a_step_that_another_index_refuses_is_not_sent_again(void **state)
{
    (void)state;
    hf_record record;
    answers_give("findAndModify",
                 "{'ok': 0, 'code': 11000, 'keyPattern': {'owner': 1},"
                 " 'errmsg': 'E11000 collection: app.holdfast.locks index: owner_1 dup'}");
    answers_give("find", BATCH(""));
    assert_int_equal(enter(&record), HF_UNUSABLE);
    assert_int_equal(answers_sent("findAndModify"), 1);
    assert_non_null(strstr(err.text, "app.holdfast.locks index: owner_1"));
}

static hf_code beat(const char *answer, hf_session_state *out)
{
    answers_give("findAndModify", answer);
    return store->base.ops->session_beat(&store->base, id_of(1), &(hf_beat){0}, out, &err);
}

static void test_a_beat_of_a_session_that_is_not_there_is_lost(void **state)
{
    (void)state;
    hf_session_state out;
    assert_int_equal(beat("{'ok': 1, 'value': null}", &out), HF_LOST);
    assert_int_equal(beat(NULL, &out), HF_UNKNOWN);
    assert_int_equal(beat("{'ok': 1, 'value': " SESSION("01", "") "}", &out), HF_OK);
    assert_int_equal(out.presence, HF_LIVE);
}

static hf_code mark(const char *answer)
{
    const hf_session_state seen = {.session = {.id = id_of(1)}, .beat = 3};
    answers_give("findAndModify", answer);
    return store->base.ops->session_mark(&store->base, &seen, &err);
}

static void test_a_mark_says_whether_it_took(void **state)
{
    (void)state;
    assert_int_equal(mark("{'ok': 1, 'value': " SESSION("01", "'dead': true,") "}"), HF_OK);
    assert_int_equal(mark("{'ok': 1, 'value': " SESSION("01", "") "}"), HF_HELD);
    assert_int_equal(mark("{'ok': 1, 'value': null}"), HF_NOT_FOUND);
    assert_int_equal(mark(NULL), HF_UNKNOWN);
}

static void test_an_ask_that_finds_no_room_is_refused(void **state)
{
    (void)state;
    const hf_ask ask = {.ticket = id_of(7), .by = "me", .reason = "why"};
    answers_give("findAndModify", "{'ok': 1, 'value': " SESSION("01", "") "}");
    assert_int_equal(store->base.ops->ask(&store->base, id_of(1), &ask, &err), HF_FULL);
    answers_give("findAndModify", "{'ok': 1, 'value': null}");
    assert_int_equal(store->base.ops->ask(&store->base, id_of(1), &ask, &err), HF_NOT_FOUND);
    answers_give("findAndModify", NULL);
    assert_int_equal(store->base.ops->ask(&store->base, id_of(1), &ask, &err), HF_UNKNOWN);
}

static bool add_waits(void *ctx, const hf_waits *waits)
{
    size_t used = strlen(ctx);
    snprintf((char *)ctx + used, 100 - used, "<%s %d>", waits->text, (int)waits->seen);
    return strcmp(waits->text, "stop") != 0;
}

static void test_waits_are_told_of_those_that_can_be_read(void **state)
{
    (void)state;
    char said[100] = "";
    answers_give(
        "aggregate",
        BATCH(SESSION("01", "'waits': 'w', 'seen': 4,") ", {'waits': 'odd'}," SESSION(
            "02", "'waits': 5,") "," SESSION("03",
                                             "'waits': 'stop',") "," SESSION("04",
                                                                             "'waits': 'more',")));
    assert_int_equal(store->base.ops->waits(&store->base, NULL, 0, add_waits, said, &err), HF_OK);
    assert_string_equal(said, "<w 4><stop 0>");
    answers_give("aggregate", NULL);
    assert_int_equal(store->base.ops->waits(&store->base, NULL, 0, add_waits, said, &err),
                     HF_UNREACHABLE);
}

static bool take_two(void *ctx, const bson_t *doc, const hf_session_state *state)
{
    hf_id *ids = ctx;
    assert_true(bson_has_field(doc, "beat"));
    ids[id_is_zero(ids[0]) ? 0 : 1] = state->session.id;
    return id_is_zero(ids[1]);
}

#define OVERDUE(ms, session) "{'expires_at': " DATE(ms) ", 'session': " session "}"

static void test_overdue_sessions_are_given_until_it_is_enough(void **state)
{
    (void)state;
    hf_id ids[2] = {{{0}}, {{0}}};
    int64_t last_ms = 7;
    bool is_last = true;
    answers_give("aggregate", BATCH("{'odd': 1}," OVERDUE("11", SESSION("01", "")) "," OVERDUE(
                                  "12", SESSION("02", "")) "," OVERDUE("13", SESSION("03", ""))));
    assert_int_equal(mongo_overdue(store, 5, 99, take_two, ids, &last_ms, &is_last, &err), HF_OK);
    assert_true(id_equal(ids[0], id_of(1)));
    assert_true(id_equal(ids[1], id_of(2)));
    assert_int_equal(last_ms, 12);
    assert_false(is_last);
    memset(ids, 0, sizeof ids);
    answers_give("aggregate", BATCH(OVERDUE("14", SESSION("03", "")) ", " OVERDUE("15", "5")));
    assert_int_equal(mongo_overdue(store, 5, 99, take_two, ids, &last_ms, &is_last, &err), HF_OK);
    assert_int_equal(last_ms, 15);
    assert_true(is_last);
    answers_give("aggregate", NULL);
    assert_int_equal(mongo_overdue(store, 5, 99, take_two, ids, &last_ms, &is_last, &err),
                     HF_UNREACHABLE);
}

/* ---- Indexes ---- */

#define FOUND(indexes)                                                                             \
    "{'ok': 1, 'cursor': {'id': 0, 'ns': 'app.holdfast.sessions', 'firstBatch': ["                 \
    "{'v': 2, 'key': {'_id': 1}, 'name': '_id_'}, {'v': 2, 'key': {'expires_at': 1},"              \
    " 'name': 'expires_at_1'}" indexes "]}}"
#define ON_DEAD_AT ", {'v': 2, 'key': {'dead_at': 1}, 'name': 'dead_at_1'"
#define DENIED "{'ok': 0, 'code': 13}"

/* A turn is given each time, and what follows the indexes in a sweep is refused. */
static void sweep_twice(void)
{
    hf_session_state overdue[2];
    size_t n;
    bool more;
    answers_give_always("findAndModify",
                        "{'ok': 1, 'value': {'by': {'$oid': '070707070707070707070707'},"
                        " 'part': 1, 'began_at': " DATE("100") ", 'until': " DATE("2100") "}}");
    answers_give_always("update", DENIED);
    answers_give_always("aggregate", DENIED);
    for (int i = 0; i < 2; i++)
        store->base.ops->sweep(&store->base, overdue, 2, &n, &more, &err);
}

static void test_indexes_are_made_once(void **state)
{
    (void)state;
    answers_give("listIndexes", "{'ok': 0, 'code': 26}");
    answers_give("find", BATCH(""));
    answers_give("createIndexes", "{'ok': 1}");
    sweep_twice();
    assert_string_equal(answers_log(), "");
}

static void check_missing(const char *indexes)
{
    answers_give("listIndexes", indexes);
    answers_give("find", BATCH(""));
    answers_give("createIndexes", DENIED);
    sweep_twice();
    assert_non_null(
        strstr(answers_log(),
               "let c = db.getCollection(\"holdfast.sessions\"); c.createIndex({dead_at: 1}"));
}

static void test_indexes_that_are_refused_are_told_and_left(void **state)
{
    (void)state;
    check_missing(DENIED);
}

static void test_indexes_that_are_there_are_not_made(void **state)
{
    (void)state;
    answers_give("listIndexes", FOUND(ON_DEAD_AT ", 'expireAfterSeconds': 3600}"));
    sweep_twice();
    assert_int_equal(answers_sent("createIndexes"), 0);
    assert_string_equal(answers_log(), "");
}

static void test_no_index_is_made_beside_what_is_not_ours(void **state)
{
    (void)state;
    answers_give("listIndexes", FOUND(""));
    answers_give("find", BATCH("{'_id': 'theirs'}"));
    answers_give_always("createIndexes", "{'ok': 1}");
    sweep_twice();
    assert_int_equal(answers_sent("createIndexes"), 0);
    assert_non_null(strstr(answers_log(), "holdfast.sessions in database app has a document that "
                                          "is not Holdfast's, _id \"theirs\", so no index"));
}

static void test_an_index_that_is_missing_is_told(void **state)
{
    (void)state;
    check_missing(FOUND(""));
}

static void test_an_index_that_removes_nothing_is_told(void **state)
{
    (void)state;
    check_missing(FOUND(ON_DEAD_AT "}"));
}

static void test_indexes_are_made_when_the_server_is_back(void **state)
{
    (void)state;
    answers_give("listIndexes", NULL);
    answers_give("find", NULL);
    answers_give("listIndexes", FOUND(""));
    answers_give("find", BATCH(""));
    answers_give("createIndexes", "{'ok': 1}");
    sweep_twice();
    assert_int_equal(answers_sent("createIndexes"), 1);
    assert_string_equal(answers_log(), "");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_an_upsert_that_lost_is_sent_again_eight_times),
        TEST(test_other_errors_are_not_sent_again),
        TEST(test_a_document_that_is_in_the_way_is_named),
        TEST(test_a_leave_is_confirmed_when_it_changed_something),
        TEST(test_a_look_tells_what_is_not_there),
        TEST(test_what_does_not_fit_is_asked_for_again),
        TEST(test_a_large_reply_is_not_followed_after_an_end),
        TEST(test_a_lock_without_a_name_is_not_asked_for),
        TEST(test_a_look_that_fails_tells_nothing),
        TEST(test_a_server_that_is_behind_is_asked_six_times_more),
        TEST(test_a_list_has_what_can_be_read_and_begins_so),
        TEST(test_sessions_are_told_in_the_order_that_was_asked),
        TEST(test_a_look_at_sessions_that_fails_says_so),
        TEST(test_an_odd_session_hides_no_other),
        TEST(test_only_its_id_tells_that_a_session_has_begun_before),
        TEST(test_a_step_that_another_index_refuses_is_not_sent_again),
        TEST(test_a_beat_of_a_session_that_is_not_there_is_lost),
        TEST(test_a_mark_says_whether_it_took),
        TEST(test_an_ask_that_finds_no_room_is_refused),
        TEST(test_waits_are_told_of_those_that_can_be_read),
        TEST(test_overdue_sessions_are_given_until_it_is_enough),
        TEST(test_indexes_are_made_once),
        TEST(test_indexes_that_are_refused_are_told_and_left),
        TEST(test_indexes_that_are_there_are_not_made),
        TEST(test_no_index_is_made_beside_what_is_not_ours),
        TEST(test_an_index_that_is_missing_is_told),
        TEST(test_an_index_that_removes_nothing_is_told),
        TEST(test_indexes_are_made_when_the_server_is_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
