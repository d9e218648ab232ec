/* SPDX-License-Identifier: Apache-2.0 */
/* list.h: lists of locks. */
#ifndef STORE_MONGO_SHARED_LIST_H
#define STORE_MONGO_SHARED_LIST_H

#include "store/mongo/driver/store.h"

hf_code mongo_list(hf_store *base, const hf_list_part *part, hf_record_fn each, void *ctx,
                   hf_error *err);

#endif
