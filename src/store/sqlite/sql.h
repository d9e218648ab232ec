/* SPDX-License-Identifier: Apache-2.0 */
/* sql.h: one connection to the database file, with its mutex, its statements and its patience.
 * Every file of this folder uses it, and it alone knows SQLite's result codes. */
#ifndef SQLITE_SQL_H
#define SQLITE_SQL_H

#include <holdfast/store.h>
#include <pthread.h>
#include <sqlite3.h>

/* The statements that are kept prepared: name and text. */
#define SQL_TABLE(X)                                                                               \
    X(SQL_BEGIN, "BEGIN IMMEDIATE")                                                                \
    X(SQL_BEGIN_READ, "BEGIN")                                                                     \
    X(SQL_COMMIT, "COMMIT")                                                                        \
    X(SQL_ROLLBACK, "ROLLBACK")                                                                    \
    X(SQL_SCHEMA, "PRAGMA schema_version")                                                         \
    X(SQL_RECORD_GET, "SELECT record FROM locks WHERE name = ?1")                                  \
    X(SQL_RECORD_NEW, "INSERT INTO locks(name, record) VALUES(?1, ?2)")                            \
    X(SQL_RECORD_SET, "UPDATE locks SET record = ?2 WHERE name = ?1")                              \
    X(SQL_RECORD_PRUNE, "DELETE FROM locks WHERE name = ?1")                                       \
    X(SQL_RECORD_LIST, "SELECT name, record FROM locks WHERE name >= ?1 AND name <> ?2 "           \
                       "ORDER BY name LIMIT ?3")                                                   \
    X(SQL_RECORD_BATCH, "SELECT name, record FROM locks WHERE name > ?1 ORDER BY name LIMIT 100")  \
    X(SQL_META_GET, "SELECT value FROM meta WHERE key = ?1")                                       \
    X(SQL_META_SET, "INSERT OR REPLACE INTO meta(key, value) VALUES(?1, ?2)")                      \
    X(SQL_BOOT_GET, "SELECT alive_dev, alive_ino FROM boots WHERE boot = ?1")                      \
    X(SQL_BOOT_NEW, "INSERT INTO boots(boot, machine, alive_dev, alive_ino) VALUES(?1,?2,?3,?4)")  \
    X(SQL_BOOT_FORGET, "DELETE FROM boots WHERE machine = ?1 AND boot <> ?2")                      \
    X(SQL_SESSION_NEW,                                                                             \
      "INSERT INTO sessions(id, beat, ttl_ms, expires_at, boot, machine, clock, app, host, pid,"   \
      " started_at) VALUES(?1, 1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)"                            \
      " ON CONFLICT(id) DO NOTHING")                                                               \
    X(SQL_SESSION_GET, "SELECT " SQL_SESSION_COLUMNS " FROM sessions WHERE id = ?1")               \
    X(SQL_SESSION_NEXT,                                                                            \
      "SELECT " SQL_SESSION_COLUMNS " FROM sessions WHERE row > ?1 ORDER BY row LIMIT 1")          \
    X(SQL_SESSION_LIVE,                                                                            \
      "SELECT " SQL_SESSION_COLUMNS " FROM sessions WHERE dead_at IS NULL LIMIT 1000")             \
    X(SQL_SESSION_LIVE_BATCH,                                                                      \
      "SELECT " SQL_SESSION_COLUMNS " FROM sessions WHERE dead_at IS NULL AND row > ?1"            \
      " ORDER BY row LIMIT 100")                                                                   \
    X(SQL_SESSION_BEAT,                                                                            \
      "UPDATE sessions SET beat = beat + 1, expires_at = ?2 + ttl_ms, boot = ?3, clock = ?4"       \
      " WHERE id = ?1 AND dead_at IS NULL")                                                        \
    X(SQL_SESSION_MARK, "UPDATE sessions SET dead_at = ?2 WHERE id = ?1 AND dead_at IS NULL")      \
    X(SQL_SESSION_IS_LIVE, "SELECT 1 FROM sessions WHERE row = ?1 AND dead_at IS NULL")            \
    X(SQL_SESSION_OLD,                                                                             \
      "SELECT row, id FROM sessions WHERE dead_at < ?1 AND row > ?2 ORDER BY row LIMIT 100")       \
    X(SQL_SESSION_FORGET, "DELETE FROM sessions WHERE row = ?1 AND dead_at IS NOT NULL")           \
    X(SQL_ASK_LIST, "SELECT ticket, by_whom, reason FROM asks WHERE session = ?1 LIMIT 16")        \
    X(SQL_ASK_COUNT, "SELECT count(*), max(ticket = ?2) FROM asks WHERE session = ?1")             \
    X(SQL_ASK_SET,                                                                                 \
      "INSERT OR REPLACE INTO asks(session, ticket, by_whom, reason) VALUES(?1, ?2, ?3, ?4)")      \
    X(SQL_ASK_ANSWER, "DELETE FROM asks WHERE session = ?1 AND ticket = ?2")                       \
    X(SQL_ASK_FORGET, "DELETE FROM asks WHERE session = ?1")                                       \
    X(SQL_WAITS_SET, "INSERT OR REPLACE INTO waits(session, seen, said) VALUES(?1, ?2, ?3)")       \
    X(SQL_WAITS_FORGET, "DELETE FROM waits WHERE session = ?1")                                    \
    X(SQL_WAITS_GET, SQL_WAITS_SAID " AND session = ?1")                                           \
    X(SQL_WAITS_LIST, SQL_WAITS_SAID " LIMIT 1000")                                                \
    X(SQL_TURN_NEW,                                                                                \
      "INSERT OR IGNORE INTO history(ticket, number, is_block, name, session, who, actor, why,"    \
      " permits, \"limit\", token, granted_at, ended_at, end, reason, exit_status, more)"          \
      " VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)")       \
    X(SQL_TURN_PRUNE,                                                                              \
      "DELETE FROM history WHERE row IN (SELECT row FROM history ORDER BY row LIMIT ?1)"           \
      " AND (row <= (SELECT max(row) FROM history) - ?2 OR ended_at < ?3)")                        \
    X(SQL_TURN_LIST,                                                                               \
      "SELECT " SQL_TURN_COLUMNS " FROM history WHERE ended_at >= ?1 AND CASE name WHEN ''"        \
      " THEN ?5 ELSE substr(name, 1, length(?2)) = ?2 END"                                         \
      " ORDER BY ended_at DESC, token DESC LIMIT ?3")                                              \
    X(SQL_TURN_OF_ONE,                                                                             \
      "SELECT " SQL_TURN_COLUMNS " FROM history WHERE name IN (?4, '') AND ended_at >= ?1 AND"     \
      " CASE name WHEN '' THEN ?5 ELSE substr(name, 1, length(?2)) = ?2 END"                       \
      " ORDER BY ended_at DESC, token DESC LIMIT ?3")

#define SQL_SESSION_COLUMNS                                                                        \
    "row, id, beat, ttl_ms, expires_at, boot, machine, clock, dead_at, app, host, pid, started_at"

#define SQL_TURN_COLUMNS                                                                           \
    "ticket, is_block, name, session, who, actor, why, permits, \"limit\", token, granted_at,"     \
    " ended_at, end, reason, exit_status, more"

#define SQL_WAITS_SAID                                                                             \
    "SELECT id, app, host, pid, beat, seen, said FROM waits JOIN sessions ON id = session"         \
    " WHERE dead_at IS NULL"

typedef enum sql_id {
#define X(name, text) name,
    SQL_TABLE(X)
#undef X
        SQL_COUNT
} sql_id;

typedef struct sql sql;

/* Looks at the tables, without sql_begin() and sql_ready(). */
typedef hf_code (*sql_judge_fn)(sql *conn, hf_error *err);

/* All but the mutex is guarded by the mutex. */
struct sql {
    pthread_mutex_t mutex;
    sqlite3 *db;
    sqlite3_stmt *statements[SQL_COUNT];
    const char *path;      /* for messages; the owner's */
    int64_t patience_ms;   /* how long a locked database is tried */
    int64_t busy_since_ms; /* when the present wait began */
    const int *turn_fd; /* its flock() says whose turn it is; the owner's; NULL: takes no turns */
    bool has_turn, begins;
    sql_judge_fn judge; /* NULL: the tables are not judged */
    int64_t schema;     /* the number of the tables that were judged last */
    bool is_readonly;   /* sql_begin() refuses */
    bool is_tidy;       /* it moves the log into the database now and then */
    int log_pages;      /* after the last commit here */
};

/* Opens the file, to which no link may lead, without looking at its contents. */
hf_code sql_open(sql *conn, const char *path, int64_t patience_ms, hf_error *err);

/* While the database is locked, this connection asks for it only when it has a lock on *fd (-1:
 * none yet), a file that all processes have open. Connections that take no turns (NULL) come
 * before.
 */
void sql_take_turns(sql *conn, const int *fd);

/* From now on the tables are judged when they have changed: after the beginning of a transaction,
 * or before a statement outside of one. What is begun or made ready fails as judge does. */
void sql_judge_schema(sql *conn, sql_judge_fn judge);

/* Also takes a connection that was never opened, or failed to open. */
void sql_close(sql *conn);

/* Moving the log into the database costs two syncs. A tidy connection does it when the log is long,
 * and at its end if the next process to open the database alone would have to read much of it.
 * Other connections never do: the one for beats must not wait for the disk. */
void sql_tend_log(sql *conn, bool is_tidy);

/* Another connection has seen the log that long: shortens it, if that is due. */
void sql_see_log(sql *conn, int pages);

/* Moves all of the log into the database, which is then synced. Others are waited for; if one keeps
 * a part: HF_UNREACHABLE. */
hf_code sql_move_log(sql *conn, hf_error *err);

/* Moves what can be moved; whether a reader keeps the rest. *pages: how long the log is. */
bool sql_log_is_kept(sql *conn, int *pages);
#define SQL_TOO_LONG_LOG 4000 /* pages; one that is not kept stays below */

/* Translates an error of SQLite. doing: "open", "write" ... */
hf_code sql_fail(sql *conn, int rc, const char *doing, hf_error *err);

/* Runs text that gives no rows, or one whose first column goes to *out (may be NULL). */
hf_code sql_exec(sql *conn, const char *text, int64_t *out, hf_error *err);

/* The transaction of a write, from BEGIN IMMEDIATE on, and of several reads that belong together.
 * After a failed sql_commit() nothing is open any more; HF_UNKNOWN when it may have been written.
 * sql_rollback() does nothing where no transaction is open. */
hf_code sql_begin(sql *conn, hf_error *err);
hf_code sql_begin_read(sql *conn, hf_error *err);
hf_code sql_commit(sql *conn, hf_error *err);
void sql_rollback(sql *conn);

/* Writes all commits up to here to the disk. HF_UNKNOWN: a loss of power may undo them. */
hf_code sql_sync(sql *conn, hf_error *err);

/* Ends a transaction: commits if code is HF_OK, else rolls back and returns code. */
hf_code sql_end(sql *conn, hf_code code, hf_error *err);

/* A statement, ready for binding; *out is NULL when it cannot be prepared. */
hf_code sql_ready(sql *conn, sql_id id, sqlite3_stmt **out, hf_error *err);

/* The next row: *found says whether there is one; when not, or after an error, the statement is
 * reset. sql_run() is for those that give no rows. sql_reset() leaves off before the last row. */
hf_code sql_next(sql *conn, sqlite3_stmt *statement, bool *found, hf_error *err);
hf_code sql_run(sql *conn, sqlite3_stmt *statement, hf_error *err);
void sql_reset(sqlite3_stmt *statement);

/* Binds and reads our own types. */
void sql_bind_id(sqlite3_stmt *statement, int at, const hf_id *id);
void sql_bind_text(sqlite3_stmt *statement, int at, const char *text);
bool sql_read_id(sqlite3_stmt *statement, int column, hf_id *out);
void sql_read_text(sqlite3_stmt *statement, int column, char *out, size_t size);

#endif
