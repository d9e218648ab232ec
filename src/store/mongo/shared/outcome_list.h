/* SPDX-License-Identifier: Apache-2.0 */
/* outcome_list.h: lists locks, and those that are free and of which it is known how they were
 * left. */
#ifndef STORE_MONGO_SHARED_OUTCOME_LIST_H
#define STORE_MONGO_SHARED_OUTCOME_LIST_H

#include "store/mongo/driver/store.h"

/* list() of the store interface, for protocols without a queue. */
hf_code mongo_outcome_list(hf_store *base, const hf_list_part *part, hf_record_fn each, void *ctx,
                           hf_error *err);

#endif
