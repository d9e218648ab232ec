/* SPDX-License-Identifier: Apache-2.0 */
/* pool.h: connections with time-outs of their own, each for one call at a time. */
#ifndef STORE_MONGO_DRIVER_POOL_H
#define STORE_MONGO_DRIVER_POOL_H

#include "store/bson.h"

#include <holdfast/store.h>
#include <mongoc/mongoc.h>
#include <pthread.h>

typedef struct mongo_store mongo_store;
typedef struct mongo_call mongo_call;

#define MONGO_IDLE_MAX 16 /* connections that are kept for the next call */

typedef struct mongo_limits {
    int64_t connect_ms, socket_ms;
    int64_t wait_ms; /* wtimeout, and maxTimeMS */
    int64_t turn_ms; /* so long a call that can wait does, before it opens another connection */
    /* They go to the primary alone, as soon as it is known, and not to the other members, too. Not
     * for reads that only a primary may answer: a server that is one no more does not refuse these.
     */
    bool is_direct;
} mongo_limits;

/* Connections with time-outs of their own, each for one call at a time. */
typedef struct mongo_pool {
    mongoc_uri_t *uri; /* constant after its init, as the next */
    mongo_limits limits;
    pthread_mutex_t mutex;                 /* all below */
    mongoc_client_t *idle[MONGO_IDLE_MAX]; /* the one that was used last is taken next */
    hf_mono idle_since[MONGO_IDLE_MAX];
    size_t n_idle, n_taken;
    size_t n_patient;     /* of those taken: for calls that could wait */
    pthread_cond_t given; /* one was given back */
} mongo_pool;

void mongo_pool_init(mongo_pool *pool, const mongoc_uri_t *uri, mongo_limits limits);
void mongo_pool_done(mongo_store *store, mongo_pool *pool);

/* Takes a connection for the caller alone, who gives it back. A call that can wait takes
 * its turn. After a failure *out is NULL. */
hf_code mongo_pool_take(mongo_store *store, mongo_pool *pool, const mongo_call *call,
                        mongoc_client_t **out, hf_error *err);
/* call: the one that it was taken for. has_failed: this connection and all idle ones may lead to a
 * server that is no longer the primary. */
void mongo_pool_give(mongo_store *store, mongo_pool *pool, const mongo_call *call,
                     mongoc_client_t *client, bool has_failed);

#endif
