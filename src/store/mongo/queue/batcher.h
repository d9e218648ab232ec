/* SPDX-License-Identifier: Apache-2.0 */
/* batcher.h: sends steps of several threads on different locks as one command. */
#ifndef STORE_MONGO_QUEUE_BATCHER_H
#define STORE_MONGO_QUEUE_BATCHER_H

#include "store/mongo/queue/batch.h"

#define MONGO_NAMES 65536 /* a power of two */

/* All of it is guarded by its mutex. */
typedef struct mongo_batcher {
    pthread_mutex_t mutex;
    mongo_member *first; /* the waiting steps, first come first */
    size_t n_waiting, n_in_flight;
    size_t few;                    /* steps in flight that are sent singly */
    int64_t best_ns;               /* that a command took */
    uint8_t seen[MONGO_NAMES / 8]; /* names, by a hash, whose record was seen to exist */
} mongo_batcher;

void mongo_batcher_init(mongo_batcher *batcher);
void mongo_batcher_done(mongo_batcher *batcher);
/* One step: by itself, or with those of other threads. */
hf_code mongo_batcher_step(mongo_store *store, const char *name, const hf_step *step,
                           hf_record *out, hf_step_reply *reply, hf_error *err);

#endif
