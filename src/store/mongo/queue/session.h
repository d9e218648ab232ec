/* SPDX-License-Identifier: Apache-2.0 */
/* session.h: one session: its beats, marks and asks. */
#ifndef STORE_MONGO_QUEUE_SESSION_H
#define STORE_MONGO_QUEUE_SESSION_H

#include "store/mongo/driver/store.h"

hf_code mongo_session_begin(hf_store *base, const hf_session *self, hf_error *err);
hf_code mongo_session_beat(hf_store *base, hf_id id, const hf_beat *says, hf_session_state *out,
                           hf_error *err);
hf_code mongo_session_mark(hf_store *base, const hf_session_state *seen, hf_error *err);
hf_code mongo_session_end(hf_store *base, hf_id id, bool leaves_any, hf_error *err);
hf_code mongo_session_ask(hf_store *base, hf_id session, const hf_ask *ask, hf_error *err);

#endif
