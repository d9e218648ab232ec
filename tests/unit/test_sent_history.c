/* SPDX-License-Identifier: Apache-2.0 */
/* test_sent_history.c: the history of the locks on MongoDB: what is sent, word for word, and what
 * is read from the answers. */
#include "faults/mongo_transcript.h"
#include "store/mongo/shared/history.h"

#define OID(n) "{'$oid': '000000" n "0000000000000000'}"
#define DATE(ms) "{'$date': {'$numberLong': '" ms "'}}"
#define LONG(n) "{'$numberLong': '" n "'}"
#define CURSOR(docs) "{'ok': 1, 'cursor': {'firstBatch': [" docs "]}}"
#define WELL "{'ok': 1}"
#define DENIED "{'ok': 0, 'code': 13, 'errmsg': 'not authorized'}"
#define ID "{'ticket': " OID("07") ", 'number': " LONG("5") "}"
#define TIMES "'granted_at': " DATE("4000") ", 'ended_at': " DATE("5000")
#define NUMBERS "'permits': 1, 'limit': 3, 'token': " LONG("5") ", 'more': " LONG("2")
#define WORDS "'who': 'app@here:5', 'why': 'because', 'end': 'broken', 'reason': 'broken by me'"
#define TURN "{'_id': " ID ", 'name': 'a', 'exit_status': 0, " NUMBERS ", " WORDS ", " TIMES "}"
#define DUPLICATE(i) "{'index': " i ", 'code': 11000, 'errmsg': 'there already'}"

static mongo_store *store;
static hf_error err;

static void open_with(const char *keys)
{
    store = answers_open(keys);
    transcript_begin();
}

static int end(void **state)
{
    (void)state;
    answers_close(store);
    return 0;
}

/* ---- The calls ---- */

static hf_id numbered(uint8_t n)
{
    return (hf_id){{0, 0, 0, n}};
}

static hf_code add(const char *what, size_t n)
{
    const hf_turn_note turns[] = {{.name = "a",
                                   .who = "app@here:5",
                                   .actor = "one",
                                   .why = "because",
                                   .reason = "it was not fed for 5 s",
                                   .ticket = numbered(7),
                                   .session = numbered(1),
                                   .token = 5,
                                   .is_block = true,
                                   .permits = 1,
                                   .limit = 3,
                                   .granted_at = {4000},
                                   .ended_at = {5000},
                                   .end = HF_TURN_LOST,
                                   .has_exit_status = true,
                                   .more = 9},
                                  {.name = "b",
                                   .who = "",
                                   .actor = "",
                                   .why = "",
                                   .reason = "",
                                   .ticket = numbered(8),
                                   .session = numbered(1),
                                   .permits = 1,
                                   .limit = 1,
                                   .ended_at = {6000}}};
    transcript_say("\n%s", what);
    hf_code code = store->base.ops->history_add(&store->base, turns, n, &err);
    transcript_code(code, &err);
    return code;
}

static bool show(void *ctx, const hf_turn_note *turn)
{
    (void)ctx;
    transcript_say("   %s by \"%s\" (\"%s\"), \"%s\", token %lld, %d of %d, from %lld to %lld, end "
                   "%d: \"%s\", status %d, %lld more",
                   turn->name, turn->who, turn->actor, turn->why, (long long)turn->token,
                   (int)turn->permits, (int)turn->limit, (long long)turn->granted_at.ms,
                   (long long)turn->ended_at.ms, turn->end, turn->reason,
                   turn->has_exit_status ? turn->exit_status : -1, (long long)turn->more);
    return true;
}

static void read_part(const char *what, hf_history_part part)
{
    transcript_say("\n%s", what);
    transcript_code(store->base.ops->history(&store->base, &part, show, NULL, &err), &err);
}

/* ---- The collection ---- */

static void test_the_first_client_makes_the_collection(void **state)
{
    (void)state;
    open_with("");
    answers_give("find", CURSOR(""));
    answers_give_always("create", WELL);
    answers_give_always("createIndexes", WELL);
    answers_give_always("insert", WELL);
    add("the first turns", 2);
    add("later ones", 1);
    transcript_end("history-made");
}

static void test_two_clients_make_it_at_once(void **state)
{
    (void)state;
    open_with("");
    answers_give("find", CURSOR(""));
    answers_give("create", "{'ok': 0, 'code': 48, 'errmsg': 'exists'}");
    answers_give_always("insert", WELL);
    add("the other one was faster", 1);
    transcript_end("history-race");
}

static void test_a_collection_that_is_there(void **state)
{
    (void)state;
    open_with("&hfProtocol=ttl");
    answers_give_always("insert", WELL);
    answers_give("find", "{'ok': 0, 'code': 2, 'errmsg': 'not capped'}");
    assert_int_equal(add("not capped", 1), HF_SHAPE);
    answers_give("find", CURSOR("{'_id': 5, 'name': 'theirs'}"));
    assert_int_equal(add("another program's", 1), HF_SHAPE);
    answers_give("find", CURSOR(TURN));
    assert_int_equal(add("ours", 1), HF_OK);
    transcript_end("history-there");
}

static void test_rights_that_are_missing(void **state)
{
    (void)state;
    open_with("");
    answers_give("find", DENIED);
    assert_int_equal(add("to find", 1), HF_DENIED);
    answers_give("find", CURSOR(""));
    answers_give("create", DENIED);
    assert_int_equal(add("to create", 1), HF_DENIED);
    answers_give("find", CURSOR(TURN));
    answers_give("insert", DENIED);
    assert_int_equal(add("to insert", 1), HF_DENIED);
    transcript_end("history-denied");
}

/* ---- Adding ---- */

static void test_turns_that_are_there_already(void **state)
{
    (void)state;
    open_with("");
    answers_give("find", CURSOR(TURN));
    answers_give("insert",
                 "{'ok': 1, 'n': 0, 'writeErrors': [" DUPLICATE("0") ", " DUPLICATE("1") "]}");
    assert_int_equal(add("all", 2), HF_OK);
    answers_give("insert", "{'ok': 1, 'n': 0, 'writeErrors': [" DUPLICATE(
                               "0") ", {'index': 1, 'code': 11602, 'errmsg': 'a step-down'}]}");
    assert_int_equal(add("one, and another was not written", 2), HF_UNKNOWN);
    answers_give("insert", NULL);
    assert_int_equal(add("no answer", 1), HF_UNKNOWN);
    transcript_end("history-again");
}

/* ---- Reading ---- */

static void test_what_is_read(void **state)
{
    (void)state;
    open_with("");
    answers_give_always("find", CURSOR(TURN ", {'_id': 1, 'name': 'odd'}"));
    read_part("one lock's", (hf_history_part){.name = "a", .prefix = "", .limit = 10});
    read_part("since a time",
              (hf_history_part){.name = "a", .prefix = "a", .since = {1000}, .limit = 10});
    read_part("all", (hf_history_part){.name = "", .prefix = "", .limit = 1000});
    read_part("of a prefix", (hf_history_part){.name = "", .prefix = "x/", .limit = 5});
    transcript_end("history-read");
}

static void test_reading_fails(void **state)
{
    (void)state;
    open_with("");
    answers_give("find", DENIED);
    read_part("no right", (hf_history_part){.name = "a", .prefix = "", .limit = 1});
    answers_give("find", NULL);
    read_part("no answer", (hf_history_part){.name = "a", .prefix = "", .limit = 1});
    transcript_end("history-unread");
}

/* ---- Where none is kept ---- */

static void test_where_none_is_kept(void **state)
{
    (void)state;
    store = answers_open("");
    assert_true(store->base.can & HF_CAN_HISTORY);
    answers_close(store);
    store = answers_open("&hfHistory=0");
    assert_false(store->base.can & HF_CAN_HISTORY);
    answers_close(store);
    store = answers_open_uri("mongodb://a:27017/config?hfProtocol=sharding");
    assert_false(store->base.can & HF_CAN_HISTORY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_the_first_client_makes_the_collection, end),
        cmocka_unit_test_teardown(test_two_clients_make_it_at_once, end),
        cmocka_unit_test_teardown(test_a_collection_that_is_there, end),
        cmocka_unit_test_teardown(test_rights_that_are_missing, end),
        cmocka_unit_test_teardown(test_turns_that_are_there_already, end),
        cmocka_unit_test_teardown(test_what_is_read, end),
        cmocka_unit_test_teardown(test_reading_fails, end),
        cmocka_unit_test_teardown(test_where_none_is_kept, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
