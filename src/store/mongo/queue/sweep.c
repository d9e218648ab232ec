/* SPDX-License-Identifier: Apache-2.0 */
/* sweep.c: the hourly housekeeping that one client does for all, part by part: idle records, and
 * sessions that are long dead or overdue. The client calls it in the background.
 *
 * No part reads more than a page of an index. `locks` has only the index on _id, so that steps have
 * no other index to update. The sweep goes through it page by page, and looks for idle records and
 * for tickets of dead sessions at the same time. */
#include "store/mongo/queue/sweep.h"
#include "core/alloc.h"
#include "core/id.h"
#include "core/record.h"
#include "store/document.h"
#include "store/mongo/driver/command.h"
#include "store/mongo/driver/fault.h"
#include "store/mongo/driver/log.h"
#include "store/mongo/driver/reply.h"
#include "store/mongo/driver/server.h"
#include "store/mongo/driver/text.h"
#include "store/mongo/queue/sessions.h"
#include "store/mongo/queue/state.h"
#include "store/mongo/shared/indexes.h"

/* ---- Indexes ---- */

static const char indexes[] =
    "{'indexes': [{'key': {'dead_at': 1}, 'name': 'dead_at_1', 'expireAfterSeconds': 86400},"
    " {'key': {'expires_at': 1}, 'name': 'expires_at_1'}]}";

static void warn_of_indexes(mongo_store *store, const hf_error *error)
{
    mongo_log(store, HF_LOG_WARNING,
              "%s. Dead sessions stay for ever without it; an administrator can run, in database "
              "%s: db.sessions.createIndex({dead_at: 1}, {expireAfterSeconds: 86400}); "
              "db.sessions.createIndex({expires_at: 1}), and give the user listIndexes on it",
              error->text, store->uri.database);
}

/* Once per store. If the store cannot be reached, the next sweep tries again. */
static void settle_indexes(mongo_store *store)
{
    static const mongo_call call = {
        .what = "making the indexes of sessions", .can_wait = true, .writes = true};
    hf_error error;
    if (store->queue->sweep.has_indexes)
        return;
    hf_code code = mongo_make_indexes(store, &call, "sessions", indexes, false, &error);
    if (code && !error.retryable)
        warn_of_indexes(store, &error);
    store->queue->sweep.has_indexes = !code || !error.retryable;
    store->queue->sweep.may_hint = !code;
}

#define PAGE 500
#define HOUR_MS 3600000
#define DAY_MS (24 * (int64_t)HOUR_MS)
#define DUPLICATE 11000

enum { PART_FIRST, PART_DEAD, PART_LOCKS, PART_DATES };

static void append_before(bson_t *to, const char *field, int64_t ms)
{
    bson_t range;
    bson_append_document_begin(to, field, -1, &range);
    BSON_APPEND_DATE_TIME(&range, "$lt", ms);
    bson_append_document_end(to, &range);
}

/* ---- Whose turn it is ---- */

/* Filters compare with constant dates, because MongoDB uses no index for $$NOW. */
static hf_code ask_time(mongo_store *store, int64_t *out, hf_error *err)
{
    static const mongo_call call = {.what = "asking for the server's clock", .database = "admin"};
    bson_t *command = pipeline_json("{'hello': 1}");
    mongo_reply reply;
    hf_code code = mongo_run(store, &call, command, &reply, err);
    if (!code && !mongo_date_at(&reply.doc, "localTime", out))
        code = mongo_odd_reply(store, &call, err);
    bson_destroy(&reply.doc);
    bson_destroy(command);
    return code;
}

/* Of the document that says when this collection was swept last. */
static hf_id turn_id(const mongo_store *store)
{
    const char *name = store->uri.collection;
    hf_id id = id_of_hash(id_hash(ID_HASH, name, strlen(name)));
    memcpy(id.bytes, "swep", 4);
    return id;
}

/* {_id, $or: [{dead_at: long ago}, {dead_at: ahead}]}: if the document is there and neither
 * condition holds, the upsert fails as a duplicate. Programs that do not know this document see a
 * session that has ended, and the TTL index removes it like one. */
static void append_turn(const mongo_store *store, bson_t *update)
{
    int64_t now_ms = store->queue->sweep.now_ms;
    bson_t query, any, each, range, x = BSON_INITIALIZER, none = BSON_INITIALIZER;
    BSON_APPEND_DOCUMENT_BEGIN(update, "q", &query);
    document_append_id(&query, "_id", turn_id(store));
    BSON_APPEND_ARRAY_BEGIN(&query, "$or", &any);
    BSON_APPEND_DOCUMENT_BEGIN(&any, "0", &each);
    append_before(&each, "dead_at", now_ms - HOUR_MS);
    bson_append_document_end(&any, &each);
    BSON_APPEND_DOCUMENT_BEGIN(&any, "1", &each);
    BSON_APPEND_DOCUMENT_BEGIN(&each, "dead_at", &range);
    BSON_APPEND_DATE_TIME(&range, "$gt", now_ms + HOUR_MS);
    bson_append_document_end(&each, &range);
    bson_append_document_end(&any, &each);
    bson_append_array_end(&query, &any);
    bson_append_document_end(update, &query);
    BSON_APPEND_BOOL(&x, "sweep", true);
    BSON_APPEND_BOOL(&x, "dead", true);
    BSON_APPEND_DATE_TIME(&x, "dead_at", now_ms);
    BSON_APPEND_DATE_TIME(&x, "expires_at", now_ms);
    BSON_APPEND_DATE_TIME(&x, "started_at", now_ms);
    BSON_APPEND_INT32(&x, "ttl_ms", 1000);
    BSON_APPEND_INT64(&x, "beat", 1);
    BSON_APPEND_INT64(&x, "pid", 0);
    BSON_APPEND_UTF8(&x, "app", "holdfast sweep");
    BSON_APPEND_UTF8(&x, "host", "");
    BSON_APPEND_ARRAY(&x, "asked", &none);
    BSON_APPEND_UTF8(&x, "collection", store->uri.collection);
    pipeline_append_text(update, "u", "{'$mergeObjects': ['$$ROOT', '$$x']}", &x);
    BSON_APPEND_BOOL(update, "upsert", true);
    bson_destroy(&x);
}

/* Once an hour, the first client does this for all, because it reads every record. */
static hf_code take_turn(mongo_store *store, bool *is_mine, hf_error *err)
{
    static const mongo_call call = {.what = "beginning a sweep", .writes = true};
    bson_t command = BSON_INITIALIZER, updates, update;
    mongo_reply reply;
    mongo_begin(&command, "update", MONGO_SESSIONS);
    BSON_APPEND_ARRAY_BEGIN(&command, "updates", &updates);
    BSON_APPEND_DOCUMENT_BEGIN(&updates, "0", &update);
    append_turn(store, &update);
    bson_append_document_end(&updates, &update);
    bson_append_array_end(&command, &updates);
    mongo_append_write_concern(store, &command, false);
    hf_code code = mongo_run(store, &call, &command, &reply, err);
    *is_mine = !code;
    if (reply.server_code == DUPLICATE)
        code = HF_OK;
    bson_destroy(&reply.doc);
    bson_destroy(&command);
    return code;
}

/* ---- Dead sessions ---- A mark stays as long as a ticket of its session stands: a request that
 * only tries the lock, even a year later, cannot watch a missing session. The others get a date,
 * after which the index removes them. The dead sessions are read before the locks: a dead session
 * gets no more tickets, and a request that it sent an hour ago has arrived or never will. */

static void append_undated(const mongo_store *store, bson_t *filter)
{
    bson_t none;
    BSON_APPEND_BOOL(filter, "dead", true);
    BSON_APPEND_DOCUMENT_BEGIN(filter, "dead_at", &none);
    BSON_APPEND_BOOL(&none, "$exists", false);
    bson_append_document_end(filter, &none);
    append_before(filter, "expires_at", store->queue->sweep.now_ms - HOUR_MS);
}

static void append_find_dead(const mongo_store *store, bson_t *command)
{
    const mongo_sweeping *sweep = &store->queue->sweep;
    bson_t filter, id, part;
    mongo_begin(command, "find", MONGO_SESSIONS);
    BSON_APPEND_DOCUMENT_BEGIN(command, "filter", &filter);
    append_undated(store, &filter);
    BSON_APPEND_UTF8(&filter, "collection", store->uri.collection);
    BSON_APPEND_DOCUMENT_BEGIN(&filter, "_id", &id);
    document_append_id(&id, "$gt", sweep->n_dead ? sweep->dead[sweep->n_dead - 1] : (hf_id){{0}});
    bson_append_document_end(&filter, &id);
    bson_append_document_end(command, &filter);
    BSON_APPEND_DOCUMENT_BEGIN(command, "sort", &part);
    BSON_APPEND_INT32(&part, "_id", 1);
    bson_append_document_end(command, &part);
    BSON_APPEND_DOCUMENT_BEGIN(command, "projection", &part);
    BSON_APPEND_INT32(&part, "_id", 1);
    bson_append_document_end(command, &part);
    if (sweep->may_hint) /* else by _id, through all that are dated */
        BSON_APPEND_UTF8(command, "hint", "dead_at_1");
    BSON_APPEND_INT32(command, "limit", PAGE);
    BSON_APPEND_BOOL(command, "singleBatch", true);
    BSON_APPEND_INT32(command, "batchSize", PAGE);
}

/* The next page of dead sessions without a date, in the order of their ids. */
static hf_code find_dead(mongo_store *store, hf_error *err)
{
    static const mongo_call call = {.what = "looking for dead sessions"};
    mongo_sweeping *sweep = &store->queue->sweep;
    bson_t command = BSON_INITIALIZER, batch, doc;
    bson_iter_t it;
    mongo_reply reply;
    size_t before = sweep->n_dead;
    append_find_dead(store, &command);
    mongo_append_read_concern(store, &command, (hf_stamp){0});
    hf_code code = mongo_run(store, &call, &command, &reply, err);
    sweep->dead = alloc_array(sweep->dead, before + PAGE, sizeof *sweep->dead);
    if (!code && mongo_view(&reply.doc, "cursor.firstBatch", &batch) && bson_iter_init(&it, &batch))
        while (sweep->n_dead < before + PAGE && mongo_next(&it, &doc))
            sweep->n_dead += mongo_id_at(&doc, "_id", &sweep->dead[sweep->n_dead]);
    if (sweep->n_dead < before + PAGE)
        sweep->part = PART_LOCKS;
    bson_destroy(&reply.doc);
    bson_destroy(&command);
    return code;
}

static int compare_ids(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(hf_id));
}

/* A session with a ticket in this record keeps its mark. */
static void note_standing(mongo_sweeping *sweep, const bson_t *row)
{
    bson_t sessions;
    bson_iter_t it;
    if (!sweep->n_dead || !mongo_view(row, "sessions", &sessions) ||
        !bson_iter_init(&it, &sessions))
        return;
    while (bson_iter_next(&it)) {
        const hf_id *found = BSON_ITER_HOLDS_OID(&it)
                                 ? bsearch(bson_iter_oid(&it)->bytes, sweep->dead, sweep->n_dead,
                                           sizeof *sweep->dead, compare_ids)
                                 : NULL;
        if (found)
            sweep->stands[found - sweep->dead] = true;
    }
}

/* The next page of those that have none: true where there are any. */
static bool append_unneeded(mongo_sweeping *sweep, bson_t *query)
{
    bson_t in, ids;
    char key[16];
    size_t n = 0;
    BSON_APPEND_DOCUMENT_BEGIN(query, "_id", &in);
    BSON_APPEND_ARRAY_BEGIN(&in, "$in", &ids);
    for (; sweep->n_dated < sweep->n_dead && n < PAGE; sweep->n_dated++)
        if (!sweep->stands[sweep->n_dated])
            document_append_id(&ids, mongo_key(n++, key), sweep->dead[sweep->n_dated]);
    bson_append_array_end(&in, &ids);
    bson_append_document_end(query, &in);
    return n > 0;
}

static hf_code set_dates(mongo_store *store, hf_error *err)
{
    static const mongo_call call = {.what = "dating dead sessions", .writes = true};
    bson_t command = BSON_INITIALIZER, updates, update, query;
    bson_t *change = pipeline_json("{'u': {'$currentDate': {'dead_at': true}}, 'multi': true}");
    mongo_reply reply;
    hf_code code = HF_OK;
    mongo_begin(&command, "update", MONGO_SESSIONS);
    BSON_APPEND_ARRAY_BEGIN(&command, "updates", &updates);
    BSON_APPEND_DOCUMENT_BEGIN(&updates, "0", &update);
    BSON_APPEND_DOCUMENT_BEGIN(&update, "q", &query);
    bool any = append_unneeded(&store->queue->sweep, &query);
    append_undated(store, &query);
    bson_append_document_end(&update, &query);
    bson_concat(&update, change);
    bson_append_document_end(&updates, &update);
    bson_append_array_end(&command, &updates);
    mongo_append_write_concern(store, &command, false);
    if (any) {
        code = mongo_run(store, &call, &command, &reply, err);
        bson_destroy(&reply.doc);
    }
    bson_destroy(change);
    bson_destroy(&command);
    return code;
}

/* ---- Locks ---- */

/* Idle: nobody holds or waits, it was released (not abandoned) three days ago, and no period still
 * runs; a missing period is less than any number. */
#define IDLE                                                                                       \
    "{'$and': [{'$eq': ['$holders', []]}, {'$eq': ['$queue', []]},"                                \
    " {'$eq': ['$last.outcome', 'released']},"                                                     \
    " {'$lt': ['$last.at', {'$subtract': ['$$NOW', 259200000]}]},"                                 \
    " {'$lte': ['$last.period_end', {'$toLong': '$$NOW'}]},"                                       \
    " {'$lte': ['$done.period_end', {'$toLong': '$$NOW'}]}]}"
#define SESSIONS_OF(list) "{'$cond': [{'$isArray': ['$" list "']}, '$" list ".session', []]}"

/* After the $match: one row per record, with the whole record if it is idle. */
static const char page_text[] =
    "{'1': {'$sort': {'_id': 1}}, '2': {'$limit': 500}, '3': {'$project': {"
    "'sessions': {'$concatArrays': [" SESSIONS_OF("holders") ", " SESSIONS_OF(
        "queue") "]}, 'idle': {'$cond': [" IDLE ", '$$ROOT', '$$REMOVE']}}}}";

static void append_page(mongo_store *store, bson_t *command)
{
    bson_t stages, stage, match, id, cursor;
    bson_t *rest = pipeline_json(page_text);
    mongo_begin(command, "aggregate", store->uri.collection);
    BSON_APPEND_ARRAY_BEGIN(command, "pipeline", &stages);
    BSON_APPEND_DOCUMENT_BEGIN(&stages, "0", &stage);
    BSON_APPEND_DOCUMENT_BEGIN(&stage, "$match", &match);
    BSON_APPEND_DOCUMENT_BEGIN(&match, "_id", &id);
    if (store->queue->sweep.after.value_type == BSON_TYPE_UTF8)
        BSON_APPEND_VALUE(&id, "$gt", &store->queue->sweep.after);
    else
        BSON_APPEND_UTF8(&id, "$gt", "");
    bson_append_document_end(&match, &id);
    bson_append_document_end(&stage, &match);
    bson_append_document_end(&stages, &stage);
    bson_concat(&stages, rest);
    bson_append_array_end(command, &stages);
    BSON_APPEND_DOCUMENT_BEGIN(command, "cursor", &cursor);
    BSON_APPEND_INT32(&cursor, "batchSize", PAGE + 1);
    bson_append_document_end(command, &cursor);
    mongo_append_read_concern(store, command, (hf_stamp){0});
    bson_destroy(rest);
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

/* Appends a deletion, if the record's token is below the floor of the next grant. On a standalone
 * nothing is pruned: its floor is a wall clock, and tokens must not fall. */
static size_t append_if_idle(mongo_store *store, const bson_t *row, int64_t floor, bson_t *deletes,
                             size_t n)
{
    bson_t idle;
    hf_record record;
    if (mongo_topology_of(store) == MONGO_ALONE || !mongo_view(row, "idle", &idle) ||
        document_to_record(&idle, store->uri.collection, &record, NULL))
        return 0;
    bool may_go = record.token < floor;
    if (may_go)
        append_delete(deletes, n, record.name, record.token);
    record_done(&record);
    return may_go;
}

static void go_on_behind(mongo_sweeping *sweep, const bson_t *row)
{
    bson_iter_t id;
    if (!bson_iter_init_find(&id, row, "_id"))
        return;
    bson_value_destroy(&sweep->after);
    bson_value_copy(bson_iter_value(&id), &sweep->after);
}

/* Goes through the rows; returns the number of deletions. */
static size_t read_page(mongo_store *store, const mongo_reply *found, bson_t *command)
{
    int64_t floor = (int64_t)(found->stamp.value >> 32) << 20;
    bson_t batch, row, deletes;
    bson_iter_t it;
    size_t n = 0, rows = 0;
    BSON_APPEND_ARRAY_BEGIN(command, "deletes", &deletes);
    if (mongo_view(&found->doc, "cursor.firstBatch", &batch) && bson_iter_init(&it, &batch))
        for (; mongo_next(&it, &row); rows++) {
            note_standing(&store->queue->sweep, &row);
            n += append_if_idle(store, &row, floor, &deletes, n);
            go_on_behind(&store->queue->sweep, &row);
        }
    bson_append_array_end(command, &deletes);
    if (rows < PAGE)
        store->queue->sweep.part = PART_DATES;
    return n;
}

static hf_code go_through_locks(mongo_store *store, hf_error *err)
{
    static const mongo_call call = {.what = "looking for idle locks"};
    static const mongo_call prune = {.what = "pruning idle locks", .writes = true};
    bson_t look = BSON_INITIALIZER, command = BSON_INITIALIZER;
    mongo_reply found, reply;
    if (!store->queue->sweep.stands)
        store->queue->sweep.stands = alloc_zeroed(store->queue->sweep.n_dead + 1);
    append_page(store, &look);
    hf_code code = mongo_run(store, &call, &look, &found, err);
    mongo_begin(&command, "delete", store->uri.collection);
    if (!code && read_page(store, &found, &command)) {
        BSON_APPEND_BOOL(&command, "ordered", false);
        mongo_append_write_concern(store, &command, false);
        code = mongo_run(store, &prune, &command, &reply, err);
        bson_destroy(&reply.doc);
    }
    bson_destroy(&found.doc);
    bson_destroy(&command);
    bson_destroy(&look);
    return code;
}

/* ---- Part by part ---- */

void mongo_sweep_done(mongo_store *store)
{
    free(store->queue->sweep.dead);
    free(store->queue->sweep.stands);
    bson_value_destroy(&store->queue->sweep.after);
    store->queue->sweep = (mongo_sweeping){.has_indexes = store->queue->sweep.has_indexes,
                                           .may_hint = store->queue->sweep.may_hint};
}

static hf_code begin(mongo_store *store, hf_session_state *overdue, size_t max, size_t *n,
                     hf_error *err)
{
    bool is_mine = false;
    settle_indexes(store);
    hf_code code = ask_time(store, &store->queue->sweep.now_ms, err);
    if (!code)
        code = mongo_overdue(store, store->queue->sweep.now_ms - DAY_MS, overdue, max, n, err);
    if (!code)
        code = take_turn(store, &is_mine, err);
    if (is_mine)
        store->queue->sweep.part = PART_DEAD;
    return code;
}

static hf_code do_part(mongo_store *store, hf_session_state *overdue, size_t max, size_t *n,
                       bool *more, hf_error *err)
{
    hf_code code = HF_OK;
    switch (store->queue->sweep.part) {
    case PART_FIRST:
        code = begin(store, overdue, max, n, err);
        *more = store->queue->sweep.part != PART_FIRST;
        return code;
    case PART_DEAD:
        code = find_dead(store, err);
        break;
    case PART_LOCKS:
        code = go_through_locks(store, err);
        break;
    case PART_DATES:
        code = set_dates(store, err);
        *more = store->queue->sweep.n_dated < store->queue->sweep.n_dead;
        return code;
    }
    *more = true;
    return code;
}

hf_code mongo_sweep(hf_store *base, hf_session_state *overdue, size_t max, size_t *n, bool *more,
                    hf_error *err)
{
    mongo_store *store = (mongo_store *)base;
    *n = 0;
    *more = false;
    hf_code code = mongo_ready(store, err);
    if (!code)
        code = do_part(store, overdue, max, n, more, err);
    *more = *more && !code;
    if (!*more)
        mongo_sweep_done(store);
    return code;
}
