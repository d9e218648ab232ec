/* SPDX-License-Identifier: Apache-2.0 */
/* sweep_page.c: reads a page of records for a sweep: which are idle, and which have tickets of dead
 * sessions. Called by sweep.c. */
#include "store/mongo/queue/sweep_page.h"
#include "core/alloc.h"
#include "core/id.h"
#include "store/mongo/driver/reply.h"
#include "store/mongo/driver/text.h"
#include "store/mongo/queue/sessions.h"
#include "store/mongo/queue/state.h"

#define ENTRIES_MOST 2000 /* of a page's records */

/* Idle: nobody holds or waits, its last holder left three days ago, and no period still runs; a
 * missing date or period is less than any other. may_go() looks at those that
 * nobody ever had. */
#define IDLE                                                                                       \
    "{'$and': [{'$eq': ['$holders', []]}, {'$eq': ['$queue', []]},"                                \
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
    BSON_APPEND_INT32(&cursor, "batchSize", SWEEP_PAGE + 1);
    bson_append_document_end(command, &cursor);
    mongo_append_read_concern(store, command, (hf_stamp){0});
    bson_destroy(rest);
}

void sweep_page_free(sweep_page *done)
{
    bson_destroy(&done->reply.doc);
    free(done->sessions);
    free(done->dead);
    free(done);
}

static int compare_ids(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(hf_id));
}

const hf_death *sweep_page_dead(const sweep_page *in, hf_id session)
{
    hf_death key = {.session = session};
    return in->n_dead ? bsearch(&key, in->dead, in->n_dead, sizeof key, compare_ids) : NULL;
}

static void read_sessions(sweep_page *to, sweep_row *of)
{
    bson_t list;
    bson_iter_t it;
    of->first = to->n_sessions;
    if (!mongo_view(&of->doc, "sessions", &list) || !bson_iter_init(&it, &list))
        return;
    while (bson_iter_next(&it)) {
        if (!BSON_ITER_HOLDS_OID(&it))
            continue;
        to->sessions = alloc_array(to->sessions, to->n_sessions + 1, sizeof *to->sessions);
        memcpy(to->sessions[to->n_sessions++].bytes, bson_iter_oid(&it)->bytes, sizeof(hf_id));
    }
    of->n = to->n_sessions - of->first;
}

/* The rows up to so many entries, but at least one. */
static void read_rows(sweep_page *to)
{
    bson_t batch;
    bson_iter_t it;
    bool is_row =
        mongo_view(&to->reply.doc, "cursor.firstBatch", &batch) && bson_iter_init(&it, &batch);
    while (is_row && to->n_rows < SWEEP_PAGE && to->n_sessions < ENTRIES_MOST) {
        sweep_row *next = &to->rows[to->n_rows];
        is_row = mongo_next(&it, &next->doc);
        if (is_row)
            read_sessions(to, next);
        to->n_rows += is_row;
    }
    to->is_last = !is_row;
}

/* Each id once, in order. */
static hf_id *unique(const sweep_page *in, size_t *n)
{
    hf_id *ids = alloc_array(NULL, in->n_sessions + 1, sizeof *ids);
    memcpy(ids, in->sessions, in->n_sessions * sizeof *ids);
    qsort(ids, in->n_sessions, sizeof *ids, compare_ids);
    *n = 0;
    for (size_t i = 0; i < in->n_sessions; i++)
        if (!*n || !id_equal(ids[*n - 1], ids[i]))
            ids[(*n)++] = ids[i];
    return ids;
}

/* Looks none older than the page (R1). */
static hf_code read_dead(mongo_store *store, sweep_page *to, hf_error *err)
{
    size_t n;
    if (!to->n_sessions)
        return HF_OK;
    hf_id *ids = unique(to, &n);
    to->dead = alloc_array(NULL, n, sizeof *to->dead);
    hf_code code = mongo_find_dead(store, ids, n, to->dead, &to->n_dead, err);
    qsort(to->dead, to->n_dead, sizeof *to->dead, compare_ids);
    free(ids);
    return code;
}

/* Cuts the page off where enough is to be done. */
static void choose(sweep_page *in)
{
    size_t n = 0;
    for (size_t i = 0; i < in->n_rows && n < SWEEP_TAKEN_MOST; i++) {
        sweep_row *at = &in->rows[i];
        for (size_t j = at->first; j < at->first + at->n && !at->is_taken; j++)
            at->is_taken = sweep_page_dead(in, in->sessions[j]);
        n += at->is_taken;
        if (n == SWEEP_TAKEN_MOST && i + 1 < in->n_rows) {
            in->n_rows = i + 1;
            in->is_last = false;
        }
    }
}

hf_code sweep_page_read(mongo_store *store, sweep_page *to, hf_error *err)
{
    static const mongo_call call = {.what = "looking for idle locks"};
    bson_t look = BSON_INITIALIZER;
    append_page(store, &look);
    hf_code code = mongo_run(store, &call, &look, &to->reply, err);
    bson_destroy(&look);
    if (!code)
        read_rows(to);
    if (!code)
        code = read_dead(store, to, err);
    if (!code)
        choose(to);
    return code;
}
