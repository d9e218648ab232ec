/* SPDX-License-Identifier: Apache-2.0 */
/* sharding.h: protocol `sharding`, the part that decides: whether a lock's owner has stopped
 * pinging, what the next command of an acquire is, and which errors are tried again. The store
 * sends the commands and brings their replies here; it keeps the documents as MongoDB does.
 *
 *     sharding_round round;
 *     for (sharding_action todo = sharding_begin(&round, ...); sharding_is_command(todo);)
 *         todo = sharding_next(&round, &history, (reply of the command that todo names));
 *
 * Codes are the server's numbers. An error that has none gets the nearest: 9001 for a connection
 * that broke, 6 or 7 for a host, 89 for a time-out of the network. */
#ifndef CORE_SHARDING_H
#define CORE_SHARDING_H

#include <holdfast/store.h>

/* ---- Settings ---- */

typedef struct sharding_settings {
    int64_t ping_ms;       /* between two pings of ours */
    int64_t late_ping_ms;  /* a longer gap between them is worth a warning */
    int64_t expiry_ms;     /* an owner that was not seen to ping for this long has lost its lock */
    int64_t poll_ms;       /* between two rounds of a waiter */
    int64_t wait_ms;       /* 0: one round; negative: for ever */
    int64_t still_ms;      /* "still waiting" is logged so often */
    unsigned grab_repeats; /* immediate ones in one round, each after an unlock */
    unsigned tries;        /* of one command, where its error is tried again */
} sharding_settings;

extern const sharding_settings sharding_defaults; /* those of MongoDB itself */

/* ---- Errors ---- */

typedef enum sharding_call {
    SHARDING_PING,
    SHARDING_STOP_PING,
    SHARDING_GRAB_LOCK,
    SHARDING_OVERTAKE_LOCK,
    SHARDING_UNLOCK_ONE,
    SHARDING_UNLOCK_ALL,
    SHARDING_GET_PING,
    SHARDING_GET_LOCK,
    SHARDING_SERVER_INFO,
} sharding_call;

bool sharding_is_not_primary(int32_t code);
bool sharding_is_retriable(int32_t code); /* those of not_primary among them */

/* Whether a command that was tried this many times (1: once), and ended with that code, is sent
 * again. */
bool sharding_tries_again(const sharding_settings *settings, sharding_call call, int32_t code,
                          unsigned tried);

/* ---- What is seen ---- */

#define SHARDING_PROCESS_MAX 384 /* bytes; host:port:seconds:number has at most 292 */
#define SHARDING_NO_PING 0       /* a ping document that is missing counts as one of the epoch */

/* A document of `locks`. */
typedef struct sharding_lock {
    char process[SHARDING_PROCESS_MAX + 1];
    hf_id ts;
    int64_t state;   /* 0: free; 2: held; 1 too, by servers before 3.2 */
    int64_t when_ms; /* its date, 0: none. MongoDB 6.0 gives all its locks one ts, but not this */
} sharding_lock;

/* What serverStatus says. */
typedef struct sharding_server {
    hf_dbtime local_time;
    int64_t round_trip_ms; /* from the sending of the call to its reply, on our own clock */
    hf_mono arrived;       /* when the reply came, on our own clock */
    bool is_primary;       /* also true of a standalone server */
    bool has_election;
    hf_id election;
} sharding_server;

/* Check status: whether a lock's document says that the owner of this ts holds it. */
bool sharding_is_held_by(const sharding_lock *lock, hf_id ts);

/* ---- Expiry (sharding_expiry.c) ---- */

/* What was seen of one lock when it last changed. */
typedef struct sharding_memory {
    char name[HF_NAME_MAX + 1];
    char process[SHARDING_PROCESS_MAX + 1];
    hf_id ts, election;
    int64_t when_ms, ping_ms;
    hf_dbtime server_time; /* not earlier than the ping was read, by the primary of that election */
    hf_mono read_at;       /* when that time had come, on our own clock */
    hf_mono seen_at;       /* not earlier either, on our own clock, whatever primary it was */
    bool has_moved;        /* that was at a primary before: only our own clock counts from there */
} sharding_memory;

#define SHARDING_MEMORIES                                                                          \
    1000 /* at most; the oldest gives way, and its lock is as never looked at */

/* The memories of one manager, by lock. Start from {0}; the caller locks it. */
typedef struct sharding_history {
    sharding_memory *memories;
    size_t n;
} sharding_history;

typedef enum sharding_verdict {
    SHARDING_NOT_EXPIRED,
    SHARDING_EXPIRED,     /* may be overtaken, if its ts is still the same */
    SHARDING_NO_ELECTION, /* a standalone server: its clock cannot be judged, nothing expires */
} sharding_verdict;

/* One look at a lock that another holds: its document, then its owner's ping, then the server. */
typedef struct sharding_look {
    const char *name;
    const sharding_lock *lock;
    int64_t ping_ms; /* as the ping's date stands there, or SHARDING_NO_PING */
    const sharding_server *server;
} sharding_look;

/* Compares a look with what was seen before, and remembers it. The primary's clock judges, as long
 * as it is the same primary. If another was elected meanwhile, our own clock counts from the first
 * look on, plus what two clocks may differ by (lease_watch_end()). *went_back is set when the
 * server's time was before that of the memory: worth a warning. */
sharding_verdict sharding_judge(sharding_history *history, const sharding_look *look,
                                int64_t expiry_ms, bool *went_back);

void sharding_forget(sharding_history *history, const char *name);
void sharding_history_done(sharding_history *history);

/* ---- One round of an acquire (sharding.c) ---- */

typedef enum sharding_action {
    /* Commands; each wants its reply. */
    SHARDING_GRAB,        /* {_id: name, state: 0} gets ts and state 2; upsert */
    SHARDING_UNLOCK,      /* of ts: the grab may have landed */
    SHARDING_READ_LOCK,   /* by name; no older than the refusal before it */
    SHARDING_READ_PING,   /* of seen.process */
    SHARDING_READ_SERVER, /* serverStatus */
    SHARDING_OVERTAKE,    /* {$or: [{_id: name, state: 0}, {_id: name, ts and when of seen}]}; no
                           * upsert */
    /* Ends of the round. */
    SHARDING_GRANTED,                /* with ts; is_takeover: from seen */
    SHARDING_BUSY,                   /* begin another round, with the same ts, in again_ms */
    SHARDING_FAIL,                   /* with code; nothing of ours is there */
    SHARDING_QUEUE_UNLOCK_AND_FAIL,  /* with code; ts may be there: unlock it until that succeeds */
    SHARDING_FAIL_FOR_WANT_OF_A_SET, /* held, and only a replica set can tell whether it expired */
} sharding_action;

/* The outcome of a command. If the write concern was not satisfied, code is that error's. */
typedef struct sharding_reply {
    int32_t code;  /* 0: no error */
    bool is_found; /* GRAB, OVERTAKE: `value` is there; READ_LOCK, READ_PING: the document is */
    sharding_lock lock;
    int64_t ping_ms;
    sharding_server server;
} sharding_reply;

typedef struct sharding_round {
    const char *name;
    hf_id ts;
    const sharding_settings *settings;
    sharding_action action; /* what the next reply answers */
    sharding_lock seen;     /* after READ_LOCK: who holds */
    int64_t ping_ms;
    int64_t again_ms;
    int32_t code;
    unsigned repeats, n_freed;
    bool is_known_expired; /* the ping is being read once more before the lock is overtaken */
    bool is_takeover;
    bool clock_went_back; /* the server's clock: worth a warning */
} sharding_round;

/* ts is new for each acquire, and the same in all its rounds. name and settings must outlive the
 * round. */
sharding_action sharding_begin(sharding_round *round, const char *name, hf_id ts,
                               const sharding_settings *settings);

/* Takes in the reply to round->action, and says what is next. */
sharding_action sharding_next(sharding_round *round, sharding_history *history,
                              const sharding_reply *reply);

bool sharding_is_command(sharding_action action);

#endif
