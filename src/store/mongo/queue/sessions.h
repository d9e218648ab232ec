/* SPDX-License-Identifier: Apache-2.0 */
/* sessions.h: looks at sessions. */
#ifndef STORE_MONGO_QUEUE_SESSIONS_H
#define STORE_MONGO_QUEUE_SESSIONS_H

#include "store/mongo/driver/store.h"

hf_code mongo_waits(hf_store *base, const hf_id *ids, size_t n, hf_waits_fn each, void *ctx,
                    hf_error *err);
hf_code mongo_sessions_look(hf_store *base, const hf_id *ids, size_t n, int64_t clock_trust_ms,
                            hf_session_state *states, hf_error *err);
hf_code mongo_list_sessions(hf_store *base, hf_state_fn each, void *ctx, hf_error *err);
/* Sessions whose lease ended before that time, by the server's clock. */
hf_code mongo_overdue(mongo_store *store, int64_t before_ms, hf_session_state *overdue, size_t max,
                      size_t *n, hf_error *err);

#endif
