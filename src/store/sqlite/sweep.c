/* SPDX-License-Identifier: Apache-2.0 */
/* sweep.c: removes what nobody needs any more: records that have been idle for days, and sessions
 * that were marked dead long ago. Also names sessions that should be marked. Called by the client
 * at its start and every hour, part by part: no part reads or writes more than a hundred rows or
 * so, and other calls come in between. */
#include "core/alloc.h"
#include "core/period.h"
#include "core/record.h"
#include "store/sqlite/sqlite_internal.h"

#include <stdio.h>
#include <string.h>

#define HOUR_MS ((int64_t)3600 * 1000)
#define DAY_MS (24 * HOUR_MS)
#define IDLE_MS (3 * DAY_MS) /* a record: since its last release */
#define OLD_MS HOUR_MS       /* a session: since it was marked dead */

#define PRUNES_MOST 16 /* in one part: each is a transaction of its own */

enum { PART_FIRST, PART_RECORDS, PART_SESSIONS };

static int compare_ids(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(hf_id));
}

static void note_standing(sqlite_sweeping *noted, const hf_record *record)
{
    size_t n = record->holders + record->queued;
    noted->sessions = alloc_array(noted->sessions, noted->n + n, sizeof *noted->sessions);
    for (size_t i = 0; i < n; i++)
        noted->sessions[noted->n++] = record->entries[i].session;
}

/* ---- Records ---- */

static bool is_prunable(const sqlite_store *store, const hf_record *record)
{
    hf_dbtime now = {session_wall_ms(store)};
    return record->holders + record->queued == 0 && record->last.outcome == HF_OUTCOME_RELEASED &&
           record->last.at.ms < now.ms - IDLE_MS && period_is_over(&record->last, now) &&
           record->token < record_floor_of(now);
}

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
    hf_code code = sql_begin(&store->main, err);
    return code ? code : sql_end(&store->main, prune_inside(store, name, err), err);
}

/* Copies a name that is valid and sorts after `name`; false: leaves `name` unchanged. In a damaged
 * table, a row can come twice. */
static bool read_name_behind(sqlite3_stmt *row, char name[HF_NAME_MAX + 1])
{
    bool is_text = sqlite3_column_type(row, 0) == SQLITE_TEXT;
    const char *found = (const char *)sqlite3_column_text(row, 0);
    size_t size = (size_t)sqlite3_column_bytes(row, 0);
    bool is_ours =
        is_text && found && size <= HF_NAME_MAX && strlen(found) == size && strcmp(found, name) > 0;
    if (is_ours)
        memcpy(name, found, size + 1);
    return is_ours;
}

static bool may_go(const sqlite_store *store, const char *name, sqlite3_stmt *row,
                   sqlite_sweeping *noted)
{
    hf_record record;
    const void *bytes = sqlite3_column_blob(row, 1);
    size_t size = (size_t)sqlite3_column_bytes(row, 1);
    if (record_decode(store, name, bytes, size, &record, NULL))
        return false;
    bool may = is_prunable(store, &record);
    note_standing(noted, &record);
    record_done(&record);
    return may;
}

/* The next name behind `name` whose record may go, out of up to 100; *more: there may be others. A
 * row that cannot be read is skipped. */
static hf_code find_prunable(sqlite_store *store, char name[HF_NAME_MAX + 1],
                             sqlite_sweeping *noted, bool *is_found, bool *more, hf_error *err)
{
    bool row;
    char after[HF_NAME_MAX + 1];
    sqlite3_stmt *batch;
    *is_found = *more = false;
    hf_code code = sql_ready(&store->main, SQL_RECORD_BATCH, &batch, err);
    if (code)
        return code;
    snprintf(after, sizeof after, "%s", name);
    sql_bind_text(batch, 1, after);
    code = sql_next(&store->main, batch, &row, err);
    while (!code && row && !*is_found) {
        if (read_name_behind(batch, name)) {
            *more = true;
            *is_found = may_go(store, name, batch, noted);
        }
        if (!*is_found)
            code = sql_next(&store->main, batch, &row, err);
    }
    sql_reset(batch);
    return code;
}

static hf_code prune_some(sqlite_store *store, hf_error *err)
{
    sqlite_sweeping *sweep = &store->sweep;
    bool is_found = true, more = true;
    hf_code code = HF_OK;
    pthread_mutex_lock(&store->main.mutex);
    for (int i = 0; i < PRUNES_MOST && is_found && !code; i++) {
        code = find_prunable(store, sweep->name, sweep, &is_found, &more, err);
        if (!code && is_found)
            code = prune(store, sweep->name, err);
    }
    pthread_mutex_unlock(&store->main.mutex);
    if (more || code)
        return code;
    if (sweep->n)
        qsort(sweep->sessions, sweep->n, sizeof *sweep->sessions, compare_ids);
    sweep->part = PART_SESSIONS;
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
    return code ? code : waits_forget(&store->main, old->id, err);
}

/* The next 100 behind the row *after, which becomes the last of them; *n: those that can be read.
 * Without any more *after stays as it was. */
static hf_code find_old(sqlite_store *store, int64_t *after, old_session old[100], size_t *n,
                        hf_error *err)
{
    bool found;
    sqlite3_stmt *list;
    *n = 0;
    hf_code code = sql_ready(&store->main, SQL_SESSION_OLD, &list, err);
    if (code)
        return code;
    sqlite3_bind_int64(list, 1, session_wall_ms(store) - OLD_MS);
    sqlite3_bind_int64(list, 2, *after);
    code = sql_next(&store->main, list, &found, err);
    while (!code && found && *n < 100) {
        old[*n].row = *after = sqlite3_column_int64(list, 0);
        *n += sql_read_id(list, 1, &old[*n].id);
        code = sql_next(&store->main, list, &found, err);
    }
    sql_reset(list);
    return code;
}

static bool stands(const sqlite_sweeping *noted, const old_session *old)
{
    return noted->n && bsearch(&old->id, noted->sessions, noted->n, sizeof old->id, compare_ids);
}

/* The row is removed only if its byte is free, so that no byte is held for a missing row. */
static hf_code forget_some(sqlite_store *store, const sqlite_sweeping *noted,
                           const old_session *old, size_t n, hf_error *err)
{
    hf_code code = sql_begin(&store->main, err);
    if (code)
        return code;
    code = boot_verify(store, err);
    for (size_t i = 0; i < n && !code; i++)
        if (!stands(noted, &old[i]))
            code = forget_one(store, &old[i], err);
    return sql_end(&store->main, code, err);
}

/* A dead session gets no more tickets. *more: there may be others. */
static hf_code forget_page(sqlite_store *store, bool *more, hf_error *err)
{
    size_t n;
    int64_t before = store->sweep.after;
    old_session old[100];
    pthread_mutex_lock(&store->main.mutex);
    hf_code code = find_old(store, &store->sweep.after, old, &n, err);
    if (!code && n)
        code = forget_some(store, &store->sweep, old, n, err);
    pthread_mutex_unlock(&store->main.mutex);
    *more = store->sweep.after > before;
    return code;
}

/* A session without a process, of another boot: only its beats can show whether it lives. */
static bool wants_watching(const session_row *row)
{
    return row->state.session.pid == 0 && !row->is_same_clock;
}

/* Those whose byte is free or that are a day overdue by a clock that does not jump. Those of
 * another machine cannot be judged, and are left to people. */
static hf_code find_gone(sqlite_store *store, hf_session_state *gone, size_t max, size_t *n,
                         hf_error *err)
{
    bool found;
    session_row row;
    sqlite3_stmt *live;
    hf_code code = sql_ready(&store->main, SQL_SESSION_LIVE, &live, err);
    if (code)
        return code;
    code = sql_next(&store->main, live, &found, err);
    while (!code && found && *n < max) {
        session_read(store, live, &row);
        code = session_judge(store, &row, DAY_MS, err);
        if (!code && (row.state.is_gone || wants_watching(&row)))
            gone[(*n)++] = row.state;
        if (!code)
            code = sql_next(&store->main, live, &found, err);
    }
    sql_reset(live);
    return code;
}

static hf_code sweep_sessions(sqlite_store *store, hf_session_state *gone, size_t max, size_t *n,
                              hf_error *err)
{
    hf_code code = sql_begin_read(&store->main, err);
    if (code)
        return code;
    code = boot_verify(store, err);
    if (!code)
        code = find_gone(store, gone, max, n, err);
    return sql_end(&store->main, code, err);
}

/* Once an hour, the first client does this for all, because it reads every record. */
static hf_code claim(sqlite_store *store, bool *is_mine, hf_error *err)
{
    int64_t swept_at, now = session_wall_ms(store);
    hf_code code = schema_meta_get(&store->main, "swept_at", &swept_at, err);
    *is_mine = !code && (swept_at > now || swept_at < now - HOUR_MS);
    if (!*is_mine)
        return code;
    code = sql_begin(&store->main, err);
    return code ? code
                : sql_end(&store->main, schema_meta_set(&store->main, "swept_at", now, err), err);
}

static hf_code begin(sqlite_store *store, hf_session_state *overdue, size_t max, size_t *n,
                     hf_error *err)
{
    bool is_mine = false;
    pthread_mutex_lock(&store->main.mutex);
    hf_code code = sweep_sessions(store, overdue, max, n, err);
    if (!code)
        code = claim(store, &is_mine, err);
    pthread_mutex_unlock(&store->main.mutex);
    if (is_mine)
        store->sweep.part = PART_RECORDS;
    return code;
}

void sqlite_sweep_done(sqlite_store *store)
{
    free(store->sweep.sessions);
    store->sweep = (sqlite_sweeping){.part = PART_FIRST};
}

hf_code sqlite_sweep(hf_store *base, hf_session_state *overdue, size_t max, size_t *n, bool *more,
                     hf_error *err)
{
    sqlite_store *store = store_of(base);
    hf_code code = HF_OK;
    *n = 0;
    *more = false;
    if (store->main.is_readonly)
        return HF_OK;
    switch (store->sweep.part) {
    case PART_FIRST:
        code = begin(store, overdue, max, n, err);
        *more = store->sweep.part != PART_FIRST;
        break;
    case PART_RECORDS:
        code = prune_some(store, err);
        *more = true;
        break;
    case PART_SESSIONS:
        code = forget_page(store, more, err);
        break;
    }
    *more = *more && !code;
    if (!*more)
        sqlite_sweep_done(store);
    return code;
}
