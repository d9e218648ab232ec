/* SPDX-License-Identifier: Apache-2.0 */
/* schema.c: makes the tables, and refuses a database that is not ours before anything in it is
 * changed; called when a store is opened. */
#include "core/error.h"
#include "store/kernel_time.h"
#include "store/sqlite/sqlite_internal.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define APPLICATION_ID 0x486f6c64 /* "Hold" */
#define SCHEMA_VERSION 2
#define N_TABLES 7 /* with the index: those that begin with CREATE */

#define CREATE_TABLE "CREATE TABLE "

/* Added by schema 2, which is otherwise like 1. */
#define WAITS                                                                                      \
    "CREATE TABLE waits (session BLOB NOT NULL PRIMARY KEY, seen INTEGER NOT NULL,"                \
    " said TEXT NOT NULL) WITHOUT ROWID"
#define VERSION "PRAGMA user_version = 2"

/* locks.record is the BSON document of protocol `queue`. sessions.row is never used twice: it is
 * the byte in the alive file. expires_at is CLOCK_BOOTTIME in ms, dead_at and started_at are Unix
 * time; dead_at stands in those that are marked dead. */
static const char *const tables[] = {
    "CREATE TABLE locks (name TEXT NOT NULL PRIMARY KEY, record BLOB NOT NULL) WITHOUT ROWID",
    "CREATE TABLE sessions (row INTEGER PRIMARY KEY AUTOINCREMENT, id BLOB NOT NULL UNIQUE,"
    " beat INTEGER NOT NULL, ttl_ms INTEGER NOT NULL, expires_at INTEGER NOT NULL,"
    " boot TEXT NOT NULL, machine TEXT NOT NULL, clock TEXT NOT NULL, dead_at INTEGER,"
    " app TEXT NOT NULL, host TEXT NOT NULL, pid INTEGER NOT NULL, started_at INTEGER NOT NULL)",
    "CREATE INDEX sessions_dead ON sessions(dead_at)",
    "CREATE TABLE asks (session BLOB NOT NULL, ticket BLOB NOT NULL, by_whom TEXT NOT NULL,"
    " reason TEXT NOT NULL, PRIMARY KEY (session, ticket)) WITHOUT ROWID",
    "CREATE TABLE boots (boot TEXT NOT NULL PRIMARY KEY, machine TEXT NOT NULL,"
    " alive_dev INTEGER NOT NULL, alive_ino INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE TABLE meta (key TEXT NOT NULL PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID",
    WAITS,
    "INSERT INTO meta(key, value) VALUES('high_water', 0), ('reserved', 0), ('swept_at', 0)",
    "PRAGMA application_id = 1215261796",
    VERSION,
};

/* Made later, by history.c. */
static const char *const history[] = {CREATE_TABLE SCHEMA_HISTORY,
                                      "CREATE INDEX " SCHEMA_HISTORY_INDEX};

/* What a database says about itself; read in one transaction, because another process may just be
 * making it. */
typedef struct identity {
    int64_t application, version, objects;
} identity;

static hf_code read_identity(sql *conn, identity *out, hf_error *err)
{
    hf_code code = sql_exec(conn, "PRAGMA application_id", &out->application, err);
    if (!code)
        code = sql_exec(conn, "PRAGMA user_version", &out->version, err);
    if (!code)
        code = sql_exec(conn, "SELECT count(*) FROM sqlite_master", &out->objects, err);
    return code;
}

static bool is_empty(const identity *found)
{
    return found->application == 0 && found->version == 0 && found->objects == 0;
}

static hf_code judge(const sql *conn, const identity *found, hf_error *err)
{
    if (is_empty(found))
        return HF_OK;
    if (found->application != APPLICATION_ID)
        return error_set(err, HF_UNUSABLE,
                         "%s: belongs to another program (application id 0x%08llx, "
                         "%lld tables and indexes): name another path",
                         conn->path, (unsigned long long)found->application,
                         (long long)found->objects);
    if (found->version < 1 || found->version > SCHEMA_VERSION)
        return error_set(err, HF_UNUSABLE,
                         "%s: has schema %lld, this program knows %d: use a newer "
                         "holdfast for it, or name another path",
                         conn->path, (long long)found->version, SCHEMA_VERSION);
    return HF_OK;
}

static bool is_one_of(const char *const texts[], size_t n, const char *text)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(text, texts[i]) == 0)
            return true;
    return false;
}

/* What sqlite_master says of the tables. */
typedef struct forms {
    size_t ours;       /* of those that are made first */
    char strange[100]; /* the name of an index or trigger that others put on a table of ours, or of
                          what stands in place of one; "": there is nothing like that */
} forms;

/* SQLite takes LOCKS for locks. */
static bool makes(const char *text, const char *table)
{
    size_t verb = strlen(CREATE_TABLE), length = strlen(table);
    return strncmp(text, CREATE_TABLE, verb) == 0 && strncasecmp(text + verb, table, length) == 0 &&
           text[verb + length] == ' ';
}

static bool is_on_ours(const char *table)
{
    bool is = makes(history[0], table);
    for (size_t i = 0; i < sizeof tables / sizeof *tables && !is; i++)
        is = makes(tables[i], table);
    return is;
}

static void add_form(forms *to, const char *name, const char *table, const char *text)
{
    bool is_first = is_one_of(tables, sizeof tables / sizeof *tables, text);
    bool is_ours = is_first || !*text || is_one_of(history, 2, text);
    to->ours += is_first;
    if (!is_ours && is_on_ours(table))
        snprintf(to->strange, sizeof to->strange, "%s", name);
}

static const char *text_at(sqlite3_stmt *row, int column)
{
    const char *text = (const char *)sqlite3_column_text(row, column);
    return text ? text : "";
}

/* Tables that others added do no harm, nor does what is on them. But a trigger on ours would run in
 * our transactions, and so would the expressions of an index, which may take for ever. */
static hf_code read_forms(sql *conn, forms *out, hf_error *err)
{
    sqlite3_stmt *list;
    int rc = sqlite3_prepare_v2(conn->db, "SELECT name, tbl_name, sql FROM sqlite_master", -1,
                                &list, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(list);
    for (; rc == SQLITE_ROW; rc = sqlite3_step(list))
        add_form(out, text_at(list, 0), text_at(list, 1), text_at(list, 2));
    hf_code code = rc == SQLITE_DONE ? HF_OK : sql_fail(conn, rc, "read the schema", err);
    sqlite3_finalize(list);
    return code;
}

/* With a view in place of a table, or a table of another form, a statement of ours might never end.
 */
static hf_code check_tables(sql *conn, size_t n_tables, hf_error *err)
{
    forms found = {.ours = 0};
    hf_code code = read_forms(conn, &found, err);
    if (code || (found.ours == n_tables && !*found.strange))
        return code;
    return error_set(err, HF_UNUSABLE,
                     "%s: its tables were changed by another program (%zu of %zu are as holdfast "
                     "makes them%s%s): restore it, or name another path",
                     conn->path, found.ours, n_tables,
                     *found.strange ? ", and it did not make the trigger, index or table " : "",
                     found.strange);
}

static hf_code check_all_tables(sql *conn, hf_error *err)
{
    return check_tables(conn, N_TABLES, err);
}

static hf_code refuse_old(const sql *conn, hf_error *err)
{
    return error_set(err, HF_READONLY,
                     "%s: has schema 1, and cannot be written: open it once with a program that "
                     "has the right to",
                     conn->path);
}

/* Upgrades schema 1. Programs that know only schema 1, and have the database open, go on. */
static hf_code upgrade(sql *conn, hf_error *err)
{
    int64_t version;
    if (sqlite3_db_readonly(conn->db, "main") == 1)
        return refuse_old(conn, err);
    hf_code code = sql_begin(conn, err);
    if (code)
        return code;
    code = sql_exec(conn, "PRAGMA user_version", &version, err);
    bool is_old = !code && version == 1; /* nobody was faster */
    if (is_old)
        code = check_tables(conn, N_TABLES - 1, err);
    if (!code && is_old)
        code = sql_exec(conn, WAITS, NULL, err);
    if (!code && is_old)
        code = sql_exec(conn, VERSION, NULL, err);
    return sql_end(conn, code, err);
}

static bool is_wal(sql *conn, hf_error *err, hf_code *code)
{
    sqlite3_stmt *statement;
    int rc = sqlite3_prepare_v2(conn->db, "PRAGMA journal_mode = WAL", -1, &statement, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(statement);
    const char *mode = rc == SQLITE_ROW ? (const char *)sqlite3_column_text(statement, 0) : "";
    bool is = mode && strcmp(mode, "wal") == 0;
    *code = HF_OK;
    if (rc != SQLITE_ROW)
        *code = sql_fail(conn, rc, "switch to WAL", err);
    else if (!is)
        *code = error_set(err, HF_UNUSABLE,
                          "%s: write-ahead logging is not available here (mode "
                          "\"%s\"): use a local file system",
                          conn->path, mode ? mode : "");
    sqlite3_finalize(statement);
    return is;
}

/* Two processes that do this at once refuse each other without calling the busy handler. */
static hf_code switch_to_wal(sql *conn, hf_error *err)
{
    hf_code code;
    for (int64_t waited_ms = 0; !is_wal(conn, err, &code); waited_ms += 5) {
        if (code != HF_UNREACHABLE || waited_ms > conn->patience_ms)
            return code;
        kernel_pause_us(5000);
    }
    return HF_OK;
}

static hf_code make_tables(sql *conn, hf_error *err)
{
    identity found;
    hf_code code = sql_begin(conn, err);
    if (code)
        return code;
    code = read_identity(conn, &found, err);
    bool is_ours = !code && !is_empty(&found); /* somebody was faster */
    for (size_t i = 0; !code && !is_ours && i < sizeof tables / sizeof tables[0]; i++)
        code = sql_exec(conn, tables[i], NULL, err);
    code = sql_end(conn, code, err);
    return code || !is_ours ? code : judge(conn, &found, err);
}

static hf_code make(sql *conn, hf_error *err)
{
    hf_code code = switch_to_wal(conn, err);
    if (!code)
        code = sql_exec(conn, "PRAGMA synchronous = FULL", NULL, err);
    return code ? code : make_tables(conn, err);
}

static hf_code look(sql *conn, identity *out, hf_error *err)
{
    hf_code code = sql_begin_read(conn, err);
    return code ? code : sql_end(conn, read_identity(conn, out, err), err);
}

hf_code schema_check(sql *conn, hf_error *err)
{
    identity found;
    hf_code code = look(conn, &found, err);
    if (!code)
        code = judge(conn, &found, err);
    if (!code && found.version == 1)
        code = upgrade(conn, err);
    if (!code && !is_empty(&found))
        code = check_all_tables(conn, err);
    if (code)
        return code;
    conn->is_readonly = sqlite3_db_readonly(conn->db, "main") == 1;
    if (is_empty(&found) && conn->is_readonly)
        return error_set(err, HF_READONLY,
                         "%s: is empty, and cannot be written: give this program "
                         "the right to, or name another path",
                         conn->path);
    if (conn->is_readonly)
        return HF_OK;
    return is_empty(&found) ? make(conn, err) : switch_to_wal(conn, err);
}

/* synchronous = NORMAL: a commit is not synced to the disk, a crash of the machine can undo the
 * last ones, in order. What that means is said in tokens.c and records.c. */
hf_code schema_settle(sql *conn, bool is_tidy, hf_error *err)
{
    sql_tend_log(conn, is_tidy);
    sql_judge_schema(conn, check_all_tables);
    return sql_exec(conn, "PRAGMA synchronous = NORMAL", NULL, err);
}

hf_code schema_meta_get(sql *conn, const char *key, int64_t *out, hf_error *err)
{
    bool found = false;
    sqlite3_stmt *get;
    hf_code code = sql_ready(conn, SQL_META_GET, &get, err);
    if (code)
        return code;
    sql_bind_text(get, 1, key);
    code = sql_next(conn, get, &found, err);
    *out = found ? sqlite3_column_int64(get, 0) : 0;
    sql_reset(get);
    return code;
}

hf_code schema_meta_set(sql *conn, const char *key, int64_t value, hf_error *err)
{
    sqlite3_stmt *set;
    hf_code code = sql_ready(conn, SQL_META_SET, &set, err);
    if (code)
        return code;
    sql_bind_text(set, 1, key);
    sqlite3_bind_int64(set, 2, value);
    return sql_run(conn, set, err);
}
