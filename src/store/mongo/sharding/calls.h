/* SPDX-License-Identifier: Apache-2.0 */
/* calls.h: one command each, tried again as core/sharding.c says. */
#ifndef STORE_MONGO_SHARDING_CALLS_H
#define STORE_MONGO_SHARDING_CALLS_H

#include "core/sharding.h"
#include "store/mongo/driver/command.h"

#define SHARDING_PINGS "lockpings"

/* The outcome of a call. The caller ends it with sharding_sent_done() in any case. It cannot be
 * copied: the driver's documents point into themselves. */
typedef struct sharding_sent {
    hf_code code;
    int32_t number; /* the server's, or the nearest; 0: no error */
    unsigned tried; /* how often it was sent */
    bool was_sent;  /* false: the server was not reached, so nothing can have been done */
    mongo_reply reply;
} sharding_sent;

void sharding_sent_done(sharding_sent *sent);

/* A write may have been done although its outcome is unknown: pings look for what it left. */
void sharding_may_have_more(mongo_store *store);

/* A lock's document to write. */
typedef struct sharding_taking {
    const char *name, *process, *who, *why;
    hf_id ts;
    int64_t when_ms;
} sharding_taking;

/* The state in which a lock may be unlocked. */
typedef struct sharding_unlocking {
    const char *name;
    hf_id ts;
    int64_t when_ms;     /* 0: any */
    const char *process; /* NULL: any */
} sharding_unlocking;

/* Grab and overtake reply with the document if it is ours now. */
hf_code sharding_grab_lock(mongo_store *store, const sharding_taking *taking, sharding_sent *out,
                           hf_error *err);
hf_code sharding_overtake_lock(mongo_store *store, const sharding_taking *taking,
                               const sharding_lock *seen, sharding_sent *out, hf_error *err);
hf_code sharding_unlock(mongo_store *store, const sharding_unlocking *all, size_t n, bool is_beat,
                        sharding_sent *out, hf_error *err);
hf_code sharding_unlock_all(mongo_store *store, hf_id session, bool is_beat, sharding_sent *out,
                            hf_error *err);
/* Whatever that process has locked, by the name that the documents give it. */
hf_code sharding_unlock_process(mongo_store *store, const char *process, sharding_sent *out,
                                hf_error *err);
/* Whatever was taken with that lock session id; name NULL: under any name. */
hf_code sharding_unlock_lock_session(mongo_store *store, hf_id lock_session, const char *name,
                                     sharding_sent *out, hf_error *err);
/* Not older than `after`. */
hf_code sharding_get_lock(mongo_store *store, const char *name, hf_stamp after, sharding_sent *out,
                          hf_error *err);
/* linearizable: from the present primary, never from a deposed one. */
hf_code sharding_get_ping(mongo_store *store, const char *process, bool linearizable,
                          sharding_sent *out, hf_error *err);
hf_code sharding_get_server(mongo_store *store, sharding_sent *out, hf_error *err);
hf_code sharding_ping(mongo_store *store, hf_id session, bool is_beat, sharding_sent *out,
                      hf_error *err);
hf_code sharding_stop_ping(mongo_store *store, hf_id session, sharding_sent *out, hf_error *err);
hf_code sharding_stop_ping_of(mongo_store *store, const char *process, sharding_sent *out,
                              hf_error *err);

/* All locks that the store shows as this session's; the reply's batch has ts, when and state of
 * each. */
hf_code sharding_get_own(mongo_store *store, hf_id session, sharding_sent *out, hf_error *err);

#endif
