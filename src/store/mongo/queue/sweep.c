/* SPDX-License-Identifier: Apache-2.0 */
/* sweep.c: the housekeeping that all clients share, part by part: the tickets of dead sessions,
 * idle records, and sessions that are long dead or overdue. The client calls it in the background.
 * sweep_turn.c says whose turn it is, and where the last one stopped.
 *
 * No part reads more than a page of an index. The locks' collection has only the index on _id, so
 * that steps have no other index to update. The sweep goes through it page by page, and looks for
 * idle records and for tickets of dead sessions at the same time. */
#include "store/mongo/queue/sweep.h"
#include "core/alloc.h"
#include "core/lease.h"
#include "core/record.h"
#include "store/document.h"
#include "store/mongo/driver/command.h"
#include "store/mongo/driver/fault.h"
#include "store/mongo/driver/log.h"
#include "store/mongo/driver/reply.h"
#include "store/mongo/driver/server.h"
#include "store/mongo/driver/text.h"
#include "store/mongo/queue/state.h"
#include "store/mongo/queue/sweep_page.h"
#include "store/mongo/shared/indexes.h"

#define PAGE 500
#define ENTRIES_MOST 2000                        /* of a page's records */
#define TAKEN_MOST 100                           /* records from which a part takes tickets out */
#define IDLE_TOKENS (((int64_t)3 * 86400) << 20) /* of three days */

/* ---- Indexes ---- */

static const char indexes[] =
    "{'indexes': [{'key': {'dead_at': 1}, 'name': 'dead_at_1', 'expireAfterSeconds': 86400},"
    " {'key': {'expires_at': 1}, 'name': 'expires_at_1'}]}";

/* What no other program's sessions have. */
static const char ours[] =
    "{'$and': [" PIPELINE_IS_NUMBER("beat") ", " PIPELINE_IS_NUMBER("ttl_ms") "]}";

static void warn_of_indexes(mongo_store *store, const hf_error *error)
{
    mongo_log(store, HF_LOG_WARNING,
              "%s. Dead sessions stay for ever without it; an administrator can run, in database "
              "%s: let c = db.getCollection(\"%s\"); "
              "c.createIndex({dead_at: 1}, {expireAfterSeconds: 86400}); "
              "c.createIndex({expires_at: 1}), and give the user listIndexes on it",
              error->text, store->uri.database, store->uri.names.sessions);
}

/* Once per store. If the store cannot be reached, the next sweep tries again. */
static void settle_indexes(mongo_store *store)
{
    static const mongo_call call = {
        .what = "making the indexes of sessions", .can_wait = true, .writes = true};
    const mongo_indexes wanted = {
        .collection = store->uri.names.sessions, .list = indexes, .ours = ours};
    hf_error error;
    if (store->queue->sweep.has_indexes)
        return;
    hf_code code = mongo_make_indexes(store, &call, &wanted, &error);
    if (code && !error.retryable)
        warn_of_indexes(store, &error);
    store->queue->sweep.has_indexes = !code || !error.retryable;
    store->queue->sweep.may_hint = !code;
}

/* ---- Idle records ---- */

/* {q: {_id, token, holders: [], queue: []}, limit: 1}: still as it was seen, and still empty. */
static void append_delete(bson_t *deletes, size_t i, const char *name, int64_t token)
{
    bson_t query = BSON_INITIALIZER, none = BSON_INITIALIZER;
    BSON_APPEND_UTF8(&query, "_id", name);
    BSON_APPEND_INT64(&query, "token", token);
    BSON_APPEND_ARRAY(&query, "holders", &none);
    BSON_APPEND_ARRAY(&query, "queue", &none);
    mongo_append_delete(deletes, i, &query);
    bson_destroy(&query);
}

/* If its token is below the floor of the next grant. One that nobody ever had has no date; its
 * token says how old it is. */
static bool may_go(const hf_record *record, int64_t floor)
{
    int64_t of_age = record->last.outcome == HF_OUTCOME_NONE ? IDLE_TOKENS : 0;
    return record->token < floor - of_age;
}

/* On a standalone nothing is pruned: its floor is a wall clock, and tokens must not fall. */
static size_t append_if_idle(mongo_store *store, const sweep_row *of, int64_t floor,
                             bson_t *deletes, size_t n)
{
    bson_t idle;
    hf_record record;
    if (mongo_topology_of(store) == MONGO_ALONE || !mongo_view(&of->doc, "idle", &idle) ||
        document_to_record(&idle, store->uri.collection, &record, NULL))
        return 0;
    bool goes = may_go(&record, floor);
    if (goes)
        append_delete(deletes, n, record.name, record.token);
    record_done(&record);
    return goes;
}

static hf_code prune(mongo_store *store, const sweep_page *in, hf_error *err)
{
    static const mongo_call call = {.what = "pruning idle locks", .writes = true};
    int64_t floor = (int64_t)(in->reply.stamp.value >> 32) << 20;
    bson_t command = BSON_INITIALIZER, deletes;
    mongo_reply reply;
    size_t n = 0;
    hf_code code = HF_OK;
    mongo_begin(&command, "delete", store->uri.collection);
    BSON_APPEND_ARRAY_BEGIN(&command, "deletes", &deletes);
    for (size_t i = 0; i < in->n_rows; i++)
        n += append_if_idle(store, &in->rows[i], floor, &deletes, n);
    bson_append_array_end(&command, &deletes);
    if (n) {
        BSON_APPEND_BOOL(&command, "ordered", false);
        mongo_append_write_concern(store, &command, false);
        code = mongo_run(store, &call, &command, &reply, err);
        bson_destroy(&reply.doc);
    }
    bson_destroy(&command);
    return code;
}

/* ---- Part by part ---- */

static void go_on_behind(mongo_sweeping *sweep, const sweep_page *in)
{
    bson_iter_t id;
    if (in->n_rows && bson_iter_init_find(&id, &in->rows[in->n_rows - 1].doc, "_id"))
        mongo_sweep_place(sweep, &id);
    if (in->is_last)
        sweep->part = SWEEP_DATES;
}

static hf_code sweep_locks(mongo_store *store, hf_error *err)
{
    sweep_page *in = alloc_zeroed(sizeof *in);
    hf_code code = sweep_page_read(store, in, err);
    if (!code)
        code = prune(store, in, err);
    if (!code && in->n_dead)
        code = mongo_sweep_take_out(store, in, err);
    if (!code)
        go_on_behind(&store->queue->sweep, in);
    sweep_page_free(in);
    return code;
}

void mongo_sweep_done(mongo_store *store)
{
    mongo_sweeping *sweep = &store->queue->sweep;
    bson_value_destroy(&sweep->after);
    *sweep = (mongo_sweeping){.has_indexes = sweep->has_indexes, .may_hint = sweep->may_hint};
}

static hf_code do_part(mongo_store *store, hf_session_state *overdue, size_t max, size_t *n,
                       hf_error *err)
{
    switch (store->queue->sweep.part) {
    case SWEEP_OVERDUE:
        return mongo_sweep_overdue(store, overdue, max, n, err);
    case SWEEP_LOCKS:
        return sweep_locks(store, err);
    default:
        return mongo_sweep_dates(store, err);
    }
}

static hf_code sweep_one(mongo_store *store, hf_session_state *overdue, size_t max, size_t *n,
                         bool *more, hf_error *err)
{
    mongo_sweeping *sweep = &store->queue->sweep;
    hf_code code = sweep->is_mine ? HF_OK : mongo_sweep_take(store, &sweep->is_mine, err);
    if (code || !sweep->is_mine)
        return code;
    hf_mono began = mongo_mono(store);
    settle_indexes(store);
    code = do_part(store, overdue, max, n, err);
    int64_t took_ms = mono_ms_until(mongo_mono(store), began);
    return code ? code : mongo_sweep_keep(store, took_ms, more, err);
}

hf_code mongo_sweep(hf_store *base, hf_session_state *overdue, size_t max, size_t *n, bool *more,
                    hf_error *err)
{
    mongo_store *store = (mongo_store *)base;
    *n = 0;
    *more = false;
    hf_code code = mongo_ready(store, err);
    if (!code)
        code = sweep_one(store, overdue, max, n, more, err);
    if (!*more)
        mongo_sweep_done(store);
    return code;
}
