/* SPDX-License-Identifier: Apache-2.0 */
/* sweep.c: the housekeeping that all clients share, part by part: the tickets of dead sessions,
 * idle records, and sessions that are long dead or overdue. The client calls it in the background.
 * sweep_turn.c says whose turn it is, and where the last one stopped.
 *
 * No part reads more than a page of an index. `locks` has only the index on _id, so that steps have
 * no other index to update. The sweep goes through it page by page, and looks for idle records and
 * for tickets of dead sessions at the same time. */
#include "store/mongo/queue/sweep.h"
#include "core/alloc.h"
#include "core/history.h"
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
#include "store/mongo/queue/step.h"
#include "store/mongo/shared/history.h"
#include "store/mongo/shared/indexes.h"
#include "store/mongo/shared/look.h"

#define PAGE 500
#define ENTRIES_MOST 2000                        /* of a page's records */
#define TAKEN_MOST 100                           /* records from which a part takes tickets out */
#define IDLE_TOKENS (((int64_t)3 * 86400) << 20) /* of three days */

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

/* ---- A page of records ---- */

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
    BSON_APPEND_INT32(&cursor, "batchSize", PAGE + 1);
    bson_append_document_end(command, &cursor);
    mongo_append_read_concern(store, command, (hf_stamp){0});
    bson_destroy(rest);
}

/* A row of a page: views of the reply, which live as long as it. */
typedef struct row {
    bson_t doc;
    size_t first, n; /* of the page's sessions: those that hold and wait */
    bool is_taken;   /* one of them is dead */
} row;

typedef struct page {
    mongo_reply reply;
    row rows[PAGE];
    size_t n_rows;
    hf_id *sessions;
    size_t n_sessions;
    hf_death *dead; /* those that are marked, in the order of their ids */
    size_t n_dead;
    bool is_last;
} page;

static void page_free(page *done)
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

static const hf_death *find_death(const page *in, hf_id session)
{
    hf_death key = {.session = session};
    return in->n_dead ? bsearch(&key, in->dead, in->n_dead, sizeof key, compare_ids) : NULL;
}

static void read_sessions(page *to, row *of)
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
static void read_rows(page *to)
{
    bson_t batch;
    bson_iter_t it;
    bool is_row =
        mongo_view(&to->reply.doc, "cursor.firstBatch", &batch) && bson_iter_init(&it, &batch);
    while (is_row && to->n_rows < PAGE && to->n_sessions < ENTRIES_MOST) {
        row *next = &to->rows[to->n_rows];
        is_row = mongo_next(&it, &next->doc);
        if (is_row)
            read_sessions(to, next);
        to->n_rows += is_row;
    }
    to->is_last = !is_row;
}

/* Each id once, in order. */
static hf_id *unique(const page *in, size_t *n)
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
static hf_code read_dead(mongo_store *store, page *to, hf_error *err)
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
static void choose(page *in)
{
    size_t n = 0;
    for (size_t i = 0; i < in->n_rows && n < TAKEN_MOST; i++) {
        row *at = &in->rows[i];
        for (size_t j = at->first; j < at->first + at->n && !at->is_taken; j++)
            at->is_taken = find_death(in, in->sessions[j]);
        n += at->is_taken;
        if (n == TAKEN_MOST && i + 1 < in->n_rows) {
            in->n_rows = i + 1;
            in->is_last = false;
        }
    }
}

static hf_code read_page(mongo_store *store, page *to, hf_error *err)
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

/* ---- Idle records ---- */

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

/* If its token is below the floor of the next grant. One that nobody ever had has no date; its
 * token says how old it is. */
static bool may_go(const hf_record *record, int64_t floor)
{
    int64_t of_age = record->last.outcome == HF_OUTCOME_NONE ? IDLE_TOKENS : 0;
    return record->token < floor - of_age;
}

/* On a standalone nothing is pruned: its floor is a wall clock, and tokens must not fall. */
static size_t append_if_idle(mongo_store *store, const row *of, int64_t floor, bson_t *deletes,
                             size_t n)
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

static hf_code prune(mongo_store *store, const page *in, hf_error *err)
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

/* ---- Tickets of dead sessions ---- Only of those that are marked: the mark was found by a
 * majority read (R5). Waiters do the same for what stands in their way; this is for what nobody
 * asks for. */

typedef struct taken {
    hf_record before;
    hf_step step; /* deaths */
    bool is_told; /* somebody lives who waits there, and may be granted */
} taken;

typedef struct takings {
    const page *page;
    taken all[TAKEN_MOST];
    size_t n;
    struct history_turn **turns; /* that ended, for the history */
    size_t n_turns;
} takings;

static bool is_own(const hf_step *step, const hf_entry *entry)
{
    for (size_t i = 0; i < step->n_deaths; i++)
        if (id_equal(step->deaths[i].session, entry->session))
            return true;
    return false;
}

static bool add(void *ctx, const hf_record *record)
{
    takings *to = ctx;
    size_t n = record->holders + record->queued;
    taken *at = &to->all[to->n];
    hf_death *deaths = alloc_array(NULL, n, sizeof *deaths);
    *at = (taken){.step = {.deaths = deaths}};
    for (size_t i = 0; i < n; i++) {
        const hf_entry *entry = &record->entries[i];
        const hf_death *death =
            is_own(&at->step, entry) ? NULL : find_death(to->page, entry->session);
        if (death)
            deaths[at->step.n_deaths++] = *death;
        at->is_told |= i >= record->holders && !find_death(to->page, entry->session);
    }
    if (at->step.n_deaths) {
        record_copy(&at->before, record);
        to->n++;
    } else {
        free(deaths);
    }
    return to->n < TAKEN_MOST;
}

static void takings_free(takings *done)
{
    for (size_t i = 0; i < done->n; i++) {
        free((hf_death *)done->all[i].step.deaths);
        record_done(&done->all[i].before);
    }
    for (size_t i = 0; i < done->n_turns; i++)
        free(done->turns[i]);
    free(done->turns);
    free(done);
}

/* The records as they are now; of any that cannot be read nothing is taken out. */
static hf_code look_at_them(mongo_store *store, takings *to, hf_error *err)
{
    const char *names[TAKEN_MOST];
    bson_iter_t id;
    size_t n = 0;
    for (size_t i = 0; i < to->page->n_rows && n < TAKEN_MOST; i++) {
        const row *at = &to->page->rows[i];
        if (at->is_taken && bson_iter_init_find(&id, &at->doc, "_id"))
            names[n++] = bson_iter_utf8(&id, NULL);
    }
    if (!n)
        return HF_OK;
    hf_code code = mongo_look(&store->base, names, n, to->page->reply.stamp, false, add, to, err);
    return code == HF_SHAPE ? HF_OK : code;
}

static void note(takings *to, const taken *at, const hf_last_mark *last)
{
    hf_turn_note turn;
    for (size_t i = 0; i < at->before.holders; i++) {
        if (!history_of_taken(&at->before, &at->before.entries[i], &at->step, last, &turn))
            continue;
        to->turns = alloc_array(to->turns, to->n_turns + 1, sizeof *to->turns);
        to->turns[to->n_turns++] = history_copy(&turn);
    }
}

/* Whom the step grants is rung for. */
static hf_code take_out_one(mongo_store *store, takings *to, const taken *at, hf_error *err)
{
    hf_record after;
    hf_step_reply reply;
    hf_code code = mongo_step_alone(store, at->before.name, &at->step, &after, &reply, err);
    if (code)
        return code == HF_SHAPE ? HF_OK : code;
    note(to, at, &after.last);
    record_done(&after);
    return HF_OK;
}

/* {q: {_id: {$in: names}}, u: pipeline, multi: true} */
static void append_step(mongo_store *store, const pipeline_item *items, size_t n, bson_t *command)
{
    bson_t updates, update, query, id, in;
    char key[16];
    mongo_begin(command, "update", store->uri.collection);
    BSON_APPEND_ARRAY_BEGIN(command, "updates", &updates);
    BSON_APPEND_DOCUMENT_BEGIN(&updates, "0", &update);
    BSON_APPEND_DOCUMENT_BEGIN(&update, "q", &query);
    BSON_APPEND_DOCUMENT_BEGIN(&query, "_id", &id);
    BSON_APPEND_ARRAY_BEGIN(&id, "$in", &in);
    for (size_t i = 0; i < n; i++)
        BSON_APPEND_UTF8(&in, mongo_key(i, key), items[i].name);
    bson_append_array_end(&id, &in);
    bson_append_document_end(&query, &id);
    bson_append_document_end(&update, &query);
    pipeline_append_each(&store->queue->texts, mongo_clock_of(store), items, n, &update, "u");
    BSON_APPEND_BOOL(&update, "multi", true);
    bson_append_document_end(&updates, &update);
    bson_append_array_end(command, &updates);
    mongo_append_write_concern(store, command, false);
}

/* The records afterwards tell which turns ended. */
static bool note_each(void *ctx, const hf_record *record)
{
    takings *to = ctx;
    for (size_t i = 0; i < to->n; i++)
        if (!to->all[i].is_told && strcmp(to->all[i].before.name, record->name) == 0)
            note(to, &to->all[i], &record->last);
    return true;
}

static hf_code take_out_together(mongo_store *store, takings *to, hf_error *err)
{
    static const mongo_call call = {
        .what = "taking tickets of dead sessions out", .name = "several locks", .writes = true};
    pipeline_item items[TAKEN_MOST];
    const char *names[TAKEN_MOST];
    bson_t command = BSON_INITIALIZER;
    mongo_reply reply;
    size_t n = 0;
    for (size_t i = 0; i < to->n; i++)
        if (!to->all[i].is_told) {
            names[n] = to->all[i].before.name;
            items[n++] = (pipeline_item){to->all[i].before.name, &to->all[i].step};
        }
    if (!n)
        return HF_OK;
    append_step(store, items, n, &command);
    hf_code code = mongo_run(store, &call, &command, &reply, err);
    if (!code)
        mongo_look(&store->base, names, n, reply.stamp, false, note_each, to, NULL);
    bson_destroy(&reply.doc);
    bson_destroy(&command);
    return code;
}

/* No rule depends on the history: what cannot be written is left out. */
static void write_history(mongo_store *store, const takings *of)
{
    hf_turn_note *notes = alloc_array(NULL, of->n_turns, sizeof *notes);
    for (size_t i = 0; i < of->n_turns; i++)
        notes[i] = of->turns[i]->note;
    if (of->n_turns && mongo_history_is_kept(&store->uri))
        mongo_history_add(&store->base, notes, of->n_turns, NULL);
    free(notes);
}

static bool is_taken(const takings *of, const char *name)
{
    for (size_t i = 0; i < of->n; i++)
        if (strcmp(of->all[i].before.name, name) == 0)
            return true;
    return false;
}

/* What cannot be read is left alone, and so are the marks of the sessions that it names: they count
 * as marked now, and are not dated by this sweep. */
static hf_code keep_marks(mongo_store *store, const takings *of, hf_error *err)
{
    const page *in = of->page;
    hf_id *ids = alloc_array(NULL, in->n_sessions, sizeof *ids);
    bson_iter_t id;
    size_t n = 0;
    for (size_t i = 0; i < in->n_rows; i++) {
        const row *at = &in->rows[i];
        if (!at->is_taken || !bson_iter_init_find(&id, &at->doc, "_id") ||
            is_taken(of, bson_iter_utf8(&id, NULL)))
            continue;
        for (size_t j = at->first; j < at->first + at->n; j++)
            if (find_death(in, in->sessions[j]))
                ids[n++] = in->sessions[j];
    }
    hf_code code = n ? mongo_sweep_keep_marks(store, ids, n, err) : HF_OK;
    free(ids);
    return code;
}

static hf_code take_out(mongo_store *store, const page *in, hf_error *err)
{
    takings *to = alloc_zeroed(sizeof *to);
    to->page = in;
    hf_code code = look_at_them(store, to, err);
    if (!code)
        code = keep_marks(store, to, err);
    for (size_t i = 0; i < to->n && !code; i++)
        if (to->all[i].is_told)
            code = take_out_one(store, to, &to->all[i], err);
    if (!code)
        code = take_out_together(store, to, err);
    write_history(store, to);
    takings_free(to);
    return code;
}

/* ---- Part by part ---- */

static void go_on_behind(mongo_sweeping *sweep, const page *in)
{
    bson_iter_t id;
    if (in->n_rows && bson_iter_init_find(&id, &in->rows[in->n_rows - 1].doc, "_id"))
        mongo_sweep_place(sweep, &id);
    if (in->is_last)
        sweep->part = SWEEP_DATES;
}

static hf_code sweep_locks(mongo_store *store, hf_error *err)
{
    page *in = alloc_zeroed(sizeof *in);
    hf_code code = read_page(store, in, err);
    if (!code)
        code = prune(store, in, err);
    if (!code && in->n_dead)
        code = take_out(store, in, err);
    if (!code)
        go_on_behind(&store->queue->sweep, in);
    page_free(in);
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
    settle_indexes(store);
    code = do_part(store, overdue, max, n, err);
    return code ? code : mongo_sweep_keep(store, more, err);
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
