/* SPDX-License-Identifier: Apache-2.0 */
/* sharding.h: what the files of protocol `sharding` share. Its documents are MongoDB's own:
 *
 *   locks      {_id: name, state: 0 free | 1, 2 held, process, ts, when, who, why}
 *   lockpings  {_id: process, ping: date}
 *
 * A session of ours is one process there: its id stands in the name of the process, or, where
 * hfProcess gives that name, at the end of `who`. A lock is ours by its ts and its date: the date
 * is never the same twice in one store, so a command that comes late undoes nothing but itself. */
#ifndef STORE_MONGO_SHARDING_H
#define STORE_MONGO_SHARDING_H

#include "core/sharding.h"
#include "store/mongo/parts.h"

#define SHARDING_PINGS "lockpings"
#define SHARDING_WHO_MAX (SHARDING_PROCESS_MAX + 160)

/* ---- Grabs (grabs.c): what this store holds, asks for, or is leaving ---- */

typedef enum sharding_stage { SHARDING_ASKED, SHARDING_HELD, SHARDING_LEAVING } sharding_stage;

typedef struct sharding_grab {
    struct sharding_grab *next;
    char *name;
    hf_id ticket; /* as the client knows it; the ts too, but for hfLockSession */
    hf_id ts, session;
    int64_t when_ms; /* as it was last written */
    sharding_stage stage;
} sharding_grab;

struct mongo_sharding {
    sharding_settings settings;
    bool has_lock_session;
    hf_id lock_session;
    hf_session self;       /* all but its id; set once, by the first session */
    pthread_mutex_t mutex; /* all below */
    bool knows_self, is_denied_said;
    sharding_history history;
    sharding_grab *grabs;
    struct sharding_wait *waits; /* see waits.c */
    int64_t last_date_ms;
    hf_mono pinged_at;  /* the last one that was acknowledged; 0: none yet */
    hf_mono warned_at;  /* of a clock that went back */
    bool may_have_more; /* some write had no answer: there may be locks that no grab names */
    hf_id *owed;        /* sessions that have ended, and whose locks could not be unlocked yet */
    size_t n_owed;
};

/* This machine's time, but later than all that was given before. */
int64_t sharding_date(mongo_store *store);

/* Asked for, with a date of its own. An earlier one of that ticket gives way to it. */
void sharding_grab_add(mongo_store *store, const sharding_grab *grab);
void sharding_grab_set_date(mongo_store *store, hf_id ticket, int64_t when_ms);
void sharding_grab_set_stage(mongo_store *store, hf_id ticket, sharding_stage stage);
void sharding_grab_drop(mongo_store *store, hf_id ticket);
void sharding_grabs_drop_of(mongo_store *store, hf_id session);
void sharding_grabs_clear(mongo_store *store);
bool sharding_grab_find(mongo_store *store, hf_id ticket, sharding_grab *out); /* without name */
bool sharding_grabs_any_of(mongo_store *store, hf_id session);

/* Whether this store has that name already, with another ticket; out: without its name. */
bool sharding_grab_of_name(mongo_store *store, const char *name, hf_id but, sharding_grab *out);
/* The one that a document with this ts and date is of; out: without its name. */
bool sharding_grab_of_lock(mongo_store *store, const char *name, const sharding_lock *lock,
                           sharding_grab *out);
/* Whether one holds the same ts since another date. */
bool sharding_grab_is_older(mongo_store *store, const sharding_lock *lock);
/* Whether a grab that is under way, or held since that date, accounts for a lock of ours. */
bool sharding_grab_accounts_for(mongo_store *store, const char *name, const sharding_lock *lock);

typedef struct sharding_mark {
    hf_id ts;
    int64_t when_ms;
} sharding_mark;

/* What a session holds, sorted for sharding_mark_compare; the caller's to free. */
sharding_mark *sharding_grabs_marks(mongo_store *store, hf_id session, size_t *n);
int sharding_mark_compare(const void *a, const void *b);

/* ---- Who waits for long (waits.c) ---- */

/* It was busy once more: says so to the log now and then. */
void sharding_wait_note(mongo_store *store, hf_id ticket, const char *name, const char *who);
void sharding_wait_end(mongo_store *store, hf_id ticket);
void sharding_waits_clear(mongo_store *store);

/* ---- Documents (document.c) ---- */

typedef struct sharding_document {
    char name[HF_NAME_MAX + 1];
    char who[HF_TEXT_MAX + 1], why[HF_TEXT_MAX + 1];
    sharding_lock lock;
    hf_id session; /* ours: as it is; others': made of what they say */
} sharding_document;

void sharding_process(const mongo_store *store, hf_id session, char out[SHARDING_PROCESS_MAX + 1]);
void sharding_who(const mongo_store *store, hf_id session, char out[SHARDING_WHO_MAX + 1]);
hf_id sharding_session(const char *process, const char *who);

hf_code sharding_read(const mongo_store *store, const bson_t *doc, sharding_document *out,
                      hf_error *err);
/* What the client is to call it: its own by their tickets, others' by how they stand there. */
hf_id sharding_ticket(mongo_store *store, const sharding_document *document);
hf_code sharding_read_record(mongo_store *store, const bson_t *doc, hf_record *out, hf_error *err);
bool sharding_read_ping(const bson_t *doc, int64_t *ping_ms);

/* ---- Calls (calls.c): one command each, tried again as src/core/sharding.c says ---- */

/* What a call came to; the caller's to end with sharding_sent_done(), whatever it was. It cannot be
 * copied: the driver's documents point into themselves. */
typedef struct sharding_sent {
    hf_code code;
    int32_t number; /* the server's, or the nearest; 0: no error */
    unsigned tried; /* how often it was sent */
    bool was_sent;  /* false: the server was not reached, so nothing can have been done */
    mongo_reply reply;
} sharding_sent;

void sharding_sent_done(sharding_sent *sent);

/* A write may have been done without its outcome being known: pings look for what it left. */
void sharding_may_have_more(mongo_store *store);

/* A lock as it is to be written. */
typedef struct sharding_taking {
    const char *name, *process, *who, *why;
    hf_id ts;
    int64_t when_ms;
} sharding_taking;

/* How a lock must stand there to be unlocked. */
typedef struct sharding_unlocking {
    const char *name;
    hf_id ts;
    int64_t when_ms;     /* 0: any */
    const char *process; /* NULL: any */
} sharding_unlocking;

/* The reply of the two that take is the document, where it is ours now. */
hf_code sharding_grab_lock(mongo_store *store, const sharding_taking *taking, sharding_sent *out,
                           hf_error *err);
hf_code sharding_overtake_lock(mongo_store *store, const sharding_taking *taking,
                               const sharding_lock *seen, sharding_sent *out, hf_error *err);
hf_code sharding_unlock(mongo_store *store, const sharding_unlocking *all, size_t n, bool is_beat,
                        sharding_sent *out, hf_error *err);
hf_code sharding_unlock_all(mongo_store *store, hf_id session, bool is_beat, sharding_sent *out,
                            hf_error *err);
/* Not older than `after`. */
hf_code sharding_get_lock(mongo_store *store, const char *name, hf_stamp after, sharding_sent *out,
                          hf_error *err);
/* linearizable: from the primary of this moment, never from one that was deposed. */
hf_code sharding_get_ping(mongo_store *store, const char *process, bool linearizable,
                          sharding_sent *out, hf_error *err);
hf_code sharding_get_server(mongo_store *store, sharding_sent *out, hf_error *err);
hf_code sharding_ping(mongo_store *store, hf_id session, bool is_beat, sharding_sent *out,
                      hf_error *err);
hf_code sharding_stop_ping(mongo_store *store, hf_id session, sharding_sent *out, hf_error *err);

/* All that stands there as this session's; the reply's batch has ts, when and state of each. */
hf_code sharding_get_own(mongo_store *store, hf_id session, sharding_sent *out, hf_error *err);

/* The first document of a reply's batch. */
bool sharding_first(const mongo_reply *reply, bson_t *out);

/* ---- Sessions (session.c) ---- */

hf_code sharding_session_begin(hf_store *base, const hf_session *self, hf_error *err);
hf_code sharding_session_beat(hf_store *base, hf_id id, const hf_beat *says, hf_session_state *out,
                              hf_error *err);
hf_code sharding_session_end(hf_store *base, hf_id id, bool leaves_any, hf_error *err);
void sharding_session_settle(mongo_store *store); /* what is owed, at the store's close */
hf_code sharding_list_sessions(hf_store *base, hf_state_fn each, void *ctx, hf_error *err);
hf_code sharding_sweep(hf_store *base, hf_session_state *overdue, size_t max, size_t *n, bool *more,
                       hf_error *err);

#endif
