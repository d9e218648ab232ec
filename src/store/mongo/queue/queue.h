/* SPDX-License-Identifier: Apache-2.0 */
/* queue.h: protocol `queue`. */
#ifndef STORE_MONGO_QUEUE_QUEUE_H
#define STORE_MONGO_QUEUE_QUEUE_H

#include "store/mongo/shared/protocol.h"

extern const mongo_protocol mongo_queue;

void mongo_steps(hf_store *store, hf_parcel *parcels, size_t n);
hf_code mongo_step(hf_store *base, const char *name, const hf_step *step, hf_record *out,
                   hf_step_reply *reply, hf_error *err);

#endif
