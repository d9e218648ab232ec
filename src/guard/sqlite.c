/* SPDX-License-Identifier: Apache-2.0 */
/* sqlite.c: the fence in a SQLite database of the caller's: remembers the highest token that each
 * resource has seen; called by programs that hold a lock, before they write. */
#include "guard/token.h"

#include <sqlite3.h>

static const char create_sql[] = "CREATE TABLE IF NOT EXISTS holdfast_fence"
                                 "(resource TEXT PRIMARY KEY NOT NULL, token INTEGER NOT NULL)";
static const char raise_sql[] =
    "INSERT INTO holdfast_fence (resource, token) VALUES (?1, ?2)"
    " ON CONFLICT (resource) DO UPDATE SET token = excluded.token WHERE excluded.token >= token";
static const char read_sql[] = "SELECT token FROM holdfast_fence WHERE resource = ?1";

static hf_code code_of(int result)
{
    switch (result & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return HF_UNREACHABLE;
    case SQLITE_PERM:
    case SQLITE_AUTH:
        return HF_DENIED;
    case SQLITE_READONLY:
        return HF_READONLY;
    case SQLITE_FULL:
        return HF_FULL;
    case SQLITE_ERROR:
        return HF_SHAPE; /* our statements are correct, so the table must be foreign */
    default:
        return HF_UNUSABLE;
    }
}

static hf_code fail(sqlite3 *db, hf_error *err)
{
    return error_set(err, code_of(sqlite3_errcode(db)),
                     "fence table holdfast_fence: %s; nothing is guarded, roll back",
                     sqlite3_errmsg(db));
}

/* Runs one statement with ?1 and ?2; token, when not NULL, takes the first column of its row. */
static int run(sqlite3 *db, const char *sql, const char *resource, int64_t given, int64_t *token)
{
    sqlite3_stmt *statement;
    int result = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);
    if (result != SQLITE_OK)
        return result;
    if (sqlite3_bind_parameter_count(statement) >= 1)
        sqlite3_bind_text(statement, 1, resource, -1, SQLITE_STATIC);
    if (sqlite3_bind_parameter_count(statement) >= 2)
        sqlite3_bind_int64(statement, 2, given);
    if (sqlite3_step(statement) == SQLITE_ROW && token)
        *token = sqlite3_column_int64(statement, 0);
    return sqlite3_finalize(statement);
}

static hf_code check(sqlite3 *db, const char *resource, int64_t token, hf_error *err)
{
    if (!db || !resource || !resource[0])
        return error_set(err, HF_INVALID, "a fence needs a database and the resource's name");
    hf_code code = guard_check_token(token, err);
    if (code)
        return code;
    if (sqlite3_get_autocommit(db))
        return error_set(err, HF_INVALID,
                         "no transaction is open: a fence guards only what is written in the same"
                         " transaction; BEGIN IMMEDIATE first");
    return HF_OK;
}

hf_code hf_guard_sqlite(sqlite3 *db, const char *resource, int64_t token, hf_error *err)
{
    int64_t seen = 0;
    hf_code code = check(db, resource, token, err);
    if (code)
        return code;
    error_clear(err);
    if (run(db, create_sql, resource, token, NULL) || run(db, raise_sql, resource, token, NULL))
        return fail(db, err);
    if (sqlite3_changes(db) > 0)
        return HF_OK;
    if (run(db, read_sql, resource, token, &seen))
        return fail(db, err);
    return error_set(err, HF_FENCED,
                     "\"%.200s\" has seen token %lld, ours is %lld: a later holder was here; roll"
                     " back and acquire anew",
                     resource, (long long)seen, (long long)token);
}
