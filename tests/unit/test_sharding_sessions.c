/* SPDX-License-Identifier: Apache-2.0 */
/* test_sharding_sessions.c: protocol sharding: what a session sends, and what it makes of each
 * answer: pings, what stands there as its own, what it still owes. */
#include "core/id.h"
#include "core/record.h"
#include "faults/mongo_answers.h"
#include "store/mongo/sharding/calls.h"
#include "store/mongo/sharding/document.h"
#include "store/mongo/sharding/grabs.h"
#include "store/mongo/sharding/session.h"
#include "store/mongo/sharding/sharding.h"
#include "store/mongo/sharding/waits.h"

#include <malloc.h>

#define KEYS "&hfProtocol=sharding"
#define TS(n) "{'$oid': '000000" n "0000000000000000'}"
#define DATE(ms) "{'$date': {'$numberLong': '" ms "'}}"
#define OWN(list) "{'ok': 1, 'cursor': {'firstBatch': [" list "]}}"
#define WELL "{'ok': 1}"
#define OURS "host:5:1:0"

#define NO_ARRAY(field) "{ '" field "' : { '$type' : 'array' } }"
#define NO_ARRAYS                                                                                  \
    "'$nor' : [ " NO_ARRAY("ts") ", " NO_ARRAY("when") ", " NO_ARRAY("process") ", " NO_ARRAY(     \
        "who") " ]"

static mongo_store *store;

static void introduce(unsigned session, int64_t pid)
{
    hf_error err;
    hf_session self = {.id = id_of(session), .app = "app", .host = "host", .pid = pid};
    answers_give("findAndModify", WELL);
    assert_int_equal(store->base.ops->session_begin(&store->base, &self, &err), HF_OK);
}

static int begin(void **state)
{
    (void)state;
    store = answers_open(KEYS);
    answers_give("buildInfo", WELL);
    introduce(1, 5);
    return 0;
}

static int end(void **state)
{
    (void)state;
    answers_give_always("update", WELL);
    answers_close(store);
    return 0;
}

static void hold(unsigned ticket, char *name)
{
    sharding_grab grab = {.name = name,
                          .ticket = id_of(ticket),
                          .ts = id_of(ticket),
                          .session = id_of(1),
                          .when_ms = 5,
                          .stage = SHARDING_HELD};
    sharding_grab other;
    assert_true(sharding_grab_add(store, &grab, &other));
}

/* Whose ping takes so long. */
static hf_session_state beat_in(int64_t ms)
{
    hf_error err;
    hf_session_state out;
    memset(&out, 5, sizeof out);
    answers_give_slowly("findAndModify", WELL, ms);
    assert_int_equal(
        store->base.ops->session_beat(&store->base, id_of(1), &(hf_beat){0}, &out, &err), HF_OK);
    assert_true(id_equal(out.session.id, id_of(1)));
    assert_int_equal(out.presence, HF_LIVE);
    assert_false(out.is_gone);
    return out;
}

static hf_session_state beat(void)
{
    return beat_in(0);
}

static hf_code end_session(unsigned session)
{
    hf_error err;
    return store->base.ops->session_end(&store->base, id_of(session), false, &err);
}

static bool is_logged(const char *part)
{
    return strstr(answers_log(), part) != NULL;
}

/* ---- Pings ---- */

static bool is_gap_told(int64_t ms)
{
    char text[80];
    snprintf(text, sizeof text, "the last ping is %lld ms old", (long long)ms);
    return is_logged(text);
}

static void test_the_first_ping_says_who_we_are(void **state)
{
    (void)state;
    assert_non_null(strstr(answers_last("findAndModify"), "'_id' : '" OURS "'"));
    introduce(2, 6); /* the process's name stays */
    assert_non_null(strstr(answers_last("findAndModify"), "'_id' : 'host:5:2:0'"));
}

static hf_code begin_after(const char *info, hf_error *err)
{
    hf_session self = {.id = id_of(2), .app = "app", .host = "host", .pid = 5};
    atomic_store(&store->sharding->is_known, false);
    answers_give("buildInfo", info);
    return store->base.ops->session_begin(&store->base, &self, err);
}

static void test_a_server_on_which_two_would_hold_a_lock_is_refused(void **state)
{
    (void)state;
    hf_error err;
    static const char one[] = "{'ok': 1, 'version': '7.0.77', 'ferretdbVersion': 'v1.24.0'}";
    static const char two[] = "{'ok': 1, 'version': '7.0.77', 'ferretdb': {'version': 'v2.5.0'}}";
    answers_give("findAndModify", WELL); /* of the session that begins in the end */
    assert_int_equal(begin_after(one, &err), HF_UNUSABLE);
    assert_non_null(strstr(err.text, "is FerretDB v1.24.0, on which two can hold one lock"));
    assert_int_equal(begin_after(two, &err), HF_UNUSABLE);
    assert_non_null(strstr(err.text, "is FerretDB v2.5.0, "));
    assert_int_equal(begin_after(NULL, &err), HF_UNREACHABLE);
    assert_int_equal(answers_sent("findAndModify"), 1);
    assert_int_equal(begin_after("{'ok': 0, 'code': 13}", &err), HF_OK);
    introduce(3, 5); /* it is asked once */
}

static void test_a_session_that_cannot_ping_does_not_begin(void **state)
{
    (void)state;
    hf_error err;
    hf_session self = {.id = id_of(2), .app = "app", .host = "host", .pid = 5};
    answers_give("findAndModify", NULL);
    assert_int_equal(store->base.ops->session_begin(&store->base, &self, &err), HF_UNKNOWN);
    assert_int_equal(store->sharding->pinged_at.ns, 0);
}

static void test_a_late_ping_is_told(void **state)
{
    (void)state;
    int64_t late_ms = store->sharding->settings.late_ping_ms;
    answers_pass(late_ms);
    beat();
    assert_false(is_logged("the last ping is"));
    answers_pass(late_ms + 1);
    beat();
    assert_true(is_gap_told(late_ms + 1));
}

static void test_a_ping_that_failed_counts_for_none(void **state)
{
    (void)state;
    hf_error err;
    hf_session_state out;
    int64_t late_ms = store->sharding->settings.late_ping_ms;
    answers_pass(late_ms);
    answers_give("findAndModify", NULL);
    assert_int_equal(
        store->base.ops->session_beat(&store->base, id_of(1), &(hf_beat){0}, &out, &err),
        HF_UNKNOWN);
    answers_pass(1);
    answers_give("find", OWN(""));
    beat();
    assert_true(is_gap_told(late_ms + 1));
}

/* ---- What stands there as ours ---- */

static void test_what_is_held_and_stands_there_is_not_missed(void **state)
{
    (void)state;
    hold(7, "a");
    hold(8, "b");
    answers_give("find", OWN("{'_id': 'a', 'ts': " TS("07") ", 'when': " DATE(
                             "5") "},"
                                  " {'_id': 'b', 'ts': " TS("08") ", 'when': " DATE("5") "}"));
    assert_false(beat().misses);
    assert_int_equal(answers_sent("update"), 0);
    const char *sent = answers_last("find");
    assert_non_null(
        strstr(sent, "{ 'process' : '" OURS "', " NO_ARRAYS ", 'state' : { '$in' : [ 1, 2 ] } }"));
}

static void test_what_is_held_and_does_not_stand_there_is_missed(void **state)
{
    (void)state;
    hold(7, "a");
    answers_give("find", OWN(""));
    assert_true(beat().misses);
    answers_give("find", OWN("{'_id': 'a', 'when': " DATE("5") "}"));
    assert_true(beat().misses);
    answers_give("find", OWN("{'_id': 'a', 'ts': " TS("07") ", 'when': 5}"));
    answers_give("update", WELL);
    assert_true(beat().misses);
}

static void test_a_look_that_fails_says_nothing(void **state)
{
    (void)state;
    hold(7, "a");
    answers_give("find", NULL);
    assert_false(beat().misses);
    answers_give("find", WELL);
    assert_false(beat().misses);
}

static void test_nobody_looks_where_nothing_can_be(void **state)
{
    (void)state;
    assert_false(beat().misses);
    sharding_may_have_more(store);
    answers_give("find", OWN(""));
    assert_false(beat().misses);
    assert_int_equal(answers_sent("find"), 1);
}

static void test_what_nobody_accounts_for_is_unlocked(void **state)
{
    (void)state;
    hold(7, "a");
    answers_give("find",
                 OWN("{'_id': 'a', 'ts': " TS("07") ", 'when': " DATE(
                     "5") "},"
                          " {'_id': 'b', 'ts': " TS("08") ", 'when': " DATE(
                              "6") "},"
                                   " {'_id': 5, 'ts': " TS("09") ", 'when': " DATE("6") "}"));
    answers_give("update", NULL);
    assert_false(beat().misses);
    assert_true(is_logged("trying again at the next ping: "));
    assert_true(is_logged("releasing \"b\" failed"));
    const char *sent = answers_last("update");
    assert_non_null(strstr(sent, "'updates' : [ { 'q' : { 'ts' : { '$oid' : "
                                 "'000000080000000000000000' }, '_id' : 'b', 'when' : "));
    assert_non_null(strstr(sent, "'u' : { '$set' : { 'state' : 0 } } } ], 'ordered' : false"));
}

static void test_several_are_unlocked_at_once(void **state)
{
    (void)state;
    sharding_may_have_more(store);
    answers_give("find", OWN("{'_id': 'a', 'ts': " TS("07") ", 'when': " DATE(
                             "5") "},"
                                  " {'_id': 'b', 'ts': " TS("08") ", 'when': " DATE("6") "}"));
    answers_give("update", "{'ok': 0, 'code': 13}");
    beat();
    assert_true(is_logged("releasing \"several locks\" failed"));
    assert_int_equal(answers_sent("update"), 1);
}

/* A twelfth of the ttl of 6 s. */
static void test_after_a_slow_ping_nothing_more_is_done(void **state)
{
    (void)state;
    hold(7, "a");
    beat_in(500);
    assert_int_equal(answers_sent("find"), 0);
    answers_give("find", OWN(""));
    beat_in(499);
    assert_int_equal(answers_sent("find"), 1);
}

/* ---- Ends, and what is owed ---- */

static void test_the_end_of_one_that_has_nothing_only_stops_the_pings(void **state)
{
    (void)state;
    answers_give("findAndModify", WELL);
    assert_int_equal(end_session(1), HF_OK);
    assert_int_equal(answers_sent("update"), 0);
    assert_non_null(strstr(answers_last("findAndModify"), "'_id' : '" OURS "' }, 'remove' : true"));
}

static void test_an_end_unlocks_what_may_be_there(void **state)
{
    (void)state;
    sharding_may_have_more(store);
    answers_give("update", WELL);
    answers_give("findAndModify", WELL);
    assert_int_equal(end_session(1), HF_OK);
    assert_non_null(strstr(answers_last("update"),
                           "'q' : { 'process' : '" OURS "', " NO_ARRAYS " }, 'u' : { "
                           "'$set' : { 'state' : 0 } }, 'multi' : true"));
}

static void test_an_end_forgets_what_was_unlocked(void **state)
{
    (void)state;
    hold(7, "a");
    answers_give("update", WELL);
    answers_give("findAndModify", NULL);
    assert_int_equal(end_session(1), HF_UNKNOWN);
    assert_false(sharding_grabs_any_of(store, id_of(1)));
    assert_int_equal(store->sharding->n_owed, 0);
}

/* It pings on, so that nobody overtakes what it may still have, until it is unlocked. */
static void test_what_could_not_be_unlocked_is_owed(void **state)
{
    (void)state;
    hold(7, "a");
    answers_give("update", "{'ok': 0, 'code': 13}");
    assert_int_equal(end_session(1), HF_DENIED);
    assert_int_equal(answers_sent("findAndModify"), 1);
    assert_true(sharding_grabs_any_of(store, id_of(1)));
    answers_give("find", OWN(""));
    answers_give("update", WELL);
    beat();
    assert_false(sharding_grabs_any_of(store, id_of(1)));
    beat();
    assert_int_equal(answers_sent("update"), 2);
}

static void test_what_is_owed_is_paid_when_the_store_closes(void **state)
{
    (void)state;
    hold(7, "a");
    answers_give("update", "{'ok': 0, 'code': 13}");
    assert_int_equal(end_session(1), HF_DENIED);
    answers_give("update", "{'ok': 0, 'code': 13}");
    sharding_session_settle(store); /* in vain, and no more than once */
    assert_int_equal(answers_sent("update"), 2);
    answers_give("update", WELL);
    sharding_session_settle(store);
    assert_int_equal(store->sharding->n_owed, 0);
    assert_int_equal(answers_sent("update"), 3);
}

static void test_all_that_is_owed_is_kept(void **state)
{
    (void)state;
    for (unsigned i = 2; i < 7; i++) {
        sharding_may_have_more(store);
        answers_give("update", "{'ok': 0, 'code': 13}");
        assert_int_equal(end_session(i), HF_DENIED);
    }
    const struct mongo_sharding *own = store->sharding;
    assert_int_equal(own->n_owed, 5);
    assert_true(malloc_usable_size(own->owed) >= 5 * sizeof *own->owed);
    for (unsigned i = 2; i < 7; i++)
        assert_true(id_equal(own->owed[i - 2], id_of(i)));
}

/* A slow look leaves no time for it. */
static void test_what_is_owed_waits_for_a_quick_beat(void **state)
{
    (void)state;
    hold(7, "a");
    answers_give("update", "{'ok': 0, 'code': 13}");
    assert_int_equal(end_session(1), HF_DENIED);
    answers_give_slowly("find", OWN(""), 500);
    beat();
    assert_int_equal(answers_sent("update"), 1);
    assert_int_equal(store->sharding->n_owed, 1);
}

static int n_updates;

static void count_updates(const char *where, const bson_t *command, const bson_t *opts)
{
    (void)where, (void)opts;
    n_updates += bson_has_field(command, "update") && bson_has_field(command, "updates");
}

static void test_a_store_that_closes_pays(void **state)
{
    (void)state;
    hold(7, "a");
    answers_give("update", "{'ok': 0, 'code': 13}");
    assert_int_equal(end_session(1), HF_DENIED);
    answers_give("update", WELL);
    n_updates = 0;
    answers_tell(count_updates);
    answers_close(store);
    answers_tell(NULL);
    assert_int_equal(n_updates, 1);
    store = answers_open(KEYS);
}

static void test_what_is_no_lock_is_none_of_ours(void **state)
{
    (void)state;
    sharding_may_have_more(store);
    answers_give("find", OWN("{'_id': 'a', 'ts': 5, 'when': " DATE("5") "}, {'_id': 'b'}"));
    beat();
    assert_int_equal(answers_sent("update"), 0);
}

/* It may have landed after it was listed what is held. */
static void test_what_is_being_asked_for_is_no_stray(void **state)
{
    (void)state;
    sharding_grab grab = {.name = (char *)(uintptr_t) "b",
                          .ticket = id_of(8),
                          .ts = id_of(8),
                          .session = id_of(1),
                          .stage = SHARDING_ASKED};
    sharding_grab other;
    assert_true(sharding_grab_add(store, &grab, &other));
    sharding_may_have_more(store);
    answers_give("find", OWN("{'_id': 'b', 'ts': " TS("08") ", 'when': " DATE("6") "}"));
    beat();
    assert_int_equal(answers_sent("update"), 0);
}

/* ---- Errors, as the rounds know them ---- */

#define BEHIND "{'ok': 0, 'code': 72}"

/* But no beat waits for it, and no write is sent twice. */
static void test_a_server_that_is_behind_is_waited_for(void **state)
{
    (void)state;
    hf_error err;
    sharding_sent sent;
    sharding_unlocking one = {.name = "a", .ts = id_of(7)};
    answers_give("find", BEHIND);
    answers_give("find", OWN(""));
    assert_int_equal(sharding_get_lock(store, "a", (hf_stamp){0}, &sent, &err), HF_OK);
    sharding_sent_done(&sent);
    assert_string_equal(answers_paused(), "20 ");
    answers_give("find", BEHIND);
    assert_int_not_equal(sharding_get_own(store, id_of(1), &sent, &err), HF_OK);
    sharding_sent_done(&sent);
    answers_give("update", BEHIND);
    assert_int_not_equal(sharding_unlock(store, &one, 1, false, &sent, &err), HF_OK);
    sharding_sent_done(&sent);
    answers_give("update", BEHIND);
    assert_int_not_equal(sharding_unlock(store, &one, 1, true, &sent, &err), HF_OK);
    sharding_sent_done(&sent);
    assert_string_equal(answers_paused(), "20 ");
}

static void unlock(const char *answer, sharding_sent *sent)
{
    hf_error err;
    sharding_unlocking one = {.name = "a", .ts = id_of(7)};
    store->sharding->may_have_more = false;
    answers_give("update", answer);
    sharding_unlock(store, &one, 1, true, sent, &err);
    sharding_sent_done(sent);
}

static void test_each_error_has_a_number(void **state)
{
    (void)state;
    static const struct {
        const char *answer;
        int32_t number;
        bool may_have_more;
    } errors[] = {
        {WELL, 0, false},
        {NULL, 9001, true},
        {"{'ok': 0, 'code': 189}", 189, true},
        {"{'ok': 0, 'code': 10107}", 10107, false},
        {"{'ok': 0, 'code': 13}", 13, false},
        {"{'ok': 0}", 8, false},
        {"{'ok': 1, 'writeErrors': [{'code': 112}]}", 112, false},
        {"{'ok': 1, 'writeConcernError': {'code': 64}}", 64, true},
    };
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        sharding_sent sent;
        unlock(errors[i].answer, &sent);
        assert_int_equal(sent.number, errors[i].number);
        assert_int_equal(sent.code == HF_OK, !errors[i].number);
        assert_int_equal(store->sharding->may_have_more, errors[i].may_have_more);
        assert_true(sent.was_sent);
        assert_int_equal(sent.tried, 1);
    }
}

static void test_a_read_without_an_answer_may_not_have_been_sent(void **state)
{
    (void)state;
    hf_error err;
    sharding_sent sent;
    answers_give("find", NULL);
    assert_int_equal(sharding_get_lock(store, "a", (hf_stamp){0}, &sent, &err), HF_UNREACHABLE);
    assert_int_equal(sent.number, 6);
    assert_false(sent.was_sent);
    assert_int_equal(sent.tried, 1);
    sharding_sent_done(&sent);
}

static void test_a_read_is_tried_three_times(void **state)
{
    (void)state;
    hf_error err;
    sharding_sent sent;
    for (int i = 0; i < 3; i++)
        answers_give("find", "{'ok': 0, 'code': 10107}");
    assert_int_equal(sharding_get_ping(store, "p", false, &sent, &err), HF_UNREACHABLE);
    assert_int_equal(sent.tried, 3);
    assert_true(sent.was_sent);
    assert_int_equal(answers_sent("find"), 3);
    sharding_sent_done(&sent);
}

/* ---- What we are called ---- */

static hf_id id_of_bytes(uint8_t first)
{
    hf_id id;
    for (size_t i = 0; i < sizeof id.bytes; i++)
        id.bytes[i] = (uint8_t)(first + i);
    return id;
}

static void test_a_name_has_all_of_a_session(void **state)
{
    (void)state;
    char process[SHARDING_PROCESS_MAX + 1];
    sharding_process(store, id_of_bytes(0x11), process);
    assert_string_equal(process, "host:5:286397204:1519427316551916316");
    assert_true(id_equal(sharding_session(process, ""), id_of_bytes(0x11)));
    sharding_process(store, id_of_bytes(0xe0), process);
    assert_true(id_equal(sharding_session(process, ""), id_of_bytes(0xe0)));
    assert_true(id_equal(sharding_session("h:1:0:0", ""), id_of(0)));
}

static void assert_who(const char *app, const char *is)
{
    char who[SHARDING_WHO_MAX + 1];
    snprintf(store->sharding->self.app, sizeof store->sharding->self.app, "%s", app);
    sharding_who(store, id_of(1), who);
    assert_string_equal(who, is);
}

static void test_a_program_is_named_behind_its_process(void **state)
{
    (void)state;
    assert_who("app", OURS ":app");
    assert_who("x", OURS ":x");
    assert_who("", OURS ":main");
    assert_who("a:b:", OURS ":a.b.");
    assert_who(":", OURS ":.");
}

/* A session's id at the end of `who` has 24 digits, no more and no less. */
static void test_who_may_name_a_session(void **state)
{
    (void)state;
    hf_id named = id_of_bytes(0x11), other = sharding_session("shard", "");
    assert_true(id_equal(sharding_session("shard", "a-b-1112131415161718191a1b1c"), named));
    assert_true(id_equal(sharding_session("shard", "a-1112131415161718191a1b1cd"), other));
    assert_true(id_equal(sharding_session("shard", "a-1112131415161718191a1b1"), other));
    assert_true(id_equal(sharding_session("shard", "1112131415161718191a1b1c"), other));
}

/* What we hold with a ts since another date is another lock than what stands there. */
static void test_a_lock_that_is_ours_is_called_by_its_ts(void **state)
{
    (void)state;
    sharding_document lock = {.name = "a", .session = id_of(1), .lock = {.state = 2, .when_ms = 9}};
    lock.lock.ts = id_of(7);
    assert_true(id_equal(sharding_ticket(store, &lock), id_of(7)));
    hold(7, "a"); /* since 5 */
    assert_false(id_equal(sharding_ticket(store, &lock), id_of(7)));
    lock.lock.when_ms = 5;
    assert_true(id_equal(sharding_ticket(store, &lock), id_of(7)));
    lock.lock.ts = id_of(8);
    assert_true(id_equal(sharding_ticket(store, &lock), id_of(8)));
    store->sharding->has_lock_session = true;
    assert_false(id_equal(sharding_ticket(store, &lock), id_of(8)));
    store->sharding->has_lock_session = false;
    lock.session = id_of(2);
    assert_false(id_equal(sharding_ticket(store, &lock), id_of(8)));
}

static void test_a_record_is_made_of_nothing(void **state)
{
    (void)state;
    hf_error err;
    hf_record record;
    bson_t *doc = pipeline_json("{'_id': 'a', 'state': 2, 'ts': " TS("07") ", 'process': 'p',"
                                                                           " 'who': 'x'}");
    memset(&record, 5, sizeof record);
    assert_int_equal(sharding_read_record(store, doc, &record, &err), HF_OK);
    assert_string_equal(record.who, "x");
    assert_int_equal(record.holders, 1);
    assert_int_equal(record.token, 0);
    record_done(&record);
    bson_destroy(doc);
}

static void test_a_config_server_makes_its_own_indexes(void **state)
{
    (void)state;
    hf_error err;
    hf_session_state overdue;
    size_t n;
    bool more;
    answers_close(store);
    store = answers_open_uri("mongodb://a/config?hfProtocol=sharding");
    assert_int_equal(store->base.ops->sweep(&store->base, &overdue, 1, &n, &more, &err), HF_OK);
    assert_int_equal(answers_sent("createIndexes"), 0);
}

static void test_indexes_are_made_once(void **state)
{
    (void)state;
    hf_error err;
    hf_session_state overdue;
    size_t n;
    bool more;
    answers_give_always("listIndexes", "{'ok': 0, 'code': 26}");
    answers_give_always("find", "{'ok': 1, 'cursor': {'firstBatch': []}}");
    answers_give_always("createIndexes", WELL);
    for (int i = 0; i < 3; i++)
        assert_int_equal(store->base.ops->sweep(&store->base, &overdue, 1, &n, &more, &err), HF_OK);
    assert_int_equal(answers_sent("createIndexes"), 2);
}

/* ---- A round that fails ---- */

static hf_code enter(hf_error *err)
{
    hf_record record;
    hf_step_reply reply;
    hf_enter in = {.entry = {.ticket = id_of(7), .session = id_of(1), .ttl_ms = 6000}};
    return store->base.ops->step(&store->base, "a", &(hf_step){.enter = &in}, &record, &reply, err);
}

/* The grab may have landed, whatever the unlock after it came to. */
static void test_a_round_with_an_unknown_grab_is_unknown(void **state)
{
    (void)state;
    hf_error err;
    answers_give("findAndModify", "{'ok': 0, 'code': 91}");
    answers_give("update", "{'ok': 0, 'code': 13}");
    assert_int_equal(enter(&err), HF_UNKNOWN);
    assert_int_equal(err.code, HF_UNKNOWN);
    assert_true(err.retryable);
    assert_true(store->sharding->may_have_more);
    answers_give("findAndModify", "{'ok': 0, 'code': 13}");
    assert_int_equal(enter(&err), HF_DENIED);
    assert_int_equal(err.code, HF_DENIED);
}

/* ---- Documents ---- */

static hf_code read_as(const char *json, sharding_document *out)
{
    hf_error err;
    bson_t *doc = pipeline_json(json);
    hf_code code = sharding_read(store, doc, out, &err);
    bson_destroy(doc);
    return code;
}

static void test_locks_of_another_shape(void **state)
{
    (void)state;
    static const char *const odd[] = {
        "{'state': 0}",
        "{'_id': '', 'state': 0}",
        "{'_id': 5, 'state': 0}",
        "{'_id': 'a'}",
        "{'_id': 'a', 'state': -1}",
        "{'_id': 'a', 'state': 3}",
        "{'_id': 'a', 'state': 1.5}",
        "{'_id': 'a', 'state': 'held'}",
        "{'_id': 'a', 'state': 1, 'process': 'p'}",
        "{'_id': 'a', 'state': 2, 'ts': 5, 'process': 'p'}",
        "{'_id': 'a', 'state': 2, 'ts': " TS("07") "}",
        "{'_id': 'a', 'state': 2, 'ts': " TS("07") ", 'process': ''}",
    };
    sharding_document out;
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
        if (read_as(odd[i], &out) != HF_SHAPE)
            fail_msg("%s is a lock", odd[i]);
}

static void test_names_and_processes_up_to_their_longest(void **state)
{
    (void)state;
    char json[1200];
    sharding_document out;
    for (int more = 0; more < 2; more++) {
        hf_code expected = more ? HF_SHAPE : HF_OK;
        snprintf(json, sizeof json, "{'_id': '%0*d', 'state': 0}", HF_NAME_MAX + more, 0);
        assert_int_equal(read_as(json, &out), expected);
        snprintf(json, sizeof json,
                 "{'_id': 'a', 'state': 2, 'ts': " TS("07") ", 'process': '%0*d'}",
                 SHARDING_PROCESS_MAX + more, 0);
        assert_int_equal(read_as(json, &out), expected);
    }
}

static void test_a_lock_that_is_held_says_all(void **state)
{
    (void)state;
    sharding_document out;
    assert_int_equal(read_as("{'_id': 'a', 'state': 2.0, 'ts': " TS(
                                 "07") ", 'process': '" OURS
                                       "', 'when': " DATE("5") ", 'who': 'w', 'why': 'y'}",
                             &out),
                     HF_OK);
    assert_string_equal(out.name, "a");
    assert_string_equal(out.who, "w");
    assert_string_equal(out.why, "y");
    assert_string_equal(out.lock.process, OURS);
    assert_int_equal(out.lock.state, 2);
    assert_int_equal(out.lock.when_ms, 5);
    assert_true(id_equal(out.lock.ts, id_of(7)));
    assert_true(id_equal(out.session, id_of(1)));
    assert_int_equal(read_as("{'_id': 'a', 'state': 1, 'ts': " TS("07") ", 'process': 'p'}", &out),
                     HF_OK);
    assert_int_equal(read_as("{'_id': 'a', 'state': 0}", &out), HF_OK);
}

static void test_sessions_by_their_processes(void **state)
{
    (void)state;
    hf_id named = sharding_session("p", "main-000000070000000000000000");
    assert_true(id_equal(named, id_of(7)));
    assert_true(id_equal(sharding_session("host:5:4294967295:0", ""), id_of(4294967295u)));
    assert_false(id_equal(sharding_session("host:5:4294967296:0", ""), id_of(0)));
    assert_false(id_equal(sharding_session("host:5:-1:0", ""), id_of(4294967295u)));
    assert_true(id_equal(sharding_session("a:b", ""), sharding_session("a:b", "x-7")));
    assert_false(id_equal(sharding_session("a:b", ""), sharding_session("a:c", "")));
    assert_false(id_equal(sharding_session("host:5:1x:0", ""), id_of(1)));
    assert_false(id_equal(sharding_session("host:5:1:", ""), id_of(1)));
    assert_false(id_equal(sharding_session("1:0", ""), id_of(1)));
}

/* ---- Listing ---- */

static bool add_state(void *ctx, const hf_session_state *state)
{
    const hf_session *session = &state->session;
    size_t used = strlen(ctx);
    snprintf((char *)ctx + used, 300 - used, "<%s|%s|%lld|%lld|%d>", session->app, session->host,
             (long long)session->pid, (long long)session->started_at.ms, state->presence);
    return strcmp(session->app, "stop") != 0;
}

static hf_code list(const char *answer, char said[300])
{
    hf_error err;
    said[0] = '\0';
    answers_give("list", answer);
    return store->base.ops->list_sessions(&store->base, add_state, said, &err);
}

static void test_who_pings_is_listed(void **state)
{
    (void)state;
    char said[300];
    assert_int_equal(
        list(
            "{'ok': 1, 'docs': [{'_id': '" OURS "', 'ping': " DATE(
                "9") "},"
                     " {'_id': 'shard', 'ping': " DATE("8") "}, {'_id': 5, 'ping': " DATE(
                         "8") "}, {'_id': 'odd', 'ping': 8}, {'_id': 'stop', 'ping': " DATE("7") "}"
                                                                                                 ","
                                                                                                 " "
                                                                                                 "{"
                                                                                                 "'"
                                                                                                 "_"
                                                                                                 "i"
                                                                                                 "d"
                                                                                                 "'"
                                                                                                 ":"
                                                                                                 " "
                                                                                                 "'"
                                                                                                 "m"
                                                                                                 "o"
                                                                                                 "r"
                                                                                                 "e"
                                                                                                 "'"
                                                                                                 ","
                                                                                                 " "
                                                                                                 "'"
                                                                                                 "p"
                                                                                                 "i"
                                                                                                 "n"
                                                                                                 "g"
                                                                                                 "'"
                                                                                                 ":"
                                                                                                 " " DATE(
                                                                                                     "7") "}]}",
            said),
        HF_OK);
    assert_string_equal(said, "<" OURS "|host|5|9|1><shard||0|8|1><stop||0|7|1>");
    assert_int_equal(
        list("{'ok': 0, 'code': 13, 'docs': [{'_id': 'a', 'ping': " DATE("9") "}]}", said),
        HF_DENIED);
    assert_int_equal(list(NULL, said), HF_UNREACHABLE);
    assert_string_equal(said, "");
}

/* ---- Waiting for long ---- */

static int lines_logged(void)
{
    int n = 0;
    for (const char *at = answers_log(); *at; at++)
        n += *at == '\n';
    return n;
}

static void test_who_waits_for_long_is_told_now_and_then(void **state)
{
    (void)state;
    int64_t still_ms = store->sharding->settings.still_ms;
    sharding_wait_note(store, id_of(7), "a", "them");
    answers_pass(still_ms - 1);
    sharding_wait_note(store, id_of(7), "a", "them");
    assert_int_equal(lines_logged(), 0);
    answers_pass(1);
    sharding_wait_note(store, id_of(7), "a", "them");
    assert_true(is_logged("still waiting for a, since 10 s: held by them"));
    answers_pass(still_ms - 1);
    sharding_wait_note(store, id_of(7), "a", NULL);
    assert_int_equal(lines_logged(), 1);
    answers_pass(1);
    sharding_wait_note(store, id_of(7), "a", NULL);
    assert_true(is_logged("still waiting for a, since 20 s: held by others"));
}

static bool waits(void)
{
    int before = lines_logged();
    sharding_wait_note(store, id_of(7), "a", "them");
    return lines_logged() > before;
}

static void test_a_wait_ends_with_its_ticket_or_after_a_minute(void **state)
{
    (void)state;
    sharding_wait_note(store, id_of(8), "b", "them");
    sharding_wait_note(store, id_of(7), "a", "them");
    sharding_wait_end(store, id_of(8));
    answers_pass(59999);
    sharding_wait_end(store, id_of(9));
    assert_true(waits());
    sharding_wait_end(store, id_of(7));
    assert_false(waits());
    answers_pass(60000);
    sharding_wait_end(store, id_of(9));
    assert_false(waits());
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_the_first_ping_says_who_we_are),
        TEST(test_a_server_on_which_two_would_hold_a_lock_is_refused),
        TEST(test_a_session_that_cannot_ping_does_not_begin),
        TEST(test_a_late_ping_is_told),
        TEST(test_a_ping_that_failed_counts_for_none),
        TEST(test_what_is_held_and_stands_there_is_not_missed),
        TEST(test_what_is_held_and_does_not_stand_there_is_missed),
        TEST(test_a_look_that_fails_says_nothing),
        TEST(test_nobody_looks_where_nothing_can_be),
        TEST(test_what_nobody_accounts_for_is_unlocked),
        TEST(test_several_are_unlocked_at_once),
        TEST(test_after_a_slow_ping_nothing_more_is_done),
        TEST(test_the_end_of_one_that_has_nothing_only_stops_the_pings),
        TEST(test_an_end_unlocks_what_may_be_there),
        TEST(test_an_end_forgets_what_was_unlocked),
        TEST(test_what_could_not_be_unlocked_is_owed),
        TEST(test_what_is_owed_is_paid_when_the_store_closes),
        TEST(test_all_that_is_owed_is_kept),
        TEST(test_what_is_owed_waits_for_a_quick_beat),
        TEST(test_a_store_that_closes_pays),
        TEST(test_what_is_no_lock_is_none_of_ours),
        TEST(test_what_is_being_asked_for_is_no_stray),
        TEST(test_a_server_that_is_behind_is_waited_for),
        TEST(test_a_name_has_all_of_a_session),
        TEST(test_a_program_is_named_behind_its_process),
        TEST(test_who_may_name_a_session),
        TEST(test_a_lock_that_is_ours_is_called_by_its_ts),
        TEST(test_a_record_is_made_of_nothing),
        TEST(test_a_config_server_makes_its_own_indexes),
        TEST(test_indexes_are_made_once),
        TEST(test_each_error_has_a_number),
        TEST(test_a_read_without_an_answer_may_not_have_been_sent),
        TEST(test_a_read_is_tried_three_times),
        TEST(test_a_round_with_an_unknown_grab_is_unknown),
        TEST(test_locks_of_another_shape),
        TEST(test_names_and_processes_up_to_their_longest),
        TEST(test_a_lock_that_is_held_says_all),
        TEST(test_sessions_by_their_processes),
        TEST(test_who_pings_is_listed),
        TEST(test_who_waits_for_long_is_told_now_and_then),
        TEST(test_a_wait_ends_with_its_ticket_or_after_a_minute),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
