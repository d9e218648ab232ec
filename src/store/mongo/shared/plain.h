/* SPDX-License-Identifier: Apache-2.0 */
/* plain.h: the calls of protocols that have no sessions of their own. */
#ifndef STORE_MONGO_SHARED_PLAIN_H
#define STORE_MONGO_SHARED_PLAIN_H

#include "store/mongo/driver/store.h"

hf_code mongo_plain_begin(hf_store *base, const hf_session *self, hf_error *err);
/* HF_SHAPE, for a document that the protocol did not write. */
hf_code mongo_plain_shape(const mongo_store *store, const char *name, const char *field,
                          const char *expected, hf_error *err);
/* out is the record afterwards only if the step has an enter: after leaves, look. */
hf_code mongo_plain_step(hf_store *base, const char *name, const hf_step *step, hf_record *out,
                         hf_step_reply *reply, hf_error *err);
hf_code mongo_plain_lease_renew(hf_store *base, const char *name, hf_id session, hf_id ticket,
                                hf_record *out, hf_error *err);
hf_code mongo_plain_mark(hf_store *base, const hf_session_state *seen, hf_error *err);
hf_code mongo_plain_end(hf_store *base, hf_id id, bool leaves_any, hf_error *err);
hf_code mongo_plain_sessions_look(hf_store *base, const hf_id *ids, size_t n,
                                  int64_t clock_trust_ms, hf_session_state *states, hf_error *err);
hf_code mongo_plain_ask(hf_store *base, hf_id session, const hf_ask *ask, hf_error *err);
/* The holders that the locks' documents name. */
hf_code mongo_plain_list_sessions(hf_store *base, hf_state_fn each, void *ctx, hf_error *err);
hf_code mongo_plain_sweep(hf_store *base, hf_session_state *overdue, size_t max, size_t *n,
                          bool *more, hf_error *err);

#endif
