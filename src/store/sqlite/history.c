/* SPDX-License-Identifier: Apache-2.0 */
/* history.c: keeps the last turns that have ended, in a table that the first of them makes. It is
 * no part of the schema: programs that do not know it use the database as before. sqlite.c lists
 * its functions. */
#include "core/history.h"
#include "core/id.h"
#include "store/sqlite/sqlite_internal.h"

#define TURNS_MOST 100000
#define AGE_MOST_MS ((int64_t)7 * 86400000)

static const char *const made[] = {"CREATE TABLE IF NOT EXISTS " SCHEMA_HISTORY,
                                   "CREATE INDEX IF NOT EXISTS " SCHEMA_HISTORY_INDEX};

/* ---- Adding ---- */

static void bind_turn(sqlite3_stmt *add, const hf_turn_note *turn)
{
    sql_bind_id(add, 1, &turn->ticket);
    sqlite3_bind_int64(add, 2, history_number(turn));
    sqlite3_bind_int(add, 3, turn->is_block);
    sql_bind_text(add, 4, turn->name);
    sql_bind_id(add, 5, &turn->session);
    sql_bind_text(add, 6, turn->who);
    sql_bind_text(add, 7, turn->actor);
    sql_bind_text(add, 8, turn->why);
    sqlite3_bind_int(add, 9, turn->permits);
    sqlite3_bind_int(add, 10, turn->limit);
    sqlite3_bind_int64(add, 11, turn->token);
    sqlite3_bind_int64(add, 12, turn->granted_at.ms);
    sqlite3_bind_int64(add, 13, turn->ended_at.ms);
    sql_bind_text(add, 14, history_end_text(turn->end));
    sql_bind_text(add, 15, turn->reason);
    if (turn->has_exit_status)
        sqlite3_bind_int(add, 16, turn->exit_status);
    else
        sqlite3_bind_null(add, 16);
    sqlite3_bind_int64(add, 17, turn->more);
}

static hf_code add_turn(sql *conn, const hf_turn_note *turn, hf_error *err)
{
    sqlite3_stmt *add;
    hf_code code = sql_ready(conn, SQL_TURN_NEW, &add, err);
    if (code)
        return code;
    bind_turn(add, turn);
    return sql_run(conn, add, err);
}

/* Looks at some of the oldest: twice as many as came. */
static hf_code prune(sqlite_store *store, size_t came, hf_error *err)
{
    sqlite3_stmt *prune;
    hf_code code = sql_ready(&store->main, SQL_TURN_PRUNE, &prune, err);
    if (code)
        return code;
    sqlite3_bind_int64(prune, 1, (int64_t)(2 * came));
    sqlite3_bind_int64(prune, 2, TURNS_MOST);
    sqlite3_bind_int64(prune, 3, session_wall_ms(store) - AGE_MOST_MS);
    return sql_run(&store->main, prune, err);
}

static hf_code add_all(sqlite_store *store, const hf_turn_note *turns, size_t n, hf_error *err)
{
    sql *conn = &store->main;
    hf_code code = HF_OK;
    for (size_t i = 0; i < sizeof made / sizeof *made && !code; i++)
        code = sql_exec(conn, made[i], NULL, err);
    for (size_t i = 0; i < n && !code; i++)
        code = add_turn(conn, &turns[i], err);
    return code ? code : prune(store, n, err);
}

hf_code sqlite_history_add(hf_store *base, const hf_turn_note *turns, size_t n, hf_error *err)
{
    sqlite_store *store = store_of(base);
    pthread_mutex_lock(&store->main.mutex);
    hf_code code = sql_begin(&store->main, err);
    if (!code)
        code = sql_end(&store->main, add_all(store, turns, n, err), err);
    pthread_mutex_unlock(&store->main.mutex);
    return code;
}

/* ---- Reading ---- */

static const char *text_at(sqlite3_stmt *row, int column)
{
    const char *text = (const char *)sqlite3_column_text(row, column);
    return text ? text : "";
}

/* False: it is none of ours. */
static bool read_turn(sqlite3_stmt *row, hf_turn_note *out)
{
    enum {
        TICKET,
        BLOCK,
        NAME,
        SESSION,
        WHO,
        ACTOR,
        WHY,
        PERMITS,
        LIMIT,
        TOKEN,
        GRANTED,
        ENDED,
        END,
        REASON,
        EXIT_STATUS,
        MORE
    };
    *out = (hf_turn_note){.is_block = sqlite3_column_int(row, BLOCK),
                          .name = text_at(row, NAME),
                          .who = text_at(row, WHO),
                          .actor = text_at(row, ACTOR),
                          .why = text_at(row, WHY),
                          .permits = sqlite3_column_int(row, PERMITS),
                          .limit = sqlite3_column_int(row, LIMIT),
                          .token = sqlite3_column_int64(row, TOKEN),
                          .granted_at = {sqlite3_column_int64(row, GRANTED)},
                          .ended_at = {sqlite3_column_int64(row, ENDED)},
                          .reason = text_at(row, REASON),
                          .has_exit_status = sqlite3_column_type(row, EXIT_STATUS) != SQLITE_NULL,
                          .exit_status = sqlite3_column_int(row, EXIT_STATUS),
                          .more = sqlite3_column_int64(row, MORE)};
    return sql_read_id(row, TICKET, &out->ticket) && sql_read_id(row, SESSION, &out->session) &&
           history_end_read(text_at(row, END), &out->end);
}

static hf_code give_all(sql *conn, sqlite3_stmt *list, hf_turn_note_fn each, void *ctx,
                        hf_error *err)
{
    hf_turn_note turn;
    bool found, goes_on = true;
    hf_code code = sql_next(conn, list, &found, err);
    while (!code && found && goes_on) {
        goes_on = !read_turn(list, &turn) || each(ctx, &turn);
        if (goes_on)
            code = sql_next(conn, list, &found, err);
    }
    sql_reset(list);
    return code;
}

static hf_code is_made(sql *conn, bool *out, hf_error *err)
{
    int64_t n = 0;
    hf_code code =
        sql_exec(conn, "SELECT count(*) FROM sqlite_master WHERE name = 'history'", &n, err);
    *out = n > 0;
    return code;
}

static hf_code list(sqlite_store *store, const hf_history_part *part, hf_turn_note_fn each,
                    void *ctx, hf_error *err)
{
    sql *conn = &store->main;
    sqlite3_stmt *list;
    bool has_any;
    hf_code code = is_made(conn, &has_any, err);
    if (code || !has_any)
        return code;
    code = sql_ready(conn, *part->name ? SQL_TURN_OF_ONE : SQL_TURN_LIST, &list, err);
    if (code)
        return code;
    sqlite3_bind_int64(list, 1, part->since.ms);
    sql_bind_text(list, 2, part->prefix);
    sqlite3_bind_int64(list, 3, (int64_t)part->limit);
    if (*part->name)
        sql_bind_text(list, 4, part->name);
    sqlite3_bind_int(list, 5, part->tells_missing);
    return give_all(conn, list, each, ctx, err);
}

hf_code sqlite_history(hf_store *base, const hf_history_part *part, hf_turn_note_fn each, void *ctx,
                       hf_error *err)
{
    sqlite_store *store = store_of(base);
    pthread_mutex_lock(&store->main.mutex);
    hf_code code = list(store, part, each, ctx, err);
    pthread_mutex_unlock(&store->main.mutex);
    return code;
}
