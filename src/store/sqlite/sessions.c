/* SPDX-License-Identifier: Apache-2.0 */
/* sessions.c: begins, beats, marks and ends sessions, shows their state and passes asks on; called
 * by the client through the table of operations. */
#include "core/alloc.h"
#include "core/error.h"
#include "core/id.h"
#include "core/lease.h"
#include "store/sqlite/left.h"
#include "store/sqlite/sqlite_internal.h"
#include "sync/mutex_scope.h"

bool session_has_moved(const sqlite_store *store, const sql *conn, hf_error *err)
{
    int moved = 0;
    if (sqlite3_file_control(conn->db, "main", SQLITE_FCNTL_HAS_MOVED, &moved) || !moved)
        return false;
    error_set(err, HF_UNUSABLE,
              "%s was removed or replaced while in use: others do not see the locks in it; put it "
              "back, or end all that use it",
              store->path);
    return true;
}

/* ---- Begin and end ---- */

static hf_code insert(sqlite_store *store, const hf_session *self, hf_error *err)
{
    const sqlite_place *place = &store->place;
    sqlite3_stmt *new;
    hf_code code = sql_ready(&store->main, SQL_SESSION_NEW, &new, err);
    if (code)
        return code;
    sql_bind_id(new, 1, &self->id);
    sqlite3_bind_int(new, 2, self->ttl_ms);
    sqlite3_bind_int64(new, 3, session_now_ms(store) + self->ttl_ms);
    sql_bind_text(new, 4, place->boot);
    sql_bind_text(new, 5, place->machine);
    sql_bind_text(new, 6, place->clock);
    sql_bind_text(new, 7, self->app);
    sql_bind_text(new, 8, self->host);
    sqlite3_bind_int64(new, 9, self->pid);
    sqlite3_bind_int64(new, 10, self->started_at.ms);
    code = sql_run(&store->main, new, err);
    if (code || sqlite3_changes(store->main.db) > 0)
        return code;
    return error_set(err, HF_HELD, "a session of this id has begun before");
}

/* The byte is locked before the row can be seen: both inside the transaction that inserts it (R10).
 * A row id is reused only after a loss of power, which also frees every byte, or after a failed
 * commit. In that case the byte is freed right afterwards; a session that comes in between tries
 * again. */
/* hold NULL: it takes none. */
static hf_code begin(sqlite_store *store, const hf_session *self, alive_hold *hold, hf_error *err)
{
    if (session_has_moved(store, &store->main, err))
        return HF_UNUSABLE;
    hf_code code = sql_begin(&store->main, err);
    if (code)
        return code;
    code = boot_verify(store, err);
    if (!code)
        code = insert(store, self, err);
    int64_t row = sqlite3_last_insert_rowid(store->main.db);
    if (!code && hold)
        code = alive_take(store->alive_path, &store->alive, row, hold, err);
    bool is_held = !code && hold;
    code = sql_end(&store->main, code, err);
    if (code && is_held)
        alive_let_go(hold);
    return code;
}

static hf_code begin_alone(sqlite_store *store, const hf_session *self, alive_hold *hold,
                           hf_error *err)
{
    MUTEX_SCOPE(&store->main.mutex);
    return begin(store, self, hold, err);
}

hf_code sqlite_session_begin(hf_store *base, const hf_session *self, hf_error *err)
{
    sqlite_store *store = store_of(base);
    if (self->pid == 0)
        return begin_alone(store, self, NULL, err);
    sqlite_own *own = alloc_zeroed(sizeof *own);
    own->id = self->id;
    hf_code code = begin_alone(store, self, &own->hold, err);
    if (code) {
        free(own);
        return code;
    }
    own->notice_fd = notice_bind(store, self->id); /* before its first enter */
    own_add(store, own);
    return HF_OK;
}

static hf_code mark(sqlite_store *store, hf_id id, hf_error *err)
{
    sqlite3_stmt *set, *forget;
    hf_code code = sql_ready(&store->main, SQL_SESSION_MARK, &set, err);
    if (!code)
        code = sql_ready(&store->main, SQL_ASK_FORGET, &forget, err);
    if (code)
        return code;
    sql_bind_id(set, 1, &id);
    sqlite3_bind_int64(set, 2, session_wall_ms(store));
    code = sql_run(&store->main, set, err);
    if (code)
        return code;
    sql_bind_id(forget, 1, &id);
    code = sql_run(&store->main, forget, err);
    return code ? code : waits_forget(&store->main, id, err);
}

/* Frees the byte after the mark, or without a mark if that cannot be written: a free byte says that
 * the session is over, which is true. */
hf_code sqlite_session_end(hf_store *base, hf_id id, bool leaves_any, hf_error *err)
{
    sqlite_store *store = store_of(base);
    (void)leaves_any; /* the sweep looks for itself */
    pthread_mutex_lock(&store->main.mutex);
    hf_code code = sql_begin(&store->main, err);
    if (!code)
        code = sql_end(&store->main, mark(store, id, err), err);
    pthread_mutex_unlock(&store->main.mutex);
    own_remove(store, id);
    return code;
}

/* ---- Beat: on a connection of its own ---- */

static hf_code raise_beat(sqlite_store *store, hf_id id, hf_error *err)
{
    char text[ID_TEXT_SIZE];
    sqlite3_stmt *beat;
    if (session_has_moved(store, &store->beats, err))
        return err->code = HF_LOST;
    hf_code code = sql_ready(&store->beats, SQL_SESSION_BEAT, &beat, err);
    if (code)
        return code;
    sql_bind_id(beat, 1, &id);
    sqlite3_bind_int64(beat, 2, session_now_ms(store));
    sql_bind_text(beat, 3, store->place.boot); /* by whose clock: anybody renews an ID lease */
    sql_bind_text(beat, 4, store->place.clock);
    code = sql_run(&store->beats, beat, err);
    if (code || sqlite3_changes(store->beats.db))
        return code;
    id_write(id, text);
    return error_set(err, HF_LOST, "session %s is missing or marked dead in %s", text, store->path);
}

static hf_code drop_answered(sqlite_store *store, hf_id id, const hf_id *answered, size_t n,
                             hf_error *err)
{
    hf_code code = HF_OK;
    for (size_t i = 0; i < n && !code; i++) {
        sqlite3_stmt *answer;
        code = sql_ready(&store->beats, SQL_ASK_ANSWER, &answer, err);
        if (code)
            return code;
        sql_bind_id(answer, 1, &id);
        sql_bind_id(answer, 2, &answered[i]);
        code = sql_run(&store->beats, answer, err);
    }
    return code;
}

static hf_code read_back(sqlite_store *store, hf_id id, hf_session_state *out, hf_error *err)
{
    bool found;
    session_row row;
    sqlite3_stmt *get;
    hf_code code = sql_ready(&store->beats, SQL_SESSION_GET, &get, err);
    if (code)
        return code;
    sql_bind_id(get, 1, &id);
    code = sql_next(&store->beats, get, &found, err);
    if (code)
        return code;
    session_read(store, get, &row);
    sql_reset(get);
    *out = row.state;
    return session_read_asks(&store->beats, out, err);
}

/* *log_pages: how long the log is now. */
static hf_code beat(sqlite_store *store, hf_id id, const hf_beat *says, hf_session_state *out,
                    int *log_pages, hf_error *err)
{
    MUTEX_SCOPE(&store->beats.mutex);
    sql_take_turns(&store->beats, says->holds_nothing ? &store->tester : NULL);
    hf_code code = sql_begin(&store->beats, err);
    if (code)
        return code;
    code = raise_beat(store, id, err);
    if (!code)
        code = drop_answered(store, id, says->answered, says->n_answered, err);
    if (!code)
        code = waits_keep(store, id, says, err);
    if (!code)
        code = read_back(store, id, out, err);
    code = sql_end(&store->beats, code, err);
    *log_pages = store->beats.log_pages;
    return code;
}

/* A service with many ID leases writes little else than their beats. Who renews one has time for
 * the disk; the beat of a process has not. */
hf_code sqlite_session_beat(hf_store *base, hf_id id, const hf_beat *says, hf_session_state *out,
                            hf_error *err)
{
    sqlite_store *store = store_of(base);
    int log_pages;
    hf_code code = beat(store, id, says, out, &log_pages, err);
    if (code || out->session.pid)
        return code;
    MUTEX_SCOPE(&store->main.mutex);
    sql_see_log(&store->main, log_pages);
    return HF_OK;
}

/* ---- Others' sessions ---- */

static hf_code refuse_foreign(const sqlite_store *store, const session_row *row, hf_error *err)
{
    char text[ID_TEXT_SIZE];
    id_write(row->state.session.id, text);
    return error_set(err, HF_UNUSABLE,
                     "%s: session %s (%.60s@%.60s) runs on another machine, where "
                     "kernel locks don't reach: use a MongoDB store for several machines; if that "
                     "one is gone: sqlite3 DATABASE \"DELETE FROM sessions WHERE id = x'%s'\"",
                     store->path, text, row->state.session.app, row->state.session.host, text);
}

/* Whether the session is still as it was seen. Its byte is tested here, inside the transaction that
 * marks it dead; a free byte stays free. Otherwise an unchanged beat confirms the verdict of a
 * watch or of the clock; after a verdict of the clock, it must still be overdue by the clock now.
 */
static hf_code confirm(sqlite_store *store, const hf_session_state *seen, session_row *row,
                       hf_error *err)
{
    hf_code code = boot_verify(store, err);
    if (!code)
        code = session_judge(store, row, -1, err);
    if (code || row->state.is_gone)
        return code;
    bool is_overdue = row->is_same_clock && row->state.lease_left_ms < 0;
    bool is_same = row->state.beat == seen->beat;
    if (is_same && (!seen->is_gone || is_overdue))
        return HF_OK;
    return error_set(err, HF_HELD, "the session lives");
}

static hf_code mark_seen(sqlite_store *store, const hf_session_state *seen, hf_error *err)
{
    bool found;
    session_row row;
    hf_code code = session_find(store, seen->session.id, &found, &row, err);
    if (code)
        return code;
    if (!found)
        return error_set(err, HF_NOT_FOUND, "the session is missing");
    if (row.state.presence == HF_DEAD)
        return HF_OK;
    if (row.is_foreign)
        return refuse_foreign(store, &row, err);
    code = confirm(store, seen, &row, err);
    if (!code)
        code = mark(store, seen->session.id, err);
    if (!code)
        left_remove(store->path, row.row);
    return code;
}

hf_code sqlite_session_mark(hf_store *base, const hf_session_state *seen, hf_error *err)
{
    sqlite_store *store = store_of(base);
    MUTEX_SCOPE(&store->main.mutex);
    hf_code code = sql_begin(&store->main, err);
    return code ? code : sql_end(&store->main, mark_seen(store, seen, err), err);
}

static hf_code look_at(sqlite_store *store, hf_id id, int64_t clock_trust_ms,
                       hf_session_state *state, hf_error *err)
{
    bool found;
    session_row row;
    hf_code code = session_find(store, id, &found, &row, err);
    const hf_session *self = &row.state.session;
    if (!code && found)
        code = session_judge(store, &row, lease_trust_ms(self->pid, self->ttl_ms, clock_trust_ms),
                             err);
    if (code)
        return code;
    if (!found) {
        *state = (hf_session_state){.session.id = id, .presence = HF_MISSING};
        return HF_OK;
    }
    *state = row.state;
    if (state->presence == HF_LIVE && !state->is_gone && state->session.pid) {
        notice_watch_row(store, row.row);
        if (row.is_left)
            notice_see_left(store);
    }
    return session_read_asks(&store->main, state, err);
}

hf_code sqlite_sessions_look(hf_store *base, const hf_id *ids, size_t n, int64_t clock_trust_ms,
                             hf_session_state *states, hf_error *err)
{
    sqlite_store *store = store_of(base);
    MUTEX_SCOPE(&store->main.mutex);
    hf_code code = sql_begin_read(&store->main, err);
    if (code)
        return code;
    code = store->main.is_readonly ? HF_OK : boot_verify(store, err);
    for (size_t i = 0; i < n && !code; i++)
        code = look_at(store, ids[i], clock_trust_ms, &states[i], err);
    return sql_end(&store->main, code, err);
}

static hf_code fail_of_order(const sqlite_store *store, hf_error *err)
{
    return error_set(err, HF_UNUSABLE,
                     "%s: is damaged (the sessions are out of order): stop all its users, then "
                     "restore or remove it",
                     store->path);
}

/* The next sessions after one: page by page, so that no mutex is held while the client is called.
 */
static hf_code next_after(sqlite_store *store, int64_t after, bool *found, session_row *row,
                          hf_error *err)
{
    sqlite3_stmt *next;
    hf_code code = sql_ready(&store->main, SQL_SESSION_NEXT, &next, err);
    if (code)
        return code;
    sqlite3_bind_int64(next, 1, after);
    code = sql_next(&store->main, next, found, err);
    if (*found)
        session_read(store, next, row);
    sql_reset(next);
    if (!code && *found && row->row <= after)
        code = fail_of_order(store, err);
    if (!code && *found && boot_verify(store, NULL) == HF_OK)
        code = session_judge(store, row, -1, err);
    return code;
}

hf_code sqlite_list_sessions(hf_store *base, hf_state_fn each, void *ctx, hf_error *err)
{
    sqlite_store *store = store_of(base);
    session_row row = {.row = 0};
    bool found = true;
    hf_code code = HF_OK;
    while (!code && found) {
        pthread_mutex_lock(&store->main.mutex);
        code = next_after(store, row.row, &found, &row, err);
        pthread_mutex_unlock(&store->main.mutex);
        if (!code && found && !each(ctx, &row.state))
            break;
    }
    return code;
}

/* ---- Ask ---- */

static hf_code has_room(sqlite_store *store, hf_id session, const hf_ask *ask, hf_error *err)
{
    bool found;
    sqlite3_stmt *count;
    hf_code code = sql_ready(&store->main, SQL_ASK_COUNT, &count, err);
    if (code)
        return code;
    sql_bind_id(count, 1, &session);
    sql_bind_id(count, 2, &ask->ticket);
    code = sql_next(&store->main, count, &found, err);
    bool is_full =
        found && sqlite3_column_int(count, 0) >= HF_ASKS_MAX && !sqlite3_column_int(count, 1);
    sql_reset(count);
    if (code || !is_full)
        return code;
    return error_set(err, HF_FULL,
                     "the session has %d asks open already: wait until it has answered "
                     "some",
                     HF_ASKS_MAX);
}

static hf_code put_ask(sqlite_store *store, hf_id session, const hf_ask *ask, hf_error *err)
{
    bool found;
    session_row row;
    sqlite3_stmt *set;
    hf_code code = session_find(store, session, &found, &row, err);
    if (!code && (!found || row.state.presence != HF_LIVE))
        return error_set(err, HF_NOT_FOUND, "the session is missing or dead");
    if (!code)
        code = has_room(store, session, ask, err);
    if (!code)
        code = sql_ready(&store->main, SQL_ASK_SET, &set, err);
    if (code)
        return code;
    sql_bind_id(set, 1, &session);
    sql_bind_id(set, 2, &ask->ticket);
    sql_bind_text(set, 3, ask->by);
    sql_bind_text(set, 4, ask->reason);
    return sql_run(&store->main, set, err);
}

hf_code sqlite_ask(hf_store *base, hf_id session, const hf_ask *ask, hf_error *err)
{
    sqlite_store *store = store_of(base);
    MUTEX_SCOPE(&store->main.mutex);
    hf_code code = sql_begin(&store->main, err);
    return code ? code : sql_end(&store->main, put_ask(store, session, ask, err), err);
}
