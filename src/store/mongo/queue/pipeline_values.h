/* SPDX-License-Identifier: Apache-2.0 */
/* pipeline_values.h: a step's values from outside, for pipeline.c. */
#ifndef STORE_MONGO_QUEUE_PIPELINE_VALUES_H
#define STORE_MONGO_QUEUE_PIPELINE_VALUES_H

#include "store/bson.h"

#include <holdfast/store.h>

void pipeline_values(const char *name, const hf_step *step, bson_t *x); /* initialises x */
bool pipeline_is_single(const hf_step *step);                           /* one leave, no deaths */
bool pipeline_is_done(const hf_leave *leave);                           /* `done` is to say it */
int32_t pipeline_bound(const hf_enter *enter);       /* of the queue, for this entrant */
const char *pipeline_key(size_t i, char buffer[16]); /* of an array's item */

#endif
