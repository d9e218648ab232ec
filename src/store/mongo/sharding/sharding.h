/* SPDX-License-Identifier: Apache-2.0 */
/* sharding.h: protocol `sharding`, and what it keeps while a store is open. Its documents are
 * MongoDB's own:
 *
 *   locks      {_id: name, state: 0 free | 1, 2 held, process, ts, when, who, why}
 *   lockpings  {_id: process, ping: date}
 *
 * A session of ours is one process there: its id stands in the name of the process, or, where
 * hfProcess gives that name, at the end of `who`. A lock is ours by its ts and its date: the date
 * is never the same twice in one store, so a command that comes late undoes nothing but itself. */
#ifndef STORE_MONGO_SHARDING_SHARDING_H
#define STORE_MONGO_SHARDING_SHARDING_H

#include "core/sharding.h"
#include "store/mongo/shared/protocol.h"

#include <pthread.h>
#include <stdatomic.h>

/* Without the server's clock nothing is taken over. */
#define SHARDING_NO_CLOCK                                                                          \
    "no right to ask for serverStatus (role clusterMonitor on admin has it): the locks of owners " \
    "that have died are never taken over from here"

struct mongo_sharding {
    sharding_settings settings; /* constant after opening, as the next two */
    bool has_lock_session;
    hf_id lock_session;
    hf_session self;         /* all but its id; set once, by the first session */
    atomic_bool has_indexes; /* made, or cannot be */
    atomic_bool is_known;    /* what the server is: none that is refused */
    pthread_mutex_t mutex;   /* all below */
    bool knows_self, is_denied_said;
    sharding_history history;
    struct sharding_grab *grabs; /* see grabs.c */
    struct sharding_wait *waits; /* see waits.c */
    int64_t last_date_ms;
    hf_mono pinged_at;  /* the last one that was acknowledged; 0: none yet */
    hf_mono warned_at;  /* of a clock that went back */
    bool may_have_more; /* a write had no answer: locks may stand that no grab names */
    hf_id *owed;        /* sessions that have ended, and whose locks could not be unlocked yet */
    size_t n_owed;
};

extern const mongo_protocol mongo_sharding_protocol;

#endif
