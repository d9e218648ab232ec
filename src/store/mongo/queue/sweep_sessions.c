/* SPDX-License-Identifier: Apache-2.0 */
/* sweep_sessions.c: the parts of a sweep that are about sessions: marks those that are gone (R6),
 * names others that somebody should watch, and dates those that nobody needs any more. Called by
 * sweep.c. */
#include "core/alloc.h"
#include "store/document.h"
#include "store/mongo/driver/command.h"
#include "store/mongo/driver/reply.h"
#include "store/mongo/driver/text.h"
#include "store/mongo/queue/sessions.h"
#include "store/mongo/queue/state.h"
#include "store/mongo/queue/vouch.h"

#define PAGE 500
#define STATEMENTS_MOST 100 /* marks and sightings of one part */
#define HOUR_MS 3600000
#define DAY_MS (24 * (int64_t)HOUR_MS)

static void append_date(bson_t *to, const char *field, const char *how, int64_t ms)
{
    bson_t range;
    bson_append_document_begin(to, field, -1, &range);
    BSON_APPEND_DATE_TIME(&range, how, ms);
    bson_append_document_end(to, &range);
}

/* ---- Overdue sessions ---- A client that does a part may live for some ms only, and cannot watch.
 * But a host can, by its clock since boot: it leaves a sighting, and an hour later the next sweep
 * from this host finds it (R6). Of all others, those who live longer watch a few. */

typedef struct overdue_page {
    mongo_store *store;
    bson_t statements;
    size_t n_statements;
    hf_session_state *named; /* for the client to watch */
    size_t max, n_named;
} overdue_page;

static void append_mark(const hf_session_state *state, bson_t *statement)
{
    bson_t *change =
        pipeline_json("{'u': {'$set': {'dead': true}, '$currentDate': {'marked_at': true}}}");
    mongo_append_unchanged(state, statement);
    bson_concat(statement, change);
    bson_destroy(change);
}

static bool weigh(void *ctx, const bson_t *doc, const hf_session_state *state)
{
    overdue_page *page = ctx;
    bson_t statement;
    char buffer[16];
    mongo_verdict verdict = mongo_judge_overdue(page->store, doc, state, HOUR_MS);
    if (verdict != MONGO_OVERDUE_GONE && page->n_named < page->max)
        page->named[page->n_named++] = *state;
    if (verdict == MONGO_OVERDUE_LIVES)
        return true;
    const char *key = mongo_key(page->n_statements++, buffer);
    BSON_APPEND_DOCUMENT_BEGIN(&page->statements, key, &statement);
    if (verdict == MONGO_OVERDUE_GONE)
        append_mark(state, &statement);
    else
        mongo_append_sighting(page->store, state, &statement);
    bson_append_document_end(&page->statements, &statement);
    return page->n_statements < STATEMENTS_MOST;
}

/* Acknowledged by a majority: the next part takes out tickets of those that are marked (R5). */
static hf_code write_verdicts(overdue_page *page, hf_error *err)
{
    static const mongo_call call = {.what = "marking sessions as dead", .writes = true};
    bson_t command = BSON_INITIALIZER;
    mongo_reply reply;
    mongo_begin(&command, "update", page->store->uri.names.sessions);
    BSON_APPEND_ARRAY(&command, "updates", &page->statements);
    BSON_APPEND_BOOL(&command, "ordered", false);
    mongo_append_write_concern(page->store, &command, false);
    hf_code code = mongo_run(page->store, &call, &command, &reply, err);
    bson_destroy(&reply.doc);
    bson_destroy(&command);
    return code;
}

hf_code mongo_sweep_overdue(mongo_store *store, hf_session_state *overdue, size_t max, size_t *n,
                            hf_error *err)
{
    mongo_sweeping *sweep = &store->queue->sweep;
    overdue_page page = {.store = store, .named = overdue, .max = max};
    int64_t last_ms = sweep->from_ms;
    bool is_last = false;
    bson_init(&page.statements);
    hf_code code = mongo_overdue(store, sweep->from_ms, sweep->now_ms - HOUR_MS, weigh, &page,
                                 &last_ms, &is_last, err);
    if (!code && page.n_statements)
        code = write_verdicts(&page, err);
    bson_destroy(&page.statements);
    if (code)
        return code;
    *n = page.n_named;
    if (is_last)
        sweep->part = SWEEP_LOCKS;
    /* Beats come together, and so do the ends of leases. A session that was marked or noted now
     * is passed over when the same ms is read again. */
    sweep->from_ms = last_ms + (page.n_statements < STATEMENTS_MOST);
    return HF_OK;
}

/* ---- Dead sessions ---- A mark stays as long as a ticket of its session stands: a request that
 * only tries the lock, even a year later, cannot watch a missing session. This sweep has gone
 * through all records since it began, and taken out the tickets of all that were marked by then. A
 * dead session gets no more of them, and a request that it sent an hour ago has arrived or never
 * will. Programs before 1.1 mark without `marked_at`. */

static void append_undated(const mongo_store *store, bson_t *filter)
{
    int64_t began_ms = store->queue->sweep.began_ms;
    bson_t none, any, one;
    BSON_APPEND_BOOL(filter, "dead", true);
    BSON_APPEND_DOCUMENT_BEGIN(filter, "dead_at", &none);
    BSON_APPEND_BOOL(&none, "$exists", false);
    bson_append_document_end(filter, &none);
    BSON_APPEND_ARRAY_BEGIN(filter, "$or", &any);
    BSON_APPEND_DOCUMENT_BEGIN(&any, "0", &one);
    append_date(&one, "marked_at", "$lt", began_ms - HOUR_MS);
    bson_append_document_end(&any, &one);
    BSON_APPEND_DOCUMENT_BEGIN(&any, "1", &one);
    BSON_APPEND_DOCUMENT_BEGIN(&one, "marked_at", &none);
    BSON_APPEND_BOOL(&none, "$exists", false);
    bson_append_document_end(&one, &none);
    append_date(&one, "expires_at", "$lt", began_ms - DAY_MS);
    bson_append_document_end(&any, &one);
    bson_append_array_end(filter, &any);
}

static void append_find(mongo_store *store, bson_t *command)
{
    bson_t part;
    mongo_begin(command, "find", store->uri.names.sessions);
    BSON_APPEND_DOCUMENT_BEGIN(command, "filter", &part);
    append_undated(store, &part);
    bson_append_document_end(command, &part);
    BSON_APPEND_DOCUMENT_BEGIN(command, "projection", &part);
    BSON_APPEND_INT32(&part, "_id", 1);
    bson_append_document_end(command, &part);
    if (store->queue->sweep.may_hint)
        BSON_APPEND_UTF8(command, "hint", "dead_at_1");
    BSON_APPEND_INT32(command, "limit", PAGE);
    BSON_APPEND_BOOL(command, "singleBatch", true);
    BSON_APPEND_INT32(command, "batchSize", PAGE);
    mongo_append_read_concern(store, command, (hf_stamp){0});
}

/* A page of those that have no date. */
static hf_code find_undated(mongo_store *store, hf_id ids[PAGE], size_t *n, hf_error *err)
{
    static const mongo_call call = {.what = "looking for dead sessions"};
    bson_t command = BSON_INITIALIZER, batch, doc;
    bson_iter_t it;
    mongo_reply reply;
    *n = 0;
    append_find(store, &command);
    hf_code code = mongo_run(store, &call, &command, &reply, err);
    if (!code && mongo_view(&reply.doc, "cursor.firstBatch", &batch) && bson_iter_init(&it, &batch))
        while (*n < PAGE && mongo_next(&it, &doc))
            *n += mongo_id_at(&doc, "_id", &ids[*n]);
    bson_destroy(&reply.doc);
    bson_destroy(&command);
    return code;
}

/* {q: {_id: {$in: ids}}, ...}; `query` is left open. */
static void begin_update(const mongo_store *store, bson_t *command, bson_t *updates, bson_t *update,
                         bson_t *query, const hf_id *ids, size_t n)
{
    bson_t in, list;
    char key[16];
    mongo_begin(command, "update", store->uri.names.sessions);
    BSON_APPEND_ARRAY_BEGIN(command, "updates", updates);
    BSON_APPEND_DOCUMENT_BEGIN(updates, "0", update);
    BSON_APPEND_DOCUMENT_BEGIN(update, "q", query);
    BSON_APPEND_DOCUMENT_BEGIN(query, "_id", &in);
    BSON_APPEND_ARRAY_BEGIN(&in, "$in", &list);
    for (size_t i = 0; i < n; i++)
        document_append_id(&list, mongo_key(i, key), ids[i]);
    bson_append_array_end(&in, &list);
    bson_append_document_end(query, &in);
}

static hf_code run_update(mongo_store *store, const mongo_call *call, bson_t *command,
                          bson_t *updates, bson_t *update, bson_t *query, const char *change,
                          hf_error *err)
{
    bson_t *rest = pipeline_json(change);
    mongo_reply reply;
    bson_append_document_end(update, query);
    bson_concat(update, rest);
    bson_append_document_end(updates, update);
    bson_append_array_end(command, updates);
    mongo_append_write_concern(store, command, false);
    hf_code code = mongo_run(store, call, command, &reply, err);
    bson_destroy(&reply.doc);
    bson_destroy(rest);
    bson_destroy(command);
    return code;
}

static hf_code set_dates(mongo_store *store, const hf_id *ids, size_t n, hf_error *err)
{
    static const mongo_call call = {.what = "dating dead sessions", .writes = true};
    bson_t command = BSON_INITIALIZER, updates, update, query;
    begin_update(store, &command, &updates, &update, &query, ids, n);
    append_undated(store, &query);
    return run_update(store, &call, &command, &updates, &update, &query,
                      "{'u': {'$currentDate': {'dead_at': true}}, 'multi': true}", err);
}

hf_code mongo_sweep_keep_marks(mongo_store *store, const hf_id *ids, size_t n, hf_error *err)
{
    static const mongo_call call = {.what = "keeping marks of dead sessions", .writes = true};
    bson_t command = BSON_INITIALIZER, updates, update, query;
    begin_update(store, &command, &updates, &update, &query, ids, n);
    return run_update(store, &call, &command, &updates, &update, &query,
                      "{'u': {'$currentDate': {'marked_at': true}}, 'multi': true}", err);
}

hf_code mongo_sweep_dates(mongo_store *store, hf_error *err)
{
    hf_id *ids = alloc_array(NULL, PAGE, sizeof *ids);
    size_t n = 0;
    hf_code code = find_undated(store, ids, &n, err);
    if (!code && n)
        code = set_dates(store, ids, n, err);
    if (!code && n < PAGE)
        store->queue->sweep.part = SWEEP_NONE;
    free(ids);
    return code;
}
