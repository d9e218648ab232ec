/* SPDX-License-Identifier: Apache-2.0 */
/* sqlite_internal.h: what the files of the embedded store share: the open store, and which thread
 * uses what.
 *
 * Locks, in the order in which they are taken: main.mutex (the connection of all calls but beats)
 * or beats.mutex (that of beats), then mutex (sessions, watched rows). None is held while the
 * client is called, or while await() sleeps.
 */
#ifndef SQLITE_INTERNAL_H
#define SQLITE_INTERNAL_H

#include "store/sqlite/alive.h"
#include "store/sqlite/sql.h"
#include "store/sqlite/sqlite.h"

#include <stdatomic.h>
#include <sys/types.h>

#define WATCHED_MAX 1024

/* A session of this process. */
typedef struct sqlite_own {
    struct sqlite_own *next;
    hf_id id;
    alive_hold hold;
    bool has_pipe;   /* for what this process may leave behind */
    int notice_fd;   /* others send here what they grant us */
    bool is_awaited; /* await() uses it */
    bool is_ended;   /* its last user frees it */
} sqlite_own;

/* How far all clients have come with the sweep, as the table `meta` says it. Only the
 * thread that sweeps uses this copy. */
typedef struct sqlite_sweeping {
    int64_t part;               /* 0: none is under way */
    int64_t began_at;           /* Unix time in ms */
    int64_t by, until;          /* the store whose thread does a part, until this time at most */
    int64_t row;                /* the last session, and ... */
    char name[HF_NAME_MAX + 1]; /* ... the last record that was looked at */
} sqlite_sweeping;

typedef struct sqlite_store {
    hf_store base;
    hf_store_config config;
    pid_t pid; /* of the process that opened it: a forked child must not touch the database */
    char *path, *alive_path;
    sqlite_place place;

    sql main, beats;
    int64_t reserved;   /* no token above it is given; main.mutex, as for high_water */
    int64_t high_water; /* every token given is above it */

    bool owes_sync; /* a step that others rely on was not synced; main.mutex */

    int tester; /* on the alive file, through which bytes are tested; -1: there is none */
    alive_identity alive;

    pthread_mutex_t mutex;
    sqlite_own *own;
    int64_t watched[WATCHED_MAX]; /* rows of sessions that waiters wait for, still locked */
    size_t n_watched, next_watched;
    atomic_bool sees_left; /* a watched session's process is gone, but has left others behind */

    sqlite_sweeping sweep;
    int64_t sweeper; /* this store's number in `meta`; 0: none yet; the sweeping thread's, too */

    int wake_fd, inotify_fd, send_fd; /* inotify: -1 until the first await */
    bool is_deaf;                     /* no inotify: await() tests the bytes by itself */
    bool has_failed;                  /* the next await() begins with LOOK */
} sqlite_store;

static inline sqlite_store *store_of(hf_store *store)
{
    return (sqlite_store *)store;
}

/* log.c */
void sqlite_log(sqlite_store *store, hf_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* process.c: around the life of a store. HF_FORKED: SQLite cannot be used in this process. */
hf_code process_enter(const char *path, hf_error *err);
void process_leave(void);

/* The table of the history (history.c), which schema.c knows but does not make. `number` tells the
 * turns of a ticket apart: core/history.h. */
#define SCHEMA_HISTORY                                                                             \
    "history (row INTEGER PRIMARY KEY, ticket BLOB NOT NULL, number INTEGER NOT NULL,"             \
    " is_block INTEGER NOT NULL, name TEXT NOT NULL, session BLOB NOT NULL, who TEXT NOT NULL,"    \
    " actor TEXT NOT NULL, why TEXT NOT NULL, permits INTEGER NOT NULL,"                           \
    " \"limit\" INTEGER NOT NULL, token INTEGER NOT NULL, granted_at INTEGER NOT NULL,"            \
    " ended_at INTEGER NOT NULL, end TEXT NOT NULL, reason TEXT NOT NULL, exit_status INTEGER,"    \
    " more INTEGER NOT NULL, UNIQUE (ticket, number, is_block))"
#define SCHEMA_HISTORY_INDEX "history_name ON history(name)"

/* schema.c */
/* Looks whether the database is ours, makes it if it is empty; says in conn->is_readonly
 * whether it can be written. */
hf_code schema_check(sql *conn, hf_error *err);
/* Settings for every connection, after the schema was checked. */
hf_code schema_settle(sql *conn, bool is_tidy, hf_error *err);
hf_code schema_meta_get(sql *conn, const char *key, int64_t *out, hf_error *err);
hf_code schema_meta_set(sql *conn, const char *key, int64_t value, hf_error *err);

/* sessions.c; main.mutex held, or that of beats, as conn is. Newcomers would find another file, or
 * none, and the locks in it free. */
bool session_has_moved(const sqlite_store *store, const sql *conn, hf_error *err);

/* boot.c */
/* Ties the alive file to the database for this boot, and opens the tester. */
hf_code boot_begin(sqlite_store *store, hf_error *err);
/* main.mutex held. HF_UNUSABLE unless our alive file is the one that the database names. */
hf_code boot_verify(sqlite_store *store, hf_error *err);

/* tokens.c; main.mutex held */
hf_code tokens_load(sqlite_store *store, hf_error *err);
hf_code tokens_reread_water(sqlite_store *store, hf_error *err);
/* In a transaction of its own: from here on tokens up to this one may be given. */
hf_code tokens_reserve(sqlite_store *store, int64_t token, hf_error *err);
/* In the transaction of a new boot, and of a prune. */
hf_code tokens_after_boot(sqlite_store *store, hf_error *err);
hf_code tokens_raise_water(sqlite_store *store, int64_t token, hf_error *err);
/* The floor of tokens at that time. All tokens stay above the high water; for the ten minutes in
 * which that is ahead of the clock, tokens go on from the record's own. */
int64_t tokens_above(const sqlite_store *store, const hf_record *record, hf_dbtime now);

/* notice.c */
hf_code notice_open(sqlite_store *store, hf_error *err);
void notice_close(sqlite_store *store);
int notice_bind(sqlite_store *store, hf_id session); /* -1: the client looks by itself */
void notice_send(sqlite_store *store, const char *name, const char *news, const hf_id *but);
void notice_watch_row(sqlite_store *store, int64_t row);
void notice_see_left(sqlite_store *store); /* one that is watched: await() tests for its end */

/* board.c */
void board_tell(sqlite_store *store, const hf_record *record); /* a step has changed it */

/* The functions of the interface, see store.h. */
hf_code sqlite_session_begin(hf_store *store, const hf_session *self, hf_error *err);
hf_code sqlite_session_beat(hf_store *store, hf_id id, const hf_beat *says, hf_session_state *out,
                            hf_error *err);
hf_code sqlite_session_mark(hf_store *store, const hf_session_state *seen, hf_error *err);
hf_code sqlite_session_end(hf_store *store, hf_id id, bool leaves_any, hf_error *err);
hf_code sqlite_sessions_look(hf_store *store, const hf_id *ids, size_t n, int64_t clock_trust_ms,
                             hf_session_state *states, hf_error *err);
hf_code sqlite_waits(hf_store *store, const hf_id *ids, size_t n, hf_waits_fn each, void *ctx,
                     hf_error *err);
hf_code sqlite_list_sessions(hf_store *store, hf_state_fn each, void *ctx, hf_error *err);
hf_code sqlite_ask(hf_store *store, hf_id session, const hf_ask *ask, hf_error *err);
int sqlite_keep_fd(hf_store *store, hf_id session);
void sqlite_steps(hf_store *store, hf_parcel *parcels, size_t n);
hf_code sqlite_step(hf_store *store, const char *name, const hf_step *step, hf_record *out,
                    hf_step_reply *reply, hf_error *err);
hf_code sqlite_look(hf_store *store, const char *const *names, size_t n, hf_stamp after,
                    bool linearizable, hf_record_fn each, void *ctx, hf_error *err);
hf_code sqlite_list(hf_store *store, const hf_list_part *part, hf_record_fn each, void *ctx,
                    hf_error *err);
hf_code sqlite_await(hf_store *store, hf_id session, hf_stamp from, int64_t timeout_ms,
                     hf_notice_fn each, void *ctx, hf_error *err);
void sqlite_wake(hf_store *store);
int64_t sqlite_called(hf_store *store, const char *name);
hf_code sqlite_sweep(hf_store *store, hf_session_state *overdue, size_t max, size_t *n, bool *more,
                     hf_error *err);
hf_code sqlite_history_add(hf_store *store, const hf_turn_note *turns, size_t n, hf_error *err);
hf_code sqlite_history(hf_store *store, const hf_history_part *part, hf_turn_note_fn each,
                       void *ctx, hf_error *err);
hf_code sqlite_doctor(hf_store *store, hf_finding_fn each, void *ctx, hf_error *err);

/* records.c; main.mutex held. record_load: `out` holds nothing to free after a failure. */
hf_code record_load(sqlite_store *store, const char *name, hf_record *out, hf_error *err);
/* HF_SHAPE: a foreign row, which is left alone. */
hf_code record_decode(const sqlite_store *store, const char *name, const void *bytes, size_t size,
                      hf_record *out, hf_error *err);

/* waits.c: the wait report of a beat, inside its transaction; NULL: nothing, or no more */
hf_code waits_keep(sqlite_store *store, hf_id session, const hf_beat *says, hf_error *err);
hf_code waits_forget(sql *conn, hf_id session, hf_error *err);

/* own.c: the sessions of this process */
sqlite_own *own_find(sqlite_store *store, hf_id id); /* mutex held */
void own_add(sqlite_store *store, sqlite_own *own);
void own_remove(sqlite_store *store, hf_id id);        /* frees the byte */
void own_forget_all(sqlite_store *store);              /* frees memory only, locks nothing */
sqlite_own *own_borrow(sqlite_store *store, hf_id id); /* for await(); NULL: none */
void own_return(sqlite_store *store, sqlite_own *own);

/* A row of the table of sessions. */
typedef struct session_row {
    int64_t row;
    hf_session_state state; /* session_judge() sets is_gone and lease_left_ms */
    bool is_left;           /* session_judge(): its process is gone, but has left others behind */
    int64_t expires_at_ms;  /* CLOCK_BOOTTIME of its boot and time namespace */
    bool is_same_boot, is_same_clock;
    bool is_foreign; /* of another machine, where kernel locks don't reach */
} session_row;

/* rows.c: the mutex of the connection held, a transaction open */
void session_read(const sqlite_store *store, sqlite3_stmt *statement, session_row *out);
hf_code session_find(sqlite_store *store, hf_id id, bool *found, session_row *out, hf_error *err);
hf_code session_read_asks(sql *conn, hf_session_state *state, hf_error *err);
/* Says whether a live session is gone. Call boot_verify() before, in the same transaction. */
hf_code session_judge(const sqlite_store *store, session_row *row, int64_t clock_trust_ms,
                      hf_error *err);
int64_t session_now_ms(const sqlite_store *store);
int64_t session_wall_ms(const sqlite_store *store);

#endif
