/* SPDX-License-Identifier: Apache-2.0 */
/* client.h: what the files of the client share: the client, its session, its locks, its attempts.
 *
 * One mutex guards it all. It is never held during a store call or a callback, so the thread that
 * watches the deadline gets it at once (R7). Every `*_tick(client, now)` does what is due and says
 * when it wants to be called again; threads only wait and call (ticker.c), so a simulator can do
 * without them. Names that end in _locked want the mutex held.
 */
#ifndef CLIENT_CLIENT_H
#define CLIENT_CLIENT_H

#include "client/dog.h"
#include "client/turns.h"
#include "client/waker.h"

#include "core/agenda.h"
#include "core/judge.h"
#include "core/lease.h"
#include "core/pace.h"
#include "core/record.h"
#include "core/waiters.h"

#include <pthread.h>
#include <sys/types.h>

/* ---- Session ------------------------------------------------------------------------------- */

typedef enum session_state {
    SESSION_NONE,      /* the next acquire begins one */
    SESSION_BEGINNING, /* its insert is under way, by one acquiring thread */
    SESSION_ALIVE,
} session_state;

/* A ticket that somebody asked this session to give up (R9). */
typedef struct session_ask {
    hf_ask ask;
    hf_mono deadline; /* of belief in that ticket */
    bool is_answered; /* its leave was acknowledged: the next beat takes the ask out */
} session_ask;

struct session {
    session_state state;
    hf_session self;
    hf_mono lease_end; /* belief ends here at the latest; by the last acknowledged beat */
    hf_mono beat_due, beat_sent;
    int64_t seen;          /* the last beat that was acknowledged */
    hf_error last_failure; /* of a beat, for the message when the lease runs out */
    session_ask *asks;
    size_t n_asks;
    char **suspects; /* names of locks where an unanswered enter may still land (R8) */
    size_t n_suspects;
};

/* ---- Locks and releases --------------------------------------------------------------------- */

typedef enum lock_state { LOCK_HELD, LOCK_LOST, LOCK_RELEASED } lock_state;

struct hf_lock {
    hf_client *client;
    struct hf_lock *next, **link; /* in client->locks; client is NULL once that is closed */
    lock_state state;
    char *name;
    hf_enter enter; /* as it entered: an upgrade enters again */
    hf_id ticket, session;
    _Atomic int64_t token;
    _Atomic int32_t permits; /* that are believed: fewer than were granted from a downgrade on */
    hf_id upgrade;           /* a ticket that may have taken the place of `ticket`, or may still do
                              * so: its answer is not known; 0: none */
    hf_id former;            /* the ticket before the last upgrade */
    bool is_changing;        /* a thread is at a downgrade or an upgrade */
    bool is_passing;         /* its place may be a lease's already */
    bool is_lowering;        /* a downgrade is not acknowledged yet */
    unsigned lower_failures;
    hf_mono lower_due;
    hf_stamp stamp;    /* a version of the record that shows the grant */
    hf_mono born;      /* when it was believed */
    hf_mono lease_end; /* of this lock alone, where it has a lease of its own; else MONO_NEVER */
    bool is_by_hand;   /* its holder renews it */
    struct dog dog;
    struct line *line; /* of its name, while this one holds its ticket; NULL: none */
    bool has_block;    /* tokens for those in line were kept with its grant */
    bool lingers;      /* nobody has it: it stays with the session for a while */
    int64_t linger_ms; /* so long, after its release */
    hf_mono linger_until;
    struct hf_lock *peer; /* the next of those that were taken together, in a ring; NULL: none */
    bool is_returned;     /* given back unused: `last` stays as it is */
    uint64_t thread;      /* who took it, or: */
    char actor[HF_ACTOR_MAX + 1];
    hf_mono verify_due; /* L3 */
    hf_mono stop_by;    /* once lost: until then its work may take to stop */
    int64_t waited_ms;
    bool has_exit_status;
    int exit_status;
    hf_period period;      /* of its grant, where its work is done once per period */
    hf_last_mark previous; /* if it is known: a grant by notice does not say it */
    bool knows_previous;
    char *document; /* the user's own, as it was when it was locked; NULL elsewhere */
    hf_error lost;  /* why */
    int lost_fd;    /* -1 until asked for */
    hf_lost_fn on_lost;
    void *lost_ctx;
    bool is_told;      /* on_lost was called, or is being called */
    bool is_verifying; /* its record is being looked at */
    bool is_left;      /* lost, and its ticket was given up */
};

/* A ticket to be taken out, in the background or with the next enter of the same name. */
struct release {
    struct release *next;
    struct release *cargo_next; /* in a step that carries it along */
    char *name;
    hf_leave leave;
    hf_id upgrade;  /* goes in the same step: of the two tickets, one stands; 0: none */
    bool is_held;   /* it was believed, and its absence is a loss */
    bool in_flight; /* somebody is sending it */
    bool is_moot;   /* the session was lost under way: whoever sends it frees it */
    bool was_sent;  /* an earlier try had no answer */
    unsigned failures;
    hf_mono due;
};

/* ---- Client ---------------------------------------------------------------------------------- */

struct attempt;
struct lease_pool;

/* A session that has ended here. While work under its locks may still be stopping it is not marked:
 * that would let others in before the lease is over. */
struct ended {
    hf_id id;
    hf_mono due;
    bool leaves_any; /* of its tickets some may still stand */
};

typedef hf_mono (*tick_fn)(hf_client *client, hf_mono now);

/* A thread that calls a tick when it is due or when it is poked; sleeps on CLOCK_BOOTTIME. */
struct ticker {
    hf_client *client;
    tick_fn tick;
    pthread_t thread;
    int timer_fd, poke_fd, later_fd;
    bool is_started;
    bool is_poked_later;
    bool is_poked; /* for the simulator, which has no threads to wake */
};

enum { TICK_WATCH, TICK_BEAT, TICK_UPKEEP, TICK_SWEEP, TICK_LISTEN, TICK_NOTIFY, TICKERS };

struct hf_client {
    hf_store *store;
    hf_env env;
    pid_t owner;
    char app[HF_TEXT_MAX + 1], host[HF_TEXT_MAX + 1], who[HF_TEXT_MAX + 1];
    int64_t ttl_ms, notice_ms, patience_ms, clock_trust_ms, deadlock_ms;
    hf_log_fn log;
    void *log_ctx;
    pthread_mutex_t log_mutex;

    pthread_mutex_t mutex;
    struct session session;
    struct hf_lock *locks;
    struct hf_lock *calling; /* whose on_lost runs now; NULL once it was closed in there */
    struct attempt *attempts;
    size_t joining; /* of these, those for leases with a key */
    struct waiters waiters;
    struct turns turns;
    struct lease_pool *pool; /* who drives waits for leases; NULL: nobody yet */
    struct waker *wakers[2]; /* of nobody; by whether they sleep on an fd */
    struct release *releases;
    struct agenda agenda;
    hf_mono sweep_due;
    hf_session_state *overdue; /* the sweep's own: sessions that it found, being watched */
    struct judge overdue_judge;
    hf_mono overdue_until;
    struct ended *ended; /* sessions that have ended: to be marked, in the background */
    size_t n_ended;

    bool is_polling;              /* notices are not to be had */
    hf_stamp listen_from;         /* no later than where a wait began that is listened for */
    bool has_waited, has_awaited; /* since it is listened in this session: a waiter; the listener */
    hf_mono listen_until, heard_at;
    struct pace pace;
    unsigned listen_failures;

    bool is_threaded; /* false: the simulator ticks */
    bool is_closing;  /* attempts end, nothing new begins */
    size_t calls;     /* under way, besides attempts */
    bool is_answered; /* the last release that was sent got an answer */
    bool is_stopping; /* threads end */
    hf_mono close_by;
    pthread_cond_t changed; /* an attempt ended, a callback ended, the releases are all out */
    struct ticker tickers[TICKERS];
};

/* client.c */
hf_code client_usable(hf_client *client, hf_error *err); /* not forked, not closed */
/* Around a public call that hf_close() has to wait for; HF_CLOSED once that has begun. */
hf_code client_begin(hf_client *client, hf_error *err);
void client_end(hf_client *client);
bool client_is_closing(hf_client *client);
hf_mono client_now(hf_client *client);
struct timespec client_deadline(int64_t ms); /* for waits on CLOCK_MONOTONIC */
uint64_t client_chance(hf_client *client);
hf_id client_new_id(hf_client *client);
/* The calling thread's number, which no other thread of the process has or had: a pthread_t is
 * given again when its thread has ended. And a number for what is no thread. */
uint64_t client_thread(void);
uint64_t client_new_thread(void);
void client_log(hf_client *client, hf_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void client_who(const hf_client *client, char who[HF_TEXT_MAX + 1]);
/* Pauses before a call that failed is repeated: while the store cannot be reached, as long as
 * patience lasts from `since` on. false: it is not to be repeated, or the pause was cut short. */
bool client_may_retry(hf_client *client, const hf_cancel *cancel, hf_code code, unsigned *failures,
                      hf_mono since);
void client_wake_attempts_locked(hf_client *client);
/* Checks a name, and gives it as the store's records and notices have it. */
hf_code client_name(hf_client *client, const char *given, char name[HF_NAME_MAX + 1],
                    hf_error *err);

/* ticker.c */
void ticker_start_all(hf_client *client); /* all but the listener and the notifier; once */
void ticker_start(hf_client *client, unsigned which, tick_fn tick);
void ticker_poke(hf_client *client, unsigned which);
/* Within delay_ns, without waking it now. */
void ticker_poke_later_locked(hf_client *client, unsigned which, int64_t delay_ns);
void ticker_stop_all(hf_client *client);

/* session.c */
/* Begins a session unless there is one. HF_OK: alive. HF_HELD: another thread is at it, or it is
 * too early: come back. */
hf_code session_ensure(hf_client *client, hf_error *err);
hf_mono session_tick(hf_client *client, hf_mono now);  /* beats */
hf_mono session_watch(hf_client *client, hf_mono now); /* ends belief in time, calls no store */
bool session_is_present_locked(const hf_client *client, hf_id session); /* and not lost */
bool session_is_believed_locked(hf_client *client, hf_id session, hf_mono now);
void session_lose_locked(hf_client *client, const hf_error *why, hf_mono stop_by);
void session_end_locked(hf_client *client); /* gives it up without loss: nothing is held */
/* The next beat is sent at once, unless the last was less than ms ago. */
void session_hurry_locked(hf_client *client, int64_t ms);
session_ask *session_find_ask_locked(hf_client *client, hf_id ticket);
void session_suspect_locked(hf_client *client, const char *name);
void session_forget(struct session *session); /* frees what it points to */
void session_who(const hf_session *session, char who[HF_TEXT_MAX + 1]);

/* lock.c */
struct hf_lock *lock_new_locked(hf_client *client, const char *name, const hf_entry *entry,
                                const hf_record *record, int64_t period_ms);
void lock_lose_locked(struct hf_lock *lock, const hf_error *why, hf_mono stop_by);
/* When it is lost by its own lease or its dog, if nothing happens before. */
hf_mono lock_due(const struct hf_lock *lock);
/* Ends belief in locks whose own lease runs out, or whose dog bites, and says when the next does.
 */
hf_mono lock_watch_locked(hf_client *client, hf_mono now);
/* A beat that was sent then was acknowledged. */
void lock_renewed_locked(hf_client *client, hf_mono sent);
hf_mono lock_notify_tick(hf_client *client, hf_mono now); /* calls on_lost */
struct hf_lock *lock_find_locked(hf_client *client, hf_id ticket);
hf_leave lock_leave(const struct hf_lock *lock);
/* Belief ends, the next in line leads, its leave is on the list (release_push_locked()). */
struct release *lock_start_release_locked(struct hf_lock *lock);
/* How it was left, for the next local holder. */
void lock_mark(const struct hf_lock *lock, hf_last_mark *out, hf_wall at);
void lock_discard_locked(struct hf_lock *lock); /* frees one that nobody has a handle of */
hf_last lock_last(const hf_last_mark *mark);    /* its text is the mark's */
/* hf_lock_check(), at a time that is told. */
hf_code lock_check_locked(struct hf_lock *lock, int64_t *left_ms, hf_mono now, hf_error *err);
/* Its place is a lease's: nothing is left to be released. */
void lock_went_over(struct hf_lock *lock);
/* It was had for nothing: its leave, when it is closed, is a give-back, and nobody in line is
 * passed the lock, whose place may be a lease's by now. */
void lock_return(struct hf_lock *lock);
/* Gives up the tickets of lost locks whose time to stop is over, and says when the next one is. */
hf_mono lock_leave_lost_locked(hf_client *client, hf_mono now);
/* Until when work under a lost lock may still be stopping; `now` when there is none. */
hf_mono lock_stops_by_locked(hf_client *client, hf_mono now);

/* The lock that an ask is for: the ticket may have been replaced by an upgrade since. */
struct hf_lock *lock_find_asked_locked(hf_client *client, hf_id ticket);
/* Puts its ticket on the list of releases; as release_push_locked(). */
struct release *lock_push_leave_locked(struct hf_lock *lock, const hf_leave *leave, bool is_held);

/* change.c */
/* Whether the record shows the ticket of an upgrade of this lock that got no answer: then the lock
 * goes on under that one, as one that is to be downgraded. */
bool change_found_locked(struct hf_lock *lock, const hf_record *record);
hf_mono change_tick(hf_client *client, hf_mono now); /* sends the downgrades that are due */

/* release.c */
enum { RELEASE_LEAVES = 2 };
/* What a release takes out: how many leaves. */
size_t release_leaves(const struct release *release, hf_leave out[RELEASE_LEAVES]);
/* Puts a ticket of the current session on the list; is_held: it was believed, its absence is a
 * loss. The caller either pokes upkeep or marks it in_flight and sends it itself. */
struct release *release_push_locked(hf_client *client, const char *name, const hf_leave *leave,
                                    bool is_held);
/* Marks what waits in the list for this name as in flight, for a step that carries it along; linked
 * by cargo_next. *is_busy: some is in flight already, wait for it. */
struct release *release_take_locked(hf_client *client, const char *name, bool *is_busy);
void release_put_back_locked(hf_client *client, struct release *cargo, bool was_sent);
void release_done_locked(hf_client *client, struct release *cargo); /* acknowledged: frees them */
/* Sends one that is in flight until it is known, or until stop_by; then it is done, or back in the
 * list. HF_LOST: it was out already, and not by us. */
hf_code release_send(hf_client *client, struct release *release, hf_mono stop_by, hf_error *err);
hf_mono release_tick(hf_client *client, hf_mono now); /* sends what is due */
bool release_is_pending_locked(hf_client *client, hf_id ticket);
void release_drop_locked(hf_client *client); /* of a session that is lost: its mark does it */

/* cargo.c */
struct cargo {
    struct release *releases;
    hf_leave *leaves;
    size_t n;
};

/* False: some of that name is in flight already: unload, and come back. */
bool cargo_load_locked(hf_client *client, const char *name, struct cargo *cargo);
void cargo_unload_locked(hf_client *client, struct cargo *cargo, hf_code code, bool confirmed);

/* upkeep.c */
enum { JOB_SUSPECTS, JOB_VERIFY };
hf_mono upkeep_tick(hf_client *client, hf_mono now);
/* Looks after what is held under that name (NULL: under all) at once. */
void upkeep_verify_locked(hf_client *client, const char *name);
void upkeep_look_after_locked(hf_client *client, struct hf_lock *lock);
void upkeep_begin_locked(hf_client *client, hf_mono now); /* a session has begun */

/* sweep.c */
hf_mono sweep_tick(hf_client *client, hf_mono now);
void sweep_begin_locked(hf_client *client, hf_mono now); /* a session has begun */

/* listen.c */
/* Notices are wanted from there on. False: some may have been passed over, as another wait began
 * later and was first to be heard of: look. */
bool listen_want_locked(hf_client *client, hf_stamp from);
hf_mono listen_tick(hf_client *client, hf_mono now);
/* Who waits here for that name, or for any document, looks; no earlier than the stamp. */
void listen_tell_locked(hf_client *client, const char *name, hf_stamp stamp);

/* attempt.c */
typedef enum attempt_state {
    ATTEMPT_ENTERS,  /* to send its enter when enter_due comes */
    ATTEMPT_WAITS,   /* its ticket is in the queue */
    ATTEMPT_BUSY,    /* the queue is full: comes back when enter_due comes */
    ATTEMPT_IN_LINE, /* behind other threads of this client */
    ATTEMPT_REFUSED, /* the limits disagree: waits to see whether those ahead live */
    ATTEMPT_ENDED,
} attempt_state;

struct attempt {
    hf_client *client;
    struct attempt *next, **link;
    const hf_lock_options *options;
    const hf_claim *claim; /* NULL: of the lock `name`; else that is "", and not known before */
    const char *name;
    attempt_state state;
    hf_enter enter;
    struct waiter waiter;
    struct line *leads, *in_line; /* of its name: at most one of them */
    struct attempt *next_in_line;
    turns_news news;
    bool is_alone;    /* stands in no line */
    bool is_shut_out; /* another thread has the lock */
    uint64_t thread;
    struct judge judge;
    hf_record record; /* as last seen */
    hf_mono started, deadline;
    hf_mono sent; /* the last enter */
    hf_mono enter_due, look_due;
    hf_mono failing_since;
    unsigned failures, polls;
    int64_t again_ms;             /* without a queue: when the store wants to be asked again */
    bool is_in_flight;            /* the ticket may be in the record: leave before ending */
    bool is_last;                 /* without a queue: the try at the end of the time */
    bool is_unanswered;           /* an enter of this ticket got no answer: it may still land */
    char holder[HF_TEXT_MAX + 1]; /* who, for messages */
    int64_t overdue_ms;           /* its lease ended so long ago by the store's clock; 0: it runs */
    int64_t holder_ttl_ms;
    struct waker *waker; /* NULL until it has to wait */
    struct snare *snare; /* a deadlock that it may be in: deadlock.c */
    hf_mono deadlock_due;
    bool holds_nothing; /* when that was last looked at */
    bool is_woken;
    hf_id joins; /* the ticket of the lease that it is to become: the wait ends when that stands,
                  * made by another call with its key; 0: none */
    bool has_joined; /* it stands */
    hf_code code;    /* how it ended */
    hf_error err;
    struct hf_lock *lock;
};

void attempt_init(struct attempt *attempt, hf_client *client, const char *name,
                  const hf_lock_options *options);
void attempt_init_claim(struct attempt *attempt, hf_client *client, const hf_claim *claim,
                        const hf_lock_options *options);
void attempt_done(struct attempt *attempt);
/* Does what is due and says when it wants to be called again; state ENDED: code, err, lock say how.
 */
hf_mono attempt_step(struct attempt *attempt, hf_mono now);
void attempt_set_permits(hf_enter *enter, const hf_lock_options *options);
/* It waits for a lease that other calls may make; that lease's ticket. */
void attempt_join(struct attempt *attempt, hf_id lease);
/* Ends those waits here whose lease stands in the record. */
void attempt_tell_joined(hf_client *client, const hf_record *record);
void attempt_wake_locked(struct attempt *attempt);
void attempt_info(const struct attempt *attempt, hf_wait_info *info, hf_mono now);

/* acquire.c */
hf_code acquire_check(hf_client *client, const hf_lock_options *options, hf_error *err);
void acquire_drive(struct attempt *attempt); /* to its end */
/* Checks the options, and drives an attempt for the lock or the claim to its end. */
hf_code acquire_run(hf_client *client, const char *name, const hf_claim *claim,
                    const hf_lock_options *options, uint64_t actor, hf_lock **out, hf_error *err);

/* lease_wait.c: ends its threads; no wait is left */
void lease_pool_stop(hf_client *client);

/* judging.c */
typedef enum judging {
    JUDGING_NONE,    /* nothing to be done */
    JUDGING_CHANGED, /* tickets of dead sessions were taken out: look again */
} judging;
/* Looks at the sessions that stand in this attempt's way, marks the dead, takes their tickets out.
 * trusts: may take what the store says is gone for dead (R6). */
hf_code judging_tick(struct attempt *attempt, hf_mono now, bool trusts, judging *out,
                     hf_error *err);

/* deadlock.c */
/* What the next beat says of long waits (core/waits.h): the caller's to free; NULL: nothing. */
char *deadlock_say_locked(hf_client *client, hf_mono now);
/* Looks whether this attempt, which waits in the queue, is the youngest in a deadlock: then true,
 * and its err says which. *due: when it wants to look again. */
bool deadlock_tick(struct attempt *attempt, hf_mono now, hf_mono *due);
void deadlock_forget(struct attempt *attempt);
/* For all that wait for each other now, as far as a single look can say; and for long waits. */
hf_code deadlock_doctor(hf_client *client, hf_finding_fn each, void *ctx, hf_error *err);

/* cancel.c */
bool cancel_is_fired(const hf_cancel *cancel); /* NULL: no */
int cancel_fd(const hf_cancel *cancel);        /* readable once fired; -1 for NULL */
bool cancel_pause(hf_client *client, const hf_cancel *cancel, int64_t ms); /* whether it fired */

/* env.c */
extern const hf_env env_linux;

#endif
