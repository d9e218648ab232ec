/* SPDX-License-Identifier: Apache-2.0 */
/* lane.h: connections with time-outs of their own, each for one call at a time. */
#ifndef STORE_MONGO_DRIVER_LANE_H
#define STORE_MONGO_DRIVER_LANE_H

#include <holdfast/store.h>
#include <mongoc/mongoc.h>
#include <pthread.h>

typedef struct mongo_store mongo_store;
typedef struct mongo_call mongo_call;

#define MONGO_IDLE_MAX 16 /* connections that are kept for the next call */

/* Connections with time-outs of their own, each for one call at a time. */
typedef struct mongo_lane {
    mongoc_uri_t *uri;     /* constant after its init, as the next */
    int64_t wait_ms;       /* wtimeout */
    pthread_mutex_t mutex; /* all below */
    mongoc_client_t *idle[MONGO_IDLE_MAX];
    size_t n_idle;
} mongo_lane;

typedef struct mongo_limits {
    int64_t connect_ms, socket_ms, wait_ms;
} mongo_limits;

void mongo_lane_init(mongo_lane *lane, const mongoc_uri_t *uri, mongo_limits limits);
void mongo_lane_done(mongo_store *store, mongo_lane *lane);

/* A connection for the caller alone, to be given back; after a failure *out is NULL. */
hf_code mongo_take(mongo_store *store, mongo_lane *lane, const mongo_call *call,
                   mongoc_client_t **out, hf_error *err);
/* has_failed: it, and all that are idle, may be connected to what is no primary any more. */
void mongo_give(mongo_lane *lane, mongoc_client_t *client, bool has_failed);

#endif
