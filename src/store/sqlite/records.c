/* SPDX-License-Identifier: Apache-2.0 */
/* records.c: keeps one row per lock and applies steps to it, each inside one BEGIN IMMEDIATE;
 * called by the client through the table of operations.
 *
 * A loss of power can undo the last commits, in order (synchronous = NORMAL). All sessions of
 * processes are dead then, so the next client takes their entries out of the records, and tokens go
 * on rising (tokens.c). `last` may be wrong: an acknowledged release may be undone, and the next
 * holder reads `abandoned`; or a grant may be undone, and the next holder does not learn of that
 * holder. So after a loss of power, work that must know how its predecessor left has to ask, with
 * the token, where the data is.
 *
 * Some steps are relied on after a loss of power, too: a pass, because an ID lease has no process
 * that dies; the leave of one, because its owner may be on another host; and the leave of work that
 * is done once per period. These are synced before they are answered, after the commit, so that
 * nobody else waits for the disk. A log is synced up to its end, so the steps before are kept, too.
 */
#include "core/alloc.h"
#include "core/error.h"
#include "core/id.h"
#include "core/period.h"
#include "core/record.h"
#include "store/document.h"
#include "store/sqlite/sqlite_internal.h"
#include "sync/mutex_scope.h"

#include <stdio.h>

#define LIST_ROWS 200 /* rows of a listing that are read at once */

hf_code record_decode(const sqlite_store *store, const char *name, const void *bytes, size_t size,
                      hf_record *out, hf_error *err)
{
    bson_t document;
    char table[300];
    snprintf(table, sizeof table, "locks of %s", store->path);
    if (!bytes || !bson_init_static(&document, bytes, size))
        return error_set(err, HF_SHAPE,
                         "lock %.80s in %s: its row is not a lock's record; it was left "
                         "alone: move it away, or use another database",
                         name, table);
    hf_code code = document_to_record(&document, table, out, err);
    if (code || strcmp(out->name, name) == 0)
        return code;
    record_done(out);
    return error_set(err, HF_SHAPE,
                     "lock %.80s in %s: its record has another name; it was left "
                     "alone: move it away, or use another database",
                     name, table);
}

hf_code record_load(sqlite_store *store, const char *name, hf_record *out, hf_error *err)
{
    bool found;
    sqlite3_stmt *get;
    hf_code code = sql_ready(&store->main, SQL_RECORD_GET, &get, err);
    if (code)
        return code;
    sql_bind_text(get, 1, name);
    code = sql_next(&store->main, get, &found, err);
    if (found) {
        const void *bytes = sqlite3_column_blob(get, 0);
        size_t size = (size_t)sqlite3_column_bytes(get, 0);
        code = record_decode(store, name, bytes, size, out, err);
        sql_reset(get);
    } else if (!code) {
        record_init(out, name);
    }
    return code;
}

/* ---- Step ---- */

static hf_code save(sqlite_store *store, const hf_record *record, bool is_new, hf_error *err)
{
    bson_t document;
    sqlite3_stmt *set;
    hf_code code = sql_ready(&store->main, is_new ? SQL_RECORD_NEW : SQL_RECORD_SET, &set, err);
    if (code)
        return code;
    document_of_record(record, &document);
    sql_bind_text(set, 1, record->name);
    sqlite3_bind_blob(set, 2, bson_get_data(&document), (int)document.len, SQLITE_STATIC);
    code = sql_run(&store->main, set, err);
    bson_destroy(&document);
    return code;
}

static bool apply(const sqlite_store *store, hf_record *record, const hf_step *step,
                  const char **news)
{
    hf_dbtime now = step->now ? *step->now : (hf_dbtime){session_wall_ms(store)};
    int64_t floor = step->floor ? *step->floor : tokens_above(store, record, now);
    return record_step_telling(record, step, now, floor, news);
}

/* The outcome of a step so far. */
typedef struct outcome {
    hf_record record;
    const char *news; /* of the record's notify, or NULL */
    bool changed;
    bool is_relied_on; /* what it changed must outlast a loss of power */
    bool is_short;     /* its token is not reserved yet, so nothing was written */
} outcome;

/* ID leases are of no process, and a break takes out others' tickets. */
static bool is_of_others(sqlite_store *store, const hf_record *record, hf_id ticket)
{
    const hf_entry *entry = record_find(record, ticket);
    MUTEX_SCOPE(&store->mutex);
    return entry && !own_find(store, entry->session);
}

static bool is_relied_on(sqlite_store *store, const hf_record *before, const hf_step *step)
{
    bool is = step->pass != NULL;
    for (size_t i = 0; i < step->n_leaves && !is; i++)
        is = period_is_any(step->leaves[i].period) ||
             is_of_others(store, before, step->leaves[i].ticket);
    return is;
}

/* Read the high water before a record is made: it has the tokens of pruned records. */
static hf_code load(sqlite_store *store, const char *name, outcome *out, hf_error *err)
{
    hf_code code = record_load(store, name, &out->record, err);
    if (code || out->record.exists)
        return code;
    code = tokens_reread_water(store, err);
    if (code)
        record_done(&out->record);
    return code;
}

/* Inside a transaction. After an error, too, out->record is the caller's to free. */
static hf_code make(sqlite_store *store, const char *name, const hf_step *step, outcome *out,
                    hf_error *err)
{
    hf_code code = load(store, name, out, err);
    if (code) {
        record_init(&out->record, name);
        return code;
    }
    bool is_new = !out->record.exists;
    out->is_relied_on = is_relied_on(store, &out->record, step);
    out->changed = apply(store, &out->record, step, &out->news);
    out->is_short = out->changed && out->record.token > store->reserved;
    return out->changed && !out->is_short ? save(store, &out->record, is_new, err) : HF_OK;
}

static hf_code try_step(sqlite_store *store, const char *name, const hf_step *step, outcome *out,
                        hf_error *err)
{
    hf_code code = sql_begin(&store->main, err);
    if (code)
        return code;
    code = make(store, name, step, out, err);
    if (!code && (!out->changed || out->is_short))
        sql_rollback(&store->main);
    else
        code = sql_end(&store->main, code, err);
    if (code || out->is_short)
        record_done(&out->record);
    return code;
}

/* If it fails, the next call tries again, as a repeat of the step will find nothing to do. */
static hf_code sync_owed(sqlite_store *store, hf_error *err)
{
    if (!store->owes_sync)
        return HF_OK;
    hf_code code = sql_sync(&store->main, err);
    store->owes_sync = code != HF_OK;
    return code;
}

/* A try that changes nothing, or one whose number has no place, need not keep others from writing:
 * *out is then what it was refused for. */
static hf_code read_first(sqlite_store *store, const char *name, const hf_step *step, outcome *out,
                          bool *is_answered, hf_error *err)
{
    const hf_enter *enter = step->enter;
    bool may_be_refused =
        enter && (enter->try_only || enter->number) && id_is_zero(enter->replaces);
    *is_answered = false;
    if (!may_be_refused || step->n_leaves || step->n_deaths || step->change || step->pass)
        return HF_OK;
    hf_code code = record_load(store, name, &out->record, err);
    if (code)
        return code;
    *is_answered = out->record.exists && !apply(store, &out->record, step, &out->news);
    if (!*is_answered)
        record_done(&out->record);
    return HF_OK;
}

/* Others hear of it; not the entrant `but`, whose session has the step's answer. */
static void tell(sqlite_store *store, const char *name, const outcome *done, const hf_id *but)
{
    if (done->changed)
        board_tell(store, &done->record);
    if (done->news)
        notice_send(store, name, done->news, but);
}

hf_code sqlite_step(hf_store *base, const char *name, const hf_step *step, hf_record *out,
                    hf_step_reply *reply, hf_error *err)
{
    hf_code code;
    outcome done = {.news = NULL};
    sqlite_store *store = store_of(base);
    bool is_answered;
    pthread_mutex_lock(&store->main.mutex);
    code = read_first(store, name, step, &done, &is_answered, err);
    while (!code && !is_answered) {
        code = try_step(store, name, step, &done, err);
        is_answered = !code && !done.is_short;
        if (!code && done.is_short)
            code = tokens_reserve(store, done.record.token, err);
    }
    if (!code) {
        store->owes_sync |= done.changed && done.is_relied_on;
        code = sync_owed(store, err);
        if (code)
            record_done(&done.record);
    }
    pthread_mutex_unlock(&store->main.mutex);
    if (code)
        return code;
    *reply = (hf_step_reply){.confirmed = done.changed || step->enter};
    tell(store, name, &done, step->enter ? &step->enter->entry.ticket : NULL);
    if (out)
        *out = done.record;
    else
        record_done(&done.record);
    return HF_OK;
}

/* ---- Several steps in one transaction ---- */

typedef struct outcomes {
    outcome *of;
    size_t n;         /* so many of the parcels were seen to */
    int64_t is_short; /* a token that is to be reserved first; 0: none */
} outcomes;

static void outcomes_clear(outcomes *all)
{
    while (all->n)
        record_done(&all->of[--all->n].record);
}

/* What cannot be read is left alone, and keeps nobody else waiting. */
static hf_code make_one(sqlite_store *store, hf_parcel *parcel, outcomes *all, hf_error *err)
{
    outcome *done = &all->of[all->n++];
    *done = (outcome){.news = NULL};
    parcel->code = make(store, parcel->name, &parcel->step, done, err);
    if (done->is_short)
        all->is_short = done->record.token;
    if (parcel->code != HF_SHAPE)
        return parcel->code;
    parcel->err = *err;
    return HF_OK;
}

static hf_code try_all(sqlite_store *store, hf_parcel *parcels, size_t n, outcomes *all,
                       hf_error *err)
{
    hf_code code = sql_begin(&store->main, err);
    if (code)
        return code;
    for (size_t i = 0; i < n && !code && !all->is_short; i++)
        code = make_one(store, &parcels[i], all, err);
    if (!all->is_short)
        return sql_end(&store->main, code, err);
    sql_rollback(&store->main);
    return HF_OK;
}

static hf_code make_all(sqlite_store *store, hf_parcel *parcels, size_t n, outcomes *all,
                        hf_error *err)
{
    MUTEX_SCOPE(&store->main.mutex);
    hf_code code = try_all(store, parcels, n, all, err);
    while (!code && all->is_short) {
        code = tokens_reserve(store, all->is_short, err);
        outcomes_clear(all);
        all->is_short = 0;
        if (!code)
            code = try_all(store, parcels, n, all, err);
    }
    for (size_t i = 0; i < all->n && !code; i++)
        store->owes_sync |= all->of[i].changed && all->of[i].is_relied_on;
    return code ? code : sync_owed(store, err);
}

void sqlite_steps(hf_store *base, hf_parcel *parcels, size_t n)
{
    outcomes all = {.of = alloc_array(NULL, n, sizeof *all.of)};
    hf_error err;
    hf_code code = make_all(store_of(base), parcels, n, &all, &err);
    for (size_t i = 0; i < n && code; i++) {
        parcels[i].code = code;
        parcels[i].err = err;
    }
    for (size_t i = 0; i < n && !code; i++) {
        parcels[i].reply = (hf_step_reply){.confirmed = all.of[i].changed};
        tell(store_of(base), parcels[i].name, &all.of[i], NULL);
    }
    outcomes_clear(&all);
    free(all.of);
}

/* ---- Reading: the rows are copied, then given to the caller with no lock held ---- */

typedef struct copy {
    char name[HF_NAME_MAX + 1];
    void *bytes; /* NULL: there is no such row */
    size_t size;
} copy;

typedef struct copies {
    copy *rows;
    size_t n, room;
} copies;

static void copies_add(copies *to, const char *name, sqlite3_stmt *row, int column)
{
    if (to->n == to->room) {
        to->room = to->room ? 2 * to->room : 4;
        to->rows = alloc_array(to->rows, to->room, sizeof *to->rows);
    }
    copy *added = &to->rows[to->n++];
    *added = (copy){.bytes = NULL};
    snprintf(added->name, sizeof added->name, "%s", name);
    if (!row)
        return;
    added->size = (size_t)sqlite3_column_bytes(row, column);
    added->bytes = alloc_array(NULL, added->size, 1);
    const void *bytes = sqlite3_column_blob(row, column);
    if (bytes)
        memcpy(added->bytes, bytes, added->size);
}

static void copies_done(copies *done)
{
    for (size_t i = 0; i < done->n; i++)
        free(done->rows[i].bytes);
    free(done->rows);
}

static hf_code give(const sqlite_store *store, const copy *row, hf_record_fn each, void *ctx,
                    bool *goes_on, hf_error *err)
{
    hf_record record;
    if (row->bytes) {
        hf_code code = record_decode(store, row->name, row->bytes, row->size, &record, err);
        if (code)
            return code;
    } else {
        record_init(&record, row->name);
    }
    *goes_on = each(ctx, &record);
    record_done(&record);
    return HF_OK;
}

/* Gives all records that can be read; the error is that of the first that cannot. */
static hf_code give_all(const sqlite_store *store, const copies *all, hf_record_fn each, void *ctx,
                        hf_error *err)
{
    hf_code code = HF_OK;
    bool goes_on = true;
    for (size_t i = 0; i < all->n && goes_on; i++) {
        hf_code of_this = give(store, &all->rows[i], each, ctx, &goes_on, code ? NULL : err);
        if (!code)
            code = of_this;
    }
    return code;
}

static hf_code copy_one(sqlite_store *store, const char *name, copies *to, hf_error *err)
{
    bool found;
    sqlite3_stmt *get;
    hf_code code = sql_ready(&store->main, SQL_RECORD_GET, &get, err);
    if (code)
        return code;
    sql_bind_text(get, 1, name);
    code = sql_next(&store->main, get, &found, err);
    if (!code)
        copies_add(to, name, found ? get : NULL, 0);
    sql_reset(get);
    return code;
}

static hf_code copy_named(sqlite_store *store, const char *const *names, size_t n, copies *to,
                          hf_error *err)
{
    hf_code code = sql_begin_read(&store->main, err);
    if (code)
        return code;
    for (size_t i = 0; i < n && !code; i++)
        code = copy_one(store, names[i], to, err);
    return sql_end(&store->main, code, err);
}

/* The next rows from a name on, without the row of `behind`. */
static hf_code copy_some(sqlite_store *store, const char *from, const char *behind, size_t most,
                         copies *to, hf_error *err)
{
    bool found = true;
    sqlite3_stmt *list;
    hf_code code = sql_ready(&store->main, SQL_RECORD_LIST, &list, err);
    if (code)
        return code;
    sql_bind_text(list, 1, from);
    sql_bind_text(list, 2, behind);
    sqlite3_bind_int64(list, 3, (int64_t)most);
    code = sql_next(&store->main, list, &found, err);
    while (!code && found) {
        copies_add(to, (const char *)sqlite3_column_text(list, 0), list, 1);
        code = sql_next(&store->main, list, &found, err);
    }
    sql_reset(list);
    return code;
}

/* A read transaction of SQLite sees every commit that was made before it began, so `after` and
 * `linearizable` ask for nothing more. */
hf_code sqlite_look(hf_store *base, const char *const *names, size_t n, hf_stamp after,
                    bool linearizable, hf_record_fn each, void *ctx, hf_error *err)
{
    (void)after, (void)linearizable;
    copies all = {.n = 0};
    sqlite_store *store = store_of(base);
    pthread_mutex_lock(&store->main.mutex);
    hf_code code = copy_named(store, names, n, &all, err);
    pthread_mutex_unlock(&store->main.mutex);
    if (!code)
        code = give_all(store, &all, each, ctx, err);
    copies_done(&all);
    return code;
}

typedef struct listing {
    const hf_list_part *part;
    size_t left; /* that may still be given */
    size_t most; /* rows that are read at once */
    hf_record_fn each;
    void *ctx;
} listing;

static bool give_if_listed(void *ctx, const hf_record *record)
{
    listing *to = ctx;
    if (!record_is_listed(record, to->part))
        return true;
    to->left--;
    return to->each(to->ctx, record) && to->left;
}

/* A foreign row must not hide all locks: it is skipped, with a warning. False: no more rows are
 * wanted, or there are none. */
static bool give_listed(sqlite_store *store, const copies *some, listing *to)
{
    bool goes_on = true;
    hf_error shape;
    const char *prefix = to->part->prefix;
    for (size_t i = 0; i < some->n && goes_on; i++) {
        if (strncmp(some->rows[i].name, prefix, strlen(prefix)) != 0)
            return false;
        if (give(store, &some->rows[i], give_if_listed, to, &goes_on, &shape))
            sqlite_log(store, HF_LOG_WARNING, "%s", shape.text);
    }
    return goes_on && some->n == to->most;
}

static hf_code read_some(sqlite_store *store, const char *from, const char *behind, size_t most,
                         copies *to, hf_error *err)
{
    pthread_mutex_lock(&store->main.mutex);
    hf_code code = session_has_moved(store, &store->main, err)
                       ? HF_UNUSABLE
                       : copy_some(store, from, behind, most, to, err);
    pthread_mutex_unlock(&store->main.mutex);
    return code;
}

hf_code sqlite_list(hf_store *base, const hf_list_part *part, hf_record_fn each, void *ctx,
                    hf_error *err)
{
    /* Of a part of what is in use, most rows may be passed over. */
    bool is_short = part->limit && part->limit < LIST_ROWS && !part->in_use;
    listing to = {.part = part,
                  .left = part->limit ? part->limit : SIZE_MAX,
                  .most = is_short ? part->limit : LIST_ROWS,
                  .each = each,
                  .ctx = ctx};
    const char *from = record_first_listed(part), *behind = part->after;
    copies before = {.n = 0};
    bool goes_on = true;
    hf_code code = HF_OK;
    while (goes_on && !code) {
        copies some = {.n = 0};
        code = read_some(store_of(base), from, behind, to.most, &some, err);
        goes_on = !code && give_listed(store_of(base), &some, &to);
        copies_done(&before);
        before = some;
        if (some.n)
            from = behind = some.rows[some.n - 1].name;
    }
    copies_done(&before);
    return code;
}
