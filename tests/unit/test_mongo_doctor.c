/* SPDX-License-Identifier: Apache-2.0 */
/* test_mongo_doctor.c: what the doctor says of the answers that a MongoDB may give. */
#include "core/lease.h"
#include "faults/mongo_answers.h"
#include "store/mongo/driver/bound.h"
#include "store/mongo/driver/server.h"

#define WELL "{'ok': 1}"
#define HELLO(ms) "{'ok': 1, 'localTime': {'$date': {'$numberLong': '" ms "'}}}"

static char said[6000];
static int most;

static bool note(void *ctx, const hf_finding *finding)
{
    size_t used = strlen(said);
    snprintf(said + used, sizeof said - used, "%s%s%s: %s\n", finding->is_danger ? "DANGER " : "",
             finding->wants_care ? "CARE " : "", finding->topic, finding->text);
    return ++*(int *)ctx < most;
}

static void assert_said(const char *part)
{
    if (!strstr(said, part))
        fail_msg("\"%s\" is not in:\n%s", part, said);
}

static void assert_not_said(const char *part)
{
    if (strstr(said, part))
        fail_msg("\"%s\" is in:\n%s", part, said);
}

/* What a healthy set says, where the test has not said anything else before. */
static void give_the_rest(void)
{
    answers_give_always("buildInfo", "{'ok': 1, 'version': '7.0.5'}");
    answers_give_always("replSetGetConfig",
                        "{'ok': 1, 'config': {'settings': {'electionTimeoutMillis': 1000}}}");
    answers_give_always("replSetGetStatus",
                        "{'ok': 1, 'members': ["
                        " {'name': 'a:1', 'stateStr': 'PRIMARY', 'health': 1},"
                        " {'name': 'b:1', 'stateStr': 'SECONDARY', 'health': 1}]}");
    answers_give_always("aggregate", "{'ok': 1, 'cursor': {'id': {'$numberLong': '4711'}}}");
    answers_give_always("killCursors", WELL);
    answers_give_always("ping", WELL);
    answers_give_always("findAndModify", WELL);
    answers_give_always("delete", WELL);
    answers_give_always("update", WELL);
    answers_give_always("find", "{'ok': 1, 'cursor': {'firstBatch': []}}");
    answers_give_always("create", WELL);
    answers_give_always("createIndexes", WELL);
    answers_give_always("insert", WELL);
    answers_give_always("listCollections", "{'ok': 1, 'cursor': {'firstBatch': []}}");
    answers_give_always("listIndexes", "{'ok': 0, 'code': 26}");
    answers_give_always("hello", HELLO("1700000000000"));
}

static hf_code look(mongo_store *store)
{
    int n = 0;
    hf_error err;
    said[0] = '\0';
    most = most ? most : 100;
    give_the_rest();
    hf_code code = store->base.ops->doctor(&store->base, note, &n, &err);
    most = 0;
    if (code)
        snprintf(said, sizeof said, "%s", err.text);
    return code;
}

static void look_and_close(mongo_store *store)
{
    assert_int_equal(look(store), HF_OK);
    answers_close(store);
}

static void test_a_healthy_set(void **state)
{
    (void)state;
    mongo_store *store = answers_open("");
    assert_int_equal(look(store), HF_OK);
    assert_string_equal(
        said,
        "reach: a:27017,b:27017,c:27017 answers, database app, collections holdfast.locks and "
        "holdfast.sessions\n"
        "server: MongoDB 7.0.5\n"
        "write concern: majority, journaled\n"
        "latency: a majority write takes 0.0 to 0.0 ms, a new connection 0.0 "
        "ms: from here, and with the network as it is now, a ttl of 1 s or longer is safe\n"
        "members: a:1 PRIMARY, b:1 SECONDARY\n"
        "CARE election: after a crash of the primary nothing is written for about 4 s "
        "(electionTimeoutMillis is 1000); locks with a ttl of 6000 ms outlive only 1.6 s: give a "
        "ttl of 15 s\n"
        "notices: bells: waiters are told at once\n"
        "history: holdfast.history keeps the turns that have ended\n"
        "trial lock: taken, passed on, shared, made a lease, and released\n"
        "clock: a:27017 is 0 ms ahead of this machine's clock\n"
        "clock: b:27017 is 0 ms ahead of this machine's clock\n"
        "clock: c:27017 is 0 ms ahead of this machine's clock\n"
        "clock: the members' clocks are 0 ms apart\n");
    assert_non_null(
        strstr(answers_last("create"), "'create' : 'holdfast.history', 'capped' : true"));
    assert_non_null(strstr(answers_last("insert"), "'insert' : 'holdfast.history'"));
    answers_close(store);
}

static void test_it_stops_when_it_is_told_to(void **state)
{
    (void)state;
    for (int n = 1; n <= 9; n++) {
        mongo_store *store = answers_open("");
        most = n;
        assert_int_equal(look(store), HF_OK);
        int lines = 0;
        for (const char *at = said; *at; at++)
            lines += *at == '\n';
        assert_int_equal(lines, n);
        answers_close(store);
    }
}

static void test_a_server_that_does_not_answer_is_an_error(void **state)
{
    (void)state;
    mongo_store *store = answers_open("");
    answers_give("buildInfo", NULL);
    assert_int_equal(look(store), HF_UNREACHABLE);
    assert_said("asking about the server failed");
    assert_int_equal(answers_sent("replSetGetStatus"), 0);
    answers_close(store);
}

/* ---- Members ---- */

static void test_a_member_that_does_not_answer_is_told(void **state)
{
    (void)state;
    static const char *const bad[] = {"0", "2", "'1'"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char status[200];
        mongo_store *store = answers_open("");
        snprintf(status, sizeof status,
                 "{'ok': 1, 'members': [{'name': 'a:1', 'stateStr': 'DOWN', 'health': %s},"
                 " {'name': 'b:1', 'stateStr': 'PRIMARY', 'health': 1}]}",
                 bad[i]);
        answers_give("replSetGetStatus", status);
        look_and_close(store);
        assert_said("members: a:1 DOWN, b:1 PRIMARY: one does not answer");
    }
}

#define MEMBER(name, state, health)                                                                \
    "{'name': '" name "', 'stateStr': '" state "', 'health': " health "}"

static void look_at_members(const char *members)
{
    char status[500];
    mongo_store *store = answers_open("");
    snprintf(status, sizeof status, "{'ok': 1, 'writeMajorityCount': 2, 'members': [%s]}", members);
    answers_give("replSetGetStatus", status);
    look_and_close(store);
}

static void test_an_arbiter_acknowledges_nothing(void **state)
{
    (void)state;
    look_at_members(MEMBER("a:1", "PRIMARY", "1") ", " MEMBER("b:1", "(not reachable)", "0") ", " //
                    MEMBER("c:1", "ARBITER", "1"));
    assert_said("DANGER members: a:1 PRIMARY, b:1 (not reachable), c:1 ARBITER: with data and "
                "answering: 1, and a majority is 2");
    assert_said("start b:1, or put a member with data in the arbiter's place");
    look_at_members(MEMBER("a:1", "PRIMARY", "1") ", " MEMBER("b:1", "RECOVERING", "1") ", " //
                    MEMBER("c:1", "ARBITER", "1"));
    assert_said("start the others, or");
    look_at_members(MEMBER("a:1", "PRIMARY", "1") ", " MEMBER("b:1", "SECONDARY", "1") ", " //
                    MEMBER("c:1", "ARBITER", "1"));
    assert_said(
        "CARE members: a:1 PRIMARY, b:1 SECONDARY, c:1 ARBITER: when one with data is down");
    look_at_members(MEMBER("a:1", "PRIMARY", "1") ", " MEMBER("b:1", "SECONDARY", "1") ", " //
                    MEMBER("c:1", "SECONDARY", "1") ", " MEMBER("d:1", "ARBITER", "1"));
    assert_said("\nmembers: a:1 PRIMARY, b:1 SECONDARY, c:1 SECONDARY, d:1 ARBITER\n");
    look_at_members(MEMBER("a:1", "PRIMARY", "1") ", " MEMBER("b:1", "SECONDARY", "1") ", " //
                    MEMBER("c:1", "(not reachable)", "0"));
    assert_said(
        "CARE members: a:1 PRIMARY, b:1 SECONDARY, c:1 (not reachable): one does not answer");
}

static void test_a_member_that_does_not_say_much(void **state)
{
    (void)state;
    mongo_store *store = answers_open("");
    answers_give("replSetGetStatus", "{'ok': 1, 'members': [{}]}");
    look_and_close(store);
    assert_said("members: ? ?: one does not answer");
}

static void test_members_that_may_not_be_seen(void **state)
{
    (void)state;
    mongo_store *store = answers_open("");
    answers_give("replSetGetStatus", "{'ok': 0, 'code': 13}");
    look_and_close(store);
    assert_said("members: a replica set; this user may not see its members");
    store = answers_open("");
    answers_give("replSetGetStatus", "{'ok': 0, 'code': 94, 'errmsg': 'not yet'}");
    look_and_close(store);
    assert_said("members: a replica set; its members are not shown: mongodb at a:27017");
}

static void look_as(mongo_topology topology)
{
    mongo_store *store = answers_open("");
    atomic_store(&store->topology, topology);
    look_and_close(store);
}

static void test_what_is_no_set_says_so(void **state)
{
    (void)state;
    look_as(MONGO_ALONE);
    assert_said("members: a standalone server");
    assert_said("notices: bells");
    assert_int_equal(answers_sent("aggregate"), 0);
    look_as(MONGO_ROUTER);
    assert_said("members: a sharded cluster, through mongos");
    assert_said("notices: bells");
}

/* ---- Notices, writes ---- */

static void test_a_bell_that_is_there_is_not_made_again(void **state)
{
    (void)state;
    mongo_store *store = answers_open("");
    answers_give("find", "{'ok': 1, 'cursor': {'firstBatch': [{'_id': 1}]}}");
    look_and_close(store);
    assert_said("notices: bells");
    assert_int_equal(answers_sent("create"), 0);
}

static void test_without_bells_it_says_what_that_costs(void **state)
{
    (void)state;
    mongo_store *store = answers_open("");
    answers_give("create", "{'ok': 0, 'code': 13, 'errmsg': 'none of yours'}");
    assert_int_equal(look(store), HF_OK);
    assert_said("notices: without bells, each waiter costs the server more, the more others write: "
                "let the user create capped collections holdfast.bells.1 to .64");
    assert_said("none of yours");
    assert_said("notices: change streams");
    assert_non_null(strstr(answers_last("killCursors"), "'cursors' : [ 4711 ]"));
    answers_close(store);
    store = answers_open("");
    answers_give("insert", NULL);
    look_and_close(store);
    assert_said("notices: not known: ");
}

static mongo_store *open_document(void)
{
    return answers_open_uri("mongodb://a,b,c/app?replicaSet=rs&hfProtocol=document&"
                            "hfCollection=orders&hfTokenField=fence");
}

static void test_other_protocols_have_change_streams(void **state)
{
    (void)state;
    mongo_store *store = open_document();
    look_and_close(store);
    assert_said("notices: change streams");
    assert_int_equal(answers_sent("create"), 0);
    store = open_document();
    atomic_store(&store->topology, MONGO_ALONE);
    look_and_close(store);
    assert_said("notices: polling: a standalone server has no change streams");
}

#define WRITES(seconds, n)                                                                         \
    "{'ok': 1, 'operationTime': {'$timestamp': {'t': " seconds ", 'i': " n "}}}"

/* What timing a connection takes; it comes before that look. */
static void give_pings_of_a_connection(void)
{
    answers_give("ping", WELL);
    answers_give("ping", WELL);
}

/* The most that a reply shows of one second. */
static void test_where_others_write_much_it_says_that_it_looks(void **state)
{
    (void)state;
    mongo_store *store = open_document();
    give_pings_of_a_connection();
    answers_give("ping", WRITES("7", "501"));
    answers_give("ping", NULL);
    answers_give("ping", WRITES("8", "30"));
    look_and_close(store);
    assert_said("notices: looks each half second: 501 writes a second or more");
    assert_said("(hfStreamWrites=500)");
    store = open_document();
    give_pings_of_a_connection();
    answers_give("ping", WRITES("7", "500"));
    assert_int_equal(look(store), HF_OK);
    assert_said("notices: change streams");
    assert_int_equal(answers_sent("ping"), 13);
    assert_non_null(strstr(answers_paused(), "100 100 100 "));
    answers_close(store);
}

static void test_without_change_streams_it_says_why(void **state)
{
    (void)state;
    mongo_store *store = open_document();
    answers_give("aggregate", "{'ok': 0, 'code': 40573, 'errmsg': 'no streams here'}");
    assert_int_equal(look(store), HF_OK);
    assert_said("notices: polling: ");
    assert_said("no streams here");
    assert_int_equal(answers_sent("killCursors"), 0);
    answers_close(store);
}

/* The first pair is not counted, whatever it takes. */
static void test_the_best_and_the_worst_of_the_writes(void **state)
{
    (void)state;
    static const int64_t takes_ms[] = {900, 1, 30, 41, 20, 35, 22, 11, 23, 24};
    mongo_store *store = answers_open("");
    for (size_t i = 0; i < sizeof takes_ms / sizeof *takes_ms; i++)
        answers_give_slowly(i % 2 ? "delete" : "findAndModify", WELL, takes_ms[i]);
    look_and_close(store);
    assert_said("\nlatency: a majority write takes 11.0 to 41.0 ms, a new connection 0.0 ms: from "
                "here, and with the network as it is now, a ttl of 1 s or longer is safe\n");
}

static void write_in(int64_t last_ms)
{
    mongo_store *store = answers_open("");
    for (int i = 0; i < 4; i++)
        answers_give("delete", WELL);
    answers_give_slowly("delete", WELL, last_ms);
    look_and_close(store);
}

static void test_writes_too_slow_for_the_ttl_are_a_danger(void **state)
{
    (void)state;
    write_in(1100);
    assert_said("\nlatency: a majority write takes 0.0 to 1100.0 ms");
    assert_said("a ttl of 6 s or longer is safe\n");
    write_in(1101);
    assert_said("\nDANGER latency: a majority write takes 0.0 to 1101.0 ms");
    assert_said(
        "a ttl of 7 s or longer is safe; with a shorter one, a connection that breaks costs "
        "the lock\n");
}

/* 200 ms away: writes and pings take one round trip, a new connection two. The ping's own is no
 * part of connecting. */
static void test_a_new_connection_counts_beside_two_writes(void **state)
{
    (void)state;
    mongo_store *store = answers_open("");
    for (int i = 0; i < 5; i++) {
        answers_give_slowly("findAndModify", WELL, 200);
        answers_give_slowly("delete", WELL, 200);
    }
    answers_give_slowly("ping", WELL, 600);
    answers_give_slowly("ping", WELL, 200);
    look_and_close(store);
    assert_said("\nlatency: a majority write takes 200.0 to 200.0 ms, a new connection 400.0 ms: "
                "from here, and with the network as it is now, a ttl of 3 s or longer is safe\n");
}

/* There is more to look at, and ten seconds for all of it. */
static void test_from_far_away_fewer_writes_are_timed(void **state)
{
    (void)state;
    mongo_store *store = answers_open("");
    for (int i = 0; i < 3; i++) {
        answers_give_slowly("findAndModify", WELL, i < 2 ? 600 : 900);
        answers_give_slowly("delete", WELL, i < 2 ? 600 : 900);
    }
    look_and_close(store);
    assert_said("\nlatency: a majority write takes 600.0 to 600.0 ms");
}

/* What was not measured has no figures. */
static void test_a_new_connection_that_is_not_made_takes_no_time(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        mongo_store *store = answers_open("");
        for (int j = 0; j < i; j++)
            answers_give("ping", WELL);
        answers_give("ping", NULL);
        assert_int_equal(look(store), HF_OK);
        assert_said("\nCARE latency: a majority write takes 0.0 to 0.0 ms; a new connection could "
                    "not be made, so which ttl is safe is not known: ");
        assert_not_said("a new connection 0.0 ms");
        answers_close(store);
    }
}

/* ---- Bad weather ---- */

static void assert_unknown(const char *keys, const char *verb, const char *topic)
{
    char line[200];
    mongo_store *store = *keys ? open_document() : answers_open("");
    answers_give(verb, NULL);
    assert_int_equal(look(store), HF_OK);
    snprintf(line, sizeof line, "\nCARE %s: not known: ", topic);
    assert_said(line);
    answers_close(store);
}

static void test_what_is_not_answered_is_not_well(void **state)
{
    (void)state;
    assert_unknown("", "replSetGetStatus", "members");
    assert_unknown("", "replSetGetConfig", "election");
    assert_unknown("", "create", "notices");
    assert_unknown("document", "aggregate", "notices");
}

/* Nothing is asked for which nobody waits any more. */
static void test_what_there_is_no_time_for_is_told(void **state)
{
    (void)state;
    mongo_store *store = answers_open("");
    hf_bound bound = {.until = mono_add_ms(mongo_mono(store), 700)};
    answers_give_slowly("replSetGetStatus", "{'ok': 1, 'members': []}", 800);
    mongo_bound(&store->base, &bound);
    assert_int_equal(look(store), HF_OK);
    assert_said("CARE notices: not looked at: answers came so slowly that there was no time left\n"
                "CARE history: not looked at: answers came so slowly that there was no time left\n"
                "CARE collection: not looked at: answers came so slowly that there was no time "
                "left\n"
                "CARE trial lock: not looked at: answers came so slowly that there was no time "
                "left\n"
                "CARE clock: not looked at: answers came so slowly that there was no time left\n");
    assert_int_equal(answers_sent("hello"), 0);
    mongo_bound(&store->base, NULL);
    answers_close(store);
}

/* It was cut short by the doctor, not by the set. */
static void test_a_write_that_nobody_waits_for_is_no_danger(void **state)
{
    (void)state;
    mongo_store *store = answers_open("");
    hf_bound bound = {.until = mono_add_ms(mongo_mono(store), 700)};
    answers_give_slowly("findAndModify", NULL, 800);
    mongo_bound(&store->base, &bound);
    assert_int_equal(look(store), HF_OK);
    assert_said("CARE write concern: not known: ");
    assert_not_said("DANGER");
    mongo_bound(&store->base, NULL);
    answers_close(store);
}

static void test_each_write_that_fails_is_told(void **state)
{
    (void)state;
    for (int i = 0; i < 10; i++) {
        mongo_store *store = answers_open("");
        for (int j = 0; j < i; j++)
            answers_give(j % 2 ? "delete" : "findAndModify", WELL);
        answers_give(i % 2 ? "delete" : "findAndModify",
                     "{'ok': 1, 'writeConcernError': {'code': 64, 'errmsg': 'too slow'}}");
        assert_int_equal(look(store), HF_OK);
        assert_said("\nDANGER write concern: a majority write fails: ");
        assert_not_said("latency");
        assert_not_said("journaled");
        assert_int_equal(answers_sent("delete") + answers_sent("findAndModify"), i + 1);
        answers_close(store);
    }
}

#define UP_TO_LATENCY 8 /* findings of a healthy set: what comes later is not looked at */

static void test_the_trial_is_taken_away(void **state)
{
    (void)state;
    mongo_store *store = answers_open("");
    most = UP_TO_LATENCY;
    assert_int_equal(look(store), HF_OK);
    const char *made = strstr(answers_last("findAndModify"), "'$oid' : ");
    const char *gone = strstr(answers_last("delete"), "'$oid' : ");
    assert_non_null(made);
    assert_non_null(gone);
    assert_memory_equal(made, gone, 35);
    assert_non_null(strstr(answers_last("delete"), "'limit' : 1"));
    assert_non_null(strstr(answers_last("delete"), "'w' : 'majority'"));
    assert_non_null(strstr(answers_last("findAndModify"), "'upsert' : true"));
    answers_close(store);
}

static void test_weak_writes_are_a_danger(void **state)
{
    (void)state;
    look_and_close(answers_open("&hfWeakWrites=yes"));
    assert_said("\nDANGER write concern: hfWeakWrites=yes: ");
    assert_not_said("journaled");
}

static void test_where_no_document_is_ours_nothing_is_changed(void **state)
{
    (void)state;
    mongo_store *store = answers_open("&hfProtocol=ttl");
    most = UP_TO_LATENCY;
    assert_int_equal(look(store), HF_OK);
    assert_said("reach: a:27017,b:27017,c:27017 answers, database app, collection locks\n");
    assert_said("\nlatency: a majority's word, without a write, takes 0.0 to 0.0 ms");
    assert_int_equal(answers_sent("update"), 10);
    assert_int_equal(answers_sent("findAndModify") + answers_sent("delete"), 0);
    assert_null(strstr(answers_last("update"), "upsert"));
    answers_close(store);
}

static void test_protocol_sharding_tries_with_a_ping(void **state)
{
    (void)state;
    mongo_store *store = answers_open("&hfProtocol=sharding");
    most = UP_TO_LATENCY;
    answers_give("serverStatus", "{'ok': 1}");
    assert_int_equal(look(store), HF_OK);
    assert_said("collections locks and lockpings\n");
    assert_not_said("serverStatus");
    assert_non_null(strstr(answers_last("findAndModify"), "'_id' : 'holdfast doctor "));
    assert_non_null(strstr(answers_last("findAndModify"), "'ping' : '$$NOW'"));
    assert_non_null(strstr(answers_last("delete"), "'_id' : 'holdfast doctor "));
    answers_close(store);
}

static void test_a_name_that_is_no_string_wants_care(void **state)
{
    (void)state;
    mongo_store *store = answers_open("&hfProtocol=ttl");
    answers_give("find", "{'ok': 1, 'cursor': {'firstBatch': []}}"); /* of the history */
    answers_give("find", "{'ok': 1, 'cursor': {'firstBatch': [{'_id': 5}]}}");
    look_and_close(store);
    assert_said("\nCARE names: locks has a document whose _id is not a string: ");
    assert_said("clock: ");
    store = answers_open("&hfProtocol=ttl");
    most = 6;
    look_and_close(store);
    assert_not_said("names: ");
}

static void test_nobody_looks_for_names_once_it_is_told_to_stop(void **state)
{
    (void)state;
    mongo_store *store = answers_open("&hfProtocol=ttl");
    most = 2;
    assert_int_equal(look(store), HF_OK);
    assert_int_equal(answers_sent("find"), 0);
    answers_close(store);
    store = answers_open("");
    assert_int_equal(look(store), HF_OK);
    assert_int_equal(answers_sent("find"), 2); /* for a bell, and the history */
    answers_close(store);
}

/* ---- Clocks ---- */

static void look_at_clocks(const char *keys, const char *a, const char *b, const char *c)
{
    mongo_store *store = answers_open(keys);
    answers_give("hello", a);
    answers_give("hello", b);
    answers_give("hello", c);
    look_and_close(store);
}

static void test_clocks_ahead_and_behind(void **state)
{
    (void)state;
    look_at_clocks("", HELLO("1700000000700"), HELLO("1699999999900"), HELLO("1700000000300"));
    assert_said("\nclock: a:27017 is 700 ms ahead of this machine's clock\n"
                "clock: b:27017 is 100 ms behind this machine's clock\n"
                "clock: c:27017 is 300 ms ahead of this machine's clock\n"
                "clock: the members' clocks are 800 ms apart\n");
    look_at_clocks("", HELLO("1700000000300"), HELLO("1700000000100"), HELLO("1700000000500"));
    assert_said("\nclock: the members' clocks are 400 ms apart\n");
}

static void test_half_of_the_way_counts(void **state)
{
    (void)state;
    mongo_store *store = answers_open("");
    answers_give_slowly("hello", HELLO("1700000000100"), 60);
    look_and_close(store);
    assert_said("\nclock: a:27017 is 70 ms ahead of this machine's clock\n");
}

static void test_a_clock_that_is_not_told(void **state)
{
    (void)state;
    static const char *const none[] = {NULL, "{'ok': 1}", "{'ok': 1, 'localTime': 'late'}",
                                       "{'ok': 0, 'code': 13}"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        look_at_clocks("", none[i], HELLO("1700000000100"), HELLO("1700000000150"));
        assert_said("\nCARE clock: a:27017 does not answer\nclock: b:27017 is 100 ms ahead");
        assert_said("\nclock: the members' clocks are 50 ms apart\n");
        look_at_clocks("", none[i], HELLO("1700000000100"), none[i]);
        assert_not_said("apart");
    }
}

static void test_how_far_clocks_may_be_apart(void **state)
{
    (void)state;
    const char *zero = HELLO("1700000000000");
    look_at_clocks("", zero, zero, HELLO("1700000006000"));
    assert_said("\nclock: the members' clocks are 6000 ms apart\n");
    look_at_clocks("", zero, zero, HELLO("1700000006001"));
    assert_said("\nclock: the members' clocks are 6001 ms apart, more than the ttl of 6000 ms");
    look_at_clocks("", zero, zero, HELLO("1700000150000"));
    assert_said("\nclock: the members' clocks are 150000 ms apart, more than the ttl");
}

static void test_where_the_servers_clock_judges_a_second_is_much(void **state)
{
    (void)state;
    const char *zero = HELLO("1700000000000");
    look_at_clocks("&hfProtocol=ttl", zero, zero, HELLO("1700000001000"));
    assert_said("\nclock: the members' clocks are 1000 ms apart: with protocol ttl ");
    look_at_clocks("&hfProtocol=ttl", zero, zero, HELLO("1700000001001"));
    assert_said("\nDANGER clock: the members' clocks are 1001 ms apart: with protocol ttl ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_healthy_set),
        cmocka_unit_test(test_it_stops_when_it_is_told_to),
        cmocka_unit_test(test_a_server_that_does_not_answer_is_an_error),
        cmocka_unit_test(test_a_member_that_does_not_answer_is_told),
        cmocka_unit_test(test_an_arbiter_acknowledges_nothing),
        cmocka_unit_test(test_a_member_that_does_not_say_much),
        cmocka_unit_test(test_members_that_may_not_be_seen),
        cmocka_unit_test(test_what_is_no_set_says_so),
        cmocka_unit_test(test_a_bell_that_is_there_is_not_made_again),
        cmocka_unit_test(test_without_bells_it_says_what_that_costs),
        cmocka_unit_test(test_other_protocols_have_change_streams),
        cmocka_unit_test(test_where_others_write_much_it_says_that_it_looks),
        cmocka_unit_test(test_without_change_streams_it_says_why),
        cmocka_unit_test(test_the_best_and_the_worst_of_the_writes),
        cmocka_unit_test(test_writes_too_slow_for_the_ttl_are_a_danger),
        cmocka_unit_test(test_a_new_connection_counts_beside_two_writes),
        cmocka_unit_test(test_from_far_away_fewer_writes_are_timed),
        cmocka_unit_test(test_a_new_connection_that_is_not_made_takes_no_time),
        cmocka_unit_test(test_what_is_not_answered_is_not_well),
        cmocka_unit_test(test_what_there_is_no_time_for_is_told),
        cmocka_unit_test(test_a_write_that_nobody_waits_for_is_no_danger),
        cmocka_unit_test(test_each_write_that_fails_is_told),
        cmocka_unit_test(test_the_trial_is_taken_away),
        cmocka_unit_test(test_weak_writes_are_a_danger),
        cmocka_unit_test(test_where_no_document_is_ours_nothing_is_changed),
        cmocka_unit_test(test_protocol_sharding_tries_with_a_ping),
        cmocka_unit_test(test_a_name_that_is_no_string_wants_care),
        cmocka_unit_test(test_nobody_looks_for_names_once_it_is_told_to_stop),
        cmocka_unit_test(test_clocks_ahead_and_behind),
        cmocka_unit_test(test_half_of_the_way_counts),
        cmocka_unit_test(test_a_clock_that_is_not_told),
        cmocka_unit_test(test_how_far_clocks_may_be_apart),
        cmocka_unit_test(test_where_the_servers_clock_judges_a_second_is_much),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
