/* SPDX-License-Identifier: Apache-2.0 */
/* batch.h: several steps as one command. */
#ifndef STORE_MONGO_QUEUE_BATCH_H
#define STORE_MONGO_QUEUE_BATCH_H

#include "store/mongo/driver/store.h"

#define MONGO_BATCH_MOST HF_PARCELS_MOST /* steps in one command */

typedef enum mongo_member_state {
    MEMBER_WAITS,    /* for its turn */
    MEMBER_IN_BATCH, /* with what another sends */
    MEMBER_LEADS,    /* sends what has gathered */
    MEMBER_DONE,     /* code, reply and out have the outcome */
    MEMBER_ALONE,    /* nothing was done: send it by itself */
    MEMBER_AGAIN,    /* the same, and it may have been done */
} mongo_member_state;

/* One of several steps that may be sent as one command: its thread's request and its outcome. The
 * batcher's mutex guards it while it waits; then it belongs to its batch until it is settled. */
typedef struct mongo_member {
    struct mongo_member *next;
    const char *name;
    const hf_bound *bound; /* its thread's; constant */
    const hf_step *step;
    hf_record *out;
    hf_step_reply reply;
    hf_error err;
    hf_code code;
    mongo_member_state state;
    bool is_read; /* out was */
    pthread_cond_t changed;
} mongo_member;

/* Sends the steps as one command, and settles each. All their names differ. */
void mongo_batch_send(mongo_store *store, mongo_member *const *members, size_t n);

#endif
