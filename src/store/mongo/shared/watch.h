/* SPDX-License-Identifier: Apache-2.0 */
/* watch.h: the listener of a store. */
#ifndef STORE_MONGO_SHARED_WATCH_H
#define STORE_MONGO_SHARED_WATCH_H

#include "store/mongo/driver/store.h"

void mongo_watch_init(mongo_store *store);
/* Its connection goes back; not in a forked child, where that is the parent's (R11). */
void mongo_watch_done(mongo_store *store);
hf_code mongo_await(hf_store *base, hf_id session, hf_stamp from, int64_t timeout_ms,
                    hf_notice_fn each, void *ctx, hf_error *err);
void mongo_wake(hf_store *base);

#endif
