/* SPDX-License-Identifier: Apache-2.0 */
/* test_sent_document.c: protocol document: what each call sends, word for word, and what is read
 * from the answers. */
#include "core/id.h"
#include "core/record.h"
#include "faults/mongo_transcript.h"

#define OID(n) "{'$oid': '000000" n "0000000000000000'}"
#define DATE(ms) "{'$date': {'$numberLong': '" ms "'}}"
#define STAMPED "'operationTime': {'$timestamp': {'t': 70, 'i': 3}}"
#define CURSOR(docs) "{'ok': 1, " STAMPED ", 'cursor': {'firstBatch': [" docs "]}}"
#define LOCKED "{'ok': 1, " STAMPED ", 'value': {'_id': 'a', 'fence': 3, 'a': {'token': 4}}}"
#define NONE "{'ok': 1, " STAMPED ", 'value': null}"
#define HELD(id, left)                                                                             \
    "{'_id': " id                                                                                  \
    ", 'hf': {'lock': " OID("09") ", 'time': " DATE("5") ", 'token': 5, 'left': " left "}}"
#define FREE "{'_id': 'a', 'hf': {'lock': null}}"

static mongo_store *store;
static hf_error err;

static void open_with(const char *keys)
{
    const hf_session self = {.id = id_of(1), .pid = 5, .app = "app", .host = "here"};
    store = answers_open(keys);
    assert_int_equal(store->base.ops->session_begin(&store->base, &self, &err), HF_OK);
    transcript_begin();
}

static int begin(void **state)
{
    (void)state;
    open_with("&hfProtocol=document&hfCollection=things&hfTokenField=fence&hfRefreshMS=4000");
    return 0;
}

static int begin_without_token(void **state)
{
    (void)state;
    open_with("&hfProtocol=document&hfCollection=things");
    return 0;
}

static int begin_with_paths(void **state)
{
    (void)state;
    open_with("&hfProtocol=document&hfCollection=things&hfLockField=a.lock.id&hfTimeField=a.lock.ts"
              "&hfTokenField=a.token");
    return 0;
}

static int begin_with_types(void **state)
{
    (void)state;
    open_with("&hfProtocol=document&hfCollection=things&hfLockIdType=uuidLegacy&hfTimeMeans=expires"
              "&hfNoTimeMeans=stale");
    return 0;
}

static int end(void **state)
{
    (void)state;
    answers_close(store);
    return 0;
}

static void show_known(void)
{
    size_t n, n_doubtful;
    mongo_held *known = mongo_held_copy(store, &n);
    mongo_held *doubtful = mongo_held_copy_doubtful(store, &n_doubtful);
    for (size_t i = 0; i < n; i++)
        transcript_say("   renewed: %s, %d", known[i].name, known[i].ticket.bytes[3]);
    for (size_t i = 0; i < n_doubtful; i++)
        transcript_say("   in doubt: \"%s\", %d", doubtful[i].name, doubtful[i].ticket.bytes[3]);
    mongo_held_free_copy(known, n);
    mongo_held_free_copy(doubtful, n_doubtful);
}

static void step(const char *what, const hf_step *step)
{
    hf_record out;
    hf_step_reply reply;
    transcript_say("\n%s", what);
    hf_code code =
        store->base.ops->step(&store->base, "a", step, step->enter ? &out : NULL, &reply, &err);
    transcript_code(code, &err);
    transcript_reply(&reply);
    if (!code && step->enter) {
        transcript_record(&out);
        record_done(&out);
    }
    show_known();
}

static hf_enter entrant(void)
{
    return (hf_enter){.entry = {.ticket = id_of(7), .session = id_of(1), .permits = 1}};
}

/* ---- Taking ---- */

static void test_takings(void **state)
{
    (void)state;
    hf_enter in = entrant(), by_hand = in;
    hf_leave out[] = {{.ticket = id_of(5)}, {.ticket = id_of(6)}};
    by_hand.by_hand = true;
    answers_give("findAndModify", LOCKED);
    step("taken", &(hf_step){.enter = &in});
    mongo_held_add(store, "a", id_of(5));
    mongo_held_add(store, "a", id_of(6));
    answers_give("findAndModify", LOCKED);
    step("two leave, one enters", &(hf_step){.leaves = out, .n_leaves = 2, .enter = &in});
    mongo_held_drop(store, id_of(7));
    answers_give("findAndModify", LOCKED);
    step("is renewed by hand", &(hf_step){.enter = &by_hand});
    transcript_end("document-takings");
}

static void test_takings_that_fail(void **state)
{
    (void)state;
    hf_enter in = entrant();
    answers_give("findAndModify", NONE);
    answers_give("aggregate", CURSOR(HELD("'a'", "77")));
    step("another holds", &(hf_step){.enter = &in});
    answers_give("findAndModify", NONE);
    answers_give("aggregate", CURSOR(""));
    step("it is not there", &(hf_step){.enter = &in});
    answers_give("findAndModify", NONE);
    answers_give("aggregate", CURSOR("{'_id': 'a', 'hf': {'lock': 5}}"));
    step("it is of another shape", &(hf_step){.enter = &in});
    answers_give("findAndModify", NONE);
    answers_give("aggregate", CURSOR(FREE));
    answers_give("findAndModify", LOCKED);
    step("it was freed", &(hf_step){.enter = &in});
    mongo_held_drop(store, id_of(7));
    answers_give_always("findAndModify", NONE);
    answers_give_always("aggregate", CURSOR(FREE));
    step("it is freed again and again", &(hf_step){.enter = &in});
    transcript_end("document-takings-fail");
}

#define GUID "{'$binary': {'base64': 'AQIDBAUGBwgJCgsMDQ4PEA==', 'subType': '03'}}"

static void test_with_lock_ids_that_are_uuids(void **state)
{
    (void)state;
    hf_enter in = entrant();
    hf_leave out = {.ticket = id_of(7)};
    answers_give("findAndModify", LOCKED);
    step("taken", &(hf_step){.enter = &in});
    answers_give("update", "{'ok': 1, 'n': 1}");
    step("left", &(hf_step){.leaves = &out, .n_leaves = 1});
    answers_give("findAndModify", NONE);
    answers_give("aggregate", CURSOR("{'_id': 'a', 'hf': {'lock': " GUID
                                     ", 'time': " DATE("5") ", 'left': 77}}"));
    step("another holds", &(hf_step){.enter = &in});
    answers_give("findAndModify", NONE);
    answers_give("aggregate", CURSOR("{'_id': 'a', 'hf': {'lock': " GUID "}}"));
    step("another holds without a time", &(hf_step){.enter = &in});
    answers_give("findAndModify", NONE);
    answers_give("aggregate", CURSOR(HELD("'a'", "77")));
    step("it is held in another way", &(hf_step){.enter = &in});
    transcript_end("document-uuids");
}

static void test_a_taking_in_doubt(void **state)
{
    (void)state;
    hf_enter in = entrant();
    answers_give("findAndModify", NULL);
    step("no answer", &(hf_step){.enter = &in});
    answers_give("findAndModify", "{'ok': 1, 'value': {'_id': 'a'}, 'writeConcernError': {}}");
    step("not by a majority", &(hf_step){.enter = &in});
    answers_give("findAndModify", NONE);
    answers_give("aggregate", NULL);
    in.entry.ticket = id_of(8);
    step("a look that fails", &(hf_step){.enter = &in});
    transcript_end("document-doubt");
}

static void test_leavings(void **state)
{
    (void)state;
    hf_leave out[] = {{.ticket = id_of(7)}, {.ticket = id_of(8)}};
    answers_give("update", "{'ok': 1, " STAMPED ", 'n': 1}");
    step("one", &(hf_step){.leaves = out, .n_leaves = 1});
    answers_give("update", "{'ok': 1}");
    step("one that was not there", &(hf_step){.leaves = out, .n_leaves = 1});
    answers_give("update", "{'ok': 1}");
    step("two, of which none was there", &(hf_step){.leaves = out, .n_leaves = 2});
    transcript_end("document-leavings");
}

/* ---- Renewing ---- */

static void beat(const char *answer)
{
    hf_session_state out;
    answers_give("update", answer);
    transcript_code(
        store->base.ops->session_beat(&store->base, id_of(1), &(hf_beat){0}, &out, &err), &err);
    transcript_state(&out);
}

static void test_renewals(void **state)
{
    (void)state;
    mongo_held_add(store, "a", id_of(7));
    mongo_held_add(store, "{\"k\": 5}", id_of(8));
    beat("{'ok': 1, 'n': 2}");
    beat("{'ok': 1, 'n': 1}");
    beat("{'ok': 1}");
    answers_give("update", "{'ok': 1, 'n': 1}");
    transcript_code(store->base.ops->refresh(&store->base, "a", id_of(7), &err), &err);
    answers_give("update", "{'ok': 1}");
    transcript_code(store->base.ops->refresh(&store->base, "a", id_of(7), &err), &err);
    transcript_end("document-renewals");
}

/* ---- Claims ---- */

static void claim(const char *what, const char *filter, const char *sort)
{
    hf_record out;
    hf_step_reply reply = {.confirmed = false};
    hf_enter in = entrant();
    hf_claim wanted = {.filter = filter, .sort = sort};
    transcript_say("\n%s", what);
    hf_code code = store->base.ops->claim(&store->base, &wanted, &in, &out, &reply, &err);
    transcript_code(code, &err);
    transcript_reply(&reply);
    if (!code) {
        transcript_record(&out);
        record_done(&out);
    }
    show_known();
}

static hf_code claim_without_words(const char *filter, const char *answer)
{
    hf_record out;
    hf_step_reply reply;
    hf_enter in = entrant();
    if (answer)
        answers_give("findAndModify", answer);
    return store->base.ops->claim(&store->base, &(hf_claim){.filter = filter}, &in, &out, &reply,
                                  NULL);
}

static void test_claims(void **state)
{
    (void)state;
    answers_give("findAndModify", LOCKED);
    claim("any", NULL, NULL);
    answers_give("findAndModify", LOCKED);
    claim("with a filter and a sort order", "{\"x\": 1}", "{\"y\": -1}");
    mongo_held_drop(store, id_of(7));
    answers_give("findAndModify", NONE);
    answers_give("aggregate", "{'ok': 1, 'cursor': {'firstBatch': []}}");
    claim("there is none", NULL, NULL);
    answers_give("findAndModify", "{'ok': 0, 'code': 2, 'errmsg': 'what?'}");
    claim("it is not understood", NULL, NULL);
    answers_give("findAndModify", "{'ok': 0, 'code': 189, 'errmsg': 'what?'}");
    claim("its primary steps down", NULL, NULL);
    answers_give("findAndModify", "{'ok': 1, 'value': {'_id': 'a'}, 'writeConcernError': {}}");
    claim("not by a majority", NULL, NULL);
    claim("the sort order is none", "{}", "[]");
    claim("the filter is none, the sort order is one", "[", "{}");
    assert_int_equal(claim_without_words("[", NULL), HF_INVALID);
    assert_int_equal(claim_without_words(NULL, "{'ok': 0, 'code': 2}"), HF_UNUSABLE);
    transcript_end("document-claims");
}

/* What has no name is given back, and passed by with the next command. */
static void test_claims_of_what_has_no_name(void **state)
{
    (void)state;
    char one[700], other[700], id[HF_NAME_MAX + 1];
    memset(id, 'x', sizeof id);
    id[HF_NAME_MAX] = '\0';
    snprintf(one, sizeof one, "{'ok': 1, 'value': {'_id': {'a': '%s'}}}", id);
    snprintf(other, sizeof other, "{'ok': 1, 'value': {'_id': {'b': '%s'}}}", id);
    answers_give("findAndModify", one);
    answers_give("findAndModify", other);
    answers_give("findAndModify", LOCKED);
    answers_give_always("update", "{'ok': 1, 'n': 1}");
    claim("two are passed by", NULL, NULL);
    mongo_held_drop(store, id_of(7));
    answers_give("findAndModify", "{'ok': 1, 'value': {'a': 5}}");
    claim("one that has no _id", NULL, NULL);
    answers_give("findAndModify", "{'ok': 1, 'value': {'_id': 'b'}}");
    claim("without a token", NULL, NULL);
    transcript_end("document-passed-by");
}

/* ---- Looking ---- */

static bool show(void *ctx, const hf_record *record)
{
    transcript_record(record);
    return --*(int *)ctx > 0;
}

static void look(const char *const *names, size_t n, bool linearizable, const char *answer)
{
    int most = 9;
    answers_give("aggregate", answer);
    transcript_code(store->base.ops->look(&store->base, names, n, (hf_stamp){(uint64_t)70 << 32},
                                          linearizable, show, &most, &err),
                    &err);
}

static void list(int most, const char *prefix, const char *docs)
{
    answers_give("list", docs);
    answers_give("find", CURSOR(""));
    transcript_code(store->base.ops->list(
                        &store->base, &(hf_list_part){.prefix = prefix ? prefix : "", .after = ""},
                        show, &most, &err),
                    &err);
}

static void test_looks(void **state)
{
    (void)state;
    static const char *const names[] = {"a", "5", "{\"k\":1}"}, *const unnamed[] = {"b", "", "a"};
    mongo_held_add(store, "a", id_of(11));
    look(names, 3, false, CURSOR(HELD("'a'", "77") ", " HELD("5", "0")));
    look(names, 1, true, CURSOR(HELD("'a'", "77")));
    look(unnamed, 3, false, CURSOR(""));
    mongo_held_add(store, "", id_of(12));
    mongo_held_add(store, "", id_of(13));
    mongo_held_doubt(store, id_of(12));
    mongo_held_doubt(store, id_of(13));
    look(unnamed, 3, false, CURSOR(HELD("'c'", "77")));
    look(unnamed + 1, 2, false, CURSOR(""));
    transcript_end("document-looks");
}

static void test_lists(void **state)
{
    (void)state;
    static const char docs[] = "{'ok': 1, 'docs': [" HELD(
        "'a'", "77") ", {'_id': 'b', 'hf': {"
                     "'lock': 5}}, " HELD("5", "77") ", " HELD("'ab'", "77") "]}";
    list(9, NULL, docs);
    list(9, "a", docs);
    list(1, "a", docs);
    transcript_say("%s", answers_log());
    transcript_end("document-lists");
}

static void test_the_stream(void **state)
{
    (void)state;
    answers_give("aggregate", "{'ok': 1, 'cursor': {'id': 5, 'firstBatch': []}}");
    answers_give("getMore", "{'ok': 1, 'cursor': {'id': 5, 'nextBatch': []}}");
    transcript_code(
        store->base.ops->await(&store->base, id_of(1), (hf_stamp){0}, 100, NULL, NULL, &err), &err);
    answers_give("killCursors", "{'ok': 1}");
    answers_give("find", "{'ok': 1}");
    store->watch->reading.is_reading = true;
    store->base.ops->wake(&store->base);
    transcript_end("stream-document");
}

static void canonical(const char *given)
{
    char name[HF_NAME_MAX + 1] = "";
    transcript_code(store->base.ops->canonical(&store->base, given, name, &err), &err);
    transcript_say("   %s is %s", given, name);
}

static void test_names(void **state)
{
    (void)state;
    char large[HF_NAME_MAX + 2];
    memset(large, 'x', sizeof large);
    large[HF_NAME_MAX + 1] = '\0';
    canonical("{\"$numberLong\": \"42\"}");
    assert_int_equal(store->base.ops->canonical(&store->base, large, large, &err), HF_INVALID);
    transcript_end("document-names");
}

/* ---- Other fields ---- */

static void test_without_a_token(void **state)
{
    (void)state;
    static const char *const name = "a";
    hf_enter in = entrant();
    answers_give("findAndModify", LOCKED);
    step("taken", &(hf_step){.enter = &in});
    look(&name, 1, false, CURSOR(HELD("'a'", "77")));
    look(&name, 1, false, CURSOR("{'_id': 'a', 'hf': {'token': 'x'}}"));
    transcript_end("document-tokenless");
}

static void test_with_paths(void **state)
{
    (void)state;
    static const char *const name = "a";
    hf_enter in = entrant();
    hf_leave out = {.ticket = id_of(7)};
    answers_give("findAndModify", LOCKED);
    step("taken", &(hf_step){.enter = &in});
    answers_give("update", "{'ok': 1, 'n': 1}");
    step("left", &(hf_step){.leaves = &out, .n_leaves = 1});
    look(&name, 1, false, CURSOR("{'_id': 'a', 'hf': {'odd': 'a.lock'}}"));
    transcript_end("document-by-paths");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_takings),
        TEST(test_takings_that_fail),
        TEST(test_a_taking_in_doubt),
        TEST(test_leavings),
        TEST(test_renewals),
        TEST(test_claims),
        TEST(test_claims_of_what_has_no_name),
        TEST(test_looks),
        TEST(test_lists),
        TEST(test_the_stream),
        TEST(test_names),
        cmocka_unit_test_setup_teardown(test_without_a_token, begin_without_token, end),
        cmocka_unit_test_setup_teardown(test_with_paths, begin_with_paths, end),
        cmocka_unit_test_setup_teardown(test_with_lock_ids_that_are_uuids, begin_with_types, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
