/* SPDX-License-Identifier: Apache-2.0 */
/* sweep_turn.c: decides who does the next part of the sweep, and keeps how far it has come, in the
 * table `meta`: so each client goes on where the last one stopped. Called by sweep.c. */
#include "core/sweep.h"
#include "store/sqlite/sqlite_internal.h"
#include "store/sqlite/sweep.h"
#include "sync/mutex_scope.h"

#include <string.h>

#define HOUR_MS ((int64_t)3600 * 1000)

/* ---- The table ---- */

/* A name may look like a number, which this column would keep as one; so it is kept as bytes. */
static hf_code load_name(sql *conn, char name[HF_NAME_MAX + 1], hf_error *err)
{
    bool found;
    sqlite3_stmt *get;
    hf_code code = sql_ready(conn, SQL_META_GET, &get, err);
    if (code)
        return code;
    name[0] = '\0';
    sql_bind_text(get, 1, "sweep_name");
    code = sql_next(conn, get, &found, err);
    if (found)
        sql_read_text(get, 0, name, HF_NAME_MAX + 1);
    sql_reset(get);
    return code;
}

static hf_code save_name(sql *conn, const char *name, hf_error *err)
{
    sqlite3_stmt *set;
    hf_code code = sql_ready(conn, SQL_META_SET, &set, err);
    if (code)
        return code;
    sql_bind_text(set, 1, "sweep_name");
    sqlite3_bind_blob(set, 2, name, (int)strlen(name), SQLITE_STATIC);
    return sql_run(conn, set, err);
}

/* Programs before 1.1 know only `swept_at`, and leave the hour after it to others. */
static hf_code load(sqlite_store *store, sqlite_sweeping *out, hf_error *err)
{
    sql *conn = &store->main;
    hf_code code = schema_meta_get(conn, "swept_at", &out->began_at, err);
    if (!code)
        code = schema_meta_get(conn, "sweep_part", &out->part, err);
    if (!code)
        code = schema_meta_get(conn, "sweep_by", &out->by, err);
    if (!code)
        code = schema_meta_get(conn, "sweep_until", &out->until, err);
    if (!code)
        code = schema_meta_get(conn, "sweep_row", &out->row, err);
    return code ? code : load_name(conn, out->name, err);
}

static hf_code save(sqlite_store *store, const sqlite_sweeping *sweep, hf_error *err)
{
    sql *conn = &store->main;
    hf_code code = schema_meta_set(conn, "swept_at", sweep->began_at, err);
    if (!code)
        code = schema_meta_set(conn, "sweep_part", sweep->part, err);
    if (!code)
        code = schema_meta_set(conn, "sweep_by", sweep->by, err);
    if (!code)
        code = schema_meta_set(conn, "sweep_until", sweep->until, err);
    if (!code)
        code = schema_meta_set(conn, "sweep_row", sweep->row, err);
    return code ? code : save_name(conn, sweep->name, err);
}

/* ---- Whose turn it is ---- */

/* A clock that was set back stops nothing for long. */
static bool is_under_way(const sqlite_sweeping *sweep, int64_t now)
{
    return sweep->part > SWEEP_NONE && sweep->part <= SWEEP_LAST && sweep->began_at <= now;
}

static bool is_due(const sqlite_sweeping *sweep, int64_t now)
{
    return is_under_way(sweep, now) || sweep->began_at > now || sweep->began_at < now - HOUR_MS;
}

static bool is_busy(const sqlite_sweeping *sweep, int64_t now)
{
    return sweep->until > now && sweep->until <= now + SWEEP_TURN_MS;
}

static int64_t own_number(sqlite_store *store)
{
    const hf_env *env = store->config.env;
    while (store->sweeper <= 0) {
        env->random(env->ctx, &store->sweeper, sizeof store->sweeper);
        store->sweeper &= INT64_MAX;
    }
    return store->sweeper;
}

static hf_code take_inside(sqlite_store *store, int64_t now, bool *is_mine, hf_error *err)
{
    sqlite_sweeping *sweep = &store->sweep;
    hf_code code = load(store, sweep, err);
    if (!code && is_due(sweep, now) && is_busy(sweep, now))
        return sweep_is_anothers(err);
    *is_mine = !code && is_due(sweep, now);
    if (!*is_mine)
        return code;
    if (!is_under_way(sweep, now))
        *sweep = (sqlite_sweeping){.part = SWEEP_FIRST, .began_at = now};
    sweep->by = own_number(store);
    sweep->until = now + SWEEP_TURN_MS;
    return save(store, sweep, err);
}

hf_code sweep_take_turn(sqlite_store *store, bool *is_mine, hf_error *err)
{
    int64_t now = session_wall_ms(store);
    MUTEX_SCOPE(&store->main.mutex);
    hf_code code = load(store, &store->sweep, err); /* mostly, there is nothing to do */
    bool is_own = store->sweep.by == own_number(store) && is_busy(&store->sweep, now);
    *is_mine = !code && is_own && is_under_way(&store->sweep, now);
    if (code || *is_mine || !is_due(&store->sweep, now))
        return code;
    if (is_busy(&store->sweep, now))
        return sweep_is_anothers(err);
    code = sql_begin(&store->main, err);
    if (!code)
        code = sql_end(&store->main, take_inside(store, now, is_mine, err), err);
    *is_mine = *is_mine && !code;
    return code;
}

static hf_code keep_inside(sqlite_store *store, bool *is_mine, hf_error *err)
{
    sqlite_sweeping now;
    hf_code code = load(store, &now, err);
    *is_mine = !code && now.by == store->sweep.by && now.began_at == store->sweep.began_at;
    return *is_mine ? save(store, &store->sweep, err) : code;
}

hf_code sweep_keep_place(sqlite_store *store, int64_t took_ms, bool *more, hf_error *err)
{
    sqlite_sweeping *sweep = &store->sweep;
    bool is_mine = false;
    MUTEX_SCOPE(&store->main.mutex);
    sweep->until = sweep->part ? session_wall_ms(store) + sweep_kept_ms(took_ms) : 0;
    hf_code code = sql_begin(&store->main, err);
    if (!code)
        code = sql_end(&store->main, keep_inside(store, &is_mine, err), err);
    *more = !code && is_mine && sweep->part != SWEEP_NONE;
    return code || is_mine ? code : sweep_is_anothers(err);
}
