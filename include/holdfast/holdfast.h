/* SPDX-License-Identifier: Apache-2.0 */
/* holdfast.h: the whole public interface of libholdfast: locks, leases and fencing tokens kept in
 * a database that you already run.
 *
 *     hf_client *client;
 *     hf_lock *lock;
 *     hf_error err;
 *     if (hf_open("mongodb://a,b,c/app?replicaSet=rs0", NULL, &client, &err) ||
 *         hf_lock_acquire(client, "nightly-report", NULL, &lock, &err))
 *         fail(err.text);
 *     write_report(hf_lock_token(lock));
 *     hf_lock_release(lock, &err);
 *     hf_lock_close(lock);
 *     hf_close(client);
 *
 * What a lock promises, and what it does not
 * ------------------------------------------
 * Two sessions never both believe at the same moment that they hold locks which exclude each other,
 * whatever crashes, pauses, elections and lost messages do. A session believes that it holds a lock
 * while hf_lock_check() returns HF_OK.
 *
 * A lock does NOT promise that nothing of yours happens after you lost it. Between your check and
 * your write, the process or the whole virtual machine can be paused for longer than the lease, and
 * a packet that you sent can arrive late. No lock service can prevent that. So:
 *   - give the fencing token, hf_lock_token(), to whatever you write to, and let it refuse a token
 *     lower than one that it has seen; hf_guard_mongo() and hf_guard_sqlite() do that for you.
 *   - stop working when the lock is lost: hf_lock_fd() becomes readable, and on_lost is called.
 * A lock also promises nothing while the locks collection is dropped or restored, or after it was
 * broken by force: two sessions may then believe, for at most a ttl and a third. Tokens still rise.
 * A lock is not re-entrant, and a forked child does not inherit it. Fork a child that is to take
 * locks itself before the first hf_open(), or let it run another program: with a store on SQLite
 * open in its parent, hf_open() refuses SQLite in it with HF_FORKED; with MongoDB, what threads of
 * its parent were doing stays half done in it, and its first call may then wait for ever.
 *
 * Conventions
 * -----------
 * Every call that can fail returns an hf_code (HF_OK is 0) and fills the caller's hf_error, which
 * may be NULL. `hf_x **out` is set only on success; the caller closes it. A returned `const char *`
 * belongs to its parent. Closing NULL does nothing. Option structs may be NULL; a member that is
 * zero means its default, so start from `{0}`. Plain numbers of time end in _ms. All functions may
 * be called from any thread, unless their comment says otherwise.
 *
 * The library prints nothing. The MongoDB driver has a log of its own, which goes to stderr. The
 * first hf_open() of a mongodb:// URI removes the driver's log handler, which is global; a program
 * that wants that log sets its own handler afterwards. While it is loaded, the driver warns if it
 * gets no shared memory ("Falling back to malloc for counters"). MONGOC_DISABLE_SHM=1 in the
 * environment prevents that. */
#ifndef HOLDFAST_H
#define HOLDFAST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif
#ifdef __cplusplus
extern "C" {
#endif

#define HF_VERSION "1.0.0"

/* The version of the running library; HF_VERSION is the version compiled against. */
const char *hf_version(void);

/* ---- Errors ------------------------------------------------------------------------------- */

/* The one table of outcomes: name, number, text, HTTP status, exit status, retryable. */
#define HF_CODE_TABLE(X)                                                                           \
    X(HF_OK, 0, "ok", 200, 0, false)                                                               \
    X(HF_HELD, 1, "held by another", 409, 75, true)                                                \
    X(HF_TIMEOUT, 2, "not free in time", 409, 75, true)                                            \
    X(HF_LOST, 3, "lost", 410, 76, true)                                                           \
    X(HF_DEADLOCK, 4, "deadlock", 409, 75, true)                                                   \
    X(HF_CANCELLED, 5, "cancelled", 499, 75, true)                                                 \
    X(HF_UNKNOWN, 6, "sent, but no answer", 504, 69, true)                                         \
    X(HF_UNREACHABLE, 7, "store unreachable", 503, 69, true)                                       \
    X(HF_DENIED, 8, "the store refused access", 502, 69, false)                                    \
    X(HF_READONLY, 9, "the store is read-only", 503, 69, false)                                    \
    X(HF_FULL, 10, "the store is full", 507, 69, true)                                             \
    X(HF_UNUSABLE, 11, "the store cannot be used", 502, 69, false)                                 \
    X(HF_SHAPE, 12, "a foreign document", 409, 65, false)                                          \
    X(HF_LIMIT, 13, "the limits disagree", 409, 65, false)                                         \
    X(HF_INVALID, 14, "bad name or value", 400, 65, false)                                         \
    X(HF_UNSUPPORTED, 15, "not supported by this store", 501, 65, false)                           \
    X(HF_NOT_FOUND, 16, "not found", 404, 65, false)                                               \
    X(HF_FENCED, 17, "a higher fencing token was here", 412, 76, false)                            \
    X(HF_FORKED, 18, "used in a forked child", 500, 70, false)                                     \
    X(HF_CLOSED, 19, "closed", 503, 70, false)                                                     \
    X(HF_INTERNAL, 20, "internal error", 500, 70, false)                                           \
    X(HF_KEY_REUSED, 21, "the key was used for another request", 422, 65, false)

typedef enum hf_code {
#define X(name, number, text, http, exit_status, retryable) name = number,
    HF_CODE_TABLE(X)
#undef X
} hf_code;

/* What went wrong. The caller owns it and the call fills it. The text names the thing and the
 * remedy. */
typedef struct hf_error {
    hf_code code;
    bool retryable; /* the same call may succeed later, with nothing changed; HF_LOST: acquiring
                     * anew may, with another key if there was one */
    char text[512];
} hf_error;

const char *hf_code_name(hf_code code); /* the name, such as "HF_HELD" */
const char *hf_code_text(hf_code code); /* in words, such as "held by another" */
int hf_code_http(hf_code code);         /* the HTTP status that fits */
int hf_code_exit(hf_code code);         /* the exit status that fits a command */
bool hf_code_retryable(hf_code code);   /* what an hf_error with it says */

/* ---- Client ------------------------------------------------------------------------------- */

typedef struct hf_client hf_client;
struct hf_env; /* clocks and randomness, see holdfast/store.h */

typedef enum hf_log_level { HF_LOG_DEBUG, HF_LOG_INFO, HF_LOG_WARNING } hf_log_level;

/* Called from any of the library's threads, one call at a time. It must not call Holdfast. */
typedef void (*hf_log_fn)(void *ctx, hf_log_level level, const char *text);

typedef struct hf_options {
    size_t struct_size;     /* sizeof(hf_options), or 0 for the members of version 1.0 */
    int64_t ttl_ms;         /* the lease: 1,000 to 3,600,000; default: hf_default_ttl_ms() */
    int64_t stop_margin_ms; /* the stop margin: the loss warning comes this long before the lease
                             * ends, so that work can stop while the lease still runs; default 0; at
                             * most ttl_ms / 2 */
    int64_t patience_ms;    /* how long an unreachable store is retried before HF_UNREACHABLE;
                             * default the URI's serverSelectionTimeoutMS, or 30,000, and 4,000
                             * for requests that may not wait (HF_TRY) and for hf_lease_renew().
                             * Calls that only read are retried alike on MongoDB; there are no
                             * exceptions but hf_list_options.asks_once and hf_doctor(), which has
                             * 10,000 at most for all of its looks. On MongoDB it is one time
                             * for all that a call asks the servers, from its beginning; a wait of
                             * any length has at least that of a request that may not wait, and what
                             * may have been done is taken back in the background. On SQLite a try
                             * under way is not cut short: it waits up to 5 s for a file that
                             * another program keeps locked */
    int64_t clock_trust_ms; /* for requests that may not wait: a session of this host counts as dead
                             * at first sight when its lease has been over for this long, by the
                             * server's clock and by this host's clock since boot (rule R6; on
                             * SQLite an ID lease at its end). On MongoDB, any other session whose
                             * lease is over counts as dead at a later request from this host, a ttl
                             * after the first that came since then.
                             * Default 300,000; negative: never */
    int32_t local_turns;    /* threads of this client that want the same exclusive lock stand in one
                             * line, behind one ticket, and pass the lock on among themselves. Once
                             * this client has heard that another session waits, as a rule at
                             * once, at most that many more in a row get it; default 8; negative:
                             * each thread waits in the store's queue by itself */
    int64_t deadlock_ms; /* a session that holds a lock and has waited this long for another looks
                          * for a deadlock (HF_DEADLOCK); default 1,000; negative: never; at least
                          * 10 */
    const char *app;     /* this program's name in listings; default: its own name */
    hf_log_fn log;       /* default: none */
    void *log_ctx;
    const struct hf_env *env; /* default: this machine's clocks */
    /* Put before every name that goes to the store and taken off every name that comes back, so
     * that programs share a collection without clashes; listings show only names that begin so. At
     * most 256 bytes; default: what the URI says (hfNamePrefix), or none. Error messages show whole
     * names. Not with protocol document, whose names are _ids. */
    const char *name_prefix;
    int64_t call_patience_ms; /* the patience of calls for which somebody waits, as in a service:
                               * requests that may not wait (HF_TRY), hf_lease_renew(),
                               * hf_lease_release(), and those that only read; default: patience_ms
                               * as above */
    /* The path of the command `holdfast`, searched for in PATH if it has no slash, but not by a
     * program with more rights than its caller, as a setuid one; NULL: none. With
     * it a guardian is started before the first session begins: a small process without a
     * connection that waits until this one has ended. If that ends without hf_close(), as after
     * SIGKILL, the guardian waits for those that have inherited hf_client_keep_fd(), and forked
     * children. Then it gives back what this client has held or waited for, within a second, or
     * when the lease is over if they go on for longer. It leaves ID leases alone. If hf_close()
     * could not send a release, the guardian goes on trying for an hour. It is no child of this
     * process and not in its session. Only for stores that other processes share and where a crash
     * does not show at once: MongoDB. What keeps it from starting is a warning in the log.
     * In place of a path, "fd:N": a socket (AF_UNIX, SOCK_SEQPACKET) whose other end is with a
     * process that was forked while this one had one thread, and that has called hf_guardian(). It
     * belongs to the client from the first session on. struct_size must be set. */
    const char *guardian;
} hf_options;

/* Opens a store: "sqlite:PATH", "memory:NAME" (within this process) or "memory:" (this client
 * alone), "mongodb://..." or "mongodb+srv://...". Sends nothing until the first call that needs the
 * database. Errors: HF_INVALID (URI, option), HF_UNSUPPORTED, and for SQLite the errors of opening
 * the file. */
hf_code hf_open(const char *uri, const hf_options *options, hf_client **out, hf_error *err);

/* The ttl of a client of that store that asks for none, in ms: 10,000, and on MongoDB 40,000, so
 * that a primary that crashes or hangs costs no holder its lock. With protocol sharding it is three
 * pings (90,000), but at most a tenth of hfExpiryMS; with protocol ttl or document at most what its
 * documents may last (hfExpireAfterSeconds; hfRefreshMS times hfStaleMultiplier); with all of them
 * at least 10,000. Sends nothing, opens nothing, and has no errors: for what hf_open() refuses it
 * says either. Thread-safe. */
int64_t hf_default_ttl_ms(const char *uri);

/* Gives up everything: ends waits (they return HF_CLOSED), sends the releases that are still in the
 * background, and ends the session. Goes on for as long as the database acknowledges releases. Once
 * it does not, takes at most about ten seconds; what could not be sent ends with the lease. Do not
 * use locks of this client while it runs. Afterwards they are lost (without a call of on_lost) and
 * must still be closed. Not to be called from a callback. In a forked child it only frees memory.
 */
void hf_close(hf_client *client);

/* A new file descriptor that stands for this client's session in an embedded store, or for its
 * guardian. It has no FD_CLOEXEC, so a child process can inherit it: others then see a crash when
 * the child has ended, too, or when the lease is over, whichever comes first. A child can do
 * nothing else with it. -1 if the store has nothing of the kind and there is no guardian, if there
 * is no session, or if it cannot be made, which is logged. Thread-safe. The caller closes it. */
int hf_client_keep_fd(hf_client *client);

/* What `holdfast guardian` does. fd: the guardian's end of the socket to its client, which is the
 * only descriptor besides /dev/null that the process should have. Returns when nothing is left to
 * do, or an hour after that process ended: 0; 1 if some locks were left to their leases; 64 if fd
 * is no such socket. Ignores signals, and takes the whole process: call it with one thread. */
int hf_guardian(int fd);

/* For a process that this one starts and then waits for: names what this client holds, and what
 * HOLDFAST_HELD named when it was opened, at most 32 locks in all; "" if there are none. Put the
 * text into that process's environment as HOLDFAST_HELD, as `holdfast run` does. A client that is
 * opened there knows that these locks stay held while it waits, so that deadlocks through processes
 * are found (HF_DEADLOCK). Writes at most size bytes with the final 0; returns the length of the
 * whole text, like snprintf(). Thread-safe. */
size_t hf_client_held(hf_client *client, char *out, size_t size);

/* The protocol of this client's store: "queue", which embedded stores always have, or what
 * hfProtocol in the URI says: "ttl", "document", "sharding". With "queue", a lock ends with its
 * holder's lease. With the others, which foreign programs read, a lock that could not be released
 * may stand for longer. The text lives as long as the client. */
const char *hf_client_protocol(const hf_client *client);

/* ---- Locks -------------------------------------------------------------------------------- */

typedef struct hf_lock hf_lock;
typedef struct hf_cancel hf_cancel;

typedef enum hf_mode { HF_EXCLUSIVE, HF_SHARED } hf_mode;

#define HF_WAIT_DEFAULT ((int64_t)0) /* for ever, unless the protocol has a limit of its own */
#define HF_WAIT_FOREVER INT64_MAX
#define HF_TRY ((int64_t)-1) /* take it now or not at all */

/* What a wait is waiting for; valid during the call. */
typedef struct hf_wait_info {
    const char *name;
    int64_t waited_ms;
    /* In the store's queue, in which all threads of a client that want the lock exclusively have
     * one place. A thread behind another one of its client is told its place behind that thread, as
     * position and as queued, and a holder, with n_holders 1 and without why and held_since_ms. */
    size_t position; /* 1: next; 0: in no queue, as it is full or the protocol has none; the client
                      * asks again */
    size_t queued;   /* how many wait in all */
    size_t n_holders;
    const char *holder;    /* one of the holders, such as "cron@web1:4711", or "this very process";
                            * "another session" while it is not known; "" until the store has been
                            * reached. While there is trouble, position and holders are those seen
                            * last */
    const char *why;       /* the holder's reason; "" when none was given */
    int64_t held_since_ms; /* Unix time in ms, 0 when not known */
    const char *trouble;   /* why the store cannot be reached at the moment; else "" */
} hf_wait_info;

typedef void (*hf_wait_fn)(void *ctx, const hf_wait_info *info);

/* The loss warning: a lock was lost. err says why; left_ms is how much of the lease is left for
 * stopping the work. Called once per lock, unless the lock is closed before that, from a thread of
 * the library that holds none of its mutexes. It may call hf_lock_close(), but not hf_close(). */
typedef void (*hf_lost_fn)(void *ctx, hf_lock *lock, const hf_error *err, int64_t left_ms);

typedef struct hf_lock_options {
    size_t struct_size; /* sizeof(hf_lock_options), or 0 for the members of version 1.0 */
    hf_mode mode;       /* ignored when permits is set */
    int32_t permits;    /* a semaphore: take this many ... */
    int32_t limit;      /* ... of this many; both or neither */
    bool sets_limit;    /* the limit holds from now on, also where the semaphore is in use with
                         * another one: for programs that are exchanged one after the other. Those
                         * that hold go on holding, those that wait keep their places, and the next
                         * is granted when the permits fit. Users that do not set it get HF_LIMIT
                         * then, unless theirs is the same. HF_LIMIT all the same: one that waits
                         * wants more permits than that, or the lock is no semaphore */
    int64_t wait_ms;    /* HF_WAIT_DEFAULT, HF_WAIT_FOREVER, HF_TRY, or milliseconds */
    const char *why;    /* the reason, shown to waiters; at most 256 bytes */
    const char *actor;  /* the holder's name inside this process; at most 64 bytes */
    hf_cancel *cancel;  /* firing it ends the wait with HF_CANCELLED */
    hf_wait_fn on_wait; /* called in the caller's thread when the wait begins and about once a
                         * second, but not during a request: where a server accepts it and does not
                         * answer, for up to 5 s; default: none */
    void *wait_ctx;
    hf_lost_fn on_lost;
    void *lost_ctx;
    int64_t linger_ms; /* exclusive locks: once released and wanted by nobody, the lock stays with
                        * this client for this long, and taking it again costs no round trip.
                        * Another session's request that waits recalls it at once; one that may
                        * not wait (HF_TRY) is refused. A crash ends it like a holder's crash:
                        * with the lease. At most 3,600,000; default 0: none.
                        * Without notices the lock is released at once. So is a new one after its
                        * first holds, until the database's clock is seen to have gone on: tokens
                        * may not run ahead of it */
    bool no_refresh;   /* protocol document: only hf_lock_refresh() renews this lock, and belief in
                        * it ends a ttl after the last refresh, or after it was taken */
    int64_t feed_ms;   /* a watchdog: the lock is lost unless hf_lock_feed() is called within this
                        * long after the grant and after each feeding; 0: none */
    int64_t max_hold_ms; /* the lock is lost this long after the grant, fed or not; 0: never */
    int64_t period_ms;   /* for work done once per period: the period's length, 1,000 ms to ten
                          * years; see hf_lock_has_run() */
    /* Protocol sharding: the lock session id that the lock's document gets (`ts`), 24 lower-case
     * hexadecimal digits, not all 0. A document that has it already is taken over at once, unless a
     * lock of this client holds it: so a program that is started again has its lock back. Programs
     * with the same id take each other's locks, and the one that has lost learns it at the latest
     * with its next ping. NULL: what the URI says (hfLockSession), or a new one. */
    const char *lock_session;
    int64_t reserved[8]; /* 0: room for later versions, in whose leases this struct stands, too */
} hf_lock_options;

/* Takes a lock, waiting in line for it. Names: UTF-8, 1 to 512 bytes. Errors: HF_HELD (HF_TRY),
 * HF_TIMEOUT, HF_DEADLOCK, HF_CANCELLED, HF_LIMIT (the lock is in use with another limit),
 * HF_INVALID, HF_SHAPE, HF_UNSUPPORTED (an option that this store or protocol has not),
 * HF_NOT_FOUND (protocol `document`: no such document), HF_UNREACHABLE and related codes,
 * HF_FORKED, HF_CLOSED. After any error nothing stays in the queue: a ticket that could not be
 * taken back at once is taken back in the background.
 *
 * HF_DEADLOCK: the caller's thread or actor holds a lock, and the sessions that hold the wanted
 * lock wait for it, directly or through others. The last one to come is told, with the whole cycle
 * in the text. It keeps what it holds: release that and begin again. A deadlock is usually found
 * after twice deadlock_ms; up to a third of the ttl later where one of them had waited long before
 * the last came, and two thirds where it goes through a process that the holder started. The search
 * takes each thread for one owner: if handles move between threads, give each owner an `actor`. It
 * is not found among waits that a full queue refuses, nor in protocols without a queue. */
hf_code hf_lock_acquire(hf_client *client, const char *name, const hf_lock_options *options,
                        hf_lock **out, hf_error *err);

/* Takes n locks, all or none. n is at least 1, and no name comes twice. All use the same options;
 * wait_ms is for all of them together. out: n locks in the order of the names, each to be released
 * and closed like any other.
 *
 * Waiting follows the byte order of the names, so callers that take several locks never deadlock
 * with each other. A lock that was granted while a name before it is waited for is given back
 * meanwhile, and `last` does not mention that. When one of the locks is lost, the others are lost
 * too, and on_lost is called once, with the one that was lost first; locks released before do not
 * count.
 *
 * Thread-safe. Errors: those of hf_lock_acquire(), about the first name that failed; nothing is
 * held then: what had been granted is given back, perhaps just after this call returns. On a
 * network the locks are tried at the same time, by up to 8 threads that end before this call
 * returns. */
hf_code hf_lock_acquire_all(hf_client *client, const char *const *names, size_t n,
                            const hf_lock_options *options, hf_lock **out, hf_error *err);

/* Says whether the lock is held, and for how long at least. Asks the clock, sends nothing.
 *   - HF_OK: it is held; left_ms is what is left of the lease.
 *   - HF_LOST: it is lost or released, and err says why. left_ms (may be NULL) is 0, or what is
 *     left to stop working in. */
hf_code hf_lock_check(hf_lock *lock, int64_t *left_ms, hf_error *err);

/* Begins a new interval of feed_ms. Asks the clock, sends nothing. HF_LOST: the call came too late.
 *
 * A lock with a watchdog (feed_ms, or max_hold_ms) is lost if its worker is stuck. A thread of the
 * library notices that the lock was not fed in time, or was held for too long. The loss is like any
 * other: hf_lock_check() says so, on_lost is called, and the work has stop_margin_ms to stop. After
 * that, or after hf_lock_close(), the ticket is given up, with a reason in `last`. Call
 * hf_lock_feed() where the work makes progress, not from a thread or timer of its own. */
hf_code hf_lock_feed(hf_lock *lock, hf_error *err);

/* Releases the lock and waits for the database's acknowledgement. The handle must still be closed.
 *   - HF_OK: it is released now, or was released before.
 *   - HF_LOST: it was lost before; its ticket is taken out all the same, in the background. Also if
 *     it may have been lost: a try had no answer, and its session was over before the next.
 *   - HF_UNKNOWN, HF_UNREACHABLE: not acknowledged within patience_ms. The release continues in the
 *     background until hf_close(), also after the lease, which ends the lock at the latest. */
hf_code hf_lock_release(hf_lock *lock, hf_error *err);

/* Frees the handle. A lock still held is released in the background, without a round trip for the
 * caller, and before the same client's next acquire of that name. Only if more than a hundred
 * others still wait to be released, the call sends some of them itself, which takes a round trip.
 */
void hf_lock_close(hf_lock *lock);

/* The mode believed while hf_lock_check() returns HF_OK. A lock taken shared, or downgraded, is
 * HF_SHARED. A semaphore is HF_EXCLUSIVE only with all its permits. */
hf_mode hf_lock_mode(const hf_lock *lock);

/* Changes exclusive to shared on the same handle, without a gap: the lock is held all the time,
 * with the same token, and the same step lets in readers that wait next in line. Belief in
 * exclusive ends when the call begins; belief in shared goes on. The call then waits for the
 * acknowledgement. From any thread, but not while the handle is being closed.
 *   - HF_OK: it is shared now, or was shared before.
 *   - HF_UNKNOWN, HF_UNREACHABLE and related codes: not acknowledged in time. For the holder it
 *     is done, but readers may still wait. It continues in the background, and may be called
 *     again.
 *   - HF_LOST: the lock is no longer held.
 *   - HF_INVALID: a semaphore, a lock taken with period_ms, or another thread is upgrading or
 *     downgrading it.
 *   - HF_UNSUPPORTED: protocols without shared locks. */
hf_code hf_lock_downgrade(hf_lock *lock, hf_error *err);

/* Changes shared to exclusive, at once or not at all: two holders that want it never wait
 * for each other. From any thread, but not while the handle is being closed.
 *   - HF_OK: nobody shared it and nobody waited. It is exclusive, with the next token
 *     (hf_lock_token(), hf_lock_previous()). Or it was exclusive before.
 *   - HF_HELD: others share it, or a waiter would be passed; it is still held, shared. To have
 *     it exclusively all the same, release it and acquire it: others may come between.
 *   - HF_UNKNOWN, HF_UNREACHABLE and related codes (after patience_ms): only shared is
 *     believed. Others may find it exclusive for up to a ttl or two, until the background has
 *     lowered it. May be called again.
 *   - Other errors: those of hf_lock_downgrade(). */
hf_code hf_lock_upgrade(hf_lock *lock, hf_error *err);

/* A descriptor that becomes readable (poll, select) when the lock is lost, and stays so. Made at
 * the first call; -1 if none can be made. Do not read or close it. */
int hf_lock_fd(hf_lock *lock);

/* The fencing token: higher than that of every earlier grant of this lock; below 2^53. An upgrade
 * takes the next one. 0 where the protocol has none: ttl, sharding, and document without
 * hfTokenField. */
int64_t hf_lock_token(const hf_lock *lock);

/* The name by which the lock was taken, in protocol document as listings write it ("7" for 7.0);
 * for a claimed document, the one by which hf_document_acquire() would take it. */
const char *hf_lock_name(const hf_lock *lock);

/* How long acquiring took. */
int64_t hf_lock_waited_ms(const hf_lock *lock);

/* Sets the exit status of the work under the lock; the release stores it as `last.exit_status`.
 * Required if period_ms was given: see hf_lock_has_run(). */
void hf_lock_set_exit_status(hf_lock *lock, int exit_status);

typedef enum hf_outcome {
    HF_OUTCOME_NONE,      /* nobody held it before */
    HF_OUTCOME_RELEASED,  /* the last holder released it */
    HF_OUTCOME_ABANDONED, /* the last holder died, or lost it: check what it left half done */
} hf_outcome;

/* The last work that was finished with an exit status (hf_lock_set_exit_status()), by the last
 * holder or an earlier one. It stays known when a later holder dies. That holder may never have
 * begun: a process that died before it learned of its grant is `abandoned` all the same. */
typedef struct hf_done {
    const char *who; /* NULL: none is known */
    int64_t token;
    int exit_status;
    int64_t at_ms; /* Unix time in ms, by the store's clock */
    /* As in hf_last. Work of a period stays known until the period is over, or until work of
     * another period is finished. */
    int64_t period_start_ms, period_end_ms;
} hf_done;

/* How the last holder left, as a robust mutex reports with EOWNERDEAD. */
typedef struct hf_last {
    hf_outcome outcome;
    const char *who;
    int64_t token; /* of an abandoned lock: the first token of the block with which threads of one
                    * client passed it on */
    bool has_exit_status;
    int exit_status;
    int64_t at_ms; /* Unix time in ms, by the store's clock */
    /* For work done once per period: the start of that holder's period and its end (exclusive),
     * Unix time in ms by the store's clock. 0, 0: not such work, or it was not done. */
    int64_t period_start_ms, period_end_ms;
    const char *reason; /* why its watchdog ended it, or who broke it and why; "" otherwise */
    hf_done done;
} hf_last;

/* How the holder before this one left. Its strings live as long as the lock, or until it is
 * upgraded; after that it says how the last of those that shared it left. The first call asks the
 * database if the lock was handed over while this one waited, because a notice carries only the
 * token. In protocols without a queue it asks in any case, and notes the caller, so that the next
 * holder learns how this one left; HF_DENIED there: docs/protocols.md says which right is needed.
 * HF_LOST: it is not known, and the lock is no longer held. HF_UNREACHABLE and related codes: not
 * known now. */
hf_code hf_lock_previous(hf_lock *lock, hf_last *out, hf_error *err);

/* Whether the work of this lock's period was done. The lock must have been taken with period_ms. If
 * true, hf_lock_previous() says by which holder and with which exit status. Otherwise the holder
 * does the work and calls hf_lock_set_exit_status() before it releases the lock: that is what says
 * that the work was done, well or not. A release without it leaves the record unchanged, and so
 * does the release of a holder that finds the work done. A holder that dies or loses the lock is
 * `abandoned`, and the next one does the work.
 *
 * Periods of a given length are counted from 1970, in UTC. A lock's period is the one its grant
 * falls into by the store's clock, so hosts cannot differ about it. Only for exclusive locks
 * (HF_INVALID); HF_UNSUPPORTED with a store of your own that does not keep how a lock was left. All
 * callers must give the same length: work done with another length counts for the period in which
 * that period began. */
bool hf_lock_has_run(const hf_lock *lock);

/* ---- Leases -------------------------------------------------------------------------------- */

/* An ID lease is a lock that is held by an id, not by a process. Anyone who knows the id can renew
 * or release it, from any process and host that uses the same store. So scripts can hold a lock
 * over many commands, and HTTP clients can hold one whichever service answers them. If nobody
 * renews it, the lock is free a ttl later, as after a crash.
 *
 * An id is 32 hexadecimal digits that cannot be guessed, a '-', and the lock's name. Bytes of the
 * name other than letters, digits, '.', '_' and '-' are written as '~' and two hexadecimal digits.
 * Keep the id from anyone who must not release the lock. The store has only a hash of it. */

#define HF_LEASE_ID_SIZE 1572 /* bytes, with the final 0 */

typedef struct hf_lease_options {
    size_t struct_size;   /* sizeof(hf_lease_options), or 0 for the members of version 1.0 */
    hf_lock_options lock; /* only mode, permits, limit, wait_ms, why, cancel and on_wait */
    int64_t ttl_ms;       /* without a renewal the lock is free after this long; 1,000 to 3,600,000;
                           * default: the client's */
    const char *owner;    /* shown as the holder, with the host; at most 256 bytes; default: the
                           * client's app */
    const char *key;  /* the same key and name make the same id: a repeated call, here or on another
                       * host, finds the lease that it made. Keep it as secret as the id. NULL: a new
                       * id */
    const char *host; /* shown behind the owner; at most 256 bytes; default: this host. A service
                       * names its caller's, by which the place in the queue is shown, too; a
                       * repeat may come from another */
} hf_lease_options;

typedef struct hf_lease {
    char id[HF_LEASE_ID_SIZE];
    int64_t token;
    int64_t ttl_ms;
    int64_t left_ms;    /* what is left of the lease; renew it before that is over, best after a
                         * third */
    int64_t ends_at_ns; /* the same as a point on CLOCK_BOOTTIME: when the lease is over */
    int64_t waited_ms;
    bool was_there;   /* an earlier call with this key made it */
    hf_last previous; /* its strings are the members below; in protocols without a queue it is not
                       * asked, and HF_OUTCOME_NONE */
    char previous_who[257], previous_reason[257], previous_done_who[257];
} hf_lease;

/* Takes a lock like hf_lock_acquire(), and makes it an ID lease. Costs two round trips more than
 * that call. A key costs another one, or three where several may hold the lock (it is shared, or
 * has permits). *out needs no preparation.
 *
 * With a key: a call that comes while another call with this key waits, at whatever client, gets
 * the same lease, and so does a later call. Errors: those of hf_lock_acquire(), and
 *   - HF_LOST: the lease of this key has ended; take another key.
 *   - HF_KEY_REUSED: this key's lease was made with another mode, number of permits or limit, or
 *     with another ttl, owner or reason than this call gives; one that it leaves out is not
 *     compared.
 *   - HF_UNKNOWN: the lease may exist, and ends by itself; a repeat with the same key finds
 *     out.
 *
 * In protocols without a queue, taking a free lock costs one further round trip in `sharding`, none
 * in the others, and another with a key. The store remembers nothing about a lease that has ended:
 * its key takes the lock anew, and a repeated release finds HF_LOST. `document` and `sharding`
 * decide themselves how long a lease lasts, at least as long as asked (ttl_ms of *out). */
hf_code hf_lease_acquire(hf_client *client, const char *name, const hf_lease_options *options,
                         hf_lease *out, hf_error *err);

/* A wait for a lease that occupies no thread: for services with many callers. */
typedef struct hf_lease_wait hf_lease_wait;

/* How the wait ended: the lease, or NULL and the error. Called once, from a thread of the library
 * that holds none of its mutexes. It may take its time, but a few such threads serve all waits.
 * It must not call hf_close(). */
typedef void (*hf_lease_fn)(void *ctx, const hf_lease *lease, const hf_error *err);

/* Begins what hf_lease_acquire() does, and returns at once. `done` is called when the wait has
 * ended, perhaps before this call returns. Options and name are copied; on_wait is not called;
 * lock.cancel must be NULL. *out is set before `done` is called, and is gone when `done` returns.
 * Errors: of the arguments only; `done` is not called then. */
hf_code hf_lease_begin(hf_client *client, const char *name, const hf_lease_options *options,
                       hf_lease_fn done, void *ctx, hf_lease_wait **out, hf_error *err);

/* Ends a wait soon: `done` gets HF_CANCELLED, unless it has the lease already. From any thread; the
 * caller makes sure that `done` has not returned. */
void hf_lease_cancel(hf_lease_wait *wait);

/* Renews a lease for its whole ttl. *out (may be NULL) gets the token and what is left, counted
 * from before the request was sent.
 *   - HF_LOST: it has run out and another has taken the lock, or it was released or broken: stop
 *     working. As long as nobody has taken it, a lease that has run out can be renewed.
 *   - HF_INVALID: not an id.
 *   - HF_UNREACHABLE and related codes: not renewed; left_ms of the last renewal still counts. */
hf_code hf_lease_renew(hf_client *client, const char *id, hf_lease *out, hf_error *err);

/* Releases a lease and waits for the acknowledgement.
 *   - HF_OK: it is released now, or was released before: the call is safe to repeat. In protocols
 *     without a queue a repeat finds HF_LOST.
 *   - HF_LOST: it was lost before. Once the next holder has left, that is not known: HF_OK.
 *   - HF_UNREACHABLE, HF_UNKNOWN: not acknowledged within call_patience_ms. The client goes on
 *     sending it until the store has answered or hf_close(), and does not renew the lease any more:
 *     its owner gives it up by this call, whatever comes of it. It may be repeated. In protocols
 *     without a queue nothing is sent later: the lock is free when the lease runs out.
 *   - Other errors: repeat it, or the lock is free when the lease runs out. */
hf_code hf_lease_release(hf_client *client, const char *id, hf_error *err);

/* ---- Documents ---------------------------------------------------------------------------- */

/* MongoDB's protocol `document` (hfProtocol=document&hfCollection=ORDERS in the URI) keeps the lock
 * in two fields of the user's own document. A lock's name is the document's _id: text that is
 * extended JSON of an ObjectId, a number, an object, a quoted string, true, false or null means
 * that value; any other text is the string itself. With hfElement=lines.id in the URI, locks are in
 * the elements of the array `lines`, and a name is a JSON array of the document's _id and the
 * element's id: ["A17",7].
 * With other stores and protocols, these calls give HF_UNSUPPORTED and say which one has them. */

/* Takes the lock of the document with this _id, like hf_lock_acquire(). HF_NOT_FOUND: there is no
 * such document, and none is made. HF_SHAPE: its lock fields are of other types; it is left alone.
 */
hf_code hf_document_acquire(hf_client *client, const char *id_json, const hf_lock_options *options,
                            hf_lock **out, hf_error *err);

/* Takes the first document, in the order of sort_json (NULL: any), that matches filter_json (NULL:
 * all) and is free or stale. One command, however many claim at once. hf_lock_name() says which
 * document. Without HF_TRY it waits for a document, or gives HF_TIMEOUT. With hfElement it takes an
 * element, by three commands; filter and order are about documents with one element in place of the
 * array, as $unwind gives them. hf_lock_previous() says how the last one left that document, if
 * that one had asked, too: what it did may be half done.
 *   - HF_NOT_FOUND (HF_TRY): there is none.
 *   - HF_INVALID: the filter or the order is not extended JSON, or uses an operator that the server
 *     does not know. HF_UNUSABLE: the server refuses it for another reason, which err gives. */
hf_code hf_document_claim(hf_client *client, const char *filter_json, const char *sort_json,
                          const hf_lock_options *options, hf_lock **out, hf_error *err);

/* The user's document as it was when it was locked, as relaxed extended JSON. NULL with other
 * protocols. With hfElement, the element stands in place of the array. It lives as long as the
 * lock.
 */
const char *hf_lock_document(const hf_lock *lock);

/* Renews a lock that was taken with no_refresh. Waits for the acknowledgement; the lock lasts a ttl
 * from the call on. Other locks of this protocol may be refreshed too; that does not change their
 * lease.
 *   - HF_LOST: it is no longer held.
 *   - HF_UNREACHABLE, HF_UNKNOWN: not acknowledged; the former lease still counts: call again. */
hf_code hf_lock_refresh(hf_lock *lock, hf_error *err);

/* ---- Cancelling --------------------------------------------------------------------------- */

/* Makes a cancel, with which waits can be ended. It must outlive the calls that it is given to. */
hf_code hf_cancel_new(hf_cancel **out, hf_error *err);

/* Ends all waits that the cancel was given to, and those that it will be given to: it stays fired.
 * From any thread, and from a signal handler. */
void hf_cancel_fire(hf_cancel *cancel);

/* Frees the cancel, once no call has it any more. NULL is ignored. */
void hf_cancel_free(hf_cancel *cancel);

/* ---- Who holds what ------------------------------------------------------------------------ */

/* A holder or waiter. Strings are valid during the callback. */
typedef struct hf_entry_info {
    const char *session; /* hexadecimal id */
    const char *who;     /* "app@host:pid"; "" when the session is gone */
    const char *actor;
    const char *why;
    int64_t token; /* 0 while waiting */
    int32_t permits;
    int64_t since_ms;      /* Unix time in ms: when it entered */
    int64_t granted_ms;    /* 0 while waiting */
    int64_t lease_left_ms; /* by the store's clock; negative: overdue; 0: not known */
    size_t position;       /* 1 is next; 0 for holders */
} hf_entry_info;

typedef struct hf_lock_info {
    const char *name;
    int32_t limit;
    int64_t token;
    size_t n_holders;
    const hf_entry_info *holders;
    size_t n_queue;
    const hf_entry_info *queue;
    hf_last last;
    size_t n_outside; /* how many more wait outside the queue, at most: some may have given up */
} hf_lock_info;

typedef struct hf_session_info {
    const char *session;
    const char *app;
    const char *host;
    int64_t pid;
    int64_t started_ms; /* 0: not known; with protocol sharding that of its last ping */
    int64_t ttl_ms;
    int64_t lease_left_ms;
    bool dead;
} hf_session_info;

/* A limit of 2^30 is a mutex or a read-write lock; anything else is a semaphore. */
#define HF_LIMIT_RW ((int32_t)1 << 30)

/* Callbacks return false to stop early, which is not an error. */
typedef bool (*hf_lock_info_fn)(void *ctx, const hf_lock_info *info);
typedef bool (*hf_session_info_fn)(void *ctx, const hf_session_info *info);

typedef struct hf_list_options {
    size_t struct_size; /* sizeof(hf_list_options), or 0 for the members of version 1.0 */
    const char *prefix; /* only locks whose names begin with it; NULL: all */
    const char *after;  /* only names behind this one, in byte order; NULL: from the first on */
    bool in_use;        /* only locks that somebody holds or waits for */
    size_t limit;       /* at most so many locks, which are then read at once; 0: all */
    const char *lock_session; /* protocol sharding: only locks that were last taken with this lock
                               * session id (hf_lock_options); NULL: all */
    bool asks_once; /* where the store gives no answer, it fails at once, for callers that ask again
                     * by themselves; otherwise patience_ms applies */
} hf_list_options;

/* Lists locks in the byte order of their names. Locks that nobody holds or waits for are included
 * until they are pruned. The list is read in parts while `each` is called: a lock that is made or
 * pruned meanwhile may be in it or not. With a limit, a list costs no more than what it may show;
 * the next one goes on `after` the last name. options NULL: all. */
hf_code hf_list_locks(hf_client *client, const hf_list_options *options, hf_lock_info_fn each,
                      void *ctx, hf_error *err);

/* Lists locks as hf_list_locks() does, with a prefix (NULL: all) and no other option. */
hf_code hf_list(hf_client *client, const char *prefix, hf_lock_info_fn each, void *ctx,
                hf_error *err);

/* Shows one lock. HF_NOT_FOUND: there is no such record. */
hf_code hf_show(hf_client *client, const char *name, hf_lock_info_fn each, void *ctx,
                hf_error *err);

/* What comes after a link of hf_why(). */
typedef enum hf_why_next {
    HF_WHY_ROOT,    /* nothing: the holder waits for nothing, as far as is known */
    HF_WHY_FOLLOWS, /* the holders of waits_for, one deeper */
    HF_WHY_CYCLE,   /* nothing: waits_for is a lock further up in this chain */
    HF_WHY_TOLD,    /* nothing: the holders of waits_for came before, behind another holder */
    HF_WHY_CUT,     /* nothing: the bound was reached, and waits_for was not read */
    HF_WHY_UNKNOWN, /* nothing: whether the holder waits is not known, because the protocol has no
                     * wait reports */
} hf_why_next;

/* A holder in the chain. Strings are valid during the callback. */
typedef struct hf_why_link {
    const char *name;            /* the lock */
    size_t depth;                /* 0: the lock that was asked for; 1: what its holders wait for */
    const hf_entry_info *holder; /* who holds it, why, since when, and whether its lease is over */
    const char *waits_for;       /* the lock that the holder waits for; NULL: none is known */
    hf_why_next next;
} hf_why_link;

typedef bool (*hf_why_fn)(void *ctx, const hf_why_link *link);

/* Says why a lock is waited for: who holds it, what that holder waits for itself, who holds that,
 * and so on to the root. Calls `each` once for each holder, and right after it for the holders of
 * what it waits for, so several holders make a tree. The holders of a lock come only once. One that
 * waits for several locks comes once for each of them. A free lock has no links, which is HF_OK.
 *
 * The holders say in their beats what they wait for, once a wait has lasted deadlock_ms of theirs:
 * so a wait is seen up to a third of the holder's ttl later than that, and until then the holder
 * looks like a root. A holder is the thread or the actor that has the lock, as for HF_DEADLOCK. It
 * also waits for what a process waits for that it started, if that process knows by
 * hf_client_held() what is held. An ID lease has no process that could wait: the chain ends there.
 * With deadlock_ms < 0 a client reports no waits.
 *
 * The reads come one after the other, so the chain need not have existed at one moment, and a cycle
 * is no proof of a deadlock. It reads the wait reports of all sessions at once, then the records of
 * each level at once, and the holders' sessions. At most 32 levels and 100 locks are followed.
 * Names are those of this client (name_prefix); locks that have another prefix are shown
 * with their whole names. Needs no session. From any thread; `each` is called in the caller's, and
 * must not call hf_close().
 *   - HF_NOT_FOUND: there is no such record.
 *   - HF_INVALID: the name.
 *   - HF_UNREACHABLE and related codes. */
hf_code hf_why(hf_client *client, const char *name, hf_why_fn each, void *ctx, hf_error *err);

/* Lists every session: those that hold or wait, or have done so and still stand, and ended ones,
 * which are kept for a day (SQLite: about an hour). */
hf_code hf_sessions(hf_client *client, hf_session_info_fn each, void *ctx, hf_error *err);

/* How a turn ended. */
typedef enum hf_turn_end {
    HF_TURN_RELEASED,  /* its holder released it */
    HF_TURN_LOST,      /* its holder lost it, and lives */
    HF_TURN_BROKEN,    /* somebody broke it */
    HF_TURN_ABANDONED, /* its holder died, or its lease ran out, and the next one took it over */
    HF_TURN_MISSING,   /* no turn: `more` turns of any locks, which `who` could not note */
} hf_turn_end;

/* A turn that has ended: somebody had the lock from granted_ms to ended_ms. If it was broken or
 * lost, it ends when its holder learned that, and the lock is free when that has left, or its lease
 * is over. A change between shared and exclusive begins no new turn; token and permits are those at
 * the end. Strings are valid during the callback; "": none, or not known. */
typedef struct hf_turn {
    const char *name;
    const char *session; /* hexadecimal id */
    const char *who;     /* "app@host:pid" */
    const char *actor;
    const char *why;
    int64_t token; /* 0: none, or not known; of an abandoned lock as in hf_last */
    int32_t permits;
    int32_t limit;
    int64_t granted_ms; /* Unix time in ms, as far as is known by the store's clock; 0: not known */
    int64_t ended_ms;
    hf_turn_end end;
    const char *reason; /* why it was lost, or who broke it and why; "" otherwise */
    bool has_exit_status;
    int exit_status;
    int64_t more; /* so many turns of the same client came just before this one, in a few seconds,
                   * and are not told one by one */
} hf_turn;

typedef bool (*hf_turn_fn)(void *ctx, const hf_turn *turn); /* false: stop */

typedef struct hf_history_options {
    size_t struct_size; /* sizeof(hf_history_options) */
    int64_t since_ms;   /* Unix time in ms: only turns that ended then or later; 0: all */
    size_t limit;       /* at most so many turns; 0: 1,000; at most 10,000 */
    bool tells_missing; /* also says what is missing (HF_TURN_MISSING): how many turns of a client,
                         * which ended from granted_ms to ended_ms; of any locks, so it is told of
                         * each. The name is "" */
} hf_history_options;

/* Gives the turns of the lock of that name that have ended, the newest first; name NULL or "": of
 * all locks. hf_show() says who has it now.
 *
 * Each client notes the turns that it ends and writes them within 5 s, and when it is closed, so
 * even the shortest is seen. Of more than 20 turns of a lock at a time, those in a row that were
 * released without an exit status, or with 0, are counted, not noted one by one. It keeps at most
 * 4,000 turns of all locks until they are written, which it does the sooner the more there are;
 * what ends beyond that is missing, and the history says how many and when (tells_missing). A lock
 * of once-per-period work (period_ms) that is released without an exit status was given back: that
 * is no turn.
 *
 * The history is no proof, and nothing waits for it: what a client had not written when it was
 * killed is missing (the turn that its death ended is noted by the client that takes the lock
 * over), and so are the turns of other programs in protocols ttl, document and sharding. Old turns
 * are dropped: docs/operations.md says when. options NULL: the defaults. From any thread; `each` is
 * called in the caller's.
 *   - HF_INVALID: the name, or a value.
 *   - HF_UNSUPPORTED: a store of others that keeps no history. With hfHistory=0 in the URI, and in
 *     the database `config`, nothing is noted.
 *   - HF_DENIED: docs/operations.md says which right is needed.
 *   - HF_UNREACHABLE and related codes. */
hf_code hf_history(hf_client *client, const char *name, const hf_history_options *options,
                   hf_turn_fn each, void *ctx, hf_error *err);

typedef struct hf_break_options {
    size_t struct_size; /* sizeof(hf_break_options), or 0 for the members of version 1.0 */
    const char *reason; /* told to the holder, in protocol queue; required; at most 256 bytes */
    const char *by;     /* who breaks it; default: this program */
    int64_t if_token;   /* only the holder with this token; 0: all holders */
    bool force;         /* at once: two sessions may then believe for up to a ttl, and only the
                         * token protects */
    hf_cancel *cancel;  /* stops the wait; the ask stays in force */
} hf_break_options;

/* Takes a lock from its holders: asks them, waits until they have left or can no longer believe (a
 * ttl and a little), and takes their tickets out. A holder is told within a third of its ttl. One
 * that upgrades its lock just then is told, too, but this call does not wait until it has left. In
 * protocols without a queue nobody can be asked: there only with force, and its holder finds that
 * the lock is gone.
 *   - HF_UNREACHABLE, HF_UNKNOWN: no answer for patience_ms from the beginning, or, once holders
 *     were asked, from when none of them can believe; the ask may stay in force.
 *   - HF_NOT_FOUND: nobody holds the lock, or not with that token.
 *   - HF_UNSUPPORTED: without force, in a protocol without a queue. */
hf_code hf_break(hf_client *client, const char *name, const hf_break_options *options,
                 hf_error *err);

/* Unlocks all locks of a process that is gone, and ends its pings: protocol sharding, whose locks
 * belong to processes (hfProcess). What MongoDB's manager does at its start for its former life.
 * *n, if not NULL: how many were unlocked. A process that lives, this client too, may learn only
 * with its next ping that it has lost its locks. HF_UNREACHABLE, HF_UNKNOWN: no answer for
 * patience_ms. HF_UNSUPPORTED: other protocols. */
hf_code hf_unlock_all(hf_client *client, const char *process, int64_t *n, hf_error *err);

/* Unlocks what was taken with a lock session id (hf_lock_options.lock_session): the lock of that
 * name, or, with name NULL, all of them, whatever their names. Protocol sharding. hf_list_locks()
 * with that id finds them. *n, if not NULL: how many were unlocked. A client that holds them, this
 * one too, may learn only with its next ping that it has lost them, so that program must be gone.
 * Thread-safe. HF_INVALID: the id or the name. HF_UNSUPPORTED: other protocols. */
hf_code hf_unlock_session(hf_client *client, const char *lock_session, const char *name, int64_t *n,
                          hf_error *err);

typedef struct hf_finding {
    const char *topic; /* "reach", "server", "members", "notices", "write concern", "latency",
                        * "clock" ... */
    const char *text;
    bool is_danger;  /* this endangers safety, or the lease of a lock is over and nobody takes it */
    bool wants_care; /* someone should look: a deadlock, a long wait */
} hf_finding;

typedef bool (*hf_finding_fn)(void *ctx, const hf_finding *finding);

/* Checks what this client depends on, and reports long waits. It takes 10 s at most, or as long as
 * calls that read do if that is less; what could not be looked at in that time wants care, and says
 * so. The call fails only if the store cannot be reached, or if the user may not list its locks
 * (HF_DENIED), which is tried last. */
hf_code hf_doctor(hf_client *client, hf_finding_fn each, void *ctx, hf_error *err);

/* How many requests this client has sent over the network so far. Requests with an answer or an
 * error count; each is one round trip, and one command on the server. 0 if the database is a file.
 */
uint64_t hf_round_trips(const hf_client *client);

/* ---- Leader election ------------------------------------------------------------------------ */

/* An election is the lock of that name, waited for, watched and kept: its exclusive holder leads.
 * So everything about locks holds here too: the queue, the lease, the fencing token, what a lock
 * does not promise, hf_show(), hf_break(). The client must live as long as the election is used;
 * hf_election_close() may come after hf_close(). */
typedef struct hf_election hf_election;

typedef struct hf_election_options {
    size_t struct_size; /* sizeof(hf_election_options), or 0 for the members of version 1.0 */
    const char *value;  /* given to observers, and shown as the lock's `why`: for example the
                         * address of this candidate; at most 256 bytes; copied */
    hf_lost_fn on_lost; /* leadership was lost: called as for a lock, which belongs to the election
                         * and must not be closed. It may resign, but neither campaign nor close */
    void *lost_ctx;
} hf_election_options;

typedef struct hf_campaign_options {
    size_t struct_size; /* sizeof(hf_campaign_options), or 0 for the members of version 1.0 */
    int64_t wait_ms;    /* HF_WAIT_DEFAULT: for ever, with any protocol; other values, and the
                         * members below, as in hf_lock_options */
    hf_cancel *cancel;
    hf_wait_fn on_wait;
    void *wait_ctx;
} hf_campaign_options;

/* Makes a handle to campaign with; sends nothing. Errors: HF_INVALID (name or value). */
hf_code hf_election_open(hf_client *client, const char *name, const hf_election_options *options,
                         hf_election **out, hf_error *err);

/* Waits in line until it leads; a candidate that already leads does not wait. Call it again after
 * leadership was resigned, or after it was lost and the work has stopped: the call ends what is
 * left of that term. One thread at a time: HF_INVALID while another thread campaigns. Other errors:
 * those of hf_lock_acquire(). */
hf_code hf_election_campaign(hf_election *election, const hf_campaign_options *options,
                             hf_error *err);

/* Whether it leads now, and for how long at least, like hf_lock_check(): asks the clock, sends
 * nothing. false: err says why (HF_LOST: lost, resigned or never won), and left_ms (may be NULL) is
 * 0, or what is left to stop working in. */
bool hf_election_is_leader(hf_election *election, int64_t *left_ms, hf_error *err);

/* The fencing token of the last term that was won, higher than those of all earlier leaders; 0
 * before the first term, and where the protocol has no tokens. */
int64_t hf_election_token(hf_election *election);

/* The lock of the present term, or of one that was lost: for hf_lock_fd(), hf_lock_previous() and
 * hf_lock_set_exit_status(). It belongs to the election, until the next campaign, resignation or
 * close. NULL if there is none. */
hf_lock *hf_election_lock(hf_election *election);

/* Gives leadership up and waits for the acknowledgement: the next in line leads at once. HF_OK for
 * a candidate that does not lead and has not lost leadership. Errors: those of hf_lock_release();
 * as there, the candidate does not lead afterwards. It does not end a campaign of another thread:
 * the campaign's cancel does. */
hf_code hf_election_resign(hf_election *election, hf_error *err);

/* Frees the handle, which no other call may be using. Leadership is given up in the background, as
 * hf_lock_close() does. */
void hf_election_close(hf_election *election);

/* Who leads. Strings are valid during the callback. */
typedef struct hf_leader {
    const char *session; /* hexadecimal id */
    const char *who;     /* "app@host:pid" */
    const char *value;
    int64_t token;    /* 0 where the protocol has none */
    int64_t since_ms; /* Unix time in ms, by the store's clock; 0 when not known */
} hf_leader;

/* leader is NULL while nobody leads. Returns false to stop observing. */
typedef bool (*hf_leader_fn)(void *ctx, const hf_leader *leader);

/* Reports the leader: at once, and after each change. It looks every quarter to half a second (one
 * or two reads), so a change is reported that much later, and a shorter term may not be reported at
 * all. A look that is older than the last report is skipped. A leader whose lease is over by the
 * store's clock is reported as nobody; that decides nothing, and may be wrong when that clock
 * jumps. Needs no session. `each` is called in the caller's thread and must not call hf_close().
 *   - HF_OK: `each` returned false.
 *   - HF_CANCELLED: cancel (may be NULL) was fired.
 *   - HF_CLOSED: the client was closed.
 *   - HF_UNREACHABLE: after patience_ms.
 *   - Other errors: those of hf_show(). It is not an error if nobody has led before. */
hf_code hf_election_observe(hf_client *client, const char *name, hf_leader_fn each, void *ctx,
                            hf_cancel *cancel, hf_error *err);

/* ---- Guards: the fence where the data is ---------------------------------------------------- */

struct sqlite3;
struct _mongoc_collection_t;
struct _bson_t;

/* Updates one document, unless a later holder has written to it. If the field `fence` (NULL:
 * "fence") of the one document that matches filter is absent or not above the token, this applies
 * update (operators such as $set) and sets that field to the token: one atomic command with
 * majority write concern. For exclusive holders, and tokens of one store: those of two stores say
 * nothing about who is later. The collection must be of the libmongoc, 1 or 2, that this library
 * was built with, so take the program's flags from `pkg-config --cflags --libs
 * holdfast-guard-mongo`.
 *   - HF_FENCED: a later holder has written, and nothing was changed.
 *   - HF_NOT_FOUND: no such document.
 *   - HF_UNKNOWN: sent, no answer; repeat it, which is safe if the update is idempotent. */
hf_code hf_guard_mongo(struct _mongoc_collection_t *collection, const struct _bson_t *filter,
                       const struct _bson_t *update, const char *fence, int64_t token,
                       hf_error *err);

/* Records the token as seen by `resource`, in the table holdfast_fence of that database (made if
 * missing). All tokens that it sees must be of one store. Call it inside a transaction, before the
 * transaction's writes. Thread-safe only as far as the connection is. A program's flags:
 * `pkg-config --cflags --libs holdfast-guard-sqlite`.
 *   - HF_FENCED: a higher token was seen: roll back.
 *   - HF_INVALID: outside a transaction. */
hf_code hf_guard_sqlite(struct sqlite3 *db, const char *resource, int64_t token, hf_error *err);

#ifdef __cplusplus
}
#endif
#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#endif
