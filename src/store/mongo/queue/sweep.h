/* SPDX-License-Identifier: Apache-2.0 */
/* sweep.h: the housekeeping that one client does for all. */
#ifndef STORE_MONGO_QUEUE_SWEEP_H
#define STORE_MONGO_QUEUE_SWEEP_H

#include "store/mongo/driver/store.h"

/* How far a sweep has come. Only the thread that sweeps uses it. */
typedef struct mongo_sweeping {
    int part;
    int64_t now_ms;   /* the server's, when it began */
    bool has_indexes; /* made, or cannot be made */
    bool may_hint;    /* the indexes are there */
    hf_id *dead;      /* sessions without a date, in order */
    bool *stands;     /* a ticket of it was found */
    size_t n_dead, n_dated;
    bson_value_t after; /* the last lock that was looked at */
} mongo_sweeping;

void mongo_sweep_done(mongo_store *store);
hf_code mongo_sweep(hf_store *base, hf_session_state *overdue, size_t max, size_t *n, bool *more,
                    hf_error *err);

#endif
