/* SPDX-License-Identifier: Apache-2.0 */
/* store.h: an open store. The folders above keep their own data behind the pointers. */
#ifndef STORE_MONGO_DRIVER_STORE_H
#define STORE_MONGO_DRIVER_STORE_H

#include "store/mongo/driver/pool.h"
#include "store/mongo/driver/refusal.h"
#include "store/mongo/driver/uri.h"

#include <holdfast/store.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#define MONGO_MEMBERS_SIZE 4096 /* "host:port,host:port ..." */

/* What members have said of their set; written by set.c. */
typedef struct mongo_set_seen {
    bool is_right;                    /* a server belongs to the set that the URI names */
    char other[128];                  /* what another server belongs to, in words; "": none does */
    char name[128];                   /* of the set, once its primary was seen */
    char primary[MONGO_HOST_SIZE];    /* "": not known */
    char members[MONGO_MEMBERS_SIZE]; /* "": not known */
    int64_t took_ms;                  /* how long the primary took to answer */
    hf_id election;                   /* which made it primary; of two, the later one rises */
} mongo_set_seen;

struct mongo_store {
    hf_store base; /* constant after opening, but for round_trips, which is atomic */

    /* Constant after opening. */
    const struct mongo_protocol *protocol;
    hf_store_config config;
    pid_t owner; /* who opened it */
    mongo_uri uri;

    /* Connections: for most calls; for beats of sessions that hold something (R7); for the
     * listener. Each pool has a mutex of its own. */
    mongo_pool work, beats, listens;
    bool shares_beats;         /* constant: `work` is quick enough for a beat that keeps no lock */
    atomic_int topology, wire; /* found out at the first use */
    atomic_uint_least64_t latest; /* the latest stamp that a reply brought */
    atomic_bool has_history;      /* the collection is there; see shared/history.c */

    atomic_uint hurried;          /* see connection.c: counts the calls of mongo_hurry() */
    atomic_int_least64_t asks_ms; /* see connection.c: when a call asks next who the primary is */
    atomic_bool is_asking;        /* see connection.c: a call asks who the primary is */
    mongo_refusal refusal;        /* of an authentication */
    mongo_set_seen set_seen;      /* guarded by the mutex */

    pthread_mutex_t mutex;     /* what says so, here and in the rooms above */
    hf_session self;           /* of this client; written under the mutex, when a session begins */
    struct mongo_held *held;   /* see shared/held.h; guarded by the mutex */
    struct mongo_noted *noted; /* see shared/outcome.c; guarded by the mutex, as the next two */
    bool notes_any;            /* a ticket was noted there since the store was opened */
    bool says_untold;          /* it was logged that outcomes are not kept */
    struct mongo_watch *watch; /* see shared/watch.h; the pointer is constant, as those below */
    struct mongo_fair *fair;   /* see shared/fair.c; NULL without hfFair */

    /* A protocol's own data; NULL with other protocols. Its struct says what guards it. */
    struct mongo_queue_state *queue;
    struct mongo_ttl_index *ttl;
    struct mongo_refreshes *refreshes;
    struct mongo_sharding *sharding;
};

/* Whether the store is being closed since its counter was `since`. */
static inline bool mongo_is_hurried(mongo_store *store, unsigned since)
{
    return atomic_load(&store->hurried) != since;
}

/* By the client's clocks, see hf_env. */
static inline hf_mono mongo_mono(const mongo_store *store)
{
    return store->config.env->mono(store->config.env->ctx);
}

static inline hf_wall mongo_wall(const mongo_store *store)
{
    return store->config.env->wall(store->config.env->ctx);
}

static inline void mongo_pause(const mongo_store *store, int64_t ms)
{
    store->config.env->pause(store->config.env->ctx, ms);
}

#endif
