/* SPDX-License-Identifier: Apache-2.0 */
/* test_sent_sessions.c: protocol queue: what is sent for sessions, sweeps and the change stream,
 * word for word, and what is read from the answers. */
#include "faults/mongo_transcript.h"

#define OID(n) "{'$oid': '000000" n "0000000000000000'}"
#define DATE(ms) "{'$date': {'$numberLong': '" ms "'}}"
#define STAMPED "'operationTime': {'$timestamp': {'t': 70, 'i': 3}}"
#define CURSOR(docs) "{'ok': 1, " STAMPED ", 'cursor': {'firstBatch': [" docs "]}}"
#define ASKED "[{'ticket': " OID("07") ", 'by': 'x', 'reason': 'y'}]"
#define DATED(more) "'started_at': " DATE("5") ", 'expires_at': " DATE("6") ", " more "'left': 77}"
#define SESSION(n, more)                                                                           \
    "{'_id': " OID(                                                                                \
        n) ", 'beat': 3, 'ttl_ms': 6000, 'pid': 5, 'host': 'h', 'app': 'a', 'asked': " ASKED       \
           ", " DATED(more)
/* Of which little is known but its clock. */
#define OVERDUE(n, clock)                                                                          \
    "{'_id': " OID(n) ", 'beat': 1, 'ttl_ms': 6000, 'pid': 5, 'host': 'h', 'app': 'a', 'asked': "  \
                      "[], 'left': -2000, 'started_at': " DATE("5") ", 'clock': " clock "}"

static mongo_store *store;
static hf_error err;

static int begin(void **state)
{
    (void)state;
    store = answers_open("");
    snprintf(store->queue->boot, sizeof store->queue->boot, "us");
    atomic_store(&store->latest, (uint64_t)60 << 32 | 1);
    transcript_begin();
    return 0;
}

static int end(void **state)
{
    (void)state;
    answers_close(store);
    return 0;
}

/* ---- Of its own ---- */

static void begin_session(const char *what, const char *answer)
{
    const hf_session self = {.id = id_of(1),
                             .ttl_ms = 6000,
                             .pid = 5,
                             .started_at = {1234},
                             .app = "app",
                             .host = "host"};
    transcript_say("\n%s", what);
    answers_give("update", answer);
    transcript_code(store->base.ops->session_begin(&store->base, &self, &err), &err);
}

static void test_begins(void **state)
{
    (void)state;
    begin_session("a first beat", "{'ok': 1, 'n': 1}");
    begin_session("one of this id is there", "{'ok': 1, 'writeErrors': [{'code': 11000}]}");
    begin_session("no answer", NULL);
    store->queue->boot[0] = '\0';
    begin_session("on a host that does not know its boot", "{'ok': 1, 'n': 1}");
    transcript_end("sessions-begins");
}

static void beat(const char *what, const hf_beat *says, const char *answer)
{
    hf_session_state out;
    transcript_say("\n%s", what);
    answers_give("findAndModify", answer);
    hf_code code = store->base.ops->session_beat(&store->base, id_of(1), says, &out, &err);
    transcript_code(code, &err);
    if (!code)
        transcript_state(&out);
}

static void test_beats(void **state)
{
    (void)state;
    const hf_id answered[] = {id_of(7), id_of(8)};
    const hf_beat says = {.answered = answered, .n_answered = 2, .waits = "waits", .seen = 4};
    beat("that says nothing", &(hf_beat){.waits = NULL},
         "{'ok': 1, 'value': " SESSION("01", "") "}");
    beat("that answers", &says, "{'ok': 1, 'value': " SESSION("01", "") "}");
    beat("marked", &says, "{'ok': 1, 'value': null}");
    const hf_session self = {.id = id_of(1), .ttl_ms = 9000, .pid = 5, .app = "app"};
    const hf_beat first = {.begins = &self, .begins_at = 77};
    beat("that may begin it", &first, "{'ok': 1, 'value': " SESSION("01", "") "}");
    answers_give("findAndModify", "{'ok': 0, 'code': 11000}");
    beat("that may begin it, and finds it dead", &first, "{'ok': 1, 'value': null}");
    beat("no answer", &says, NULL);
    const hf_beat idle = {.holds_nothing = true};
    beat("that no lock depends on", &idle, "{'ok': 1, 'value': null}");
    store->shares_beats = true;
    beat("the same, where other calls do not hang for long", &idle, "{'ok': 1, 'value': null}");
    beat("that a lock depends on", &(hf_beat){0}, "{'ok': 1, 'value': null}");
    transcript_end("sessions-beats");
}

static void test_ends(void **state)
{
    (void)state;
    answers_give("findAndModify", "{'ok': 1, 'value': null}");
    transcript_code(store->base.ops->session_end(&store->base, id_of(1), true, &err), &err);
    answers_give("findAndModify", "{'ok': 1, 'value': null}");
    transcript_code(store->base.ops->session_end(&store->base, id_of(1), false, &err), &err);
    answers_give("findAndModify", NULL);
    transcript_code(store->base.ops->session_end(&store->base, id_of(1), false, &err), &err);
    transcript_end("sessions-ends");
}

/* ---- Of others ---- */

static void mark(const char *answer)
{
    const hf_session_state seen = {.session = {.id = id_of(2)}, .beat = 3};
    answers_give("findAndModify", answer);
    transcript_code(store->base.ops->session_mark(&store->base, &seen, &err), &err);
}

static void ask(const char *answer)
{
    const hf_ask ask = {.ticket = id_of(7), .by = "me", .reason = "why"};
    answers_give("findAndModify", answer);
    transcript_code(store->base.ops->ask(&store->base, id_of(2), &ask, &err), &err);
}

static void test_marks_and_asks(void **state)
{
    (void)state;
    mark("{'ok': 1, 'value': " SESSION("02", "'dead': true, ") "}");
    mark("{'ok': 1, 'value': " SESSION("02", "") "}");
    mark("{'ok': 1, 'value': null}");
    mark(NULL);
    ask("{'ok': 1, 'value': " SESSION("02", "") "}");
    ask("{'ok': 1, 'value': " OVERDUE("02", "{}") "}");
    ask(NULL);
    transcript_end("sessions-marks");
}

static void look(int64_t trust_ms, const char *answer)
{
    const hf_id ids[] = {id_of(1), id_of(2), id_of(3)};
    hf_session_state states[3];
    answers_give("aggregate", answer);
    hf_code code = store->base.ops->sessions_look(&store->base, ids, 3, trust_ms, states, &err);
    transcript_code(code, &err);
    for (int i = 0; i < 3 && !code; i++)
        transcript_state(&states[i]);
}

/* The second is long overdue by the clock of its own host, which is this one. */
static void test_looks(void **state)
{
    (void)state;
    answers_pass(100000);
    answers_give_always("update", "{'ok': 1}");
    look(-1, CURSOR(SESSION("03", "'dead': true, ") ", " SESSION("01", "")));
    look(1000, CURSOR(OVERDUE("02", "{'boot': 'us', 'at': 1}")));
    look(1000, CURSOR(OVERDUE("02", "{'boot': 'them', 'at': 1}")));
    look(-1, NULL);
    look(-1, CURSOR("{'_id': 5}"));
    look(-1, "{'ok': 1}");
    transcript_end("sessions-looks");
}

static bool show_waits(void *ctx, const hf_waits *waits)
{
    (void)ctx;
    transcript_say("   \"%s\", beat %lld, seen %lld, pid %lld", waits->text, (long long)waits->beat,
                   (long long)waits->seen, (long long)waits->session.pid);
    return true;
}

static void test_waits(void **state)
{
    (void)state;
    const hf_id ids[] = {id_of(1), id_of(2)};
    answers_give_always("aggregate", CURSOR(SESSION("01", "'waits': 'w', 'seen': 2, ")));
    transcript_code(store->base.ops->waits(&store->base, NULL, 0, show_waits, NULL, &err), &err);
    transcript_code(store->base.ops->waits(&store->base, ids, 2, show_waits, NULL, &err), &err);
    transcript_end("sessions-waits");
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

static void test_lists(void **state)
{
    (void)state;
    static const char docs[] = "{'ok': 1, 'docs': [" SESSION("01", "") ", {'_id': 5}, " SESSION(
        "02", "'dead': true, ") "]}";
    list(9, docs);
    list(1, docs);
    list(9, "{'ok': 0, 'code': 13, 'docs': []}");
    atomic_store(&store->topology, MONGO_ALONE);
    list(9, "{'ok': 1, 'docs': []}");
    transcript_say("%s", answers_log());
    transcript_end("sessions-lists");
}

/* ---- Sweeps ---- */

static void sweep(const char *what)
{
    hf_session_state overdue[2];
    size_t n = 9;
    bool more = true;
    transcript_say("\n%s", what);
    transcript_code(store->base.ops->sweep(&store->base, overdue, 2, &n, &more, &err), &err);
    transcript_say("   %zu overdue%s", n, more ? ", more to do" : "");
    for (size_t i = 0; i < n; i++)
        transcript_state(&overdue[i]);
}

#define BY "'by': {'$oid': '070707070707070707070707'}"
#define NOW "1700000000000"
/* The turn's end is two seconds after the server's now. */
#define TURN(part, rest)                                                                           \
    "{'ok': 1, 'value': {" BY ", 'part': " part                                                    \
    ", 'began_at': " DATE("1699999990000") ", 'until': " DATE("1700000002000") rest "}}"
#define NOT_MINE "{'ok': 1, 'value': {'by': {'$oid': '010101010101010101010101'}, 'part': 2}}"
#define INDEXED                                                                                    \
    CURSOR("{'name': 'dead_at_1', 'expireAfterSeconds': 86400}, {'name': 'expires_at_1'}")
#define KEPT "{'ok': 1, 'n': 1}"
#define LATE_ROW(ms, session) "{'expires_at': " DATE(ms) ", 'session': " session "}"
#define LATE(n, more)                                                                              \
    "{'_id': " OID(                                                                                \
        n) ", 'beat': 3, 'dead': false, 'ttl_ms': 6000, 'app': 'a', 'host': 'h', 'pid': "          \
           "5, 'asked': [], 'started_at': " DATE("5") ", 'expires_at': " DATE(                     \
               "6") ", " more "'left': {'$numberLong': '-4000000'}}"
#define CLOCK(at) "'clock': {'boot': 'us', 'at': {'$numberLong': '" at "'}}, "
#define IDLE(name, token)                                                                          \
    "{'_id': '" name "', 'sessions': [], 'idle': {'_id': '" name                                   \
    "', 'limit': 1, 'token': {'$numberLong': '" token                                              \
    "'}, 'holders': [], 'queue': [], 'notify': '', 'last': {'outcome': 'abandoned', "              \
    "'session': " OID("09") ", 'who': 'w', 'token': {'$numberLong': '1'}, 'at': " DATE("1") "}}}"
#define NEVER_HAD(name, token)                                                                     \
    "{'_id': '" name "', 'sessions': [], 'idle': {'_id': '" name                                   \
    "', 'limit': 1, 'token': {'$numberLong': '" token                                              \
    "'}, 'holders': [], 'queue': [], 'notify': ''}}"

/* The floor of the answer's stamp, 70 s, is 70 << 20. */
#define BELOW "73400319"
#define FLOOR "73400320"

static void test_a_whole_sweep(void **state)
{
    (void)state;
    answers_give("findAndModify", TURN("1", ""));
    answers_give("listIndexes", "{'ok': 0, 'code': 26}");
    answers_give("find", CURSOR(""));
    answers_give("createIndexes", "{'ok': 1}");
    answers_give("aggregate",
                 CURSOR(LATE_ROW("11", LATE("05", CLOCK("-9000000"))) ", {'_id': 5}, " LATE_ROW(
                     "12", LATE("06", "")) ", {'expires_at': " DATE("13") "}"));
    answers_give("update", "{'ok': 1, 'n': 2}");
    answers_give("update", KEPT);
    sweep("overdue");
    answers_give("aggregate",
                 CURSOR("{'_id': 'a', 'sessions': [" OID("01") ", " OID("03") ", 'x']}, " IDLE(
                     "b", BELOW) ", " IDLE("c", FLOOR) ", {'_id': 'd', 'idle': {'_id': 'd'}}, "
                                                       "{'_id': 'e'}, " NEVER_HAD("f", BELOW)));
    answers_give("aggregate", CURSOR(""));
    answers_give("delete", "{'ok': 1, 'n': 2}");
    answers_give("update", KEPT);
    sweep("locks");
    answers_give("find", CURSOR("{'_id': " OID("02") "}, {'_id': " OID("04") "}, {'_id': 'none'}"));
    answers_give("update", "{'ok': 1, 'n': 2}");
    answers_give("update", KEPT);
    sweep("dates");
    answers_give("findAndModify", NOT_MINE);
    sweep("not its turn");
    transcript_end("sweep-whole");
}

#define ENTRY(ticket, session, token)                                                              \
    "{'ticket': " OID(ticket) ", 'session': " OID(                                                 \
        session) ", 'ttl_ms': 1000, 'permits': 1, "                                                \
                 "'since': " DATE(                                                                 \
                     "1") ", 'why': '', 'actor': '', 'token': {'$numberLong': '" token             \
                          "'}, 'granted_at': " DATE("1") "}"
#define LOCK(name, holders, queue)                                                                 \
    "{'_id': '" name "', 'limit': 1, 'token': {'$numberLong': '9'}, 'holders': [" holders          \
    "], 'queue': [" queue "], 'notify': '', 'last': {'outcome': 'abandoned', 'session': " OID(     \
        "01") ", 'who': 'w', 'token': {'$numberLong': '5'}, 'at': " DATE("1") "}}"

/* One command for those where nobody lives, one each for the others. */
static void test_tickets_of_dead_sessions_are_taken_out(void **state)
{
    (void)state;
    answers_give("findAndModify", TURN("2", ", 'after': 'A'"));
    answers_give("listIndexes", INDEXED);
    answers_give("aggregate",
                 CURSOR("{'_id': 'a', 'sessions': [" OID(
                     "01") "]}, {'_id': 'b', "
                           "'sessions': [" OID("01") ", " OID(
                               "02") "]}, {'_id': 'c', "
                                     "'sessions': [" OID("02") "]}, {'_id': 'd', 'sessions': [" OID(
                                         "01") "]}"));
    answers_give("aggregate", CURSOR(SESSION("01", "'dead': true, ")));
    answers_give("find",
                 CURSOR(LOCK("a", ENTRY("11", "01", "5"), "") ", " LOCK(
                     "b", ENTRY("12", "01", "5"), ENTRY("13", "02", "0")) ", {'_id': 'd'}"));
    answers_give("update", "{'ok': 1, 'n': 1}");
    answers_give("findAndModify", "{'ok': 1, 'value': " LOCK("b", ENTRY("13", "02", "6"), "") "}");
    answers_give("update", "{'ok': 1, 'n': 1, 'nModified': 1}");
    answers_give("find", CURSOR(LOCK("a", "", "")));
    answers_give("find", "{'ok': 1, 'cursor': {'firstBatch': [{'_id': 1}]}}");
    answers_give("insert", "{'ok': 1, 'n': 2}");
    answers_give("update", KEPT);
    sweep("two locks, and one that cannot be read");
    transcript_end("sweep-dead");
}

static void test_a_sweep_that_finds_nothing(void **state)
{
    (void)state;
    answers_give("findAndModify", TURN("1", ""));
    answers_give("listIndexes", "{'ok': 0, 'code': 13}");
    answers_give("find", CURSOR(""));
    answers_give("createIndexes", "{'ok': 0, 'code': 13}");
    answers_give("aggregate", CURSOR(""));
    answers_give("update", KEPT);
    sweep("none overdue, without indexes");
    answers_give("aggregate", CURSOR(""));
    answers_give("update", KEPT);
    sweep("no locks");
    answers_give("find", CURSOR(""));
    answers_give("update", KEPT);
    sweep("no dates");
    transcript_end("sweep-nothing");
}

static void test_a_sweep_on_a_standalone_prunes_nothing(void **state)
{
    (void)state;
    atomic_store(&store->topology, MONGO_ALONE);
    answers_give("findAndModify", TURN("2", ""));
    answers_give("listIndexes", INDEXED);
    answers_give("aggregate", CURSOR(IDLE("b", BELOW)));
    answers_give("update", KEPT);
    sweep("locks");
    transcript_end("sweep-alone");
}

static void test_a_sweep_that_fails_takes_its_turn_anew(void **state)
{
    (void)state;
    answers_give_always("listIndexes", INDEXED);
    answers_give("findAndModify", NULL);
    sweep("a turn in doubt");
    answers_give("findAndModify", "{'ok': 1, 'value': {" BY ", 'part': 1}}");
    sweep("a turn without dates");
    answers_give("findAndModify", TURN("1", ""));
    answers_give("aggregate", NULL);
    sweep("the overdue are not told");
    answers_give("findAndModify", TURN("2", ", 'after': 'b'"));
    answers_give("aggregate", CURSOR(IDLE("c", BELOW)));
    answers_give("delete", NULL);
    sweep("one can go, and no answer");
    answers_give("findAndModify", TURN("2", ", 'after': 'b'"));
    answers_give("aggregate", CURSOR(""));
    answers_give("update", NULL);
    sweep("the place is not kept");
    answers_give("findAndModify", TURN("7", ""));
    answers_give("find", CURSOR(""));
    answers_give("update", "{'ok': 1, 'n': 0}");
    sweep("another has the turn now");
    transcript_end("sweep-fails");
}

/* A page has 500. */
static const char *page(const char *each, int n)
{
    static char json[60000];
    size_t used = (size_t)snprintf(json, sizeof json, "{'ok': 1, 'cursor': {'firstBatch': [");
    for (int i = 0; i < n; i++) {
        used += (size_t)snprintf(json + used, sizeof json - used, "%s", i ? ", " : "");
        used += (size_t)snprintf(json + used, sizeof json - used, each, i + 1);
    }
    snprintf(json + used, sizeof json - used, "]}}");
    return json;
}

static void finish_page(const char *what, const char *verb, const char *answer)
{
    answers_give(verb, answer);
    answers_give_always("update", KEPT);
    answers_tell(NULL); /* 500 ids are not to be read by anybody */
    sweep(what);
}

static void test_pages_that_are_full_are_followed(void **state)
{
    (void)state;
    answers_give_always("listIndexes", INDEXED);
    answers_give("findAndModify", TURN("2", ""));
    finish_page("a full page of locks", "aggregate", page("{'_id': 'lock %03d'}", 500));
    assert_int_equal(store->queue->sweep.part, SWEEP_LOCKS);
    finish_page("one more", "aggregate", CURSOR("{'_id': 'z'}"));
    assert_non_null(strstr(answers_last("aggregate"), "'$gt' : 'lock 500'"));
    assert_int_equal(store->queue->sweep.part, SWEEP_DATES);
    finish_page("a full page of the dead", "find", page("{'_id': {'$oid': '%024x'}}", 500));
    assert_int_equal(store->queue->sweep.part, SWEEP_DATES);
    finish_page("499 of the dead", "find", page("{'_id': {'$oid': '%024x'}}", 499));
    assert_int_equal(store->queue->sweep.part, SWEEP_NONE);
    transcript_end("sweep-pages");
}

/* ---- The change stream ---- */

static void hear(void *ctx, const hf_notice *notice)
{
    (void)ctx;
    static const char *const kinds[] = {"grant", "recall", "look", "name", "verify"};
    transcript_say("   %s: %s, token %lld, block %d", kinds[notice->kind],
                   notice->name ? notice->name : "-", (long long)notice->token, notice->block);
}

static void await(hf_stamp from, int64_t timeout_ms)
{
    transcript_code(
        store->base.ops->await(&store->base, id_of(1), from, timeout_ms, hear, NULL, &err), &err);
}

#define OPENED "{'ok': 1, 'cursor': {'id': 5, 'firstBatch': [], 'nextBatch': []}}"

static void test_the_stream(void **state)
{
    (void)state;
    atomic_store(&store->queue->bells.are_refused, true);
    answers_give("aggregate", OPENED);
    answers_give("getMore",
                 "{'ok': 1, 'cursor': {'id': 6, 'nextBatch': [{'documentKey': {'_id': 'door'}, "
                 "'fullDocument': {'notify': "
                 "'000000010000000000000000:000000070000000000000000:3:2'}}], "
                 "'postBatchResumeToken': {'_data': 'here'}}}");
    await((hf_stamp){0}, 300);
    answers_give("killCursors", "{'ok': 1}");
    answers_give("update", "{'ok': 1}");
    store->watch->reading.is_reading = true;
    store->base.ops->wake(&store->base);
    store->watch->reading.woken = false;
    store->watch->reading.cursor = 0; /* killed: the place is kept */
    answers_give("aggregate", OPENED);
    answers_give("getMore", OPENED);
    await((hf_stamp){0}, 300);
    transcript_end("stream-queue");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_begins),
        TEST(test_beats),
        TEST(test_ends),
        TEST(test_marks_and_asks),
        TEST(test_looks),
        TEST(test_waits),
        TEST(test_lists),
        TEST(test_a_whole_sweep),
        TEST(test_tickets_of_dead_sessions_are_taken_out),
        TEST(test_a_sweep_that_finds_nothing),
        TEST(test_a_sweep_on_a_standalone_prunes_nothing),
        TEST(test_a_sweep_that_fails_takes_its_turn_anew),
        TEST(test_pages_that_are_full_are_followed),
        TEST(test_the_stream),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
