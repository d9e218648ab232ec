/* SPDX-License-Identifier: Apache-2.0 */
/* group.h: steps of several threads on different locks that travel together. */
#ifndef STORE_MONGO_QUEUE_GROUP_H
#define STORE_MONGO_QUEUE_GROUP_H

#include "store/mongo/queue/batch.h"

#define MONGO_NAMES 65536 /* a power of two */

/* Steps on different locks that travel together. All of it is guarded by its mutex. */
typedef struct mongo_group {
    pthread_mutex_t mutex;
    mongo_member *first; /* of those that wait, in the order of their coming */
    size_t n_waiting, n_in_flight;
    size_t few;                    /* steps in flight that need no company */
    int64_t best_ns;               /* that a command took */
    uint8_t seen[MONGO_NAMES / 8]; /* names, by a hash, whose record was seen to exist */
} mongo_group;

void mongo_group_init(mongo_group *group);
void mongo_group_done(mongo_group *group);
/* One step: by itself, or with those of other threads. */
hf_code mongo_group_step(mongo_store *store, const char *name, const hf_step *step, hf_record *out,
                         hf_step_reply *reply, hf_error *err);

#endif
