/* SPDX-License-Identifier: Apache-2.0 */
/* store.h: the interface between client and store. It is a second tier: for authors of a store, or
 * of a faulty store around a real one. Programs that take locks need holdfast.h only.
 *
 * Within one HF_STORE_VERSION nothing here changes its meaning or its layout. A store that was
 * compiled with another one is refused by hf_store_register().
 *
 * A store remembers records and sessions and decides nothing. Only hf_record_step() says what a
 * step does to a record, and only the client judges which session is dead. docs/glossary.md
 * explains the words; docs/stores.md shows how to write one, and examples/store is one. */
#ifndef HOLDFAST_STORE_H
#define HOLDFAST_STORE_H

#include <holdfast/holdfast.h>

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif
#ifdef __cplusplus
extern "C" {
#endif

#define HF_STORE_VERSION 2

/* ---- Three clocks that the compiler keeps apart --------------------------------------------- */

typedef struct hf_mono {
    int64_t ns; /* CLOCK_BOOTTIME, for leases and watching; counts during suspension, too */
} hf_mono;

typedef struct hf_wall {
    int64_t ms; /* this machine's Unix time: for dates that people read */
} hf_wall;

typedef struct hf_dbtime {
    int64_t ms; /* Unix time by the store's clock */
} hf_dbtime;

/* Where time and random numbers come from, and how to let time pass. All may be called from any
 * thread. */
typedef struct hf_env {
    void *ctx;
    hf_mono (*mono)(void *ctx);
    hf_wall (*wall)(void *ctx);
    void (*random)(void *ctx, void *bytes, size_t n);
    void (*pause)(void *ctx, int64_t ms); /* sleeps */
} hf_env;

/* ---- Record ---------------------------------------------------------------------------------- */

#define HF_NAME_MAX 512
#define HF_TEXT_MAX 256 /* why, reason, who */
#define HF_ACTOR_MAX 64
#define HF_ENTRIES_MAX 1000 /* holders and queue together */
#define HF_QUEUE_MAX 64     /* default bound of the queue; others wait outside, with a number */
#define HF_BLOCK_MAX 65536  /* tokens of one entry */
#define HF_PARCELS_MOST 128 /* steps that are sent together */
#define HF_ASKS_MAX 16      /* asks that one session can have open; more are refused */

/* Id of a session or ticket; an ObjectId in MongoDB. */
typedef struct hf_id {
    uint8_t bytes[12];
} hf_id;

typedef struct hf_entry {
    hf_id ticket;
    hf_id session;
    int32_t ttl_ms; /* the session's, in case its document is missing */
    int32_t permits;
    int64_t token;        /* 0 while waiting */
    int64_t number;       /* its place in the line; 0: it was granted at once */
    hf_dbtime since;      /* when it entered; set by the step; an upgrade keeps it */
    hf_dbtime granted_at; /* 0 while waiting */
    bool yields;   /* its session passes the lock on by itself, so it is told when another waits */
    int32_t block; /* how many tokens belong to the entry, from `token` on; 0: one */
    int32_t bell;  /* the store's own: where its session listens for rings; 0: it hears in another
                    * way */
    char actor[HF_ACTOR_MAX + 1];
    char why[HF_TEXT_MAX + 1];
} hf_entry;

/* From `start` to before `end`. An end of 0: no period. */
typedef struct hf_period {
    hf_dbtime start, end;
} hf_period;

/* The last work that was finished with an exit status. Later steps leave it unchanged, above all
 * deaths: a record cannot tell whether a dead session had begun to work. */
typedef struct hf_done_mark {
    bool is_known;
    int32_t exit_status;
    hf_period period; /* the period of the work, if it is done once per period */
    int64_t token;
    hf_dbtime at;
    char who[HF_TEXT_MAX + 1];
} hf_done_mark;

typedef struct hf_last_mark {
    hf_outcome outcome;
    hf_id session;
    int64_t token;
    bool has_exit_status;
    int32_t exit_status;
    hf_period period; /* the period of the work, if it is done once per period */
    hf_dbtime at;
    char who[HF_TEXT_MAX + 1];
    char reason[HF_TEXT_MAX + 1]; /* why it was lost; "": not said */
    hf_done_mark done;            /* a field beside `last` in documents */
} hf_last_mark;

/* entries[0 .. holders-1] hold, in the order of their grants. The `queued` entries after them wait,
 * in the order of their numbers. A record that does not exist has exists == false and is otherwise
 * empty. */
typedef struct hf_record {
    char name[HF_NAME_MAX + 1];
    bool exists;
    int32_t limit;
    int64_t token; /* the last that was granted, or kept for the holder */
    int64_t given; /* the last number; all up to `reached` have entered, or others have instead */
    int64_t reached;
    hf_entry *entries;
    size_t holders, queued;
    char *notify; /* news of the last step that had any: core/notify.h; NULL: "" */
    hf_last_mark last;
    /* Only from stores without sessions of their own, whose documents say it; else NULL, 0. */
    char *who;             /* the holder */
    int64_t lease_left_ms; /* of the holder */
    char *document;        /* the user's own document around the lock: extended JSON */
} hf_record;

/* ---- Step ----------------------------------------------------------------------------------- */

typedef struct hf_leave {
    hf_id ticket;
    hf_outcome outcome; /* RELEASED; ABANDONED if another session takes it out (break) */
    bool told;          /* its session believed in the grant; false: a give-back, and `last` stays
                         * unchanged */
    bool has_exit_status;
    int32_t exit_status;
    hf_period period;
    int64_t used_token; /* the last token that the holder used; the others are given back; 0: all
                         * were used */
    char who[HF_TEXT_MAX + 1];
    char reason[HF_TEXT_MAX + 1]; /* why it was lost; "": none is kept */
} hf_leave;

typedef struct hf_death {
    hf_id session; /* marked dead, or seen missing for its ttl: all its tickets are taken out */
    char who[HF_TEXT_MAX + 1];
} hf_death;

/* A downgrade: lowers a holder's permits in place; the holder keeps its ticket and token. Never
 * raises them. Does nothing to a ticket that waits or is not there. */
typedef struct hf_change {
    hf_id ticket;
    int32_t permits; /* at least 1 */
} hf_change;

/* Gives a holder's place to another session, with its token: this makes an ID lease. It decides for
 * all calls that make the same lease: if `to` holds already, `ticket` is taken out, as by a
 * give-back. It changes nothing if the ticket waits or is not there, or if the lease's session was
 * the last that left (it has ended). */
typedef struct hf_pass {
    hf_id ticket;
    hf_id to, session; /* the ticket and session that hold from now on */
    int32_t ttl_ms;    /* that session's */
    int64_t token;     /* the one in use, of the ticket's block; the others are not handed over */
    const char *why, *actor; /* what the record shows from now on; NULL: "". The ticket may come
                              * from another thread, for another call */
    const hf_leave *before;  /* how a holder under the same ticket left, of which the record knows
                              * nothing yet; NULL: there is none. Only in a step that has neither
                              * leaves nor deaths */
} hf_pass;

typedef struct hf_enter {
    hf_entry entry; /* the step sets token, since and granted_at */
    hf_id replaces; /* 0: nobody. An upgrade: the entrant takes this holder's place if nobody waits
                     * and it fits once that holder is gone; otherwise nothing changes */
    int32_t limit;
    bool sets_limit;   /* of a semaphore in use: this limit becomes the record's, unless one that
                        * waits wants more. Those that hold go on holding */
    int32_t queue_max; /* bound of the queue */
    bool wants_number; /* was told BUSY before: if it cannot enter now, the next number is given,
                        * and the record's `given` says which */
    bool is_nested;    /* its caller holds other locks: if it wants a number, it enters with that at
                        * once, up to twice the bound, so that deadlocks with it can be seen */
    int64_t number;    /* that it was given; 0: none */
    bool skips;        /* the record did not get beyond `reached` for long, though it had places: as
                        * many numbers are passed over */
    int64_t reached;
    bool try_only; /* take it out again unless it is granted at once */
    bool by_hand;  /* only refresh() renews it, not the beats */
    /* Only for stores that have lease_renew(): the ticket is an ID lease's from the start. The
     * record names this session as its holder, no beat renews it, and the record's entry says how
     * long it lasts. NULL: a lock of this client. */
    const struct hf_session *lease;
    hf_id lock_session; /* only for stores that have unlock_session(); 0: the store's own choice */
} hf_enter;

/* Chooses one document out of many: what it must match, and the order; extended JSON, NULL: any. */
typedef struct hf_claim {
    const char *filter, *sort;
} hf_claim;

typedef struct hf_step {
    const hf_leave *leaves;
    size_t n_leaves;
    const hf_death *deaths;
    size_t n_deaths;
    const hf_change *change; /* NULL: none */
    const hf_pass *pass;     /* NULL: none */
    const hf_enter *enter;   /* NULL: none */
    const hf_dbtime *now;    /* tests only: instead of the store's clock */
    const int64_t *floor;    /* tests only: instead of the store's clock of tokens */
} hf_step;

/* A place in the store's history. A look can be asked to be no older. 0: any. */
typedef struct hf_stamp {
    uint64_t value;
} hf_stamp;

/* Without a queue: the holder from which an enter took the lock over, for the history. A ticket of
 * 0: none, or it is not known which. */
typedef struct hf_overtaken {
    hf_entry entry;
    char who[HF_TEXT_MAX + 1];
} hf_overtaken;

typedef struct hf_step_reply {
    hf_stamp stamp;
    /* The tickets in `leaves` are certainly out, and `change` and `pass` are done. False: nothing
     * was changed, and in this store that does not prove that a ticket is gone (a deposed primary
     * may have answered): look again, linearizable. */
    bool confirmed;
    bool is_out; /* an enter failed, and certainly has not entered: there is nothing to take back */
    /* Without a queue: others hold the lock; try again after this time (0: at will), or at a
     * notice. */
    int64_t again_ms;
    hf_overtaken overtaken;
} hf_step_reply;

/* A step on the lock of that name, and what came of it. */
typedef struct hf_parcel {
    const char *name;
    hf_step step;
    hf_step_reply reply;
    hf_code code;
    hf_error err;
} hf_parcel;

/* ---- Session -------------------------------------------------------------------------------- */

typedef struct hf_session {
    hf_id id;
    int32_t ttl_ms;
    int64_t pid; /* 0: no process keeps it (an ID lease); only its beats show that it lives */
    hf_wall started_at;
    char app[HF_TEXT_MAX + 1];
    char host[HF_TEXT_MAX + 1];
} hf_session;

/* One session asks another to give up a ticket (rule R9). */
typedef struct hf_ask {
    hf_id ticket;
    char by[HF_TEXT_MAX + 1];
    char reason[HF_TEXT_MAX + 1];
} hf_ask;

typedef enum hf_presence {
    HF_MISSING,
    HF_LIVE,
    HF_DEAD,
    HF_ODD, /* what is there cannot be read: nobody can judge it */
} hf_presence;

typedef struct hf_session_state {
    hf_session session;
    hf_presence presence;
    int64_t beat;
    int64_t lease_left_ms; /* by the store's clock; for display and for choosing when to look */
    /* The store knows that the session is dead, without watching: its kernel lock is free (R10), or
     * it is long overdue by the clock since boot, or was already seen overdue a ttl ago (R6).
     * session_mark() tests again. */
    bool is_gone;
    bool misses; /* in a beat's answer: something that this session holds was missing: verify */
    size_t n_asked;
    hf_ask asked[HF_ASKS_MAX];
} hf_session_state;

/* What a beat carries besides its count. */
typedef struct hf_beat {
    const hf_id *answered; /* asks to be taken out */
    size_t n_answered;
    const char *waits;  /* the wait report, as text (core/waits.h); NULL: none */
    int64_t seen;       /* the last beat that had been answered when this one was made */
    bool holds_nothing; /* no lock depends on it: it may be as slow as any other call */
    /* The session, until one of its beats was acknowledged; then NULL. If it is missing, the beat
     * begins it, as its begin may have been taken back (R3), unless this store takes none back. */
    const hf_session *begins;
    int64_t begins_at; /* the number of the beat then: one that it never had */
} hf_beat;

/* The wait report of a living session's last beat. */
typedef struct hf_waits {
    hf_session session; /* without ttl_ms and started_at */
    int64_t beat, seen;
    const char *text;
} hf_waits;

/* ---- Notices -------------------------------------------------------------------------------- */

typedef enum hf_notice_kind {
    HF_NOTICE_GRANT,  /* this ticket was granted, with this token; without one: it is to look */
    HF_NOTICE_RECALL, /* another ticket waits for a lock that this session holds and may pass on by
                       * itself: give it up soon */
    HF_NOTICE_LOOK,   /* something may have been missed, or a session may have died: every waiter
                       * looks at records and at sessions */
    HF_NOTICE_NAME,   /* this lock has changed hands or is free: waiters enter again, and holders
                       * (with another ticket) verify */
    HF_NOTICE_VERIFY, /* records may be gone (drop, rename): holders verify, waiters look */
} hf_notice_kind;

typedef struct hf_notice {
    hf_notice_kind kind;
    hf_id ticket;
    int64_t token;    /* of a grant that a majority certainly has; 0: look */
    int32_t block;    /* of that grant, see hf_entry */
    hf_stamp stamp;   /* look at nothing older than this */
    const char *name; /* HF_NOTICE_NAME and HF_NOTICE_RECALL only */
} hf_notice;

/* ---- The interface -------------------------------------------------------------------------- */

enum {
    HF_CAN_SHARE = 1 << 0,     /* shared locks and semaphores */
    HF_CAN_QUEUE = 1 << 1,     /* first come, first served */
    HF_CAN_TOKENS = 1 << 2,    /* fencing tokens */
    HF_CAN_NOTIFY = 1 << 3,    /* await() delivers notices; it may still return HF_UNSUPPORTED */
    HF_CAN_SKEW = 1 << 4,      /* no wall clock decides which session is dead */
    HF_CAN_PROCESSES = 1 << 5, /* other processes see the same locks */
    HF_CAN_SEE_CRASH = 1 << 6, /* a crash shows at once (R10): waiters look at once */
    HF_CAN_TELL_LOST = 1 << 7, /* await() tells holders what they have lost: they listen, too */
    HF_CAN_LAST = 1 << 8,      /* without a queue: previous() and lasts() say how locks were left */
    HF_CAN_HISTORY = 1 << 9,   /* history_add() keeps turns that have ended */
    HF_CAN_DATE = 1 << 10, /* without a queue: granted_at is when the lock was granted, the same for
                            * its holder and for the one that overtakes it */
};

typedef struct hf_store hf_store;

typedef bool (*hf_record_fn)(void *ctx, const hf_record *record); /* false: stop */

/* Which records a listing gives. */
typedef struct hf_list_part {
    const char *prefix; /* those whose names begin with it */
    const char *after;  /* and come behind this name, by their bytes; "": from the first on */
    bool in_use;        /* only those that are held or waited for */
    size_t limit;       /* at most so many, and no more are read at once; 0: all */
    hf_id lock_session; /* only those that were last taken with it, as in hf_enter; 0: all */
} hf_list_part;
typedef bool (*hf_state_fn)(void *ctx, const hf_session_state *state);
typedef bool (*hf_waits_fn)(void *ctx, const hf_waits *waits);
typedef void (*hf_notice_fn)(void *ctx, const hf_notice *notice);

/* ---- History ---- */

/* A turn that has ended: somebody had the lock from granted_at to ended_at. Texts are never NULL;
 * "": there is none. */
typedef struct hf_turn_note {
    const char *name, *who, *actor, *why;
    const char *reason; /* why it did not end by a release */
    hf_id ticket, session;
    int64_t token; /* 0: the lock has none, or it is not known */
    bool is_block; /* its client passed the lock on among its threads, with tokens from this one on;
                    * which of them was the last is not known */
    int32_t permits, limit;
    hf_dbtime granted_at; /* 0: not known */
    hf_dbtime ended_at;
    hf_turn_end end;
    bool has_exit_status;
    int32_t exit_status;
    int64_t more; /* that many turns of its client came just before it, and were not noted */
} hf_turn_note;

/* Which turns of the history are wanted. */
typedef struct hf_history_part {
    const char *name;   /* of this lock; "": of all */
    const char *prefix; /* of locks whose names begin with it */
    hf_dbtime since;    /* that ended then or later */
    size_t limit;       /* those that ended last, at most so many; at least 1 */
    bool tells_missing; /* HF_TURN_MISSING, too, whatever the name: they have none */
} hf_history_part;

typedef bool (*hf_turn_note_fn)(void *ctx, const hf_turn_note *turn); /* false: stop */

/* A store without HF_CAN_QUEUE accepts an entry only as a holder. Inside the step, it decides
 * itself whether the present holder's time is over. Its records have no `last` (see previous());
 * its sessions are not judged and cannot be asked. */

/* A holder that asks how the one before it left. */
typedef struct hf_successor {
    const hf_entry *holder; /* its ticket, session, ttl and token */
    const char *who;
    int64_t period_ms; /* of work that is done once per period: the period's length; 0: none */
    hf_mono until;     /* the end of its belief */
} hf_successor;

/* What somebody who has asked for something still waits for. */
typedef struct hf_bound {
    hf_mono until;     /* by hf_env.mono; what begins then has a moment all the same */
    int64_t answer_ms; /* each answer puts `until` off, until so long after it; 0: none */
    bool (*is_cancelled)(void *ctx); /* he waits no longer. NULL: until then, he does */
    void *ctx;
} hf_bound;

/* Unless its comment says otherwise, a call is one atomic database command. It may be made from any
 * thread, also at the same time as others. The store bounds its time. It returns HF_OK or fills
 * err. It may return HF_UNKNOWN if it was sent and the answer was lost or a majority did not
 * acknowledge it. It is idempotent, so it can be repeated after HF_UNKNOWN. `out` structs need no
 * preparation, are overwritten, and hold nothing to free after a failure. */
typedef struct hf_store_ops {
    const char *scheme; /* "memory", "sqlite", "mongodb" */

    void (*close)(hf_store *store);

    /* Makes the session known, as its first beat. HF_HELD: a session with this id exists, alive or
     * dead, and is left unchanged. Not idempotent: after HF_UNKNOWN take a new id, or beat to find
     * out. That of a process (pid is not 0) may be taken back by a failover, but not if a step that
     * was sent after it is acknowledged by the same primary (R3). */
    hf_code (*session_begin)(hf_store *store, const hf_session *self, hf_error *err);

    /* Raises the beat by one, takes out the asks that were answered, and replaces the former wait
     * report. Returns the state after that, as far as beat and asks are concerned; a client that
     * finds the beat raised by more than its own calls gives the session up. HF_LOST: the session
     * is marked dead, or missing where says->begins is NULL. Never waits behind other calls of this
     * store. */
    hf_code (*session_beat)(hf_store *store, hf_id id, const hf_beat *says, hf_session_state *out,
                            hf_error *err);

    /* Marks another session dead if it is still as it was seen: with the same beat, or, if it was
     * seen gone, still gone. HF_OK: it is marked (by this or an earlier call). HF_HELD: it lives.
     * HF_NOT_FOUND: it is missing. */
    hf_code (*session_mark)(hf_store *store, const hf_session_state *seen, hf_error *err);

    /* Ends this client's own session: marks it dead (best effort) and frees what the store keeps
     * for it. leaves_any: tickets of it may still stand; its mark is kept while they do, like a
     * mark by another client. */
    hf_code (*session_end)(hf_store *store, hf_id id, bool leaves_any, hf_error *err);

    /* Gives the state of n sessions (n <= 1000), in the order of ids. With clock_trust_ms >= 0 the
     * store may report sessions as gone (R6): those of this host only when overdue by more than
     * that, SQLite's that no process keeps (pid 0) by the allowance.
     * HF_SHAPE: those that could not be read are HF_ODD, the others are given. */
    hf_code (*sessions_look)(hf_store *store, const hf_id *ids, size_t n, int64_t clock_trust_ms,
                             hf_session_state *states, hf_error *err);

    /* Gives the wait reports of those of n sessions (n <= 1000) that live and have long waits; ids
     * NULL: of all sessions. A read that may be believed (R1). May be NULL: deadlocks are not
     * found. */
    hf_code (*waits)(hf_store *store, const hf_id *ids, size_t n, hf_waits_fn each, void *ctx,
                     hf_error *err);

    /* The one change of a record (src/core/record.c). out, if not NULL, is the record afterwards;
     * free it with record_done(). A step that changes nothing writes nothing. Only an `enter` that
     * replaces nobody creates a record. HF_SHAPE: a foreign document is there; it is left alone. */
    hf_code (*step)(hf_store *store, const char *name, const hf_step *step, hf_record *out,
                    hf_step_reply *reply, hf_error *err);

    /* Takes the first record, in the order of the claim, that matches and is free. *out is that
     * record with its name; if there is none, its `exists` is false. The name is unknown before the
     * answer. If there is no answer, step() with leaves and look() take "" instead of the name;
     * look() then gives the records that have such a ticket, under their own names. After the
     * answer, beats renew what was taken. May be NULL. */
    hf_code (*claim)(hf_store *store, const hf_claim *claim, const hf_enter *enter, hf_record *out,
                     hf_step_reply *reply, hf_error *err);

    /* Renews one ticket. HF_LOST: it is not there. May be NULL: beats renew all. */
    hf_code (*refresh)(hf_store *store, const char *name, hf_id ticket, hf_error *err);

    /* Renews an ID lease that an enter with `lease` has made; *out is the record afterwards, as of
     * step(). HF_LOST: its ticket is not there. Only without HF_CAN_QUEUE, where no session
     * outlives its client. May be NULL: there are no ID leases. */
    hf_code (*lease_renew)(hf_store *store, const char *name, hf_id session, hf_id ticket,
                           hf_record *out, hf_error *err);

    /* Unlocks what a process has locked, and ends its pings. *n: how many. May be NULL: locks
     * belong to sessions only. */
    hf_code (*unlock_all)(hf_store *store, const char *process, int64_t *n, hf_error *err);

    /* Gives the one name of a record that has several, which records and notices use. May be NULL:
     * each name is its own. */
    hf_code (*canonical)(hf_store *store, const char *given, char name[HF_NAME_MAX + 1],
                         hf_error *err);

    /* A read that may be believed (R1) of n records (n <= 1000), no older than `after`. Calls
     * `each` for all of them, in any order; for a missing one with exists == false. linearizable (n
     * == 1): confirmed by the present primary. */
    hf_code (*look)(hf_store *store, const char *const *names, size_t n, hf_stamp after,
                    bool linearizable, hf_record_fn each, void *ctx, hf_error *err);

    /* Gives the records of a part in the order of their names, by bytes, until `each` returns
     * false. It reads in batches, so what comes meanwhile may be missed. A record that cannot be
     * read is skipped, with a warning. `each` may call the store. */
    hf_code (*list)(hf_store *store, const hf_list_part *part, hf_record_fn each, void *ctx,
                    hf_error *err);
    hf_code (*list_sessions)(hf_store *store, hf_state_fn each, void *ctx, hf_error *err);

    /* Puts an ask into another session. HF_NOT_FOUND: it is missing or dead. */
    hf_code (*ask)(hf_store *store, hf_id session, const hf_ask *ask, hf_error *err);

    /* Blocks until there are notices for this session, wake() is called, or timeout_ms is over
     * (HF_OK). Calls `each` while none of the store's mutexes is held. One thread at a time. The
     * first call for a session listens from `from` on. Later calls continue, and may skip what came
     * before `from`. After an error, the next call starts listening anew and first gives
     * HF_NOTICE_LOOK. HF_UNSUPPORTED: this database has no notices; poll. A client without a
     * session that waits outside a queue gives the session of the queue's head, unless the store
     * has called(): its notices show that the line moves. A store that cannot give those gives
     * none. */
    hf_code (*await)(hf_store *store, hf_id session, hf_stamp from, int64_t timeout_ms,
                     hf_notice_fn each, void *ctx, hf_error *err);
    void (*wake)(hf_store *store);

    /* Housekeeping: takes the tickets of marked sessions out of all records, by a step with deaths;
     * prunes records that have been idle for days and whose period is over; forgets marked sessions
     * of which no ticket stands. Gives up to max sessions that are long overdue, for the caller
     * to mark if is_gone, else to watch. One call does one part, which takes no longer than a few
     * other calls do; *more: the next call continues. Where several processes see the same locks,
     * the store keeps how far they all have come, so that a part is done once, and each goes on
     * where the last one stopped. HF_HELD: another one does a part, in a turn that ends within two
     * seconds unless it goes on. One thread at a time. */
    hf_code (*sweep)(hf_store *store, hf_session_state *overdue, size_t max, size_t *n, bool *more,
                     hf_error *err);

    /* A new descriptor for a child to inherit, or -1: others take a session of this process for
     * dead only when nobody has one any more. A child can do nothing else with it. May be NULL. */
    int (*keep_fd)(hf_store *store, hf_id session);

    hf_code (*doctor)(hf_store *store, hf_finding_fn each, void *ctx, hf_error *err);

    /* For stores with HF_CAN_LAST; both are NULL elsewhere, where the records say it.
     *
     * Tells a holder how the one before it left, and notes the holder, so that the next one learns
     * how it left, too: by its leave, or, if it wrote none, as abandoned. A holder whose period has
     * its work done already is not noted. *now: the store's clock, at the time of that note or
     * reading. A few commands. The read is of the present, not of a past (R1). HF_UNREACHABLE: also
     * if the belief ended before the answer was there; never HF_UNKNOWN. */
    hf_code (*previous)(hf_store *store, const char *name, const hf_successor *asks,
                        hf_last_mark *out, hf_dbtime *now, hf_error *err);
    /* Fills `last` of n records (n <= 1000) that look() or list() gave. One that does not exist,
     * but of which it is known how it was left, exists from now on. For display. */
    hf_code (*lasts)(hf_store *store, hf_record *records, size_t n, hf_error *err);

    /* Unlocks what was taken with a lock session id; name NULL: all of it. *n: how many. May be
     * NULL: locks are taken with none. */
    hf_code (*unlock_session)(hf_store *store, hf_id lock_session, const char *name, int64_t *n,
                              hf_error *err);

    /* Adds n turns (n <= 1000) to the history, the oldest first. One that is there already, with
     * the same ticket, is_block and token (without one: granted_at, or ended_at), stays as it is.
     * Waits for no majority, and a crash of the machine may undo it: no rule depends on the
     * history. Takes out the oldest when there are too many. May be NULL, with the next. */
    hf_code (*history_add)(hf_store *store, const hf_turn_note *turns, size_t n, hf_error *err);
    /* Gives the turns of a part, in any order. `each` must not call the store.
     * What cannot be read is skipped. A store without HF_CAN_HISTORY may give what others add. */
    hf_code (*history)(hf_store *store, const hf_history_part *part, hf_turn_note_fn each,
                       void *ctx, hf_error *err);

    /* The store will be closed: calls under way that wait for a server which is silent fail soon
     * (HF_UNREACHABLE or HF_UNKNOWN). Those that begin later wait as always. May be NULL. */
    void (*hurry)(hf_store *store);

    /* Connects, if that was not done yet; called before the call from which a lease is counted, so
     * that none runs while servers far away are looked for. May be NULL. */
    hf_code (*connect)(hf_store *store, hf_error *err);

    /* Makes n steps (n <= HF_PARCELS_MOST) on different locks, which have leaves and nothing else,
     * in as few commands as possible. What comes of each is as after step() without `out`, and is
     * written into its parcel: one that fails does not keep the others from being made. May be
     * NULL: they are made one after the other. */
    void (*steps)(hf_store *store, hf_parcel *parcels, size_t n);

    /* The highest number (hf_enter.number) that has a place in that lock's queue, as far as that is
     * seen without asking the database; 0: it is not known. Only a hint. May be NULL. */
    int64_t (*called)(hf_store *store, const char *name);

    /* From now on, calls that this thread makes end at bound->until, and soon after is_cancelled()
     * if the server is silent, as those that are hurried do. *bound stays in place until the next
     * such call of the thread. NULL: they take as long as they take, as in the beginning. May be
     * NULL where no call waits for long. */
    void (*bound)(hf_store *store, hf_bound *bound);
} hf_store_ops;

struct hf_store {
    const hf_store_ops *ops;
    unsigned can;            /* HF_CAN_... */
    bool is_remote;          /* calls wait for a network: several at once take no longer than one,
                              * and cost less, so the beats of all clients go out together */
    int64_t wait_ms;         /* how long HF_WAIT_DEFAULT waits; 0: for ever */
    const char *protocol;    /* for messages: "queue" if there is no choice */
    const char *name_prefix; /* as the URI says (hf_options); NULL: none */
    int64_t beat_ms;         /* a session beats at least this often; 0: as often as its ttl wants */
    int64_t await_ms; /* the best timeout of await(); 0: a second. More if wake() and the beginning
                       * of a session certainly end it */
    uint64_t round_trips; /* made over a network; any thread raises it, atomically */
    int64_t ttl_ms; /* what it has chosen (hf_store_config.chooses_ttl); 0: what it was given */
};

/* What a store is told at opening. */
typedef struct hf_store_config {
    int64_t ttl_ms; /* bounds the time-outs of beats */
    const hf_env *env;
    void (*log)(void *ctx, hf_log_level level, const char *text); /* never NULL, any thread */
    void *log_ctx;
    bool chooses_ttl; /* nobody has asked for that ttl: the store may choose another */
} hf_store_config;

/* Opens the store of a URI. If the URI sets patience_ms, it is written there; otherwise that stays
 * unchanged. */
hf_code hf_store_open(const char *uri, const hf_store_config *config, hf_store **out,
                      int64_t *patience_ms, hf_error *err);

/* Opens a store of a registered scheme, like hf_store_open(). rest: the URI behind "SCHEME:". What
 * *out points to lives until its close(). Called in the thread that opens a client, so perhaps in
 * several at once. */
typedef hf_code (*hf_store_open_fn)(const char *rest, const hf_store_config *config, hf_store **out,
                                    hf_error *err);

/* Makes a scheme known to hf_open() and hf_store_open() in this process, for good. scheme: 1 to 32
 * small letters, digits, '+', '-' and '.', of which the first is a letter; it is copied. version:
 * HF_STORE_VERSION. May be called from any thread. HF_INVALID: the scheme is known already or is no
 * scheme, or the caller was compiled with another version of this header. */
hf_code hf_store_register(const char *scheme, int version, hf_store_open_fn open, hf_error *err);

/* ---- For those who write a store ------------------------------------------------------------ */

/* Fills err, if it is not NULL, and returns code. */
hf_code hf_store_fail(hf_error *err, hf_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A record of that name that does not exist yet; a deep copy (`to` is overwritten); and frees what
 * a record points to. */
void hf_record_init(hf_record *record, const char *name);
void hf_record_copy(hf_record *to, const hf_record *from);
void hf_record_done(hf_record *record);

/* Whether the step makes a record where there is none. Where it does not, nothing is stored. */
bool hf_record_makes(const hf_step *step);

/* The one change of a record: applies the step; returns whether anything was changed, and so must
 * be stored. now: the store's clock. floor: where the tokens of a new record begin. It must never
 * be lower than a token that this store has granted and does not remember: hf_record_floor() of the
 * store's clock, if that is not set back by more than a record's pruning takes. */
bool hf_record_step(hf_record *record, const hf_step *step, hf_dbtime now, int64_t floor);
int64_t hf_record_floor(hf_dbtime now);

/* Whether a listing gives this record, and the name, by bytes, from which on it may give some. */
bool hf_record_is_listed(const hf_record *record, const hf_list_part *part);
const char *hf_record_first_listed(const hf_list_part *part);

/* Records and sessions as bytes (BSON, as in the collections of protocol queue). The writers
 * allocate *bytes with malloc(). The readers say HF_SHAPE if the bytes are none of theirs; where:
 * what the message calls the place. A session keeps its beat, its asks, and whether it is dead;
 * lease_left_ms and is_gone are the store's to fill in. */
void hf_record_write(const hf_record *record, void **bytes, size_t *n);
hf_code hf_record_read(const void *bytes, size_t n, const char *where, hf_record *out,
                       hf_error *err);
void hf_state_write(const hf_session_state *state, void **bytes, size_t *n);
hf_code hf_state_read(const void *bytes, size_t n, const char *where, hf_session_state *out,
                      hf_error *err);

/* A client on an open store, which the client will close; for tests and other stores. After an
 * error the store is still the caller's. */
hf_code hf_open_on(hf_store *store, const hf_options *options, hf_client **out, hf_error *err);

#ifdef __cplusplus
}
#endif
#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#endif
