/* SPDX-License-Identifier: Apache-2.0 */
/* step.h: one step as one command. */
#ifndef STORE_MONGO_QUEUE_STEP_H
#define STORE_MONGO_QUEUE_STEP_H

#include "store/mongo/driver/store.h"
#include "store/mongo/queue/pipeline.h"

/* Where the floor of tokens comes from on this server. */
pipeline_clock mongo_clock_of(mongo_store *store);
/* Appends {q: {_id: {$in: names}}, u: pipeline, multi: true}: steps with one text on several locks;
 * demands: a demand for their tickets in place of the steps. */
void mongo_append_steps(mongo_store *store, const pipeline_item *items, size_t n, bool demands,
                        bson_t *statement);
hf_code mongo_step_alone(mongo_store *store, const char *name, const hf_step *step, hf_record *out,
                         hf_step_reply *reply, hf_error *err);

#endif
