/* SPDX-License-Identifier: Apache-2.0 */
/* data_sqlite.c: the counters as rows of a SQLite file of their own; each call is one transaction,
 * so that a SIGKILL leaves all of it or nothing. */
#include "data.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

#define BUSY_MS 5000

typedef struct file {
    counters base;
    sqlite3 *db;
} file;

static const char create_sql[] =
    "CREATE TABLE IF NOT EXISTS counter (name TEXT PRIMARY KEY NOT NULL, value INTEGER NOT NULL)";
static const char read_sql[] = "SELECT c.value, coalesce(f.token, 0) FROM counter c"
                               " LEFT JOIN holdfast_fence f ON f.resource = c.name"
                               " WHERE c.name = ?1";
static const char write_sql[] = "INSERT INTO counter VALUES (?1, ?2)"
                                " ON CONFLICT (name) DO UPDATE SET value = excluded.value";

static void close_file(counters *data)
{
    file *self = (file *)data;
    sqlite3_close(self->db);
    free(self);
}

static hf_code failed(file *self, hf_error *err)
{
    int code = sqlite3_errcode(self->db) & 0xff;
    err->code = code == SQLITE_FULL ? HF_FULL : HF_UNREACHABLE;
    snprintf(err->text, sizeof err->text, "counters: %s", sqlite3_errmsg(self->db));
    return err->code;
}

static hf_code run(file *self, const char *sql, hf_error *err)
{
    return sqlite3_exec(self->db, sql, NULL, NULL, NULL) ? failed(self, err) : HF_OK;
}

static hf_code put(file *self, const char *name, int64_t value, hf_error *err)
{
    sqlite3_stmt *statement;
    if (sqlite3_prepare_v2(self->db, write_sql, -1, &statement, NULL))
        return failed(self, err);
    sqlite3_bind_text(statement, 1, name, -1, SQLITE_STATIC);
    sqlite3_bind_int64(statement, 2, value);
    sqlite3_step(statement);
    return sqlite3_finalize(statement) ? failed(self, err) : HF_OK;
}

/* Ends the transaction; whatever failed, nothing was written. */
static hf_code finish(file *self, hf_code code, hf_error *err)
{
    if (!code)
        code = run(self, "COMMIT", err);
    if (code && !sqlite3_get_autocommit(self->db))
        sqlite3_exec(self->db, "ROLLBACK", NULL, NULL, NULL);
    return code;
}

static hf_code fence_file(counters *data, const char *name, int64_t token, hf_error *err)
{
    file *self = (file *)data;
    hf_code code = run(self, "BEGIN IMMEDIATE", err);
    if (!code)
        code = hf_guard_sqlite(self->db, name, token, err);
    return finish(self, code, err);
}

static hf_code read_file(counters *data, const char *name, int64_t *fence, int64_t *value,
                         hf_error *err)
{
    file *self = (file *)data;
    sqlite3_stmt *statement;
    if (sqlite3_prepare_v2(self->db, read_sql, -1, &statement, NULL))
        return failed(self, err);
    sqlite3_bind_text(statement, 1, name, -1, SQLITE_STATIC);
    bool is_there = sqlite3_step(statement) == SQLITE_ROW;
    *value = is_there ? sqlite3_column_int64(statement, 0) : 0;
    *fence = is_there ? sqlite3_column_int64(statement, 1) : 0;
    return sqlite3_finalize(statement) || !is_there ? failed(self, err) : HF_OK;
}

static hf_code write_file(counters *data, const char *name, int64_t token, int64_t value,
                          hf_error *err)
{
    file *self = (file *)data;
    hf_code code = run(self, "BEGIN IMMEDIATE", err);
    if (!code && token)
        code = hf_guard_sqlite(self->db, name, token, err);
    if (!code)
        code = put(self, name, value, err);
    return finish(self, code, err);
}

counters *data_open_sqlite(const char *path)
{
    file *self = calloc(1, sizeof *self);
    if (!self)
        abort();
    self->base = (counters){
        .close = close_file, .fence = fence_file, .read = read_file, .write = write_file};
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX;
    hf_error err;
    if (sqlite3_open_v2(path, &self->db, flags, NULL) || sqlite3_busy_timeout(self->db, BUSY_MS) ||
        run(self, create_sql, &err)) {
        close_file(&self->base);
        return NULL;
    }
    return &self->base;
}
