/* SPDX-License-Identifier: Apache-2.0 */
/* sweep.c: takes the tickets of dead sessions out of records that nobody asks for, and removes what
 * nobody needs any more: records that have been idle for days, and sessions that were marked dead
 * long ago. Also names sessions that should be marked. Called by the client at its start and every
 * hour, part by part: no part reads or writes more than a hundred rows or so, and other calls come
 * in between. sweep_turn.c says whose turn it is, and where the last one stopped. */
#include "store/sqlite/sweep.h"
#include "core/alloc.h"
#include "core/history.h"
#include "core/id.h"
#include "core/period.h"
#include "core/record.h"
#include "core/text.h"
#include "store/sqlite/left.h"

#include <string.h>

#define HOUR_MS ((int64_t)3600 * 1000)
#define IDLE_MS (72 * HOUR_MS) /* a record: since its last holder left */
#define OLD_MS HOUR_MS         /* a session: marked so long before the sweep began */
#define OVERDUE_MS HOUR_MS     /* a session of this boot whose byte is not free */

#define PAGE 100
#define ENTRIES_MOST 1000 /* of a page's records */

/* ---- A page of records ---- */

/* A record that the page has found. */
typedef struct found {
    hf_record record;
    bool may_go;
    hf_death *deaths; /* those of its sessions that are dead */
    size_t n_deaths;
} found;

typedef struct page {
    found found[PAGE];
    size_t n, n_entries;
    bool is_last;
    hf_death latest; /* the session that was looked up last, and ... */
    bool is_dead;    /* ... whether it is */
} page;

static void found_done(found *done)
{
    free(done->deaths);
    record_done(&done->record);
}

static void page_free(page *done)
{
    for (size_t i = 0; i < done->n; i++)
        found_done(&done->found[i]);
    free(done);
}

/* Idle for days, however its last holder left. If nobody ever had it, its token says how old it is.
 */
static bool is_prunable(const sqlite_store *store, const hf_record *record)
{
    hf_dbtime now = {session_wall_ms(store)}, then = {now.ms - IDLE_MS};
    bool was_had = record->last.outcome != HF_OUTCOME_NONE;
    return record->holders + record->queued == 0 &&
           (was_had ? record->last.at.ms < then.ms : record->token < record_floor_of(then)) &&
           period_is_over(&record->last, now) && record->token < record_floor_of(now);
}

/* Many entries that come one after another are of one session. */
static hf_code look_up(sqlite_store *store, page *to, hf_id session, hf_error *err)
{
    bool is_there;
    session_row row;
    if (to->n_entries && id_equal(to->latest.session, session))
        return HF_OK;
    hf_code code = session_find(store, session, &is_there, &row, err);
    if (code)
        return code;
    to->latest = (hf_death){.session = session};
    to->is_dead = is_there && row.state.presence == HF_DEAD;
    if (to->is_dead)
        text_who(&row.state.session, to->latest.who);
    return HF_OK;
}

static hf_code find_deaths(sqlite_store *store, page *to, found *in, hf_error *err)
{
    const hf_record *record = &in->record;
    hf_code code = HF_OK;
    for (size_t i = 0; i < record->holders + record->queued && !code; i++) {
        code = look_up(store, to, record->entries[i].session, err);
        to->n_entries++;
        bool is_known = in->n_deaths &&
                        id_equal(in->deaths[in->n_deaths - 1].session, record->entries[i].session);
        if (code || !to->is_dead || is_known)
            continue;
        in->deaths = alloc_array(in->deaths, in->n_deaths + 1, sizeof *in->deaths);
        in->deaths[in->n_deaths++] = to->latest;
    }
    return code;
}

/* A row that cannot be read is skipped. */
static hf_code read_row(sqlite_store *store, const char *name, sqlite3_stmt *row, page *to,
                        hf_error *err)
{
    found *in = &to->found[to->n];
    const void *bytes = sqlite3_column_blob(row, 1);
    size_t size = (size_t)sqlite3_column_bytes(row, 1);
    *in = (found){.n_deaths = 0};
    if (record_decode(store, name, bytes, size, &in->record, NULL))
        return HF_OK;
    in->may_go = is_prunable(store, &in->record);
    hf_code code = find_deaths(store, to, in, err);
    if (!code && (in->may_go || in->n_deaths))
        to->n++;
    else
        found_done(in);
    return code;
}

/* Copies a name that is valid and sorts after `name`; false: leaves `name` unchanged. In a damaged
 * table, a row can come twice. */
static bool read_name_behind(sqlite3_stmt *row, char name[HF_NAME_MAX + 1])
{
    bool is_text = sqlite3_column_type(row, 0) == SQLITE_TEXT;
    const char *given = (const char *)sqlite3_column_text(row, 0);
    size_t size = (size_t)sqlite3_column_bytes(row, 0);
    bool is_ours =
        is_text && given && size <= HF_NAME_MAX && strlen(given) == size && strcmp(given, name) > 0;
    if (is_ours)
        memcpy(name, given, size + 1);
    return is_ours;
}

/* The next records behind `name`, which becomes the last of them. Behind the last page comes one
 * without any, since some rows of a page may be none of ours. */
static hf_code read_page(sqlite_store *store, char name[HF_NAME_MAX + 1], page *to, hf_error *err)
{
    bool row;
    char after[HF_NAME_MAX + 1];
    sqlite3_stmt *batch;
    hf_code code = sql_ready(&store->main, SQL_RECORD_BATCH, &batch, err);
    if (code)
        return code;
    memcpy(after, name, sizeof after);
    sql_bind_text(batch, 1, after);
    code = sql_next(&store->main, batch, &row, err);
    while (!code && row && to->n_entries < ENTRIES_MOST) {
        if (read_name_behind(batch, name))
            code = read_row(store, name, batch, to, err);
        if (!code)
            code = sql_next(&store->main, batch, &row, err);
    }
    sql_reset(batch);
    to->is_last = !row && strcmp(name, after) == 0;
    return code;
}

/* ---- Records ---- */

/* In a transaction. The record's token goes into the high water, which every later token exceeds.
 */
static hf_code prune_inside(sqlite_store *store, const char *name, hf_error *err)
{
    hf_record record;
    hf_code code = record_load(store, name, &record, err);
    if (code)
        return code;
    if (record.exists && is_prunable(store, &record)) {
        sqlite3_stmt *prune;
        code = sql_ready(&store->main, SQL_RECORD_PRUNE, &prune, err);
        if (!code)
            code = tokens_raise_water(store, record.token, err);
        if (!code) {
            sql_bind_text(prune, 1, name);
            code = sql_run(&store->main, prune, err);
        }
    }
    record_done(&record);
    return code;
}

static hf_code prune(sqlite_store *store, const char *name, hf_error *err)
{
    pthread_mutex_lock(&store->main.mutex);
    hf_code code = sql_begin(&store->main, err);
    if (!code)
        code = sql_end(&store->main, prune_inside(store, name, err), err);
    pthread_mutex_unlock(&store->main.mutex);
    return code;
}

/* The turns that a part has ended, for the history. */
typedef struct ended {
    struct history_turn *turns[PAGE];
    size_t n;
} ended;

static void note_ended(ended *to, const hf_record *before, const hf_step *step,
                       const hf_last_mark *last)
{
    hf_turn_note turn;
    for (size_t i = 0; i < before->holders && to->n < PAGE; i++)
        if (history_of_taken(before, &before->entries[i], step, last, &turn))
            to->turns[to->n++] = history_copy(&turn);
}

/* The same step as a waiter's: it grants those who wait behind, and tells them. */
static hf_code take_out(sqlite_store *store, const found *in, ended *to, hf_error *err)
{
    hf_step step = {.deaths = in->deaths, .n_deaths = in->n_deaths};
    hf_step_reply reply;
    hf_record after;
    hf_code code = sqlite_step(&store->base, in->record.name, &step, &after, &reply, err);
    if (code)
        return code;
    note_ended(to, &in->record, &step, &after.last);
    record_done(&after);
    return HF_OK;
}

/* No rule depends on the history: what cannot be written is left out. */
static void write_ended(sqlite_store *store, ended *all)
{
    hf_turn_note notes[PAGE];
    for (size_t i = 0; i < all->n; i++)
        notes[i] = all->turns[i]->note;
    if (all->n)
        sqlite_history_add(&store->base, notes, all->n, NULL);
    for (size_t i = 0; i < all->n; i++)
        free(all->turns[i]);
}

static hf_code tidy(sqlite_store *store, const page *read, hf_error *err)
{
    ended all = {.n = 0};
    hf_code code = HF_OK;
    for (size_t i = 0; i < read->n && !code; i++) {
        const found *in = &read->found[i];
        code = in->may_go ? prune(store, in->record.name, err) : take_out(store, in, &all, err);
    }
    write_ended(store, &all);
    return code;
}

static hf_code sweep_records(sqlite_store *store, hf_error *err)
{
    page *read = alloc_zeroed(sizeof *read);
    pthread_mutex_lock(&store->main.mutex);
    hf_code code = read_page(store, store->sweep.name, read, err);
    pthread_mutex_unlock(&store->main.mutex);
    if (!code)
        code = tidy(store, read, err);
    if (!code && read->is_last) {
        store->sweep.part = SWEEP_MARKS;
        store->sweep.row = 0;
    }
    page_free(read);
    return code;
}

/* ---- Sessions ---- */

typedef struct old_session {
    int64_t row;
    hf_id id;
} old_session;

static hf_code forget_one(sqlite_store *store, const old_session *old, hf_error *err)
{
    bool is_free = false;
    sqlite3_stmt *forget, *asks;
    hf_code code = sql_ready(&store->main, SQL_SESSION_FORGET, &forget, err);
    if (!code)
        code = sql_ready(&store->main, SQL_ASK_FORGET, &asks, err);
    if (code)
        return code;
    code = alive_test(store->alive_path, store->tester, old->row, &is_free, err);
    if (code || !is_free)
        return code;
    sqlite3_bind_int64(forget, 1, old->row);
    code = sql_run(&store->main, forget, err);
    sql_bind_id(asks, 1, &old->id);
    if (!code)
        code = sql_run(&store->main, asks, err);
    if (!code)
        left_remove(store->path, old->row);
    return code ? code : waits_forget(&store->main, old->id, err);
}

/* The next page behind the row *after, which becomes the last of them; *n: those that can be read.
 * Without any more *after stays as it was. */
static hf_code find_old(sqlite_store *store, int64_t *after, old_session old[PAGE], size_t *n,
                        hf_error *err)
{
    bool is_there;
    sqlite3_stmt *list;
    *n = 0;
    hf_code code = sql_ready(&store->main, SQL_SESSION_OLD, &list, err);
    if (code)
        return code;
    sqlite3_bind_int64(list, 1, store->sweep.began_at - OLD_MS);
    sqlite3_bind_int64(list, 2, *after);
    code = sql_next(&store->main, list, &is_there, err);
    while (!code && is_there && *n < PAGE) {
        old[*n].row = *after = sqlite3_column_int64(list, 0);
        *n += sql_read_id(list, 1, &old[*n].id);
        code = sql_next(&store->main, list, &is_there, err);
    }
    sql_reset(list);
    return code;
}

/* The row is removed only if its byte is free, so that no byte is held for a missing row. */
static hf_code forget_some(sqlite_store *store, const old_session *old, size_t n, hf_error *err)
{
    hf_code code = sql_begin(&store->main, err);
    if (code)
        return code;
    code = boot_verify(store, err);
    for (size_t i = 0; i < n && !code; i++)
        code = forget_one(store, &old[i], err);
    return sql_end(&store->main, code, err);
}

/* Their tickets are out: a dead session gets no more of them, and this sweep has gone through all
 * records since it was marked. Before that the mark must stay: a request that only tries a lock,
 * even a year later, cannot watch a missing session. */
static hf_code sweep_marks(sqlite_store *store, hf_error *err)
{
    size_t n;
    int64_t before = store->sweep.row;
    old_session old[PAGE];
    pthread_mutex_lock(&store->main.mutex);
    hf_code code = find_old(store, &store->sweep.row, old, &n, err);
    if (!code && n)
        code = forget_some(store, old, n, err);
    pthread_mutex_unlock(&store->main.mutex);
    if (!code && store->sweep.row <= before)
        store->sweep.part = SWEEP_NONE;
    return code;
}

/* A session without a process, of another boot: only its beats can show whether it lives. */
static bool wants_watching(const session_row *row)
{
    return row->state.session.pid == 0 && !row->is_same_clock;
}

/* Those whose byte is free or that are long overdue by a clock that does not jump. Those of another
 * machine cannot be judged, and are left to people. *rows: so many were looked at. */
static hf_code find_gone(sqlite_store *store, hf_session_state *gone, size_t max, size_t *n,
                         size_t *rows, hf_error *err)
{
    bool is_there;
    session_row row;
    sqlite3_stmt *live;
    hf_code code = sql_ready(&store->main, SQL_SESSION_LIVE_BATCH, &live, err);
    if (code)
        return code;
    sqlite3_bind_int64(live, 1, store->sweep.row);
    code = sql_next(&store->main, live, &is_there, err);
    while (!code && is_there && *n < max) {
        session_read(store, live, &row);
        code = session_judge(store, &row, OVERDUE_MS, err);
        if (!code && (row.state.is_gone || wants_watching(&row)))
            gone[(*n)++] = row.state;
        store->sweep.row = row.row;
        ++*rows;
        if (!code)
            code = sql_next(&store->main, live, &is_there, err);
    }
    sql_reset(live);
    return code;
}

static hf_code sweep_gone(sqlite_store *store, hf_session_state *overdue, size_t max, size_t *n,
                          hf_error *err)
{
    size_t rows = 0;
    pthread_mutex_lock(&store->main.mutex);
    hf_code code = sql_begin_read(&store->main, err);
    if (!code) {
        code = boot_verify(store, err);
        if (!code)
            code = find_gone(store, overdue, max, n, &rows, err);
        code = sql_end(&store->main, code, err);
    }
    pthread_mutex_unlock(&store->main.mutex);
    bool is_last = rows < PAGE && (*n < max || !max);
    if (!code && is_last)
        store->sweep.part = SWEEP_RECORDS;
    return code;
}

static hf_code do_part(sqlite_store *store, hf_session_state *overdue, size_t max, size_t *n,
                       hf_error *err)
{
    switch (store->sweep.part) {
    case SWEEP_GONE:
        return sweep_gone(store, overdue, max, n, err);
    case SWEEP_RECORDS:
        return sweep_records(store, err);
    default:
        return sweep_marks(store, err);
    }
}

hf_code sqlite_sweep(hf_store *base, hf_session_state *overdue, size_t max, size_t *n, bool *more,
                     hf_error *err)
{
    sqlite_store *store = store_of(base);
    bool is_mine = false;
    *n = 0;
    *more = false;
    if (store->main.is_readonly)
        return HF_OK;
    hf_code code = sweep_take_turn(store, &is_mine, err);
    if (code || !is_mine)
        return code;
    int64_t began_ms = session_now_ms(store);
    code = do_part(store, overdue, max, n, err);
    return code ? code : sweep_keep_place(store, session_now_ms(store) - began_ms, more, err);
}
