/* SPDX-License-Identifier: Apache-2.0 */
/* watch.h: the listener of a store. */
#ifndef STORE_MONGO_SHARED_WATCH_H
#define STORE_MONGO_SHARED_WATCH_H

#include "store/mongo/shared/pace.h"
#include "store/mongo/shared/reading.h"

#include <stdatomic.h>

/* The listener's stream. Only the thread in await() writes to it; self: under the store's mutex;
 * wants_all: any thread. */
typedef struct mongo_watch {
    mongo_reading reading;
    hf_id self;
    bool has_self, is_stale; /* stale: something may have been missed */
    bson_t *resume;
    atomic_bool wants_all; /* a claim waits: any document may come to match */
    bool has_all;          /* the stream lets every change through */
    hf_stamp read_to;      /* no event up to here can still come */
    mongo_pace pace;
    bool looks;             /* instead of a stream: others write too much */
    pthread_cond_t is_told; /* with the store's mutex: reading.woken was set */
    char refusal[256];      /* why there are no notices here; "": there are */
} mongo_watch;

void mongo_watch_init(mongo_store *store);
/* Gives its connection back, except in a forked child, where that is the parent's (R11). */
void mongo_watch_done(mongo_store *store);
hf_code mongo_await(hf_store *base, hf_id session, hf_stamp from, int64_t timeout_ms,
                    hf_notice_fn each, void *ctx, hf_error *err);
void mongo_wake(hf_store *base);
/* From now on, notices tell of all documents that are new or changed. */
void mongo_watch_all(mongo_store *store);

#endif
