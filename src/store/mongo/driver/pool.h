/* SPDX-License-Identifier: Apache-2.0 */
/* pool.h: connections with time-outs of their own, each for one call at a time. */
#ifndef STORE_MONGO_DRIVER_POOL_H
#define STORE_MONGO_DRIVER_POOL_H

#include "store/mongo/driver/connection.h"

#include <holdfast/store.h>
#include <pthread.h>

typedef struct mongo_call mongo_call;

#define MONGO_IDLE_MAX 16 /* connections that are kept for the next call */

/* Connections with time-outs of their own, each for one call at a time. */
typedef struct mongo_pool {
    mongoc_uri_t *uri; /* constant after its init, as the next */
    mongo_limits limits;
    pthread_mutex_t mutex;                  /* all below */
    mongo_connection *idle[MONGO_IDLE_MAX]; /* the one that was used last is taken next */
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
                        mongo_connection **out, hf_error *err);
/* call: the one that it was taken for. has_failed: this connection, and all idle ones to the same
 * member, may lead to a server that is no longer the primary. */
void mongo_pool_give(mongo_store *store, mongo_pool *pool, const mongo_call *call,
                     mongo_connection *connection, bool has_failed);

#endif
