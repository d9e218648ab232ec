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
/* Looks at a page of sessions whose lease ended from one time on and before another, by the
 * server's clock, in that order, and gives those that are not marked, until `each` returns false.
 * *last_ms: when the lease of the last one ended that was looked at; *is_last: there are no others.
 */
typedef bool (*mongo_overdue_fn)(void *ctx, const bson_t *doc, const hf_session_state *state);
hf_code mongo_overdue(mongo_store *store, int64_t from_ms, int64_t before_ms, mongo_overdue_fn each,
                      void *ctx, int64_t *last_ms, bool *is_last, hf_error *err);
/* Which of these sessions are marked dead; `dead` has room for all. A read that may be believed. */
hf_code mongo_find_dead(mongo_store *store, const hf_id *ids, size_t n, hf_death *dead,
                        size_t *n_dead, hf_error *err);

#endif
