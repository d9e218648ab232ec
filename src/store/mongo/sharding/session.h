/* SPDX-License-Identifier: Apache-2.0 */
/* session.h: sessions, each of which is a process that pings. */
#ifndef STORE_MONGO_SHARDING_SESSION_H
#define STORE_MONGO_SHARDING_SESSION_H

#include "store/mongo/driver/store.h"

/* Unlocks all of a process, and removes its ping. */
hf_code sharding_process_end(hf_store *base, const char *process, int64_t *n, hf_error *err);
/* Unlocks what was taken with a lock session id: the lock of that name, or all (NULL). */
hf_code sharding_lock_session_end(hf_store *base, hf_id lock_session, const char *name, int64_t *n,
                                  hf_error *err);
hf_code sharding_session_begin(hf_store *base, const hf_session *self, hf_error *err);
hf_code sharding_session_beat(hf_store *base, hf_id id, const hf_beat *says, hf_session_state *out,
                              hf_error *err);
hf_code sharding_session_end(hf_store *base, hf_id id, bool leaves_any, hf_error *err);
void sharding_session_settle(mongo_store *store); /* what is owed, at the store's close */
hf_code sharding_list_sessions(hf_store *base, hf_state_fn each, void *ctx, hf_error *err);
hf_code sharding_sweep(hf_store *base, hf_session_state *overdue, size_t max, size_t *n, bool *more,
                       hf_error *err);

#endif
