/* SPDX-License-Identifier: Apache-2.0 */
/* test_sent_element.c: protocol document with hfElement: what each call sends, word for word, and
 * what is read from the answers. */
#include "core/id.h"
#include "core/record.h"
#include "faults/mongo_transcript.h"

#define OID(n) "{'$oid': '000000" n "0000000000000000'}"
#define STAMPED "'operationTime': {'$timestamp': {'t': 70, 'i': 3}}"
#define CURSOR(docs) "{'ok': 1, " STAMPED ", 'cursor': {'firstBatch': [" docs "]}}"
#define LINE(key, lock) "{'id': " key ", 'lockId': " lock ", 'fence': 3}"
#define TAKEN                                                                                      \
    "{'ok': 1, " STAMPED ", 'value': {'_id': 'a', 'lines': ["                                      \
    "{'id': 6}, 5, " LINE("7", OID("07")) "], 'by': 'us'}}"
#define NONE "{'ok': 1, " STAMPED ", 'value': null}"
#define SEEN(key, lock)                                                                            \
    "{'_id': ['a', " key "], 'hf': {'lock': " lock ", 'left': 77, 'time': " NOW "}}"
#define NOW "{'$date': {'$numberLong': '5'}}"
#define NAME "[\"a\",7]"

static mongo_store *store;
static hf_error err;

static int begin(void **state)
{
    (void)state;
    const hf_session self = {.id = id_of(1), .pid = 5, .app = "app", .host = "here"};
    store = answers_open("&hfProtocol=document&hfCollection=things&hfElement=lines.id"
                         "&hfTokenField=fence");
    assert_int_equal(store->base.ops->session_begin(&store->base, &self, &err), HF_OK);
    transcript_begin();
    return 0;
}

static int end(void **state)
{
    (void)state;
    answers_close(store);
    return 0;
}

static hf_enter entrant(void)
{
    return (hf_enter){.entry = {.ticket = id_of(7), .session = id_of(1), .permits = 1}};
}

static void show_result(hf_code code, const hf_step_reply *reply, hf_record *out)
{
    transcript_code(code, &err);
    transcript_reply(reply);
    if (code || !out)
        return;
    transcript_record(out);
    record_done(out);
}

static void step(const char *what, const hf_step *step)
{
    hf_record out;
    hf_step_reply reply;
    transcript_say("\n%s", what);
    hf_code code =
        store->base.ops->step(&store->base, NAME, step, step->enter ? &out : NULL, &reply, &err);
    show_result(code, &reply, step->enter ? &out : NULL);
}

/* ---- One element ---- */

static void test_takings(void **state)
{
    (void)state;
    hf_enter in = entrant();
    answers_give("findAndModify", TAKEN);
    step("taken", &(hf_step){.enter = &in});
    answers_give("findAndModify", NONE);
    answers_give("aggregate", CURSOR(SEEN("7", OID("09"))));
    step("another holds", &(hf_step){.enter = &in});
    answers_give("findAndModify", NONE);
    answers_give("aggregate", CURSOR(""));
    step("it is not there", &(hf_step){.enter = &in});
    answers_give("findAndModify", NONE);
    answers_give("aggregate", CURSOR(SEEN("7", "null") ", " SEEN("7", "null")));
    step("two have this key", &(hf_step){.enter = &in});
    transcript_end("element-takings");
}

static void test_what_is_taken_and_has_no_name_is_given_back(void **state)
{
    (void)state;
    hf_enter in = entrant();
    answers_give("findAndModify", "{'ok': 1, 'value': {'_id': 'a', 'lines': [{'id': 7}]}}");
    answers_give("update", "{'ok': 1, 'n': 1}");
    step("without our ticket", &(hf_step){.enter = &in});
    transcript_end("element-given-back");
}

static void test_leavings(void **state)
{
    (void)state;
    hf_leave out = {.ticket = id_of(7)};
    answers_give("update", "{'ok': 1, " STAMPED ", 'n': 1}");
    step("left", &(hf_step){.leaves = &out, .n_leaves = 1});
    answers_give("update", "{'ok': 1}");
    step("it was not there", &(hf_step){.leaves = &out, .n_leaves = 1});
    transcript_end("element-leavings");
}

/* Two elements of one document are counted as two. */
static void test_renewals(void **state)
{
    (void)state;
    hf_session_state out;
    mongo_held_add(store, NAME, id_of(7));
    mongo_held_add(store, "[\"a\",8]", id_of(8));
    answers_give("update", "{'ok': 1, 'n': 2}");
    transcript_code(
        store->base.ops->session_beat(&store->base, id_of(1), &(hf_beat){0}, &out, &err), &err);
    transcript_state(&out);
    transcript_end("element-renewals");
}

/* ---- Looking ---- */

static bool show(void *ctx, const hf_record *record)
{
    (void)ctx;
    transcript_record(record);
    return true;
}

static void test_looks(void **state)
{
    (void)state;
    static const char *const names[] = {NAME, "[\"b\",1]"}, *const unnamed[] = {""};
    answers_give("aggregate", CURSOR(SEEN("7", OID("09"))));
    transcript_code(
        store->base.ops->look(&store->base, names, 2, (hf_stamp){0}, false, show, NULL, &err),
        &err);
    mongo_held_add(store, NAME, id_of(12));
    mongo_held_doubt(store, id_of(12));
    answers_give("aggregate", CURSOR(SEEN("7", OID("0c"))));
    transcript_code(
        store->base.ops->look(&store->base, unnamed, 1, (hf_stamp){0}, false, show, NULL, &err),
        &err);
    answers_give_always("find", "{'ok': 1, 'cursor': {'firstBatch': []}}");
    answers_give("list", "{'ok': 1, 'docs': [" SEEN("7", OID("09")) "]}");
    transcript_code(store->base.ops->list(&store->base, &(hf_list_part){.prefix = "", .after = ""},
                                          show, NULL, &err),
                    &err);
    transcript_end("element-looks");
}

/* ---- Claims ---- */

static void claim(const char *what, const char *filter, const char *sort)
{
    hf_record out;
    hf_step_reply reply = {.confirmed = false};
    hf_enter in = entrant();
    transcript_say("\n%s", what);
    hf_code code = store->base.ops->claim(&store->base, &(hf_claim){.filter = filter, .sort = sort},
                                          &in, &out, &reply, &err);
    show_result(code, &reply, &out);
}

static void test_claims(void **state)
{
    (void)state;
    answers_give("aggregate", CURSOR("{'_id': ['a', 7]}"));
    answers_give("findAndModify", TAKEN);
    answers_give("aggregate", CURSOR("{'_id': ['a', 7]}"));
    claim("taken, and it still matches", "{\"lines.x\": 1}", "{\"y\": -1}");
    answers_give("aggregate", CURSOR(""));
    answers_give("aggregate", CURSOR(""));
    claim("there is none", NULL, NULL);
    claim("the filter is none", "[", NULL);
    answers_give("aggregate", "{'ok': 0, 'code': 2, 'errmsg': 'what?'}");
    claim("it is not understood", NULL, NULL);
    transcript_end("element-claims");
}

static void test_what_no_longer_matches_is_given_back_and_passed_by(void **state)
{
    (void)state;
    answers_give("aggregate", CURSOR("{'_id': ['a', 7]}"));
    answers_give("findAndModify", TAKEN);
    answers_give("aggregate", CURSOR(""));
    answers_give("update", "{'ok': 1, 'n': 1}");
    answers_give("aggregate", CURSOR(""));
    answers_give("aggregate", CURSOR(""));
    claim("another did it first", "{\"lines.x\": 1}", NULL);
    transcript_end("element-claims-passed-by");
}

/* Its ticket may stand in the element, so no other may be taken with it. */
static void test_a_claim_in_doubt_ends(void **state)
{
    (void)state;
    size_t n;
    answers_give("aggregate", CURSOR("{'_id': ['a', 7]}, {'_id': ['a', 8]}"));
    answers_give("findAndModify", NULL);
    answers_give_always("findAndModify", NONE);
    answers_give_always("aggregate", CURSOR(""));
    claim("no answer", NULL, NULL);
    mongo_held *doubtful = mongo_held_copy_doubtful(store, &n);
    assert_int_equal(n, 1);
    assert_string_equal(doubtful[0].name, NAME);
    mongo_held_free_copy(doubtful, n);
    transcript_end("element-claims-in-doubt");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_takings),
        TEST(test_what_is_taken_and_has_no_name_is_given_back),
        TEST(test_leavings),
        TEST(test_renewals),
        TEST(test_looks),
        TEST(test_claims),
        TEST(test_what_no_longer_matches_is_given_back_and_passed_by),
        TEST(test_a_claim_in_doubt_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
