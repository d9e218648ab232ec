/* SPDX-License-Identifier: Apache-2.0 */
/* wire_cases.c: what the mongo store puts on the wire, whatever the URI says: majority reads on the
 * primary and not before what was seen (R1), majority writes (R2), and text from outside under
 * $literal only; and what it makes of an answer that no majority stands behind. Run by main.c.
 *
 * The store counts the commands that have ended, as the driver reports them; what asks for that is
 * turned by the linker to the function here (see tests/CMakeLists.txt), which has those that begin
 * reported, too. */
#include "conformance/bed.h"

#include "core/record.h"

#include <mongoc/mongoc.h>

#define APP "holdfast-wire" /* whose commands can be made to fail */
#define TTL 9000            /* a third of it is well below the 5 s of any other call */
#define MARK "$$mark"       /* in every text from outside; as an expression it is an error */

void __real_mongoc_apm_set_command_succeeded_cb(mongoc_apm_callbacks_t *callbacks,
                                                mongoc_apm_command_succeeded_cb_t each);
void __wrap_mongoc_apm_set_command_succeeded_cb(mongoc_apm_callbacks_t *callbacks,
                                                mongoc_apm_command_succeeded_cb_t each);

/* ---- Listening in ---- */

struct sent {
    char verb[32], host[BSON_HOST_NAME_MAX + 8];
    bson_t *command;
    uint64_t seen; /* the latest operation time of an answer before it */
};

#define SENT_MOST 256

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char database[128]; /* of which commands are kept; "": of none */
static struct sent sent[SENT_MOST];
static size_t n_sent;
static uint64_t latest;

static uint64_t stamp_at(const bson_t *doc, const char *path)
{
    bson_iter_t it, found;
    uint32_t seconds = 0, increment = 0;
    if (bson_iter_init(&it, doc) && bson_iter_find_descendant(&it, path, &found) &&
        BSON_ITER_HOLDS_TIMESTAMP(&found))
        bson_iter_timestamp(&found, &seconds, &increment);
    return (uint64_t)seconds << 32 | increment;
}

static void keep(const mongoc_apm_command_started_t *event)
{
    struct sent *s = &sent[n_sent++];
    snprintf(s->verb, sizeof s->verb, "%s", mongoc_apm_command_started_get_command_name(event));
    snprintf(s->host, sizeof s->host, "%s",
             mongoc_apm_command_started_get_host(event)->host_and_port);
    s->command = bson_copy(mongoc_apm_command_started_get_command(event));
    s->seen = latest;
}

static void started(const mongoc_apm_command_started_t *event)
{
    const char *of = mongoc_apm_command_started_get_database_name(event);
    if (bed.on_command)
        bed.on_command(mongoc_apm_command_started_get_command_name(event),
                       mongoc_apm_command_started_get_command(event));
    pthread_mutex_lock(&mutex);
    if (database[0] && strcmp(of, database) == 0 && n_sent < SENT_MOST)
        keep(event);
    pthread_mutex_unlock(&mutex);
}

static mongoc_apm_command_succeeded_cb_t counts; /* the store's own */

static void succeeded(const mongoc_apm_command_succeeded_t *event)
{
    uint64_t stamp = stamp_at(mongoc_apm_command_succeeded_get_reply(event), "operationTime");
    pthread_mutex_lock(&mutex);
    latest = stamp > latest ? stamp : latest;
    mongoc_apm_command_succeeded_cb_t each = counts;
    pthread_mutex_unlock(&mutex);
    each(event);
}

void __wrap_mongoc_apm_set_command_succeeded_cb(mongoc_apm_callbacks_t *callbacks,
                                                mongoc_apm_command_succeeded_cb_t each)
{
    pthread_mutex_lock(&mutex);
    counts = each;
    pthread_mutex_unlock(&mutex);
    mongoc_apm_set_command_started_cb(callbacks, started);
    __real_mongoc_apm_set_command_succeeded_cb(callbacks, succeeded);
}

/* ---- A store whose URI asks for everything that is overridden ---- */

static hf_store *store;
static hf_error err;

static int listen_in(void **state)
{
    (void)state;
    char before[sizeof bed.uri];
    snprintf(before, sizeof before, "%s", bed.uri);
    snprintf(bed.uri, sizeof bed.uri, "%.700s%s%s", before, strchr(before, '?') ? "&" : "?",
             "readPreference=secondaryPreferred&readConcernLevel=local&w=1&journal=false"
             "&appName=" APP);
    store = bed_store_at(bed.uri, TTL);
    snprintf(bed.uri, sizeof bed.uri, "%s", before);
    mongoc_uri_t *uri = mongoc_uri_new(before);
    snprintf(database, sizeof database, "%s", mongoc_uri_get_database(uri));
    mongoc_uri_destroy(uri);
    latest = 0;
    return 0;
}

static int stop_listening(void **state)
{
    (void)state;
    store->ops->close(store);
    database[0] = '\0';
    while (n_sent)
        bson_destroy(sent[--n_sent].command);
    return 0;
}

/* ---- Everything that a store can be asked for ---- */

static hf_id begin_marked(void)
{
    hf_session self = {.id = bed_id(), .ttl_ms = 5000, .app = MARK " app", .host = MARK " host"};
    assert_code(HF_OK, store->ops->session_begin(store, &self, &err), &err);
    return self.id;
}

static hf_enter enter_marked(hf_id session)
{
    hf_enter enter = bed_enter(session, HF_LIMIT_RW, HF_LIMIT_RW);
    snprintf(enter.entry.why, sizeof enter.entry.why, MARK " why");
    snprintf(enter.entry.actor, sizeof enter.entry.actor, MARK " actor");
    return enter;
}

static bool ignore_record(void *ctx, const hf_record *record)
{
    (void)ctx;
    (void)record;
    return true;
}

static bool ignore_state(void *ctx, const hf_session_state *seen)
{
    (void)ctx;
    (void)seen;
    return true;
}

static void ignore_notice(void *ctx, const hf_notice *notice)
{
    (void)ctx;
    (void)notice;
}

/* The look comes right after the enter, and no earlier than it. */
static void enter_and_look(const char *name, const hf_enter *enter)
{
    hf_step_reply reply;
    hf_record record;
    hf_step step = {.enter = enter};
    assert_code(HF_OK, store->ops->step(store, name, &step, &record, &reply, &err), &err);
    record_done(&record);
    for (int linearizable = 0; linearizable < 2; linearizable++)
        assert_code(HF_OK,
                    store->ops->look(store, &name, 1, linearizable ? (hf_stamp){0} : reply.stamp,
                                     linearizable, ignore_record, NULL, &err),
                    &err);
}

static void leave_with_death(const char *name, hf_id ticket, hf_id dead)
{
    hf_leave leave = {
        .ticket = ticket, .outcome = HF_OUTCOME_RELEASED, .told = true, .who = MARK " who"};
    hf_death death = {.session = dead, .who = MARK " dead"};
    hf_step step = {.leaves = &leave, .n_leaves = 1};
    bed_step(store, name, &step, NULL);
    step = (hf_step){.leaves = &leave, .n_leaves = 1, .deaths = &death, .n_deaths = 1};
    bed_step(store, name, &step, NULL);
}

static void judge_each_other(hf_id first, hf_id second, hf_id ticket)
{
    hf_session_state states[2], after;
    hf_ask ask = {.ticket = ticket, .by = MARK " by", .reason = MARK " reason"};
    hf_id ids[] = {first, second};
    assert_code(HF_OK, store->ops->ask(store, first, &ask, &err), &err);
    hf_beat says = {.answered = &ticket, .n_answered = 1, .waits = MARK " waits"};
    assert_code(HF_OK, store->ops->session_beat(store, first, &says, &after, &err), &err);
    assert_code(HF_OK, store->ops->sessions_look(store, ids, 2, -1, states, &err), &err);
    assert_code(HF_OK, store->ops->session_mark(store, &states[1], &err), &err);
}

static void do_everything(void)
{
    char name[64];
    snprintf(name, sizeof name, MARK " %s", bed_name("wire"));
    hf_id first = begin_marked(), second = begin_marked();
    hf_enter holds = enter_marked(first), waits = enter_marked(second);
    enter_and_look(name, &holds);
    enter_and_look(name, &waits);
    assert_code(HF_OK,
                store->ops->await(store, second, (hf_stamp){0}, 50, ignore_notice, NULL, &err),
                &err);
    judge_each_other(first, second, holds.entry.ticket);
    leave_with_death(name, holds.entry.ticket, second);
    assert_code(HF_OK,
                store->ops->list(store, &(hf_list_part){.prefix = "", .after = ""}, ignore_record,
                                 NULL, &err),
                &err);
    assert_code(HF_OK, store->ops->list_sessions(store, ignore_state, NULL, &err), &err);
    mongo_let_be_old(second); /* it has been marked: a sweep dates it */
    mongo_sweep_all(store);
    assert_code(HF_OK, store->ops->session_end(store, first, false, &err), &err);
}

/* ---- What was sent ---- */

/* Fails the case with the command's text. */
static void demand(bool holds, const struct sent *s, const char *what)
{
    if (holds)
        return;
    char *text = bson_as_relaxed_extended_json(s->command, NULL);
    print_error("%s: %.600s\n", what, text);
    bson_free(text);
    fail();
}

static const char *text_at(const bson_t *doc, const char *path)
{
    bson_iter_t it, found;
    if (!bson_iter_init(&it, doc) || !bson_iter_find_descendant(&it, path, &found) ||
        !BSON_ITER_HOLDS_UTF8(&found))
        return "";
    return bson_iter_utf8(&found, NULL);
}

static bool has(const bson_t *doc, const char *path)
{
    bson_iter_t it, found;
    return bson_iter_init(&it, doc) && bson_iter_find_descendant(&it, path, &found);
}

static bool is_true_at(const bson_t *doc, const char *path)
{
    bson_iter_t it, found;
    return bson_iter_init(&it, doc) && bson_iter_find_descendant(&it, path, &found) &&
           bson_iter_as_bool(&found);
}

static bool is_among(const char *text, const char *const *words)
{
    for (; *words; words++)
        if (strcmp(*words, text) == 0)
            return true;
    return false;
}

static const char *const reads[] = {"find", "aggregate", "distinct", NULL};
static const char *const writes[] = {"findAndModify", "update", "delete", "createIndexes",
                                     "create",        "insert", NULL};
static const char *const others[] = {"getMore", "killCursors", "listIndexes", NULL};

static bool is_look_after(const struct sent *s, bool linearizable)
{
    bool is_stream = has(s->command, "pipeline.0.$changeStream");
    bool by_id = has(s->command, "filter._id.$in") || has(s->command, "pipeline.0.$match._id.$in");
    return by_id && !is_stream && !linearizable;
}

/* A bell is listened to by a local read: what it says was acknowledged by a majority before. */
static bool is_listening(const struct sent *s)
{
    return is_true_at(s->command, "tailable");
}

static void check_read(const struct sent *s)
{
    if (is_listening(s))
        return;
    const char *level = text_at(s->command, "readConcern.level");
    const char *prefers = text_at(s->command, "$readPreference.mode");
    bool linearizable = strcmp(level, "linearizable") == 0;
    demand(strcmp(level, "majority") == 0 || linearizable, s, "no majority read");
    demand(!prefers[0] || strcmp(prefers, "primary") == 0, s, "not on the primary");
    if (is_look_after(s, linearizable))
        demand(stamp_at(s->command, "readConcern.afterClusterTime") >= s->seen && s->seen, s,
               "a look that may be older than what was seen");
}

/* A ring may be lost. */
static bool is_ring(const struct sent *s)
{
    return has(s->command, "documents.0.session");
}

/* Nobody relies on it before a majority look shows it. */
static bool is_end_of_session(const struct sent *s)
{
    return strcmp(text_at(s->command, "findAndModify"), "holdfast.sessions") == 0 &&
           has(s->command, "update.0.$replaceWith.$let.in.$mergeObjects.1.dead");
}

/* Whose turn it is to sweep, and how far it has come: what is rolled back is swept once more. */
static bool is_place_of_sweep(const struct sent *s)
{
    return has(s->command, "update.0.$replaceWith.$let.vars.x.$literal.doc.sweep") ||
           has(s->command, "updates.0.q.by");
}

static void check_write(const struct sent *s)
{
    bson_iter_t w;
    if (is_end_of_session(s) || is_ring(s) || is_place_of_sweep(s)) {
        bool is_given = bson_iter_init_find(&w, s->command, "writeConcern");
        demand(is_given && bson_iter_recurse(&w, &w) && bson_iter_find(&w, "w") &&
                   bson_iter_as_int64(&w) == 1,
               s, "an end, a ring or a place that is waited for");
        return;
    }
    demand(strcmp(text_at(s->command, "writeConcern.w"), "majority") == 0, s, "no majority write");
    demand(is_true_at(s->command, "writeConcern.j"), s, "no journal");
    demand(has(s->command, "writeConcern.wtimeout"), s, "no bound");
}

/* Is a text from outside anywhere but under $literal? *literals counts those that are. */
static bool leaks(bson_iter_t *it, size_t *literals)
{
    bson_iter_t inner;
    while (bson_iter_next(it)) {
        bool is_literal = strcmp(bson_iter_key(it), "$literal") == 0;
        if (is_literal)
            ++*literals;
        else if (BSON_ITER_HOLDS_UTF8(it) && strstr(bson_iter_utf8(it, NULL), MARK))
            return true;
        else if (bson_iter_recurse(it, &inner) && leaks(&inner, literals))
            return true;
    }
    return false;
}

static void check_update(const struct sent *s, const char *path)
{
    bson_iter_t it, found, inner;
    size_t literals = 0;
    if (!bson_iter_init(&it, s->command) || !bson_iter_find_descendant(&it, path, &found) ||
        !BSON_ITER_HOLDS_ARRAY(&found))
        return;
    demand(bson_iter_recurse(&found, &inner) && !leaks(&inner, &literals), s,
           "text from outside is no literal");
    demand(literals == 1, s, "nothing is literal");
}

static size_t count(const char *verb, const char *of, const char *path)
{
    size_t n = 0;
    for (size_t i = 0; i < n_sent; i++)
        n += strcmp(sent[i].verb, verb) == 0 && has(sent[i].command, path) &&
             strcmp(text_at(sent[i].command, verb), of) == 0;
    return n;
}

static size_t n_listening(void)
{
    size_t n = 0;
    for (size_t i = 0; i < n_sent; i++)
        n += strcmp(sent[i].verb, "find") == 0 && is_listening(&sent[i]);
    return n;
}

/* Else the rest would be true of nothing. */
static void check_that_all_was_sent(void)
{
    assert_in_range(n_sent, 1, SENT_MOST - 1);
    assert_in_range(count("update", "holdfast.sessions", "updates.0.u"), 4,
                    9); /* and the places of sweeps */
    assert_in_range(count("find", "holdfast.sessions", "filter.dead_at"), 1, 1);
    assert_in_range(count("aggregate", "holdfast.locks", "pipeline.2.$limit"), 1, 1);
    assert_in_range(count("findAndModify", "holdfast.locks", "update"), 4, 4);
    assert_in_range(count("findAndModify", "holdfast.sessions", "update"), 4,
                    9); /* beats come by time */
    assert_in_range(count("find", "holdfast.locks", "readConcern"), 5, 9);
    assert_in_range(count("find", "holdfast.locks", "readConcern.afterClusterTime"), 2, 2);
    assert_in_range(count("aggregate", "holdfast.sessions", "readConcern.afterClusterTime"), 1, 9);
    assert_in_range(n_listening(), 1, 9);
    assert_in_range(count("listIndexes", "holdfast.sessions", "listIndexes"), 1, 1);
}

static void test_all_that_is_sent_is_majority_on_the_primary(void **state)
{
    (void)state;
    do_everything();
    for (size_t i = 0; i < n_sent; i++) {
        const struct sent *s = &sent[i];
        if (is_among(s->verb, reads))
            check_read(s);
        else if (is_among(s->verb, writes))
            check_write(s);
        else
            demand(is_among(s->verb, others), s, "a command of a kind that is not known here");
        demand(strcmp(s->host, sent[0].host) == 0, s, "sent to another server");
    }
    check_that_all_was_sent();
}

static void test_text_from_outside_is_sent_as_literal(void **state)
{
    (void)state;
    do_everything();
    for (size_t i = 0; i < n_sent; i++) {
        check_update(&sent[i], "update");
        check_update(&sent[i], "updates.0.u");
    }
}

/* ---- An answer that no majority stands behind ---- */

/* Of the store's next findAndModify; `how` is failCommand's, and is destroyed. */
static void fail_next(bson_t *how)
{
    bson_error_t error;
    mongoc_client_t *client = mongoc_client_new(bed.uri);
    bson_t *command, data;
    bson_init(&data);
    BCON_APPEND(&data, "failCommands", "[", BCON_UTF8("findAndModify"), "]", "appName",
                BCON_UTF8(APP));
    bson_concat(&data, how);
    command = BCON_NEW("configureFailPoint", BCON_UTF8("failCommand"), "mode", "{", "times",
                       BCON_INT32(1), "}", "data", BCON_DOCUMENT(&data));
    bson_destroy(&data);
    bson_destroy(how);
    if (!mongoc_client_command_simple(client, "admin", command, NULL, NULL, &error))
        fail_msg("%s", error.message);
    bson_destroy(command);
    mongoc_client_destroy(client);
}

static void fail_next_acknowledgement(void)
{
    fail_next(BCON_NEW("writeConcernError", "{", "code", BCON_INT32(64), "errmsg",
                       BCON_UTF8("waiting for replication timed out"), "}"));
}

static void test_a_grant_without_a_majority_is_unknown(void **state)
{
    (void)state;
    const char *name = bed_name("unknown");
    hf_enter enter = enter_marked(begin_marked());
    hf_step step = {.enter = &enter};
    hf_step_reply reply;
    hf_record record;
    fail_next_acknowledgement();
    assert_code(HF_UNKNOWN, store->ops->step(store, name, &step, &record, &reply, &err), &err);
    assert_code(HF_OK, store->ops->step(store, name, &step, &record, &reply, &err), &err);
    assert_int_equal(record.holders, 1);
    record_done(&record);
}

static void test_a_mark_without_a_majority_is_unknown(void **state)
{
    (void)state;
    hf_session_state seen;
    hf_id session = begin_marked();
    assert_code(HF_OK, store->ops->sessions_look(store, &session, 1, -1, &seen, &err), &err);
    fail_next_acknowledgement();
    assert_code(HF_UNKNOWN, store->ops->session_mark(store, &seen, &err), &err);
    assert_code(HF_OK, store->ops->session_mark(store, &seen, &err), &err);
}

/* What is left of the ttl is for the next try (R7). */
static void test_a_beat_that_hangs_is_given_up_within_a_third_of_the_ttl(void **state)
{
    (void)state;
    hf_session_state after;
    hf_id session = begin_marked();
    assert_code(HF_OK, store->ops->session_beat(store, session, &(hf_beat){0}, &after, &err), &err);
    fail_next(BCON_NEW("blockConnection", BCON_BOOL(true), "blockTimeMS", BCON_INT32(TTL / 2)));
    int64_t began = idle_ms();
    assert_code(HF_UNKNOWN, store->ops->session_beat(store, session, &(hf_beat){0}, &after, &err),
                &err);
    assert_in_range(idle_ms() - began, 0, TTL / 2 - 100);
    assert_code(HF_OK, store->ops->session_beat(store, session, &(hf_beat){0}, &after, &err), &err);
}

#define WIRE_CASE(test)                                                                            \
    {                                                                                              \
        HF_CAN_QUEUE, cmocka_unit_test_setup_teardown(test, listen_in, stop_listening)             \
    }

int run_wire_cases(void)
{
    const struct bed_case wire_cases[] = {
        WIRE_CASE(test_all_that_is_sent_is_majority_on_the_primary),
        WIRE_CASE(test_text_from_outside_is_sent_as_literal),
        WIRE_CASE(test_a_grant_without_a_majority_is_unknown),
        WIRE_CASE(test_a_mark_without_a_majority_is_unknown),
        WIRE_CASE(test_a_beat_that_hangs_is_given_up_within_a_third_of_the_ttl),
    };
    return CASES(wire_cases);
}
