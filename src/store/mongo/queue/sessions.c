/* SPDX-License-Identifier: Apache-2.0 */
/* sessions.c: looks at sessions, lists them, and finds those that are long overdue (R1, R5, R6);
 * the client calls it through the store interface, sweep.c for the overdue. */
#include "store/mongo/queue/sessions.h"
#include "core/error.h"
#include "core/id.h"
#include "core/text.h"
#include "store/document.h"
#include "store/mongo/driver/command.h"
#include "store/mongo/driver/fault.h"
#include "store/mongo/driver/pool.h"
#include "store/mongo/driver/reply.h"
#include "store/mongo/driver/server.h"
#include "store/mongo/driver/text.h"
#include "store/mongo/queue/vouch.h"
#include "store/mongo/shared/skipped.h"

#define WAITS_MOST 1000 /* sessions that say something, of all */
/* If a document has no date or one of another type, an error here would fail the whole command. */
#define LEFT                                                                                       \
    "{'$set': {'left': {'$cond': [{'$eq': [{'$type': '$expires_at'}, 'date']},"                    \
    " {'$subtract': ['$expires_at', '$$NOW']}, '$$REMOVE']}}}"

static hf_code read_state(const mongo_store *store, const bson_t *doc, hf_session_state *out,
                          hf_error *err)
{
    return document_to_state(doc, store->uri.names.sessions, out, err);
}

/* ---- Look ---- */

/* {_id: id} or {_id: {$in: ids}}; the server answers the former in five sixths of the time. */
static void append_ids(bson_t *match, const hf_id *ids, size_t n)
{
    bson_t id, in;
    char key[16];
    if (n == 1) {
        document_append_id(match, "_id", ids[0]);
        return;
    }
    BSON_APPEND_DOCUMENT_BEGIN(match, "_id", &id);
    BSON_APPEND_ARRAY_BEGIN(&id, "$in", &in);
    for (size_t i = 0; i < n; i++)
        document_append_id(&in, mongo_key(i, key), ids[i]);
    bson_append_array_end(&id, &in);
    bson_append_document_end(match, &id);
}

/* Appends [{$match: match}, stages...]; stages is the text of {'1': {...}, '2': {...}}. */
static void append_stages(bson_t *command, const bson_t *match, const char *stages)
{
    bson_t all, first;
    bson_t *rest = pipeline_json(stages);
    BSON_APPEND_ARRAY_BEGIN(command, "pipeline", &all);
    BSON_APPEND_DOCUMENT_BEGIN(&all, "0", &first);
    BSON_APPEND_DOCUMENT(&first, "$match", match);
    bson_append_document_end(&all, &first);
    bson_concat(&all, rest);
    bson_append_array_end(command, &all);
    bson_destroy(rest);
}

/* One batch of sessions, none older than any look at a record so far (R1). */
static hf_code aggregate(mongo_store *store, const mongo_call *call, const bson_t *match,
                         const char *stages, size_t most, mongo_reply *reply, hf_error *err)
{
    bson_t command = BSON_INITIALIZER, cursor;
    mongo_begin(&command, "aggregate", store->uri.names.sessions);
    append_stages(&command, match, stages);
    BSON_APPEND_DOCUMENT_BEGIN(&command, "cursor", &cursor);
    BSON_APPEND_INT64(&cursor, "batchSize", (int64_t)most + 1);
    bson_append_document_end(&command, &cursor);
    mongo_append_read_concern(store, &command, (hf_stamp){atomic_load(&store->latest)});
    hf_code code = mongo_run_behind(store, call, &command, reply, err);
    bson_destroy(&command);
    return code;
}

static void place(const hf_session_state *state, const hf_id *ids, size_t n,
                  hf_session_state *states)
{
    for (size_t i = 0; i < n; i++)
        if (id_equal(ids[i], state->session.id))
            states[i] = *state;
}

/* One that cannot be read, with its id at least. */
static void read_odd(const bson_t *doc, hf_session_state *out)
{
    bson_iter_t it;
    *out = (hf_session_state){.presence = HF_ODD};
    if (bson_iter_init_find(&it, doc, "_id") && BSON_ITER_HOLDS_OID(&it))
        memcpy(out->session.id.bytes, bson_iter_oid(&it)->bytes, sizeof out->session.id.bytes);
}

/* All that can be read are given; then the first that could not is the error. */
static hf_code read_states(mongo_store *store, const mongo_call *call, const bson_t *reply,
                           const hf_id *ids, size_t n, int64_t trust_ms, hf_session_state *states,
                           hf_error *err)
{
    bson_t batch, doc;
    bson_iter_t it;
    hf_session_state state;
    hf_code code = HF_OK;
    if (!mongo_view(reply, "cursor.firstBatch", &batch) || !bson_iter_init(&it, &batch))
        return mongo_odd_reply(store, call, err);
    while (mongo_next(&it, &doc)) {
        hf_code of_this = read_state(store, &doc, &state, code ? NULL : err);
        if (of_this)
            read_odd(&doc, &state);
        else
            state.is_gone = mongo_is_gone(store, &doc, &state, trust_ms);
        code = code ? code : of_this;
        place(&state, ids, n, states);
    }
    return code;
}

hf_code mongo_sessions_look(hf_store *base, const hf_id *ids, size_t n, int64_t clock_trust_ms,
                            hf_session_state *states, hf_error *err)
{
    static const mongo_call call = {.what = "looking at sessions", .can_wait = true};
    mongo_store *store = (mongo_store *)base;
    bson_t match = BSON_INITIALIZER;
    mongo_reply reply;
    hf_code code = mongo_ready(store, err);
    if (code)
        return code;
    append_ids(&match, ids, n);
    code = aggregate(store, &call, &match, "{'1': " LEFT "}", n, &reply, err);
    for (size_t i = 0; i < n && !code; i++)
        states[i] = (hf_session_state){.session.id = ids[i], .presence = HF_MISSING};
    if (!code)
        code = read_states(store, &call, &reply.doc, ids, n, clock_trust_ms, states, err);
    bson_destroy(&reply.doc);
    bson_destroy(&match);
    return code;
}

/* ---- What they wait for ---- */

/* Of any that were not read as they should be, nothing is known. */
static bool give_waits(const mongo_store *store, const bson_t *doc, hf_waits_fn each, void *ctx)
{
    bson_iter_t it;
    hf_session_state state;
    if (read_state(store, doc, &state, NULL) || !bson_iter_init_find(&it, doc, "waits") ||
        !BSON_ITER_HOLDS_UTF8(&it))
        return true;
    hf_waits waits = {.session = state.session,
                      .beat = state.beat,
                      .seen = mongo_int_at(doc, "seen", 0),
                      .text = bson_iter_utf8(&it, NULL)};
    return each(ctx, &waits);
}

hf_code mongo_waits(hf_store *base, const hf_id *ids, size_t n, hf_waits_fn each, void *ctx,
                    hf_error *err)
{
    static const mongo_call call = {.what = "looking at what sessions wait for", .can_wait = true};
    mongo_store *store = (mongo_store *)base;
    bson_t batch, doc;
    bson_iter_t it;
    mongo_reply reply;
    hf_code code = mongo_ready(store, err);
    if (code)
        return code;
    bson_t *match = pipeline_json("{'waits': {'$gt': ''}, 'dead': {'$ne': true}}");
    if (ids)
        append_ids(match, ids, n);
    code = aggregate(store, &call, match, "{}", ids ? n : WAITS_MOST, &reply, err);
    if (!code && mongo_view(&reply.doc, "cursor.firstBatch", &batch) && bson_iter_init(&it, &batch))
        while (mongo_next(&it, &doc) && give_waits(store, &doc, each, ctx))
            ;
    bson_destroy(&reply.doc);
    bson_destroy(match);
    return code;
}

/* ---- Overdue ---- */

/* Most of those have ended in order, and are kept for a day: a page is cut off before they are left
 * out. The same conditions as in document_to_state(). */
#define OVERDUE_PAGE 1000
/* clang-format off: it knows no texts between macros. */
static const char overdue_text[] =
    "{'1': {'$sort': {'expires_at': 1}}, '2': {'$limit': 1000}, '3': {'$project': {'_id': 0,"
    " 'expires_at': 1, 'session': {'$cond': [{'$and': [{'$ne': ['$dead', true]},"
    " {'$eq': [{'$type': '$_id'}, 'objectId']}, {'$eq': [{'$type': '$expires_at'}, "
    "'date']}," PIPELINE_IS_NUMBER("beat") ", {'$gte': ['$beat', 0]}, " PIPELINE_IS_NUMBER(
        "ttl_ms") ", {'$gte': ['$ttl_ms', 1]}]},"
                  " {'$mergeObjects': ['$$ROOT', {'left': {'$subtract': ['$expires_at', "
                  "'$$NOW']}}]},"
                  " '$$REMOVE']}}}}";
/* clang-format on */

/* A row that is none of ours is passed over. */
static bool give_overdue(const mongo_store *store, const bson_t *row, mongo_overdue_fn each,
                         void *ctx)
{
    bson_t doc;
    hf_session_state state;
    return !mongo_view(row, "session", &doc) || read_state(store, &doc, &state, NULL) ||
           each(ctx, &doc, &state);
}

hf_code mongo_overdue(mongo_store *store, int64_t from_ms, int64_t before_ms, mongo_overdue_fn each,
                      void *ctx, int64_t *last_ms, bool *is_last, hf_error *err)
{
    static const mongo_call call = {.what = "looking for dead sessions", .can_wait = true};
    bson_t match = BSON_INITIALIZER, batch, row, range;
    bson_iter_t it;
    mongo_reply reply;
    size_t n = 0;
    bool goes_on = true;
    BSON_APPEND_DOCUMENT_BEGIN(&match, "expires_at", &range);
    BSON_APPEND_DATE_TIME(&range, "$gte", from_ms);
    BSON_APPEND_DATE_TIME(&range, "$lt", before_ms);
    bson_append_document_end(&match, &range);
    hf_code code = aggregate(store, &call, &match, overdue_text, OVERDUE_PAGE, &reply, err);
    if (!code && mongo_view(&reply.doc, "cursor.firstBatch", &batch) && bson_iter_init(&it, &batch))
        for (; goes_on && mongo_next(&it, &row); n++) {
            mongo_date_at(&row, "expires_at", last_ms);
            goes_on = give_overdue(store, &row, each, ctx);
        }
    *is_last = goes_on && n < OVERDUE_PAGE;
    bson_destroy(&reply.doc);
    bson_destroy(&match);
    return code;
}

/* ---- Dead ---- */

hf_code mongo_find_dead(mongo_store *store, const hf_id *ids, size_t n, hf_death *dead,
                        size_t *n_dead, hf_error *err)
{
    static const mongo_call call = {.what = "looking at sessions", .can_wait = true};
    bson_t *match = pipeline_json("{'dead': true}");
    bson_t batch, doc;
    bson_iter_t it;
    mongo_reply reply;
    hf_session_state state;
    *n_dead = 0;
    append_ids(match, ids, n);
    hf_code code = aggregate(store, &call, match, "{}", n, &reply, err);
    if (!code && mongo_view(&reply.doc, "cursor.firstBatch", &batch) && bson_iter_init(&it, &batch))
        while (*n_dead < n && mongo_next(&it, &doc)) {
            hf_death *next = &dead[*n_dead];
            *next = (hf_death){.who = ""};
            *n_dead += mongo_id_at(&doc, "_id", &next->session);
            if (!read_state(store, &doc, &state, NULL))
                text_who(&state.session, next->who);
        }
    bson_destroy(&reply.doc);
    bson_destroy(match);
    return code;
}

/* ---- List ---- */

static bool give_listed(const mongo_store *store, const bson_t *doc, mongo_skipped *skipped,
                        hf_state_fn each, void *ctx)
{
    hf_session_state state;
    hf_error shape;
    if (!read_state(store, doc, &state, &shape))
        return each(ctx, &state);
    mongo_skip(skipped, &shape);
    return true;
}

static hf_code give_all(mongo_store *store, const mongo_connection *connection,
                        mongoc_cursor_t *cursor, const mongo_call *call, hf_state_fn each,
                        void *ctx, hf_error *err)
{
    const bson_t *doc;
    mongo_skipped skipped = {.n = 0};
    bool goes_on = true;
    while (goes_on && mongoc_cursor_next(cursor, &doc))
        goes_on = give_listed(store, doc, &skipped, each, ctx);
    mongo_skipped_tell(store, &skipped);
    return goes_on ? mongo_cursor_fault(store, call, connection, cursor, err) : HF_OK;
}

static mongoc_cursor_t *open_list(mongo_store *store, mongoc_client_t *client)
{
    mongoc_read_prefs_t *primary = mongoc_read_prefs_new(MONGOC_READ_PRIMARY);
    mongoc_collection_t *sessions =
        mongoc_client_get_collection(client, store->uri.database, store->uri.names.sessions);
    bson_t opts = BSON_INITIALIZER;
    bson_t *stages =
        pipeline_json("{'pipeline': [{'$match': {'sweep': {'$ne': true}}}, " LEFT "]}");
    mongo_append_read_concern(store, &opts, (hf_stamp){0});
    mongoc_cursor_t *cursor =
        mongoc_collection_aggregate(sessions, MONGOC_QUERY_NONE, stages, &opts, primary);
    bson_destroy(stages);
    bson_destroy(&opts);
    mongoc_collection_destroy(sessions);
    mongoc_read_prefs_destroy(primary);
    return cursor;
}

hf_code mongo_list_sessions(hf_store *base, hf_state_fn each, void *ctx, hf_error *err)
{
    static const mongo_call call = {.what = "listing sessions"};
    mongo_store *store = (mongo_store *)base;
    hf_code code = mongo_ready(store, err);
    if (code)
        return code;
    mongo_connection *connection;
    code = mongo_pool_take(store, &store->work, &call, &connection, err);
    if (code)
        return code;
    mongoc_cursor_t *cursor = open_list(store, connection->client);
    code = give_all(store, connection, cursor, &call, each, ctx, err);
    mongoc_cursor_destroy(cursor);
    mongo_pool_give(store, &store->work, &call, connection, code != HF_OK);
    return code;
}
