/* SPDX-License-Identifier: Apache-2.0 */
/* test_sent_ttl.c: protocol ttl: what each call sends, word for word, and what is read from the
 * answers. */
#include "core/record.h"
#include "faults/mongo_transcript.h"

#define OID(n) "{'$oid': '000000" n "0000000000000000'}"
#define DATE(ms) "{'$date': {'$numberLong': '" ms "'}}"
#define STAMPED "'operationTime': {'$timestamp': {'t': 70, 'i': 3}}"
#define CURSOR(docs) "{'ok': 1, " STAMPED ", 'cursor': {'firstBatch': [" docs "]}}"
#define TAKEN(field, more)                                                                         \
    "{'ok': 1, " STAMPED ", 'value': {'_id': 'a', 'ticket': " OID("07") ", 'session': " OID(       \
        "01") ", 'ttl_ms': 6000, '" field "': " DATE("5") ", 'since': " DATE("4") more "}}"
#define IN_THE_WAY "{'ok': 0, " STAMPED ", 'code': 11000, 'keyPattern': {'_id': 1}}"
#define THEIRS(left)                                                                               \
    "{'_id': 'a', 'acquirer': 'them', 'updated': " DATE("5") ", 'hf_left': " left "}"
#define INDEX(field, seconds)                                                                      \
    CURSOR("{'key': {'_id': 1}}, {'key': {'" field "': 1}, 'expireAfterSeconds': " seconds "}")

static mongo_store *store;
static hf_error err;

static void open_with(const char *keys)
{
    store = answers_open(keys);
    transcript_begin();
}

static int begin(void **state)
{
    (void)state;
    open_with("&hfProtocol=ttl");
    return 0;
}

static int begin_until(void **state)
{
    (void)state;
    open_with("&hfProtocol=ttl&hfShape=expire-at&hfOwnerField=owner&hfTimeField=until");
    return 0;
}

static int end(void **state)
{
    (void)state;
    answers_close(store);
    return 0;
}

static void begin_session(const char *what)
{
    const hf_session self = {.id = id_of(1), .pid = 5, .app = "app", .host = "here"};
    transcript_say("\n%s", what);
    transcript_code(store->base.ops->session_begin(&store->base, &self, &err), &err);
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
}

static hf_enter entrant(void)
{
    return (hf_enter){
        .entry = {
            .ticket = id_of(7), .session = id_of(1), .ttl_ms = 6000, .permits = 1, .why = "why"}};
}

static void beat(const char *what)
{
    hf_session_state out;
    transcript_say("\n%s", what);
    transcript_code(
        store->base.ops->session_beat(&store->base, id_of(1), &(hf_beat){0}, &out, &err), &err);
    transcript_state(&out);
}

static bool show(void *ctx, const hf_record *record)
{
    (void)ctx;
    transcript_record(record);
    return true;
}

/* ---- One shape ---- */

static void test_a_session_makes_the_index(void **state)
{
    (void)state;
    answers_give("listIndexes", CURSOR("{'key': {'_id': 1}}"));
    answers_give("find", CURSOR(""));
    answers_give("createIndexes", "{'ok': 1}");
    answers_give("find", CURSOR("{'_id': 5}"));
    begin_session("the first");
    begin_session("the second");
    answers_pass(6000);
    answers_give("listIndexes", INDEX("updated", "600"));
    begin_session("after a ttl");
    transcript_say("%s", answers_log());
    transcript_end("ttl-begins");
}

static void begin_well(void)
{
    answers_give("listIndexes", INDEX("updated", "600"));
    answers_give("find", CURSOR(""));
    begin_session("begins");
}

static void show_renewed(void)
{
    size_t n;
    mongo_held *all = mongo_held_copy(store, &n);
    for (size_t i = 0; i < n; i++)
        transcript_say("   renewed: %s, %d", all[i].name, all[i].ticket.bytes[3]);
    mongo_held_free_copy(all, n);
}

/* The index is read by the same connections. */
static void test_an_index_that_cannot_be_made(void **state)
{
    (void)state;
    answers_give("listIndexes", CURSOR("{'key': {'_id': 1}}"));
    answers_give("find", CURSOR(""));
    answers_give("createIndexes", "{'ok': 0, 'code': 85}");
    answers_give("listIndexes", INDEX("updated", "600"));
    answers_give("find", CURSOR(""));
    begin_session("another has made it");
    transcript_say("%s", answers_log());
    transcript_end("ttl-unmade");
}

static void test_takings(void **state)
{
    (void)state;
    hf_enter in = entrant();
    hf_leave out = {.ticket = id_of(6)};
    begin_well();
    answers_give("findAndModify", TAKEN("updated", ", 'why': 'why', 'app': 'app', 'host': 'here'"));
    step("there was none", &(hf_step){.enter = &in});
    mongo_held_add(store, "a", id_of(6));
    show_renewed();
    answers_give("findAndModify", TAKEN("updated", ", 'acquirer': 'me'"));
    step("one leaves, one enters", &(hf_step){.leaves = &out, .n_leaves = 1, .enter = &in});
    show_renewed();
    answers_give("findAndModify", "{'ok': 1, 'value': {'_id': 'a'}, 'writeConcernError': {}}");
    step("not by a majority", &(hf_step){.enter = &in});
    answers_pass(6000);
    answers_give("listIndexes", INDEX("updated", "600"));
    answers_give("findAndModify", TAKEN("updated", ""));
    step("after a ttl", &(hf_step){.enter = &in});
    answers_give("findAndModify", IN_THE_WAY);
    answers_give("aggregate", CURSOR(THEIRS("5")));
    step("another holds", &(hf_step){.enter = &in});
    answers_give("findAndModify", IN_THE_WAY);
    answers_give("aggregate", CURSOR(THEIRS("-1")));
    answers_give("listIndexes", INDEX("updated", "60"));
    answers_give("findAndModify", TAKEN("updated", ""));
    step("another's time has passed", &(hf_step){.enter = &in});
    answers_give("findAndModify", IN_THE_WAY);
    answers_give("aggregate", CURSOR(THEIRS("-1")));
    answers_give("listIndexes", INDEX("updated", "60"));
    answers_give("findAndModify", "{'ok': 1, 'value': null}");
    answers_give("findAndModify", TAKEN("updated", ""));
    step("it was renewed, and gone then", &(hf_step){.enter = &in});
    transcript_end("ttl-takings");
}

static void test_leavings(void **state)
{
    (void)state;
    hf_leave out[] = {{.ticket = id_of(7), .outcome = HF_OUTCOME_RELEASED},
                      {.ticket = id_of(8), .outcome = HF_OUTCOME_ABANDONED}};
    begin_well();
    answers_give("delete", "{'ok': 1, " STAMPED ", 'n': 1}");
    step("one", &(hf_step){.leaves = out, .n_leaves = 1});
    answers_give("delete", "{'ok': 1}");
    step("one that was not there", &(hf_step){.leaves = out, .n_leaves = 1});
    answers_give("find", CURSOR("{'_id': 'a'}"));
    answers_give("delete", "{'ok': 1, 'n': 2}");
    step("two", &(hf_step){.leaves = out, .n_leaves = 2});
    transcript_end("ttl-leavings");
}

static void test_beats(void **state)
{
    (void)state;
    begin_well();
    mongo_held_add(store, "a", id_of(7));
    mongo_held_add(store, "b", id_of(8));
    answers_give("update", "{'ok': 1, 'n': 2}");
    beat("two are renewed");
    answers_pass(6000);
    answers_give("update", "{'ok': 1, 'n': 1}");
    answers_give("listIndexes", INDEX("updated", "600"));
    beat("one of two, after a ttl");
    mongo_held_drop(store, id_of(8));
    answers_give("update", "{'ok': 1}");
    beat("one that is not there");
    transcript_end("ttl-beats");
}

static void test_looks_and_lists(void **state)
{
    (void)state;
    static const char *const names[] = {"a", "b"};
    answers_give("listIndexes", INDEX("updated", "60"));
    answers_give("aggregate", CURSOR(THEIRS("5")));
    transcript_code(store->base.ops->look(&store->base, names, 2,
                                          (hf_stamp){(uint64_t)70 << 32 | 3}, false, show, NULL,
                                          &err),
                    &err);
    answers_give("list", "{'ok': 1, 'docs': [" THEIRS("5") ", {'_id': 'odd'}]}");
    answers_give("find", CURSOR(""));
    transcript_code(store->base.ops->list(&store->base, &(hf_list_part){.prefix = "a", .after = ""},
                                          show, NULL, &err),
                    &err);
    answers_give("list", "{'ok': 1, 'docs': [" THEIRS("5") "]}");
    const hf_list_part page = {.prefix = "", .after = "0", .in_use = true, .limit = 1};
    transcript_code(store->base.ops->list(&store->base, &page, show, NULL, &err), &err);
    answers_give("aggregate", "{'ok': 1, 'cursor': {'id': 5, 'firstBatch': []}}");
    answers_give("getMore", "{'ok': 1, 'cursor': {'id': 5, 'nextBatch': []}}");
    transcript_code(
        store->base.ops->await(&store->base, id_of(1), (hf_stamp){0}, 100, NULL, NULL, &err), &err);
    transcript_end("ttl-looks");
}

/* ---- The other ---- */

static void test_dates_that_say_until_when(void **state)
{
    (void)state;
    static const char *const name = "a";
    hf_enter in = entrant();
    answers_give("listIndexes", CURSOR("{'key': {'_id': 1}}"));
    answers_give("find", CURSOR(""));
    answers_give("createIndexes", "{'ok': 1}");
    answers_give("find", CURSOR(""));
    begin_session("begins");
    answers_give("findAndModify", TAKEN("until", ", 'owner': 'me'"));
    step("taken", &(hf_step){.enter = &in});
    answers_give("update", "{'ok': 1, 'n': 1}");
    beat("renewed");
    answers_give("aggregate", CURSOR("{'_id': 'a', 'owner': 'them', 'until': " DATE("5") "}"));
    transcript_code(
        store->base.ops->look(&store->base, &name, 1, (hf_stamp){0}, false, show, NULL, &err),
        &err);
    answers_give("findAndModify", IN_THE_WAY);
    answers_give("aggregate",
                 CURSOR("{'_id': 'a', 'owner': 'them', 'until': " DATE("5") ", 'hf_left': -1}"));
    answers_give("listIndexes", INDEX("until", "0"));
    answers_give("findAndModify", TAKEN("until", ""));
    step("taken over", &(hf_step){.enter = &in});
    transcript_end("ttl-until");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_session_makes_the_index),
        TEST(test_an_index_that_cannot_be_made),
        TEST(test_takings),
        TEST(test_leavings),
        TEST(test_beats),
        TEST(test_looks_and_lists),
        cmocka_unit_test_setup_teardown(test_dates_that_say_until_when, begin_until, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
