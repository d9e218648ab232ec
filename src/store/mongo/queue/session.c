/* SPDX-License-Identifier: Apache-2.0 */
/* session.c: protocol `queue` on sessions: their beats, marks and asks, and looks at them (R3, R5,
 * R9); the client calls it through the store interface. */
#include "store/mongo/queue/session.h"
#include "core/error.h"
#include "core/id.h"
#include "store/document.h"
#include "store/mongo/driver/command.h"
#include "store/mongo/driver/fault.h"
#include "store/mongo/driver/reply.h"
#include "store/mongo/driver/server.h"
#include "store/mongo/driver/text.h"
#include "store/mongo/queue/vouch.h"

/* ---- Texts of the updates; see pipeline.h ---- */

#define OTHERS(tickets)                                                                            \
    "{'$filter': {'input': {'$ifNull': ['$asked', []]},"                                           \
    " 'cond': {'$not': [{'$in': ['$$this.ticket', " tickets "]}]}}}"

/* expires_at is by the server's clock (R3). */
static const char begin_text[] =
    "{'$mergeObjects': ['$$x', {'expires_at': {'$add': ['$$NOW', '$$x.ttl_ms']}}]}";

/* If two beats arrive in the wrong order, the clock of the later one stays (R6). */
#define CLOCK                                                                                      \
    "{'$cond': [{'$and': [{'$eq': ['$clock.boot', '$$x.clock.boot']},"                             \
    " {'$gt': ['$clock.at', '$$x.clock.at']}]}, '$clock', '$$x.clock']}"

/* A session that is missing is begun by this beat. One that its watcher has begun has no names. */
static const char beat_text[] =
    "{'$mergeObjects': ['$$x.begins', '$$ROOT', '$$x.self',"
    " {'beat': {'$ifNull': [{'$add': ['$beat', 1]}, '$$x.begins_at']},"
    " 'expires_at': {'$add': ['$$NOW', {'$ifNull': ['$ttl_ms', '$$x.begins.ttl_ms']}]},"
    " 'asked': " OTHERS("'$$x.answered'") "}, '$$x.said', {'clock': " CLOCK "}]}";

/* Dead from now on, if `beat` is still the same (R5). Its tickets may still stand somewhere, so
 * only a sweep that began later sets the date after which it is forgotten. */
static const char mark_text[] =
    "{'$cond': [{'$and': [{'$eq': ['$beat', '$$x.beat']}, {'$ne': ['$dead', true]}]},"
    " {'$mergeObjects': ['$$ROOT', {'dead': true, 'marked_at': '$$NOW'}]}, '$$ROOT']}";

static const char end_text[] =
    "{'$mergeObjects': ['$$ROOT', {'dead': true, 'marked_at': '$$NOW'}]}";
static const char clean_end_text[] =
    "{'$mergeObjects': ['$$ROOT', {'dead': true, 'dead_at': '$$NOW'}]}";

/* One ask for each ticket, and not too many. */
static const char ask_text[] = "{'$let': {'vars': {'others': " OTHERS(
    "['$$x.ask.ticket']") "}, 'in': {'$mergeObjects': ["
                          "'$$ROOT', {'asked': {'$cond': [{'$lt': [{'$size': '$$others'}, "
                          "'$$x.most']},"
                          " {'$concatArrays': ['$$others', ['$$x.ask']]}, '$asked']}}]}}}";

/* ---- Begin ---- */

/* A new session, without its beat and clock. */
static void document_of_new(const hf_session *self, bson_t *out)
{
    bson_t none = BSON_INITIALIZER;
    document_of_session(self, out);
    BSON_APPEND_BOOL(out, "dead", false);
    BSON_APPEND_ARRAY(out, "asked", &none);
}

/* The filter matches no session, so an existing _id causes an error. A process awaits no majority:
 * its first step does, and that primary has the session before the step (R3). */
static void append_begin(mongo_store *store, const hf_session *self, bson_t *command)
{
    bson_t updates, update, query, never, x;
    document_of_new(self, &x);
    BSON_APPEND_INT64(&x, "beat", 1);
    mongo_append_clock(store, &x);
    mongo_begin(command, "update", store->uri.names.sessions);
    BSON_APPEND_ARRAY_BEGIN(command, "updates", &updates);
    BSON_APPEND_DOCUMENT_BEGIN(&updates, "0", &update);
    BSON_APPEND_DOCUMENT_BEGIN(&update, "q", &query);
    document_append_id(&query, "_id", self->id);
    BSON_APPEND_DOCUMENT_BEGIN(&query, "beat", &never);
    BSON_APPEND_BOOL(&never, "$exists", false);
    bson_append_document_end(&query, &never);
    bson_append_document_end(&update, &query);
    pipeline_append_text(&update, "u", begin_text, &x);
    bson_destroy(&x);
    BSON_APPEND_BOOL(&update, "upsert", true);
    bson_append_document_end(&updates, &update);
    bson_append_array_end(command, &updates);
    if (self->pid)
        mongo_append_quick_write_concern(command);
    else
        mongo_append_write_concern(store, command, false);
}

hf_code mongo_session_begin(hf_store *base, const hf_session *self, hf_error *err)
{
    static const mongo_call call = {.what = "beginning a session", .writes = true};
    mongo_store *store = (mongo_store *)base;
    bson_t command = BSON_INITIALIZER;
    mongo_reply reply;
    hf_code code = mongo_ready(store, err);
    if (code)
        return code;
    append_begin(store, self, &command);
    code = mongo_run(store, &call, &command, &reply, err);
    if (reply.server_code == MONGO_DUPLICATE)
        code = error_set(err, HF_HELD, "a session of this id has begun before");
    bson_destroy(&reply.doc);
    bson_destroy(&command);
    return code;
}

/* ---- Beat ---- */

static void append_raise(mongo_store *store, const hf_beat *says, bson_t *command)
{
    bson_t x = BSON_INITIALIZER, part;
    char key[16];
    if (says->begins) {
        document_of_new(says->begins, &part);
        BSON_APPEND_DOCUMENT(&x, "begins", &part);
        bson_destroy(&part);
        BSON_APPEND_INT64(&x, "begins_at", says->begins_at);
        BSON_APPEND_DOCUMENT_BEGIN(&x, "self", &part);
        BSON_APPEND_UTF8(&part, "app", says->begins->app);
        BSON_APPEND_UTF8(&part, "host", says->begins->host);
        BSON_APPEND_INT64(&part, "pid", says->begins->pid);
        bson_append_document_end(&x, &part);
    }
    BSON_APPEND_ARRAY_BEGIN(&x, "answered", &part);
    for (size_t i = 0; i < says->n_answered; i++)
        document_append_id(&part, mongo_key(i, key), says->answered[i]);
    bson_append_array_end(&x, &part);
    BSON_APPEND_DOCUMENT_BEGIN(&x, "said", &part);
    BSON_APPEND_UTF8(&part, "waits", says->waits ? says->waits : "");
    BSON_APPEND_INT64(&part, "seen", says->seen);
    bson_append_document_end(&x, &part);
    mongo_append_clock(store, &x);
    pipeline_append_text(command, "update", beat_text, &x);
    bson_destroy(&x);
    if (says->begins)
        BSON_APPEND_BOOL(command, "upsert", true);
}

/* {_id: id, dead: {$ne: true}} */
static void append_living(bson_t *command, const char *field, hf_id id)
{
    bson_t query, dead;
    BSON_APPEND_DOCUMENT_BEGIN(command, field, &query);
    document_append_id(&query, "_id", id);
    BSON_APPEND_DOCUMENT_BEGIN(&query, "dead", &dead);
    BSON_APPEND_BOOL(&dead, "$ne", true);
    bson_append_document_end(&query, &dead);
    bson_append_document_end(command, &query);
}

/* Runs a findAndModify on one session and reads the document after it. HF_NOT_FOUND: none
 * matched. HF_HELD: it would have made one, but another has that id. */
static hf_code modify(mongo_store *store, const mongo_call *call, bson_t *command,
                      hf_session_state *out, hf_error *err)
{
    mongo_reply reply;
    bson_t value;
    BSON_APPEND_BOOL(command, "new", true);
    mongo_append_write_concern(store, command, call->is_beat);
    hf_code code = mongo_run(store, call, command, &reply, err);
    if (reply.server_code == MONGO_DUPLICATE)
        code = error_set(err, HF_HELD, "a session of this id has begun before");
    if (!code)
        code = mongo_view(&reply.doc, "value", &value)
                   ? document_to_state(&value, store->uri.names.sessions, out, err)
                   : error_set(err, HF_NOT_FOUND, "the session is missing or dead");
    bson_destroy(&reply.doc);
    return code;
}

static hf_code raise(mongo_store *store, hf_id id, const hf_beat *says, hf_session_state *out,
                     hf_error *err)
{
    const mongo_call call = {.what = "the beat of the session",
                             .writes = true,
                             .is_beat = true,
                             .can_wait = says->holds_nothing && store->shares_beats};
    bson_t command = BSON_INITIALIZER;
    mongo_begin(&command, "findAndModify", store->uri.names.sessions);
    append_living(&command, "query", id);
    append_raise(store, says, &command);
    hf_code code = modify(store, &call, &command, out, err);
    bson_destroy(&command);
    return code;
}

/* One that cannot begin the session, because it is there after all, finds it living or dead. */
hf_code mongo_session_beat(hf_store *base, hf_id id, const hf_beat *says, hf_session_state *out,
                           hf_error *err)
{
    mongo_store *store = (mongo_store *)base;
    hf_beat again = *says;
    again.begins = NULL;
    hf_code code = raise(store, id, says, out, err);
    if (code == HF_HELD)
        code = raise(store, id, &again, out, err);
    if (code == HF_NOT_FOUND)
        return error_set(err, HF_LOST, "this session was marked dead, or removed, by another");
    return code;
}

/* ---- Mark and end ---- */

/* One atomic command: the document after it says whether the session is dead. */
hf_code mongo_session_mark(hf_store *base, const hf_session_state *seen, hf_error *err)
{
    static const mongo_call call = {.what = "marking a session as dead", .writes = true};
    mongo_store *store = (mongo_store *)base;
    bson_t command = BSON_INITIALIZER, x = BSON_INITIALIZER;
    hf_session_state after;
    hf_code code = mongo_ready(store, err);
    if (code)
        return code;
    BSON_APPEND_INT64(&x, "beat", seen->beat);
    mongo_begin(&command, "findAndModify", store->uri.names.sessions);
    mongo_append_by_id(&command, "query", seen->session.id);
    pipeline_append_text(&command, "update", mark_text, &x);
    code = modify(store, &call, &command, &after, err);
    bson_destroy(&command);
    bson_destroy(&x);
    if (!code && after.presence != HF_DEAD)
        return error_set(err, HF_HELD, "the session is alive");
    return code;
}

/* Best effort: if it does not arrive, the session ends with its lease. It waits for no majority,
 * because nobody relies on this mark before a majority look shows it, and the mark reaches a
 * majority by itself (docs/rationale/sessions.md). */
hf_code mongo_session_end(hf_store *base, hf_id id, bool leaves_any, hf_error *err)
{
    static const mongo_call call = {.what = "ending a session", .writes = true};
    mongo_store *store = (mongo_store *)base;
    bson_t command = BSON_INITIALIZER, x = BSON_INITIALIZER;
    mongo_reply reply;
    hf_code code = mongo_ready(store, err);
    if (code)
        return code;
    mongo_begin(&command, "findAndModify", store->uri.names.sessions);
    append_living(&command, "query", id);
    pipeline_append_text(&command, "update", leaves_any ? end_text : clean_end_text, &x);
    mongo_append_quick_write_concern(&command);
    code = mongo_run(store, &call, &command, &reply, err);
    bson_destroy(&reply.doc);
    bson_destroy(&command);
    return code;
}

/* ---- Ask ---- */

static bool is_asked(const hf_session_state *state, const hf_ask *ask)
{
    for (size_t i = 0; i < state->n_asked; i++)
        if (id_equal(state->asked[i].ticket, ask->ticket))
            return true;
    return false;
}

hf_code mongo_session_ask(hf_store *base, hf_id session, const hf_ask *ask, hf_error *err)
{
    static const mongo_call call = {.what = "asking a session to give up", .writes = true};
    mongo_store *store = (mongo_store *)base;
    bson_t command = BSON_INITIALIZER, x = BSON_INITIALIZER, doc;
    hf_session_state after;
    hf_code code = mongo_ready(store, err);
    if (code)
        return code;
    document_of_ask(ask, &doc);
    BSON_APPEND_DOCUMENT(&x, "ask", &doc);
    BSON_APPEND_INT32(&x, "most", HF_ASKS_MAX);
    mongo_begin(&command, "findAndModify", store->uri.names.sessions);
    append_living(&command, "query", session);
    pipeline_append_text(&command, "update", ask_text, &x);
    code = modify(store, &call, &command, &after, err);
    bson_destroy(&command);
    bson_destroy(&doc);
    bson_destroy(&x);
    if (!code && !is_asked(&after, ask))
        return error_set(err, HF_FULL, "the session has %d asks open: wait until it has answered",
                         HF_ASKS_MAX);
    return code;
}
