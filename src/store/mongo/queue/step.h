/* SPDX-License-Identifier: Apache-2.0 */
/* step.h: one step as one command. */
#ifndef STORE_MONGO_QUEUE_STEP_H
#define STORE_MONGO_QUEUE_STEP_H

#include "store/mongo/driver/store.h"
#include "store/mongo/queue/pipeline.h"

/* Where the floor of tokens comes from on this server. */
pipeline_clock mongo_clock_of(mongo_store *store);
hf_code mongo_step_alone(mongo_store *store, const char *name, const hf_step *step, hf_record *out,
                         hf_step_reply *reply, hf_error *err);

#endif
