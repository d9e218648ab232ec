/* SPDX-License-Identifier: Apache-2.0 */
/* memory_internal.h: what the files of the memory store share. */
#ifndef STORE_MEMORY_INTERNAL_H
#define STORE_MEMORY_INTERNAL_H

#include "core/history.h"
#include "core/notify.h"

#include <pthread.h>
#include <sys/types.h>

#define EVENTS 1024           /* how far back a session can read events that it missed */
#define MEMORY_NOTICES_MAX 64 /* given by one await() */
#define MEMORY_TURNS 4096     /* of the history */

/* What a step told a session. Without a name: `session` died, and all others look. */
struct event {
    notify_note note;
    hf_stamp stamp;
    char *name; /* of the lock */
};

struct presence {
    hf_session_state state;
    hf_mono expires;
    char *waits; /* NULL: it says nothing */
    int64_t seen;
    uint64_t since; /* events before this one came before the session */
};

/* What all opens of one name share; everything after `mutex` is under it. */
struct memory {
    struct memory *next;
    char *name;
    unsigned users; /* under registry_mutex */
    pthread_mutex_t mutex;
    pthread_cond_t news;
    uint64_t version;    /* of all records: the stamp of looks and steps */
    int64_t used_token;  /* the highest of the records that were pruned */
    hf_record **records; /* in byte order of their names */
    size_t n_records;
    struct presence *sessions;
    size_t n_sessions;
    struct event events[EVENTS]; /* number i is at i % EVENTS */
    uint64_t n_events;
    struct history_turn **turns; /* number i is at i % MEMORY_TURNS; NULL: there is none yet */
    uint64_t n_turns;
};

struct memory_store {
    hf_store base;
    struct memory *memory;
    hf_env env;
    pid_t pid;
    /* Under the memory's mutex. */
    bool is_woken;
    hf_id listens;  /* whose events await() gives */
    uint64_t heard; /* those before this one were given, or came before the session */
};

static inline hf_mono memory_mono(const struct memory_store *store)
{
    return store->env.mono(store->env.ctx);
}

static inline hf_dbtime memory_time(const struct memory_store *store)
{
    return (hf_dbtime){store->env.wall(store->env.ctx).ms};
}

/* Every function below that takes a struct memory needs its mutex held. */
static inline struct memory *memory_lock(hf_store *base)
{
    struct memory *memory = ((struct memory_store *)base)->memory;
    pthread_mutex_lock(&memory->mutex);
    return memory;
}

static inline void memory_unlock(struct memory *memory)
{
    pthread_mutex_unlock(&memory->mutex);
}

/* events.c */
/* Adds an event for a session; without a name: tells all others to look. */
void memory_publish(struct memory *memory, const char *name, const notify_note *note);

/* Takes the session's new events, at most MEMORY_NOTICES_MAX; if it missed too many, one LOOK
 * instead. The caller frees their names. */
size_t memory_hear(struct memory_store *store, hf_notice *notices);

/* sessions.c: the session, or NULL. */
struct presence *memory_find_session(const struct memory *memory, hf_id id);

/* Forgets marked sessions a day after their lease; gives up to max live sessions that are a day
 * late. */
size_t memory_sweep(struct memory *memory, hf_mono now, hf_session_state *out, size_t max);

/* records.c */
void memory_prune(struct memory *memory, hf_dbtime now);
/* Takes the tickets of marked sessions out of all records, if their leases ended an hour ago. */
void memory_take_dead_out(struct memory *memory, hf_mono now, hf_dbtime date);
void memory_free_record(hf_record *record);

/* history.c */
void memory_free_history(struct memory *memory);

/* The functions of the store's table that are not in memory.c; see holdfast/store.h. */
hf_code memory_begin(hf_store *base, const hf_session *self, hf_error *err);
hf_code memory_beat(hf_store *base, hf_id id, const hf_beat *says, hf_session_state *out,
                    hf_error *err);
hf_code memory_waits(hf_store *base, const hf_id *ids, size_t n, hf_waits_fn each, void *ctx,
                     hf_error *err);
hf_code memory_mark(hf_store *base, const hf_session_state *seen, hf_error *err);
hf_code memory_end(hf_store *base, hf_id id, bool leaves_any, hf_error *err);
hf_code memory_look_sessions(hf_store *base, const hf_id *ids, size_t n, int64_t clock_trust_ms,
                             hf_session_state *states, hf_error *err);
hf_code memory_list_sessions(hf_store *base, hf_state_fn each, void *ctx, hf_error *err);
hf_code memory_ask(hf_store *base, hf_id session, const hf_ask *ask, hf_error *err);
hf_code memory_step(hf_store *base, const char *name, const hf_step *step, hf_record *out,
                    hf_step_reply *reply, hf_error *err);
hf_code memory_look(hf_store *base, const char *const *names, size_t n, hf_stamp after,
                    bool linearizable, hf_record_fn each, void *ctx, hf_error *err);
hf_code memory_list(hf_store *base, const hf_list_part *part, hf_record_fn each, void *ctx,
                    hf_error *err);
hf_code memory_history_add(hf_store *base, const hf_turn_note *turns, size_t n, hf_error *err);
hf_code memory_history(hf_store *base, const hf_history_part *part, hf_turn_note_fn each, void *ctx,
                       hf_error *err);

#endif
