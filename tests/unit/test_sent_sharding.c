/* SPDX-License-Identifier: Apache-2.0 */
/* test_sent_sharding.c: protocol sharding: what each call sends, word for word, what is read from
 * the answers, and what is remembered of it. */
#include "core/record.h"
#include "faults/mongo_transcript.h"
#include "store/mongo/sharding/calls.h"
#include "store/mongo/sharding/grabs.h"
#include "store/mongo/sharding/session.h"
#include "store/mongo/sharding/sharding.h"
#include "store/mongo/sharding/waits.h"

#define OID(n) "{'$oid': '000000" n "0000000000000000'}"
#define DATE(ms) "{'$date': {'$numberLong': '" ms "'}}"
#define STAMPED "'operationTime': {'$timestamp': {'t': 70, 'i': 3}}"
#define CURSOR(docs) "{'ok': 1, " STAMPED ", 'cursor': {'firstBatch': [" docs "]}}"
#define WELL "{'ok': 1, " STAMPED ", 'n': 1, 'nModified': 1}"
#define GRABBED "{'ok': 1, " STAMPED ", 'value': {'_id': 'a'}}"
#define REFUSED "{'ok': 0, " STAMPED ", 'code': 11000}"
#define MADE                                                                                       \
    "{'ok': 1, " STAMPED ", 'lastErrorObject': {'n': 1, 'upserted': 'a'}, 'value': {'_id': 'a'}}"
#define NONE "{'ok': 1, " STAMPED ", 'value': null}"
#define LOCK(state, ts)                                                                            \
    "{'_id': 'a', 'state': " state ", 'ts': " OID(ts) ", 'when': " DATE(                           \
        "5") ", 'process': 'them:1:2:3', 'who': 'them:1:2:3:main', 'why': 'because'}"
#define PING(ms) CURSOR("{'_id': 'them:1:2:3', 'ping': " DATE(ms) "}")
#define SERVER(ms)                                                                                 \
    "{'ok': 1, 'localTime': " DATE(ms) ", 'repl': {'isWritablePrimary': true, 'electionId': " OID( \
        "09") "}}"

static mongo_store *store;
static hf_error err;

static void begin_session(unsigned id, const char *answer)
{
    const hf_session self = {.id = id_of(id), .app = "app", .host = "host", .pid = 5};
    answers_give("findAndModify", answer);
    transcript_code(store->base.ops->session_begin(&store->base, &self, &err), &err);
}

static void open_with(const char *keys)
{
    store = answers_open(keys);
    transcript_begin();
    answers_give("buildInfo", WELL);
    begin_session(1, WELL);
}

static int begin(void **state)
{
    (void)state;
    open_with("&hfProtocol=sharding");
    return 0;
}

static int begin_fair(void **state)
{
    (void)state;
    open_with("&hfProtocol=sharding&hfFair=1");
    return 0;
}

static int begin_with_names(void **state)
{
    (void)state;
    open_with("&hfProtocol=sharding&hfProcess=shard:1&hfLockSession=0000abcd0000000000000000"
              "&hfCommandMS=15000");
    return 0;
}

static int end(void **state)
{
    (void)state;
    answers_give_always("update", WELL);
    answers_close(store);
    return 0;
}

/* What the store remembers, and has said. */
static void show_known(void)
{
    const struct mongo_sharding *own = store->sharding;
    for (const sharding_grab *grab = own->grabs; grab; grab = grab->next)
        transcript_say("   grab of %s: ticket %d, session %d, ts %d %d, at +%lld, stage %d",
                       grab->name, grab->ticket.bytes[3], grab->session.bytes[3], grab->ts.bytes[2],
                       grab->ts.bytes[3], (long long)(grab->when_ms - ANSWERS_WALL_MS),
                       grab->stage);
    transcript_say("   %s%zu owed%s", own->may_have_more ? "may have more, " : "", own->n_owed,
                   own->waits ? ", somebody waits" : "");
}

static void step(const char *what, const hf_step *step)
{
    hf_record out;
    hf_step_reply reply = {.confirmed = false};
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

static void enter(const char *what, unsigned ticket)
{
    hf_enter in = {.entry = {.ticket = id_of(ticket),
                             .session = id_of(1),
                             .ttl_ms = 6000,
                             .permits = 1,
                             .why = "why"}};
    step(what, &(hf_step){.enter = &in});
}

static void leave(const char *what, const unsigned *tickets, size_t n)
{
    hf_leave out[3] = {{.told = false}};
    for (size_t i = 0; i < n; i++)
        out[i].ticket = id_of(tickets[i]);
    step(what, &(hf_step){.leaves = out, .n_leaves = n});
}

/* ---- Taking ---- */

static void give_holder(const char *ping, const char *server)
{
    answers_give("findAndModify", REFUSED);
    answers_give("find", CURSOR(LOCK("2", "0b")));
    answers_give("find", ping);
    if (server)
        answers_give_slowly("serverStatus", server, 7);
}

static void test_takings(void **state)
{
    (void)state;
    answers_give("findAndModify", GRABBED);
    enter("it was free", 7);
    give_holder(PING("1000"), SERVER("2000"));
    enter("another holds", 8);
    answers_give("findAndModify", REFUSED);
    answers_give("find", CURSOR(LOCK("0", "08")));
    answers_give("findAndModify", GRABBED);
    enter("it is freed", 8);
    answers_give("findAndModify", NONE);
    answers_give("find", CURSOR(""));
    answers_give("findAndModify", GRABBED);
    enter("it is not there", 9);
    answers_give("findAndModify", REFUSED);
    answers_give("find", CURSOR(LOCK("2", "0a")));
    answers_give("findAndModify", GRABBED);
    enter("it is ours already", 10);
    transcript_end("sharding-takings");
}

/* An owner that has not pinged for 15 minutes. */
static void test_takeovers(void **state)
{
    (void)state;
    give_holder(PING("1000"), SERVER("2000"));
    enter("seen for the first time", 7);
    give_holder(PING("1000"), SERVER("902010"));
    answers_give("find", PING("1000"));
    answers_give("findAndModify", GRABBED);
    enter("seen after the expiry", 7);
    give_holder(PING("1000"), SERVER("2000"));
    enter("another, for the first time", 8);
    give_holder(PING("1000"), SERVER("902010"));
    answers_give("find", PING("1001"));
    enter("it pings after all", 8);
    give_holder(PING("1000"), SERVER("902010"));
    answers_give("find", PING("1000"));
    answers_give("findAndModify", NONE);
    enter("somebody was faster", 8);
    give_holder(PING("1000"), SERVER("1000"));
    enter("the clock went back", 8);
    give_holder(PING("1000"), SERVER("1000"));
    enter("it is still behind, and told once a minute", 8);
    transcript_say("%s", answers_log());
    answers_pass(60000);
    give_holder(PING("1000"), SERVER("1000"));
    enter("a minute later", 8);
    transcript_say("%s", answers_log());
    transcript_end("sharding-takeovers");
}

#define ELECTED(ms)                                                                                \
    "{'ok': 1, 'localTime': " DATE(ms) ", 'repl': {'isWritablePrimary': true, 'electionId': " OID( \
        "0a") "}}"

/* The first primary was seen 15 minutes ago by our own clock; the other has another time. */
static void test_takeovers_after_an_election(void **state)
{
    (void)state;
    give_holder(PING("1000"), SERVER("2000"));
    enter("seen for the first time", 7);
    answers_pass(900000);
    give_holder(PING("1000"), ELECTED("5"));
    enter("what two clocks may differ by is not over", 7);
    answers_pass(1805);
    give_holder(PING("1000"), ELECTED("6"));
    answers_give("find", PING("1000"));
    answers_give("findAndModify", GRABBED);
    enter("it is", 7);
    transcript_end("sharding-election");
}

#define OLD_SERVER(ms)                                                                             \
    "{'ok': 1, 'localTime': " DATE(ms) ", 'repl': {'ismaster': true, 'electionId': " OID("09") "}" \
                                                                                               "}"

/* Half of how long its answer took is taken off a server's time, so that it is not too late. */
static void test_what_counts_as_expired(void **state)
{
    (void)state;
    give_holder(PING("1000"), NULL);
    answers_give("serverStatus", SERVER("2000"));
    enter("seen for the first time", 7);
    give_holder(PING("1000"), NULL);
    answers_give_slowly("serverStatus", SERVER("902040"), 100);
    enter("it may not be over yet", 7);
    give_holder(PING("1000"), NULL);
    answers_give("serverStatus", OLD_SERVER("902040"));
    answers_give("find", PING("1000"));
    answers_give("findAndModify", NULL);
    answers_give("update", WELL);
    enter("it is, says an old server, and no answer to the rest", 7);
    transcript_end("sharding-expired");
}

static void test_servers_that_say_less(void **state)
{
    (void)state;
    give_holder(CURSOR(""), "{'ok': 1, 'localTime': " DATE(
                                "5") ", 'repl': {'ismaster': true, 'electionId': " OID("09") "}}");
    enter("no ping", 7);
    give_holder(CURSOR("{'_id': 'them:1:2:3', 'ping': 5}"), NULL);
    enter("a ping that is none", 7);
    give_holder(PING("1000"), "{'ok': 1, 'localTime': 5, 'repl': {'isWritablePrimary': true}}");
    enter("a time that is none", 7);
    give_holder(PING("1000"), "{'ok': 1, 'localTime': " DATE("5") ", 'repl': {'isWritablePrimary': "
                                                                  "false}}");
    enter("not a primary", 7);
    give_holder(PING("1000"), "{'ok': 0, 'code': 10107}");
    answers_give("serverStatus", "{'ok': 0, 'code': 10107}");
    answers_give("serverStatus", "{'ok': 0, 'code': 10107}");
    enter("not a primary any more", 7);
    give_holder(PING("1000"), "{'ok': 0, 'code': 13}");
    enter("no right to ask", 7);
    transcript_say("%s", answers_log());
    give_holder(PING("1000"), "{'ok': 0, 'code': 13}");
    enter("nor then", 7);
    give_holder(PING("1000"), "{'ok': 0, 'code': 8}");
    enter("an error", 7);
    atomic_store(&store->topology, MONGO_ALONE);
    give_holder(PING("1000"), "{'ok': 1, 'localTime': " DATE("5") "}");
    enter("a standalone", 7);
    atomic_store(&store->topology, MONGO_ROUTER);
    give_holder(PING("1000"), "{'ok': 1, 'localTime': " DATE("5") "}");
    enter("a router", 7);
    transcript_say("%s", answers_log());
    transcript_end("sharding-servers");
}

static void test_takings_that_fail(void **state)
{
    (void)state;
    answers_give("findAndModify", "{'ok': 0, 'code': 13}");
    enter("no right", 7);
    answers_give("findAndModify", "{'ok': 0, 'code': 91}");
    answers_give("update", WELL);
    answers_give("findAndModify", GRABBED);
    enter("shuts down, and is undone", 7);
    answers_give("findAndModify", NULL);
    answers_give("update", "{'ok': 0, 'code': 13}");
    enter("no answer, and not undone", 8);
    store->sharding->may_have_more = false;
    answers_give("findAndModify", NULL);
    answers_give("update", WELL);
    answers_give("findAndModify", "{'ok': 0, 'code': 13}");
    enter("no answer, but undone", 8);
    store->sharding->may_have_more = false;
    answers_give("findAndModify", "{'ok': 1, 'value': 5}");
    enter("an odd answer", 8);
    store->sharding->may_have_more = false;
    answers_give("findAndModify", "{'ok': 1}");
    enter("none in the answer", 8);
    answers_give("findAndModify", REFUSED);
    answers_give("find", CURSOR("{'_id': 'a', 'state': 5}"));
    enter("an odd document", 8);
    answers_give("findAndModify", REFUSED);
    answers_give("find", NULL);
    enter("a look that fails", 8);
    answers_give_slowly("findAndModify", "{'ok': 0, 'code': 91}", 10000);
    enter("a round that takes too long", 8);
    answers_give_slowly("findAndModify", "{'ok': 0, 'code': 91}", 9999);
    answers_give("update", WELL);
    answers_give_slowly("findAndModify", GRABBED, 5000);
    enter("one that ends well, though late", 8);
    transcript_end("sharding-takings-fail");
}

/* Nobody wants to know why. */
static void test_an_outcome_without_words(void **state)
{
    (void)state;
    hf_record out;
    hf_enter in = {.entry = {.ticket = id_of(7), .session = id_of(1)}};
    answers_give("findAndModify", "{'ok': 0, 'code': 91}");
    answers_give("update", "{'ok': 0, 'code': 13}");
    assert_int_equal(
        store->base.ops->step(&store->base, "a", &(hf_step){.enter = &in}, &out, NULL, NULL),
        HF_UNKNOWN);
    transcript_end("sharding-wordless");
}

static void enter_session(const char *what, unsigned ticket, unsigned lock_session)
{
    hf_enter in = {.entry = {.ticket = id_of(ticket), .session = id_of(1), .permits = 1},
                   .lock_session = id_of(lock_session)};
    step(what, &(hf_step){.enter = &in});
}

static void unlock_session(const char *what, unsigned lock_session, const char *name)
{
    int64_t n = -1;
    transcript_say("\n%s", what);
    hf_code code =
        store->base.ops->unlock_session(&store->base, id_of(lock_session), name, &n, &err);
    transcript_code(code, &err);
    transcript_say("   %lld unlocked", (long long)n);
}

static void test_lock_sessions(void **state)
{
    (void)state;
    answers_give("findAndModify", GRABBED);
    enter_session("takes", 7, 0x0b);
    enter_session("another thread with the same id", 8, 0x0b);
    answers_give("findAndModify", REFUSED);
    answers_give("find", CURSOR(LOCK("2", "0b")));
    answers_give("find", PING("1000"));
    answers_give("serverStatus", SERVER("2000"));
    enter_session("one with another id", 8, 0x0c);
    answers_give("update", WELL);
    leave("leaves", (const unsigned[]){7}, 1);
    answers_give("findAndModify", REFUSED);
    answers_give("find", CURSOR(LOCK("2", "0b")));
    answers_give("findAndModify", GRABBED);
    enter_session("a former life holds it", 9, 0x0b);
    answers_give("update", WELL);
    unlock_session("all of the id", 0x0b, NULL);
    answers_give("update", "{'ok': 0, 'code': 13}");
    unlock_session("one name, without the right", 0x0b, "a");
    transcript_end("sharding-lock-sessions");
}

/* Those that poll get their turn after ours. */
static void test_after_a_turn_of_ours_others_get_theirs(void **state)
{
    (void)state;
    answers_give("findAndModify", GRABBED);
    enter("ours", 7);
    answers_give("findAndModify", GRABBED);
    enter("ours again: no other is known", 7);
    give_holder(PING("1000"), SERVER("2000"));
    enter("another holds", 7);
    answers_give("findAndModify", GRABBED);
    enter("ours, after a pause: the turn before may have been one of ours", 7);
    assert_string_equal(answers_paused(), "232 ");
    answers_give("findAndModify", GRABBED);
    enter("ours once more, after a pause", 7);
    assert_string_equal(answers_paused(), "232 232 ");
    transcript_end("sharding-fair");
}

/* ---- Leaving ---- */

static void test_leavings(void **state)
{
    (void)state;
    answers_give("findAndModify", GRABBED);
    enter("one", 7);
    answers_give("findAndModify", GRABBED);
    enter("another", 8);
    answers_give("update", "{'ok': 1, " STAMPED ", 'n': 1, 'nModified': 0}");
    leave("not there at the first try", (const unsigned[]){7}, 1);
    answers_give("update", "{'ok': 0, 'code': 91}");
    answers_give("update", "{'ok': 1, " STAMPED ", 'n': 1, 'nModified': 0}");
    leave("free at the second try", (const unsigned[]){7}, 1);
    answers_give("find", CURSOR(LOCK("2", "09")));
    answers_give("update", WELL);
    leave("one of ours, and one that is not there so", (const unsigned[]){8, 9}, 2);
    answers_give("find", CURSOR(""));
    answers_give("update", "{'ok': 0, 'code': 13}");
    leave("not there at all", (const unsigned[]){9}, 1);
    answers_give("update", "{'ok': 1}");
    leave("nobody says how many did", (const unsigned[]){8}, 1);
    answers_give("update", "{'ok': 1, 'nModified': 1, 'writeConcernError': {'code': 64}}");
    answers_give("update", "{'ok': 1, 'n': 1, 'writeConcernError': {'code': 64}}");
    answers_give("update", "{'ok': 1, 'n': 1, 'writeConcernError': {'code': 64}}");
    leave("not by a majority", (const unsigned[]){8}, 1);
    transcript_end("sharding-leavings");
}

/* What another holds is called by a hash of it. */
static void test_a_break(void **state)
{
    (void)state;
    hf_record seen;
    answers_give("findAndModify", REFUSED);
    answers_give("find", CURSOR(LOCK("2", "08")));
    answers_give("find", PING("1000"));
    answers_give("serverStatus", SERVER("2000"));
    hf_enter in = {.entry = {.ticket = id_of(7), .session = id_of(1)}};
    assert_int_equal(
        store->base.ops->step(&store->base, "a", &(hf_step){.enter = &in}, &seen, NULL, &err),
        HF_OK);
    hf_leave out = {.ticket = seen.entries[0].ticket, .outcome = HF_OUTCOME_ABANDONED};
    record_done(&seen);
    answers_give("find", CURSOR(LOCK("2", "08")));
    answers_give("update", WELL);
    step("as it was seen", &(hf_step){.leaves = &out, .n_leaves = 1});
    answers_give("find", CURSOR(LOCK("0", "08")));
    answers_give("update", WELL);
    step("it is free", &(hf_step){.leaves = &out, .n_leaves = 1});
    transcript_end("sharding-break");
}

static void test_one_leaves_and_one_enters(void **state)
{
    (void)state;
    answers_give("findAndModify", GRABBED);
    enter("one", 7);
    hf_leave out = {.ticket = id_of(7)};
    hf_enter in = {.entry = {.ticket = id_of(8), .session = id_of(1)}};
    answers_give("update", "{'ok': 0, 'code': 13}");
    step("it cannot leave", &(hf_step){.leaves = &out, .n_leaves = 1, .enter = &in});
    answers_give("update", WELL);
    answers_give("findAndModify", GRABBED);
    step("it leaves", &(hf_step){.leaves = &out, .n_leaves = 1, .enter = &in});
    transcript_end("sharding-leave-enter");
}

/* ---- Sessions ---- */

static void beat(const char *what)
{
    hf_session_state out;
    transcript_say("\n%s", what);
    answers_give("findAndModify", WELL);
    transcript_code(
        store->base.ops->session_beat(&store->base, id_of(1), &(hf_beat){0}, &out, &err), &err);
    transcript_state(&out);
    show_known();
}

static void end_session(const char *what, unsigned id)
{
    transcript_say("\n%s", what);
    transcript_code(store->base.ops->session_end(&store->base, id_of(id), false, &err), &err);
    show_known();
}

#define OWN(name, ts, when) "{'_id': '" name "', 'ts': " OID(ts) ", 'when': " DATE(when) "}"

static void test_beats(void **state)
{
    (void)state;
    beat("of one that has nothing");
    answers_give("findAndModify", GRABBED);
    enter("it takes one", 7);
    answers_give("find", CURSOR(OWN("a", "07", "1700000000002")));
    beat("it stands there");
    answers_give("find", CURSOR(OWN("a", "07", "1700000000001") ", " OWN("b", "08", "6")));
    answers_give("update", WELL);
    beat("others stand there");
    answers_give("update", "{'ok': 0, 'code': 13}");
    end_session("it ends, and owes", 1);
    store->sharding->may_have_more = true;
    answers_give("update", "{'ok': 0, 'code': 13}");
    end_session("another, too", 2);
    answers_give_always("find", CURSOR(""));
    answers_give("update", WELL);
    beat("one is paid");
    answers_give("update", "{'ok': 0, 'code': 13}");
    beat("one is not");
    answers_give("update", WELL);
    beat("both are");
    for (int i = 0; i < 3; i++)
        answers_give("update", NULL);
    end_session("no answer", 3);
    answers_give("update", WELL);
    sharding_session_settle(store);
    show_known();
    transcript_say("%s", answers_log());
    transcript_end("sharding-beats");
}

static bool show(void *ctx, const hf_session_state *state)
{
    transcript_state(state);
    return --*(int *)ctx > 0;
}

static void list(int most, const char *answer)
{
    answers_give("list", answer);
    transcript_code(store->base.ops->list_sessions(&store->base, show, &most, &err), &err);
}

static bool show_lock(void *ctx, const hf_record *record)
{
    (void)ctx;
    transcript_record(record);
    return true;
}

/* What is free stays for ever, so it is left out by the server. */
static void test_lists_of_locks(void **state)
{
    (void)state;
    hf_list_part part = {.prefix = "a", .after = "", .limit = 2};
    answers_give("list", "{'ok': 1, 'docs': [" LOCK("2", "07") "]}");
    answers_give("find", CURSOR(""));
    transcript_code(store->base.ops->list(&store->base, &part, show_lock, NULL, &err), &err);
    part.in_use = true;
    answers_give("list", "{'ok': 1, 'docs': [" LOCK("2", "07") "]}");
    transcript_code(store->base.ops->list(&store->base, &part, show_lock, NULL, &err), &err);
    part.lock_session = id_of(7);
    answers_give("list", "{'ok': 1, 'docs': [" LOCK("2", "07") "]}");
    transcript_code(store->base.ops->list(&store->base, &part, show_lock, NULL, &err), &err);
    part.in_use = false;
    answers_give("list", "{'ok': 1, 'docs': [" LOCK("2", "07") "]}");
    transcript_code(store->base.ops->list(&store->base, &part, show_lock, NULL, &err), &err);
    transcript_end("sharding-lists-of-locks");
}

static void test_ends_and_lists(void **state)
{
    (void)state;
    static const char docs[] = "{'ok': 1, 'docs': [{'_id': 'host:5:1:0', 'ping': " DATE(
        "5") "}, {'_id': 5, 'ping': " DATE("5") "}, {'_id': 'x', 'ping': 5}, {'_id': 'shard01', "
                                                "'ping': " DATE("6") "}]}";
    list(9, docs);
    list(1, docs);
    list(9, "{'ok': 0, 'code': 13, 'docs': []}");
    answers_give("findAndModify", WELL);
    end_session("ends", 1);
    begin_session(2, WELL);
    answers_give("findAndModify", WELL);
    end_session("the one before it ends again", 1);
    atomic_store(&store->topology, MONGO_ALONE);
    list(9, "{'ok': 1, 'docs': []}");
    transcript_end("sharding-lists");
}

static void sweep(void)
{
    hf_session_state overdue;
    size_t n = 9;
    bool more = true;
    transcript_code(store->base.ops->sweep(&store->base, &overdue, 1, &n, &more, &err), &err);
    transcript_say("   %zu overdue%s", n, more ? ", more" : "");
}

/* Nor documents, in neither collection. */
static void give_no_indexes(void)
{
    for (int i = 0; i < 2; i++) {
        answers_give("listIndexes", "{'ok': 0, 'code': 26}");
        answers_give("find", CURSOR(""));
    }
}

static void test_indexes(void **state)
{
    (void)state;
    answers_give("listIndexes", NULL);
    answers_give("find", NULL);
    sweep();
    give_no_indexes();
    answers_give("createIndexes", WELL);
    answers_give("createIndexes", WELL);
    sweep();
    sweep();
    store->sharding->has_indexes = false;
    give_no_indexes();
    answers_give("createIndexes", WELL);
    answers_give("createIndexes", "{'ok': 0, 'code': 13}");
    sweep();
    sweep();
    store->sharding->has_indexes = false;
    answers_give("listIndexes", "{'ok': 0, 'code': 13}");
    answers_give("find", CURSOR("{'_id': 'theirs'}"));
    sweep();
    transcript_say("%s", answers_log());
    store->sharding->has_indexes = false;
    answers_give("findAndModify", GRABBED);
    enter("a lock whose document was there", 7);
    answers_give("findAndModify", MADE);
    answers_give("listIndexes", CURSOR("{'name': 'ts_1'}, {'name': 'state_1_process_1'}"));
    answers_give("listIndexes", CURSOR("{'name': 'ping_1'}"));
    enter("one whose document this acquire makes", 8);
    answers_give("findAndModify", MADE);
    enter("and one more", 9);
    transcript_end("sharding-indexes");
}

/* ---- The stream ---- */

static void hear(void *ctx, const hf_notice *notice)
{
    (void)ctx;
    transcript_say("   %s of %d", notice->name, notice->ticket.bytes[3]);
}

static void test_the_stream(void **state)
{
    (void)state;
    answers_give("aggregate",
                 "{'ok': 1, 'cursor': {'id': 5, 'firstBatch': [{'operationType': 'update', "
                 "'documentKey': {'_id': 'a'}, 'updateDescription': {'updatedFields': {'state': 2, "
                 "'ts': " OID("07") "}}}]}}");
    transcript_code(
        store->base.ops->await(&store->base, id_of(1), (hf_stamp){0}, 100, hear, NULL, &err), &err);
    transcript_end("stream-sharding");
}

/* ---- Under given names ---- */

static void test_given_names(void **state)
{
    (void)state;
    answers_give("findAndModify", GRABBED);
    enter("takes", 7);
    enter("another thread of ours", 8);
    answers_give("update", WELL);
    leave("leaves", (const unsigned[]){7}, 1);
    answers_give("findAndModify", GRABBED);
    enter("takes again", 7);
    answers_give("find", CURSOR(""));
    beat("looks");
    begin_session(2, WELL);
    answers_give("update", WELL);
    end_session("the first ends, and the second pings by the same name", 1);
    answers_give("findAndModify", WELL);
    end_session("the second ends", 2);
    transcript_end("sharding-names");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_takings),
        TEST(test_takeovers),
        TEST(test_takeovers_after_an_election),
        TEST(test_what_counts_as_expired),
        TEST(test_servers_that_say_less),
        TEST(test_takings_that_fail),
        TEST(test_an_outcome_without_words),
        TEST(test_lock_sessions),
        TEST(test_leavings),
        TEST(test_a_break),
        TEST(test_one_leaves_and_one_enters),
        TEST(test_beats),
        TEST(test_lists_of_locks),
        TEST(test_ends_and_lists),
        TEST(test_indexes),
        TEST(test_the_stream),
        cmocka_unit_test_setup_teardown(test_given_names, begin_with_names, end),
        cmocka_unit_test_setup_teardown(test_after_a_turn_of_ours_others_get_theirs, begin_fair,
                                        end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
