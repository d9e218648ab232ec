/* SPDX-License-Identifier: Apache-2.0 */
/* sweep_turn.c: decides who does the next part of the sweep, and keeps how far it has come, in a
 * document among the sessions: so each client goes on where the last one stopped. Called by
 * sweep.c. */
#include "core/id.h"
#include "core/sweep.h"
#include "store/document.h"
#include "store/mongo/driver/command.h"
#include "store/mongo/driver/fault.h"
#include "store/mongo/driver/reply.h"
#include "store/mongo/driver/text.h"
#include "store/mongo/queue/state.h"

#include <string.h>

/* The sweep that is under way goes on; else one begins if the last one began more
 * than an hour ago, or in what is the future after a clock was set back. x.doc: what the document
 * says besides. Programs before 1.1 see only `dead_at`, and leave the hour after it to others.
 * Programs that do not know this document see a session that has ended, and the TTL index removes
 * it like one. */
static const char take_text[] =
    "{'$let': {'vars': {"
    "'busy': {'$and': [{'$gt': ['$until', '$$NOW']},"
    " {'$lte': ['$until', {'$add': ['$$NOW', '$$x.turn_ms']}]}]},"
    " 'goes_on': {'$and': [{'$gt': ['$part', 0]}, {'$lte': ['$began_at', '$$NOW']}]},"
    " 'is_fresh': {'$and': [{'$lte': ['$began_at', '$$NOW']},"
    " {'$gte': ['$began_at', {'$subtract': ['$$NOW', 3600000]}]}]}},"
    " 'in': {'$cond': [{'$or': ['$$busy', {'$and': ['$$is_fresh', {'$not': ['$$goes_on']}]}]},"
    " '$$ROOT', {'$mergeObjects': ['$$ROOT', '$$x.doc',"
    " {'$cond': ['$$goes_on', {}, {'$mergeObjects': ['$$x.first', {'began_at': '$$NOW'}]}]},"
    " {'until': {'$add': ['$$NOW', '$$x.turn_ms']}, 'dead_at': '$$NOW', 'expires_at': '$$NOW',"
    " 'started_at': '$$NOW'}]}]}}}";

static const char keep_text[] = "{'$mergeObjects': ['$$ROOT', '$$x.doc',"
                                " {'until': {'$add': ['$$NOW', '$$x.turn_ms']},"
                                " 'dead_at': '$$NOW'}]}";

static hf_id turn_id(const mongo_store *store)
{
    const char *name = store->uri.collection;
    hf_id id = id_of_hash(id_hash(ID_HASH, name, strlen(name)));
    memcpy(id.bytes, "swep", 4);
    return id;
}

void mongo_sweep_place(mongo_sweeping *sweep, const bson_iter_t *id)
{
    bson_value_destroy(&sweep->after);
    bson_value_copy(bson_iter_value((bson_iter_t *)id), &sweep->after);
}

static void append_place(bson_t *to, const mongo_sweeping *sweep)
{
    BSON_APPEND_INT32(to, "part", sweep->part);
    BSON_APPEND_DATE_TIME(to, "from", sweep->from_ms);
    if (sweep->after.value_type == BSON_TYPE_UTF8)
        BSON_APPEND_VALUE(to, "after", &sweep->after);
    else
        BSON_APPEND_UTF8(to, "after", "");
}

static void append_constants(const mongo_store *store, bson_t *to)
{
    bson_t none = BSON_INITIALIZER;
    BSON_APPEND_BOOL(to, "sweep", true);
    BSON_APPEND_BOOL(to, "dead", true);
    BSON_APPEND_INT32(to, "ttl_ms", 1000);
    BSON_APPEND_INT64(to, "beat", 1);
    BSON_APPEND_INT64(to, "pid", 0);
    BSON_APPEND_UTF8(to, "app", "holdfast sweep");
    BSON_APPEND_UTF8(to, "host", "");
    BSON_APPEND_ARRAY(to, "asked", &none);
    document_append_id(to, "by", store->queue->sweep.by);
}

static void append_take(mongo_store *store, bson_t *command)
{
    static const mongo_sweeping first = {.part = SWEEP_FIRST};
    bson_t part, x = BSON_INITIALIZER;
    BSON_APPEND_INT32(&x, "turn_ms", SWEEP_TURN_MS);
    BSON_APPEND_DOCUMENT_BEGIN(&x, "doc", &part);
    append_constants(store, &part);
    bson_append_document_end(&x, &part);
    BSON_APPEND_DOCUMENT_BEGIN(&x, "first", &part);
    append_place(&part, &first);
    bson_append_document_end(&x, &part);
    mongo_begin(command, "findAndModify", store->uri.names.sessions);
    mongo_append_by_id(command, "query", turn_id(store));
    pipeline_append_text(command, "update", take_text, &x);
    BSON_APPEND_BOOL(command, "new", true);
    BSON_APPEND_BOOL(command, "upsert", true);
    mongo_append_quick_write_concern(command);
    bson_destroy(&x);
}

/* False: another client has the turn, or none is due. */
static bool read_turn(mongo_sweeping *sweep, const bson_t *doc)
{
    hf_id by;
    bson_iter_t after;
    int64_t until_ms = 0;
    if (!mongo_id_at(doc, "by", &by) || !id_equal(by, sweep->by) ||
        !mongo_date_at(doc, "until", &until_ms) ||
        !mongo_date_at(doc, "began_at", &sweep->began_ms))
        return false;
    sweep->now_ms = until_ms - SWEEP_TURN_MS;
    sweep->part = (int)mongo_int_at(doc, "part", SWEEP_LAST);
    sweep->from_ms = 0;
    mongo_date_at(doc, "from", &sweep->from_ms);
    if (bson_iter_init_find(&after, doc, "after") && BSON_ITER_HOLDS_UTF8(&after))
        mongo_sweep_place(sweep, &after);
    return true;
}

hf_code mongo_sweep_take(mongo_store *store, bool *is_mine, hf_error *err)
{
    static const mongo_call call = {.what = "beginning a sweep", .writes = true};
    const hf_env *env = store->config.env;
    bson_t command = BSON_INITIALIZER, doc;
    mongo_reply reply;
    env->random(env->ctx, &store->queue->sweep.by, sizeof store->queue->sweep.by);
    append_take(store, &command);
    hf_code code = mongo_run_repeated(store, &call, &command, &reply, err);
    bool is_there = !code && mongo_view(&reply.doc, "value", &doc);
    *is_mine = is_there && read_turn(&store->queue->sweep, &doc);
    if (is_there && !*is_mine && mongo_int_at(&doc, "part", SWEEP_NONE) != SWEEP_NONE)
        code = sweep_is_anothers(err);
    bson_destroy(&reply.doc);
    bson_destroy(&command);
    return code;
}

/* {q: {_id, by}, u: pipeline} */
static void append_keep(mongo_store *store, int64_t took_ms, bson_t *command)
{
    const mongo_sweeping *sweep = &store->queue->sweep;
    bson_t updates, update, query, doc, x = BSON_INITIALIZER;
    BSON_APPEND_INT32(&x, "turn_ms", sweep->part ? (int32_t)sweep_kept_ms(took_ms) : 0);
    BSON_APPEND_DOCUMENT_BEGIN(&x, "doc", &doc);
    append_place(&doc, sweep);
    bson_append_document_end(&x, &doc);
    mongo_begin(command, "update", store->uri.names.sessions);
    BSON_APPEND_ARRAY_BEGIN(command, "updates", &updates);
    BSON_APPEND_DOCUMENT_BEGIN(&updates, "0", &update);
    BSON_APPEND_DOCUMENT_BEGIN(&update, "q", &query);
    document_append_id(&query, "_id", turn_id(store));
    document_append_id(&query, "by", sweep->by);
    bson_append_document_end(&update, &query);
    pipeline_append_text(&update, "u", keep_text, &x);
    bson_append_document_end(&updates, &update);
    bson_append_array_end(command, &updates);
    mongo_append_quick_write_concern(command);
    bson_destroy(&x);
}

hf_code mongo_sweep_keep(mongo_store *store, int64_t took_ms, bool *more, hf_error *err)
{
    static const mongo_call call = {.what = "noting how far a sweep has come", .writes = true};
    bson_t command = BSON_INITIALIZER;
    mongo_reply reply;
    append_keep(store, took_ms, &command);
    hf_code code = mongo_run(store, &call, &command, &reply, err);
    if (!code && mongo_int_at(&reply.doc, "n", 0) != 1)
        code = sweep_is_anothers(err);
    *more = !code && store->queue->sweep.part;
    bson_destroy(&reply.doc);
    bson_destroy(&command);
    return code;
}
