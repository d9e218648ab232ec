/* SPDX-License-Identifier: Apache-2.0 */
/* rows.c: reads a session's row, and says whether that session is gone; called where
 * sessions are looked at, marked or swept. */
#include "core/id.h"
#include "store/sqlite/left.h"
#include "store/sqlite/sqlite_internal.h"

#include <string.h>

enum { ROW, ID, BEAT, TTL, EXPIRES, BOOT, MACHINE, CLOCK, DEAD, APP, HOST, PID, STARTED };

/* As a time from 0 on, so that arithmetic with it cannot overflow. */
static int64_t read_time(sqlite3_stmt *statement, int column)
{
    int64_t ms = sqlite3_column_int64(statement, column);
    return ms < 0 ? 0 : ms > INT64_MAX / 2 ? INT64_MAX / 2 : ms;
}

int64_t session_now_ms(const sqlite_store *store)
{
    return store->config.env->mono(store->config.env->ctx).ns / 1000000;
}

int64_t session_wall_ms(const sqlite_store *store)
{
    return store->config.env->wall(store->config.env->ctx).ms;
}

static bool is_text(sqlite3_stmt *statement, int column, const char *text)
{
    const char *found = (const char *)sqlite3_column_text(statement, column);
    return found && strcmp(found, text) == 0;
}

static bool is_machine(sqlite3_stmt *statement, const char *machine)
{
    return strcmp(machine, SQLITE_MACHINE_LOCAL) == 0 || is_text(statement, MACHINE, machine) ||
           is_text(statement, MACHINE, SQLITE_MACHINE_LOCAL);
}

void session_read(const sqlite_store *store, sqlite3_stmt *statement, session_row *out)
{
    hf_session_state *state = &out->state;
    memset(out, 0, sizeof *out);
    out->row = sqlite3_column_int64(statement, ROW);
    out->expires_at_ms = read_time(statement, EXPIRES);
    out->is_same_boot = is_text(statement, BOOT, store->place.boot);
    out->is_same_clock =
        out->is_same_boot && store->place.clock[0] && is_text(statement, CLOCK, store->place.clock);
    out->is_foreign = !out->is_same_boot && !is_machine(statement, store->place.machine);
    sql_read_id(statement, ID, &state->session.id);
    state->presence = sqlite3_column_type(statement, DEAD) == SQLITE_NULL ? HF_LIVE : HF_DEAD;
    state->beat = sqlite3_column_int64(statement, BEAT);
    state->session.ttl_ms = sqlite3_column_int(statement, TTL);
    state->session.pid = sqlite3_column_int64(statement, PID);
    state->session.started_at.ms = sqlite3_column_int64(statement, STARTED);
    sql_read_text(statement, APP, state->session.app, sizeof state->session.app);
    sql_read_text(statement, HOST, state->session.host, sizeof state->session.host);
    if (out->is_same_clock)
        state->lease_left_ms = out->expires_at_ms - session_now_ms(store);
}

hf_code session_find(sqlite_store *store, hf_id id, bool *found, session_row *out, hf_error *err)
{
    sqlite3_stmt *get;
    hf_code code = sql_ready(&store->main, SQL_SESSION_GET, &get, err);
    if (code)
        return code;
    sql_bind_id(get, 1, &id);
    code = sql_next(&store->main, get, found, err);
    if (*found)
        session_read(store, get, out);
    sql_reset(get);
    return code;
}

hf_code session_read_asks(sql *conn, hf_session_state *state, hf_error *err)
{
    bool found = true;
    state->n_asked = 0;
    sqlite3_stmt *list;
    hf_code code = sql_ready(conn, SQL_ASK_LIST, &list, err);
    if (code)
        return code;
    sql_bind_id(list, 1, &state->session.id);
    code = sql_next(conn, list, &found, err);
    while (!code && found && state->n_asked < HF_ASKS_MAX) {
        hf_ask *ask = &state->asked[state->n_asked];
        if (sql_read_id(list, 0, &ask->ticket))
            state->n_asked++;
        sql_read_text(list, 1, ask->by, sizeof ask->by);
        sql_read_text(list, 2, ask->reason, sizeof ask->reason);
        code = sql_next(conn, list, &found, err);
    }
    sql_reset(list);
    return code;
}

/* A free byte means dead (R10), unless the process has left others behind: it is gone, or its boot
 * is. They and a locked byte prove nothing, and some sessions have no process. Then CLOCK_BOOTTIME
 * decides, which does not jump, if the session used the same clock and the caller trusts clocks.
 * Nothing is known about sessions of another machine. */
hf_code session_judge(const sqlite_store *store, session_row *row, int64_t clock_trust_ms,
                      hf_error *err)
{
    bool is_free = false;
    hf_session_state *state = &row->state;
    if (state->presence != HF_LIVE || row->is_foreign || store->tester < 0)
        return HF_OK;
    bool has_byte = state->session.pid != 0;
    hf_code code =
        has_byte ? alive_test(store->alive_path, store->tester, row->row, &is_free, err) : HF_OK;
    if (!code && is_free)
        code = left_test(store->path, row->row, &row->is_left, err);
    bool is_overdue =
        row->is_same_clock && clock_trust_ms >= 0 && -state->lease_left_ms > clock_trust_ms;
    state->is_gone = !code && ((is_free && !row->is_left) || is_overdue);
    return code;
}
