/* SPDX-License-Identifier: Apache-2.0 */
/* bell_listen.h: the listener of protocol `queue`. */
#ifndef STORE_MONGO_QUEUE_BELL_LISTEN_H
#define STORE_MONGO_QUEUE_BELL_LISTEN_H

#include "store/mongo/shared/reading.h"

/* Only the thread in await() writes to it, self under the store's mutex. */
typedef struct mongo_bell_listener {
    mongo_reading reading;
    hf_id self;    /* whose rings it hears; 0: nobody's yet */
    bool is_stale; /* rings may have been missed */
} mongo_bell_listener;

/* Its connection goes back; not in a forked child, where that is the parent's (R11). */
void mongo_bell_listener_done(mongo_store *store);

/* Await and wake of the store interface. Where there can be no bells, a change stream takes their
 * place (shared/watch.h). */
hf_code mongo_bell_await(hf_store *base, hf_id session, hf_stamp from, int64_t timeout_ms,
                         hf_notice_fn each, void *ctx, hf_error *err);
void mongo_bell_wake(hf_store *base);

/* For doctor: makes a bell unless one is there. HF_UNSUPPORTED: there can be none. */
hf_code mongo_bell_try(mongo_store *store, hf_error *err);

#endif
