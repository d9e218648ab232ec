/* SPDX-License-Identifier: Apache-2.0 */
/* sweep.c: the housekeeping that each client does at its start and hourly: indexes, idle records,
 * sessions long overdue; the client calls it, in the background. */
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

/* On a standalone nothing is pruned: its floor is a wall clock, and a token must not fall. */
hf_code mongo_sweep(hf_store *base, hf_session_state *overdue, size_t max, size_t *n, hf_error *err)
{
    mongo_store *store = (mongo_store *)base;
    *n = 0;
    hf_code code = mongo_ready(store, err);
    if (code)
        return code;
    settle_indexes(store);
    if (mongo_topology_of(store) != MONGO_ALONE)
        code = prune(store, err);
    return code ? code : mongo_overdue(store, overdue, max, n, err);
}
