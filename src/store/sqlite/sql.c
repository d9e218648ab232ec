/* SPDX-License-Identifier: Apache-2.0 */
/* sql.c: talks to SQLite for the files of this folder: statements, transactions, waiting for other
 * writers, and the translation of SQLite's results into ours. */
#include "store/sqlite/sql.h"

#include "core/error.h"
#include "store/kernel_time.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>

/* In pages. A process that opens the database while no other has it open reads the whole log, about
 * 2 us a page; a run of one command writes ten. */
#define LONG_LOG 1000
#define WORTH_EMPTYING 200
#define COMMIT_PAGES 8 /* of a commit, about */

#define LARGEST (16 << 20) /* bytes of a row; our largest record is far smaller */

/* Between two tries, at most: of the one whose turn it is, of those that take no turns, and of
 * those whose turn it is not. */
#define TURN_US 1000
#define URGENT_US 5000
#define CROWD_US 100000

static const char *const texts[] = {
#define X(name, text) [name] = text,
    SQL_TABLE(X)
#undef X
};

/* ---- Waiting for other writers ---- */

static int64_t waited_ms(const sql *conn)
{
    return kernel_ms(CLOCK_MONOTONIC) - conn->busy_since_ms;
}

/* A write transaction takes some 30 us, one with a sync some ms: sleep for 50 us at first (SQLite's
 * own handler begins with 1 ms and soon sleeps for 100), then for an eighth of what was waited. If
 * hundreds of processes asked more often, they would take the processor from the one that writes,
 * in the middle of its transaction. */
static void doze(const sql *conn, long most_us)
{
    long us = 125 * (long)waited_ms(conn);
    kernel_pause_us(us < 50 ? 50 : us < most_us ? us : most_us);
}

/* Who finds the database locked waits here first, so that only one of a crowd asks SQLite, besides
 * beats, which do not wait here: they come in after one or two other transactions, however many
 * wait. If nobody has come through for half of the patience, one that was stopped may have the
 * turn; then it is not waited for. */
static void take_turn(sql *conn)
{
    if (conn->has_turn || !conn->turn_fd || !conn->begins)
        return;
    int fd = *conn->turn_fd;
    while (fd >= 0 && waited_ms(conn) < conn->patience_ms / 2) {
        conn->has_turn = flock(fd, LOCK_EX | LOCK_NB) == 0;
        if (conn->has_turn)
            return;
        doze(conn, CROWD_US);
    }
}

static void leave_turn(sql *conn)
{
    if (conn->has_turn)
        flock(*conn->turn_fd, LOCK_UN);
    conn->has_turn = false;
}

static int wait_for_writer(void *ctx, int count)
{
    sql *conn = ctx;
    if (count == 0)
        conn->busy_since_ms = kernel_ms(CLOCK_MONOTONIC);
    else if (waited_ms(conn) >= conn->patience_ms)
        return 0;
    take_turn(conn);
    doze(conn, conn->has_turn ? TURN_US : URGENT_US);
    return 1;
}

void sql_take_turns(sql *conn, const int *fd)
{
    conn->turn_fd = fd;
}

void sql_judge_schema(sql *conn, sql_judge_fn judge)
{
    conn->judge = judge;
    conn->schema = -1;
}

/* Whoever may write to the file can put code of theirs into it, which runs in our process:
 * triggers, views, and the expressions of tables and indexes. We need neither triggers nor views,
 * and schema.c looks at the rest. */
static void distrust(sqlite3 *db)
{
    sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
    sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
    sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_limit(db, SQLITE_LIMIT_LENGTH, LARGEST);
}

hf_code sql_open(sql *conn, const char *path, int64_t patience_ms, hf_error *err)
{
    *conn = (sql){.path = path, .patience_ms = patience_ms};
    pthread_mutex_init(&conn->mutex, NULL);
    if (sqlite3_threadsafe() == 0)
        return error_set(err, HF_UNUSABLE, "libsqlite3 was built without threads: use another");
    int flags =
        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW;
    int rc = sqlite3_open_v2(path, &conn->db, flags, NULL);
    if (rc != SQLITE_OK)
        return sql_fail(conn, rc, "open", err);
    distrust(conn->db);
    sqlite3_extended_result_codes(conn->db, 1);
    sqlite3_busy_handler(conn->db, wait_for_writer, conn);
    return HF_OK;
}

static int move_all(sql *conn)
{
    int pages = 0, moved = 0;
    int rc = sqlite3_wal_checkpoint_v2(conn->db, NULL, SQLITE_CHECKPOINT_FULL, &pages, &moved);
    return rc == SQLITE_OK && moved < pages ? SQLITE_BUSY : rc & 0xff;
}

/* SQLite lets one connection at a time move the log, and asks no busy handler for the others. */
hf_code sql_move_log(sql *conn, hf_error *err)
{
    int64_t end_ms = kernel_ms(CLOCK_MONOTONIC) + conn->patience_ms;
    int rc;
    while ((rc = move_all(conn)) == SQLITE_BUSY && kernel_ms(CLOCK_MONOTONIC) < end_ms)
        kernel_pause_us(URGENT_US);
    return rc == SQLITE_OK ? HF_OK : sql_fail(conn, rc, "move the log", err);
}

static void move_log(sql *conn, int mode, int *pages, int *moved)
{
    int64_t patience_ms = conn->patience_ms;
    conn->patience_ms = patience_ms < 100 ? patience_ms : 100;
    sqlite3_wal_checkpoint_v2(conn->db, NULL, mode, pages, moved);
    conn->patience_ms = patience_ms;
}

bool sql_log_is_kept(sql *conn, int *pages)
{
    int moved = 0;
    *pages = 0;
    move_log(conn, SQLITE_CHECKPOINT_PASSIVE, pages, &moved);
    return moved < *pages;
}

/* If others write all the time, the log never starts over by itself. When it has become too long,
 * they wait for as long as a sync takes. Nobody waits for a reader that still needs a part of it, a
 * backup for example. */
static void shorten_log(sql *conn)
{
    int pages, moved;
    if (!sql_log_is_kept(conn, &pages) && pages >= SQL_TOO_LONG_LOG)
        move_log(conn, SQLITE_CHECKPOINT_RESTART, &pages, &moved);
}

/* Each try costs two syncs, so it is made when the log has grown by another LONG_LOG since this
 * connection last saw it. One that has just been opened sees only what its own commit added, or
 * each of a thousand processes that begin while the log is long would try. */
void sql_see_log(sql *conn, int pages)
{
    int before = conn->log_pages ? conn->log_pages : pages - COMMIT_PAGES;
    conn->log_pages = pages;
    if (conn->is_tidy && pages / LONG_LOG > before / LONG_LOG)
        shorten_log(conn);
}

static int see_commit(void *ctx, sqlite3 *db, const char *name, int pages)
{
    (void)db, (void)name;
    sql_see_log(ctx, pages);
    return SQLITE_OK;
}

void sql_tend_log(sql *conn, bool is_tidy)
{
    conn->is_tidy = is_tidy;
    sqlite3_db_config(conn->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    sqlite3_wal_hook(conn->db, see_commit, conn);
}

/* Empties the log, unless another process is doing that. */
static void tidy_up(sql *conn)
{
    if (!conn->is_tidy || conn->log_pages < WORTH_EMPTYING)
        return;
    sqlite3_busy_handler(conn->db, NULL, NULL);
    sqlite3_wal_checkpoint_v2(conn->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
}

void sql_close(sql *conn)
{
    if (!conn->path)
        return;
    for (int i = 0; i < SQL_COUNT; i++)
        sqlite3_finalize(conn->statements[i]);
    tidy_up(conn);
    sqlite3_close(conn->db);
    pthread_mutex_destroy(&conn->mutex);
    *conn = (sql){.path = NULL};
}

static bool is_no_space(int os)
{
    return os == ENOSPC || os == EDQUOT || os == EFBIG;
}

static hf_code fail_to_open(sql *conn, int os, hf_error *err)
{
    if (os == EROFS)
        return error_set(err, HF_READONLY,
                         "%s: cannot be opened, the file system is read-only: "
                         "name a database on another one",
                         conn->path);
    if (os == EACCES || os == EPERM)
        return error_set(err, HF_DENIED,
                         "%s: %s: give this user the right to read and write the "
                         "file and its folder",
                         conn->path, strerror(os));
    return error_set(err, HF_UNUSABLE,
                     "%s: cannot be opened: %s: check the path; its folder must "
                     "exist",
                     conn->path, os ? strerror(os) : "not a file");
}

static hf_code fail_of_io(sql *conn, int rc, const char *doing, int os, hf_error *err)
{
    if (is_no_space(os))
        return error_set(err, HF_FULL, "%s: no space left (%s): free some", conn->path, doing);
    return error_set(err, HF_UNREACHABLE, "%s: %s: %s (%s): %s", conn->path, doing,
                     sqlite3_errstr(rc), os ? strerror(os) : "no cause given",
                     os == ENOENT ? "was the file removed while in use? Put it back, or end all "
                                    "that use it"
                                  : "check the disk");
}

hf_code sql_fail(sql *conn, int rc, const char *doing, hf_error *err)
{
    int os = conn->db ? sqlite3_system_errno(conn->db) : 0;
    if (!os)
        os = errno; /* sql_commit() */
    switch (rc & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return error_set(err, HF_UNREACHABLE,
                         "%s: busy: another program has kept it locked for "
                         "%lld ms: see who locks it (lslocks) or has it open (fuser -v)",
                         conn->path, (long long)conn->patience_ms);
    case SQLITE_READONLY:
        return error_set(err, HF_READONLY,
                         "%s: is read-only for this program: give it the right "
                         "to write the file and its folder, or mount it writable",
                         conn->path);
    case SQLITE_FULL:
        return error_set(err, HF_FULL, "%s: no space left (%s): free some", conn->path, doing);
    case SQLITE_NOTADB:
        return error_set(err, HF_UNUSABLE, "%s: is not an SQLite database: name another path",
                         conn->path);
    case SQLITE_CORRUPT:
        return error_set(err, HF_UNUSABLE,
                         "%s: is damaged (%s): stop all its users, then restore "
                         "or remove it",
                         conn->path, sqlite3_errmsg(conn->db));
    case SQLITE_TOOBIG:
        return error_set(err, HF_UNUSABLE,
                         "%s: has a row of more than %d MB, which is none of holdfast's: stop all "
                         "its users, then restore or remove it",
                         conn->path, LARGEST >> 20);
    case SQLITE_CANTOPEN:
        return fail_to_open(conn, os, err);
    case SQLITE_PERM:
    case SQLITE_AUTH:
        return error_set(err, HF_DENIED, "%s: no right to %s it", conn->path, doing);
    case SQLITE_IOERR:
        return fail_of_io(conn, rc, doing, os, err);
    default:
        return error_set(err, HF_INTERNAL, "%s: %s: %s (SQLite %d)", conn->path, doing,
                         conn->db ? sqlite3_errmsg(conn->db) : sqlite3_errstr(rc), rc);
    }
}

hf_code sql_exec(sql *conn, const char *text, int64_t *out, hf_error *err)
{
    sqlite3_stmt *statement;
    int rc = sqlite3_prepare_v2(conn->db, text, -1, &statement, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(statement);
    if (rc == SQLITE_ROW && out)
        *out = sqlite3_column_int64(statement, 0);
    hf_code code = rc == SQLITE_ROW || rc == SQLITE_DONE ? HF_OK : sql_fail(conn, rc, text, err);
    sqlite3_finalize(statement);
    return code;
}

static hf_code ready(sql *conn, sql_id id, sqlite3_stmt **out, hf_error *err)
{
    sqlite3_stmt **kept = &conn->statements[id];
    int rc = SQLITE_OK;
    if (!*kept)
        rc = sqlite3_prepare_v3(conn->db, texts[id], -1, SQLITE_PREPARE_PERSISTENT, kept, NULL);
    *out = *kept;
    return rc == SQLITE_OK ? HF_OK : sql_fail(conn, rc, texts[id], err);
}

static hf_code run_plain(sql *conn, sql_id id, hf_error *err)
{
    sqlite3_stmt *statement;
    hf_code code = ready(conn, id, &statement, err);
    return code ? code : sql_run(conn, statement, err);
}

/* In a transaction they stay as they were judged. */
static hf_code judge_schema(sql *conn, hf_error *err)
{
    bool found;
    sqlite3_stmt *get;
    if (!conn->judge)
        return HF_OK;
    hf_code code = ready(conn, SQL_SCHEMA, &get, err);
    if (!code)
        code = sql_next(conn, get, &found, err);
    if (code)
        return code;
    int64_t schema = sqlite3_column_int64(get, 0);
    sql_reset(get);
    if (schema != conn->schema)
        code = conn->judge(conn, err);
    if (!code)
        conn->schema = schema;
    return code;
}

/* A transaction that can be neither committed nor rolled back would keep all writers out. So
 * everything that a rollback needs is prepared before, and a failed rollback is repeated. */
static hf_code begin(sql *conn, sql_id id, hf_error *err)
{
    sqlite3_stmt *rollback;
    hf_code code = ready(conn, SQL_ROLLBACK, &rollback, err);
    if (code)
        return code;
    sql_rollback(conn);
    conn->begins = true;
    code = run_plain(conn, id, err);
    conn->begins = false;
    if (!code)
        code = judge_schema(conn, err);
    if (code)
        sql_rollback(conn);
    return code;
}

hf_code sql_begin(sql *conn, hf_error *err)
{
    if (conn->is_readonly)
        return sql_fail(conn, SQLITE_READONLY, "write", err);
    return begin(conn, SQL_BEGIN, err);
}

hf_code sql_begin_read(sql *conn, hf_error *err)
{
    return begin(conn, SQL_BEGIN_READ, err);
}

/* A commit whose write or sync failed may still be found in the WAL later. If the disk was full,
 * the last frame was not written, so the commit was not done. */
hf_code sql_commit(sql *conn, hf_error *err)
{
    sqlite3_stmt *statement;
    hf_code code = ready(conn, SQL_COMMIT, &statement, err);
    errno = 0; /* SQLite does not keep the cause of this failure */
    int rc = code ? SQLITE_ERROR : sqlite3_step(statement);
    sqlite3_reset(statement);
    if (rc == SQLITE_DONE) {
        leave_turn(conn);
        return HF_OK;
    }
    if (!code)
        code = sql_fail(conn, rc, "commit", err);
    if ((rc & 0xff) == SQLITE_IOERR && (code != HF_FULL || rc != SQLITE_IOERR_WRITE))
        code = error_set(err, HF_UNKNOWN, "%s: the commit failed half way: check the disk",
                         conn->path);
    sql_rollback(conn);
    return code;
}

/* The log is what holds them; who moves it into the database syncs it before. */
hf_code sql_sync(sql *conn, hf_error *err)
{
    sqlite3_file *log = NULL;
    int rc = sqlite3_file_control(conn->db, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log);
    if (rc == SQLITE_OK)
        rc = log->pMethods ? log->pMethods->xSync(log, SQLITE_SYNC_NORMAL) : SQLITE_IOERR_FSYNC;
    if (rc == SQLITE_OK)
        return HF_OK;
    return error_set(err, HF_UNKNOWN,
                     "%s: was written, but a loss of power may undo it (%s): check the disk",
                     conn->path, sqlite3_errstr(rc));
}

void sql_rollback(sql *conn)
{
    if (conn->db && !sqlite3_get_autocommit(conn->db))
        run_plain(conn, SQL_ROLLBACK, NULL);
    leave_turn(conn);
}

hf_code sql_end(sql *conn, hf_code code, hf_error *err)
{
    if (code == HF_OK)
        return sql_commit(conn, err);
    sql_rollback(conn);
    return code;
}

hf_code sql_ready(sql *conn, sql_id id, sqlite3_stmt **out, hf_error *err)
{
    hf_code code = HF_OK;
    *out = NULL;
    if (sqlite3_get_autocommit(conn->db))
        code = judge_schema(conn, err);
    return code ? code : ready(conn, id, out, err);
}

hf_code sql_next(sql *conn, sqlite3_stmt *statement, bool *found, hf_error *err)
{
    int rc = sqlite3_step(statement);
    *found = rc == SQLITE_ROW;
    if (*found)
        return HF_OK;
    hf_code code = rc == SQLITE_DONE ? HF_OK : sql_fail(conn, rc, sqlite3_sql(statement), err);
    sqlite3_reset(statement);
    return code;
}

hf_code sql_run(sql *conn, sqlite3_stmt *statement, hf_error *err)
{
    bool found;
    hf_code code = sql_next(conn, statement, &found, err);
    if (found)
        sqlite3_reset(statement);
    return code;
}

void sql_reset(sqlite3_stmt *statement)
{
    sqlite3_reset(statement);
}

void sql_bind_id(sqlite3_stmt *statement, int at, const hf_id *id)
{
    sqlite3_bind_blob(statement, at, id->bytes, (int)sizeof id->bytes, SQLITE_STATIC);
}

void sql_bind_text(sqlite3_stmt *statement, int at, const char *text)
{
    sqlite3_bind_text(statement, at, text, -1, SQLITE_STATIC);
}

bool sql_read_id(sqlite3_stmt *statement, int column, hf_id *out)
{
    const void *bytes = sqlite3_column_blob(statement, column);
    if (sqlite3_column_bytes(statement, column) != (int)sizeof out->bytes)
        return false;
    memcpy(out->bytes, bytes, sizeof out->bytes);
    return true;
}

void sql_read_text(sqlite3_stmt *statement, int column, char *out, size_t size)
{
    const unsigned char *text = sqlite3_column_text(statement, column);
    snprintf(out, size, "%s", text ? (const char *)text : "");
}
