/* SPDX-License-Identifier: Apache-2.0 */
/* sweep.c: the housekeeping that each client does at its start and hourly: indexes, idle records,
 * sessions long dead or overdue; the client calls it, in the background. */
#include "core/plant.h"
#include "core/record.h"
#include "store/document.h"
#include "store/mongo/parts.h"

/* ---- Indexes ---- */

static const char indexes[] =
    "{'createIndexes': 'sessions', 'indexes': ["
    "{'key': {'dead_at': 1}, 'name': 'dead_at_1', 'expireAfterSeconds': 86400},"
    " {'key': {'expires_at': 1}, 'name': 'expires_at_1'}]}";

/* Making those that are there already changes nothing. */
static hf_code make_indexes(mongo_store *store, hf_error *err)
{
    static const mongo_call call = {.what = "making the indexes of sessions", .writes = true};
    bson_t *command = pipeline_json(indexes);
    mongo_reply reply;
    mongo_append_write_concern(store, command, false);
    hf_code code = mongo_run(store, &call, command, &reply, err);
    bson_destroy(&reply.doc);
    bson_destroy(command);
    return code;
}

static void warn_of_indexes(mongo_store *store, const hf_error *error)
{
    mongo_log(store, HF_LOG_WARNING,
              "%s. Dead sessions stay for ever without it; an administrator can run, in database "
              "%s: db.sessions.createIndex({dead_at: 1}, {expireAfterSeconds: 86400}); "
              "db.sessions.createIndex({expires_at: 1})",
              error->text, store->uri.database);
}

/* Once for each store; what fails for want of reach is tried again at the next sweep. */
static void settle_indexes(mongo_store *store)
{
    hf_error error;
    if (store->has_indexes)
        return;
    hf_code code = make_indexes(store, &error);
    if (code && !error.retryable)
        warn_of_indexes(store, &error);
    store->has_indexes = !code || !error.retryable;
}

/* ---- Idle records ---- */

/* Idle: nobody holds or waits, released (not abandoned), three days ago, and in no period that
 * still runs; one that is not there is less than any number. */
static const char idle[] =
    "{'holders': [], 'queue': [], 'last.outcome': 'released', '$expr': {'$and': ["
    "{'$lt': ['$last.at', {'$subtract': ['$$NOW', 259200000]}]},"
    " {'$lte': ['$last.period_end', {'$toLong': '$$NOW'}]}]}}";

static hf_code find_idle(mongo_store *store, mongo_reply *reply, hf_error *err)
{
    static const mongo_call call = {.what = "looking for idle locks"};
    bson_t command = BSON_INITIALIZER;
    bson_t *filter = pipeline_json(idle);
    mongo_begin(&command, "find", store->uri.collection);
    BSON_APPEND_DOCUMENT(&command, "filter", filter);
    BSON_APPEND_INT32(&command, "limit", 500);
    BSON_APPEND_BOOL(&command, "singleBatch", true);
    mongo_append_read_concern(store, &command, (hf_stamp){0});
    hf_code code = mongo_run(store, &call, &command, reply, err);
    bson_destroy(filter);
    bson_destroy(&command);
    return code;
}

/* {q: {_id, token, holders: [], queue: []}, limit: 1}: still as it was seen, and still empty. */
static void append_delete(bson_t *deletes, size_t i, const char *name, int64_t token)
{
    bson_t one, query, none = BSON_INITIALIZER;
    char key[16];
    bson_append_document_begin(deletes, mongo_key(i, key), -1, &one);
    BSON_APPEND_DOCUMENT_BEGIN(&one, "q", &query);
    BSON_APPEND_UTF8(&query, "_id", name);
    BSON_APPEND_INT64(&query, "token", token);
    BSON_APPEND_ARRAY(&query, "holders", &none);
    BSON_APPEND_ARRAY(&query, "queue", &none);
    bson_append_document_end(&one, &query);
    BSON_APPEND_INT32(&one, "limit", 1);
    bson_append_document_end(deletes, &one);
}

/* Only those whose token is below the floor that the next grant will have. */
static size_t append_deletes(mongo_store *store, const mongo_reply *found, bson_t *command)
{
    int64_t floor = (int64_t)(found->stamp.value >> 32) << 20;
    bson_t batch, doc, deletes;
    bson_iter_t it;
    hf_record record;
    size_t n = 0;
    BSON_APPEND_ARRAY_BEGIN(command, "deletes", &deletes);
    if (mongo_view(&found->doc, "cursor.firstBatch", &batch) && bson_iter_init(&it, &batch))
        while (mongo_next(&it, &doc)) {
            if (document_to_record(&doc, store->uri.collection, &record, NULL))
                continue;
            if (record.token < floor || PLANTED(PRUNE_FORGETS_TOKEN))
                append_delete(&deletes, n++, record.name, record.token);
            record_done(&record);
        }
    bson_append_array_end(command, &deletes);
    return n;
}

static hf_code prune(mongo_store *store, hf_error *err)
{
    static const mongo_call call = {.what = "pruning idle locks", .writes = true};
    bson_t command = BSON_INITIALIZER;
    mongo_reply found, reply;
    hf_code code = find_idle(store, &found, err);
    mongo_begin(&command, "delete", store->uri.collection);
    if (!code && append_deletes(store, &found, &command)) {
        BSON_APPEND_BOOL(&command, "ordered", false);
        mongo_append_write_concern(store, &command, false);
        code = mongo_run(store, &call, &command, &reply, err);
        bson_destroy(&reply.doc);
    }
    bson_destroy(&found.doc);
    bson_destroy(&command);
    return code;
}

/* ---- Dead sessions ---- */

/* Whether any of the entries is the session's. */
#define STANDS(entries)                                                                            \
    "{'$in': ['$$dead', {'$cond': [{'$isArray': ['$" entries ".session']},"                        \
    " '$" entries ".session', []]}]}"

/* What was sent in such a session an hour ago has landed, or will not. */
static const char dead[] =
    "{'0': {'$match': {'dead': true, 'dead_at': {'$exists': false}, '$expr': {'$lt':"
    " ['$expires_at', {'$subtract': ['$$NOW', 3600000]}]}}}, '1': {'$limit': 100}}";
static const char ticket_of_it[] =
    "{'let': {'dead': '$_id'}, 'as': 'stand', 'pipeline': [{'$match': {'$expr': {'$or': [" STANDS(
        "holders") ", " STANDS("queue") "]}}}, {'$limit': 1}, {'$project': {'_id': 1}}]}";
static const char unneeded[] = "{'3': {'$match': {'stand': []}}, '4': {'$project': {'_id': 1}}}";

static void append_json(bson_t *to, const char *text)
{
    bson_t *parts = pipeline_json(text);
    bson_concat(to, parts);
    bson_destroy(parts);
}

static void append_stages(const mongo_store *store, bson_t *command)
{
    bson_t stages, stage, lookup;
    BSON_APPEND_ARRAY_BEGIN(command, "pipeline", &stages);
    append_json(&stages, dead);
    BSON_APPEND_DOCUMENT_BEGIN(&stages, "2", &stage);
    BSON_APPEND_DOCUMENT_BEGIN(&stage, "$lookup", &lookup);
    BSON_APPEND_UTF8(&lookup, "from", store->uri.collection);
    append_json(&lookup, ticket_of_it);
    bson_append_document_end(&stage, &lookup);
    bson_append_document_end(&stages, &stage);
    append_json(&stages, unneeded);
    bson_append_array_end(command, &stages);
}

static hf_code find_unneeded(mongo_store *store, mongo_reply *reply, hf_error *err)
{
    static const mongo_call call = {.what = "looking for dead sessions that nobody needs"};
    bson_t command = BSON_INITIALIZER;
    mongo_begin(&command, "aggregate", MONGO_SESSIONS);
    append_stages(store, &command);
    append_json(&command, "{'cursor': {}}");
    mongo_append_read_concern(store, &command, (hf_stamp){0});
    hf_code code = mongo_run(store, &call, &command, reply, err);
    bson_destroy(&command);
    return code;
}

/* {q: {_id: {$in: [...]}}, u: [{$set: {dead_at: '$$NOW'}}], multi: true}; their number. */
static size_t append_dates(const mongo_reply *found, bson_t *command)
{
    bson_t updates, update, query, of, ids, batch, doc;
    bson_iter_t it, id;
    char key[16];
    size_t n = 0;
    BSON_APPEND_ARRAY_BEGIN(command, "updates", &updates);
    BSON_APPEND_DOCUMENT_BEGIN(&updates, "0", &update);
    BSON_APPEND_DOCUMENT_BEGIN(&update, "q", &query);
    BSON_APPEND_DOCUMENT_BEGIN(&query, "_id", &of);
    BSON_APPEND_ARRAY_BEGIN(&of, "$in", &ids);
    if (mongo_view(&found->doc, "cursor.firstBatch", &batch) && bson_iter_init(&it, &batch))
        while (mongo_next(&it, &doc))
            if (bson_iter_init_find(&id, &doc, "_id"))
                bson_append_iter(&ids, mongo_key(n++, key), -1, &id);
    bson_append_array_end(&of, &ids);
    bson_append_document_end(&query, &of);
    bson_append_document_end(&update, &query);
    append_json(&update, "{'u': [{'$set': {'dead_at': '$$NOW'}}], 'multi': true}");
    bson_append_document_end(&updates, &update);
    bson_append_array_end(command, &updates);
    return n;
}

/* Gives them the date from which on the index forgets them. The others' marks stay: who only tries
 * a lock, be it a year later, cannot watch a session that is missing. */
static hf_code date(mongo_store *store, hf_error *err)
{
    static const mongo_call call = {.what = "dating dead sessions", .writes = true};
    bson_t command = BSON_INITIALIZER;
    mongo_reply found, reply;
    hf_code code = find_unneeded(store, &found, err);
    mongo_begin(&command, "update", MONGO_SESSIONS);
    if (!code && append_dates(&found, &command)) {
        mongo_append_write_concern(store, &command, false);
        code = mongo_run(store, &call, &command, &reply, err);
        bson_destroy(&reply.doc);
    }
    bson_destroy(&found.doc);
    bson_destroy(&command);
    return code;
}

/* On a standalone nothing is pruned: its floor is a wall clock, and a token must not fall. */
hf_code mongo_sweep(hf_store *base, hf_session_state *overdue, size_t max, size_t *n, hf_error *err)
{
    mongo_store *store = (mongo_store *)base;
    hf_error error;
    *n = 0;
    hf_code code = mongo_ready(store, err);
    if (code)
        return code;
    settle_indexes(store);
    if (date(store, &error))
        mongo_log(store, HF_LOG_INFO, "%s", error.text);
    if (mongo_topology_of(store) != MONGO_ALONE)
        code = prune(store, err);
    return code ? code : mongo_overdue(store, overdue, max, n, err);
}
