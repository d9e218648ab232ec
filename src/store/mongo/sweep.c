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

/* ---- Dead sessions ----
 * A mark stays as long as a ticket of its session stands: who only tries a lock, be it a year
 * later, cannot watch a session that is missing. The others get the date from which on the index
 * forgets them. */

#define PAGE 500

/* What was sent in such a session an hour ago has landed, or will not. */
static const char undated[] = "{'dead': true, 'dead_at': {'$exists': false}, '$expr': {'$lt':"
                              " ['$expires_at', {'$subtract': ['$$NOW', 3600000]}]}}";

typedef struct page {
    hf_id ids[PAGE];
    size_t n;
    bool stands[PAGE];
} page;

/* {$in: [...]}: those of which, as far as is known, no ticket stands. */
static void append_in(bson_t *to, const char *field, const page *of)
{
    bson_t in, ids;
    char key[16];
    BSON_APPEND_DOCUMENT_BEGIN(to, field, &in);
    BSON_APPEND_ARRAY_BEGIN(&in, "$in", &ids);
    for (size_t i = 0, n = 0; i < of->n; i++)
        if (!of->stands[i])
            document_append_id(&ids, mongo_key(n++, key), of->ids[i]);
    bson_append_array_end(&in, &ids);
    bson_append_document_end(to, &in);
}

static size_t unneeded(const page *of)
{
    size_t n = 0;
    for (size_t i = 0; i < of->n; i++)
        n += !of->stands[i];
    return n;
}

static void append_page(const mongo_store *store, hf_id after, bson_t *command)
{
    bson_t filter, id, sort;
    bson_t *which = pipeline_json(undated);
    BSON_APPEND_DOCUMENT_BEGIN(command, "filter", &filter);
    BSON_APPEND_UTF8(&filter, "collection", store->uri.collection);
    BSON_APPEND_DOCUMENT_BEGIN(&filter, "_id", &id);
    document_append_id(&id, "$gt", after);
    bson_append_document_end(&filter, &id);
    bson_concat(&filter, which);
    bson_append_document_end(command, &filter);
    BSON_APPEND_DOCUMENT_BEGIN(command, "sort", &sort);
    BSON_APPEND_INT32(&sort, "_id", 1);
    bson_append_document_end(command, &sort);
    BSON_APPEND_INT32(command, "limit", PAGE);
    BSON_APPEND_BOOL(command, "singleBatch", true);
    BSON_APPEND_INT32(command, "batchSize", PAGE);
    bson_destroy(which);
}

/* The next page behind that session, of the dead that have no date. */
static hf_code find_dead(mongo_store *store, hf_id after, page *out, hf_error *err)
{
    static const mongo_call call = {.what = "looking for dead sessions"};
    bson_t command = BSON_INITIALIZER, batch, doc;
    bson_iter_t it;
    mongo_reply reply;
    *out = (page){.n = 0};
    mongo_begin(&command, "find", MONGO_SESSIONS);
    append_page(store, after, &command);
    mongo_append_read_concern(store, &command, (hf_stamp){0});
    hf_code code = mongo_run(store, &call, &command, &reply, err);
    if (!code && mongo_view(&reply.doc, "cursor.firstBatch", &batch) && bson_iter_init(&it, &batch))
        while (out->n < PAGE && mongo_next(&it, &doc))
            out->n += mongo_id_at(&doc, "_id", &out->ids[out->n]);
    bson_destroy(&reply.doc);
    bson_destroy(&command);
    return code;
}

static void note_standing(page *of, const bson_t *reply)
{
    bson_iter_t it, value;
    if (!bson_iter_init_find(&it, reply, "values") || !bson_iter_recurse(&it, &value))
        return;
    while (bson_iter_next(&value))
        for (size_t i = 0; i < of->n && BSON_ITER_HOLDS_OID(&value); i++)
            of->stands[i] |= memcmp(of->ids[i].bytes, bson_iter_oid(&value)->bytes,
                                    sizeof of->ids[i].bytes) == 0;
}

/* All sessions that stand in a record beside one of these: one pass over the records. */
static hf_code find_standing(mongo_store *store, const char *field, page *of, hf_error *err)
{
    static const mongo_call call = {.what = "looking for tickets of dead sessions"};
    bson_t command = BSON_INITIALIZER, query;
    mongo_reply reply;
    mongo_begin(&command, "distinct", store->uri.collection);
    BSON_APPEND_UTF8(&command, "key", field);
    BSON_APPEND_DOCUMENT_BEGIN(&command, "query", &query);
    append_in(&query, field, of);
    bson_append_document_end(&command, &query);
    mongo_append_read_concern(store, &command, (hf_stamp){0});
    hf_code code = mongo_run(store, &call, &command, &reply, err);
    if (!code)
        note_standing(of, &reply.doc);
    bson_destroy(&reply.doc);
    bson_destroy(&command);
    return code;
}

static hf_code set_dates(mongo_store *store, const page *of, hf_error *err)
{
    static const mongo_call call = {.what = "dating dead sessions", .writes = true};
    bson_t command = BSON_INITIALIZER, updates, update, query;
    bson_t *which = pipeline_json(undated),
           *change = pipeline_json("{'u': {'$currentDate': {'dead_at': true}}, 'multi': true}");
    mongo_reply reply;
    mongo_begin(&command, "update", MONGO_SESSIONS);
    BSON_APPEND_ARRAY_BEGIN(&command, "updates", &updates);
    BSON_APPEND_DOCUMENT_BEGIN(&updates, "0", &update);
    BSON_APPEND_DOCUMENT_BEGIN(&update, "q", &query);
    append_in(&query, "_id", of);
    bson_concat(&query, which);
    bson_append_document_end(&update, &query);
    bson_concat(&update, change);
    bson_append_document_end(&updates, &update);
    bson_append_array_end(&command, &updates);
    mongo_append_write_concern(store, &command, false);
    hf_code code = mongo_run(store, &call, &command, &reply, err);
    bson_destroy(&reply.doc);
    bson_destroy(which);
    bson_destroy(change);
    bson_destroy(&command);
    return code;
}

static hf_code date(mongo_store *store, hf_error *err)
{
    page dead = {.n = PAGE};
    hf_code code = HF_OK;
    for (hf_id after = {{0}}; !code && dead.n == PAGE; after = dead.ids[PAGE - 1]) {
        code = find_dead(store, after, &dead, err);
        if (!code && dead.n)
            code = find_standing(store, "holders.session", &dead, err);
        if (!code && unneeded(&dead))
            code = find_standing(store, "queue.session", &dead, err);
        if (!code && unneeded(&dead))
            code = set_dates(store, &dead, err);
    }
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
    if (!code)
        code = date(store, err);
    return code ? code : mongo_overdue(store, overdue, max, n, err);
}
