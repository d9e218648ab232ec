/* SPDX-License-Identifier: Apache-2.0 */
/* indexes.h: makes the indexes of our own collections. */
#ifndef STORE_MONGO_SHARED_INDEXES_H
#define STORE_MONGO_SHARED_INDEXES_H

#include "store/mongo/driver/command.h"
#include "store/mongo/driver/store.h"

/* `list` is {'indexes': [...]}, as `createIndexes` takes them, in the form of text.h. Making one
 * that is there already changes nothing. With `is_quick` the primary alone has to have it.
 * HF_DENIED: this user may not, and as far as he can see, at least one is not there. */
hf_code mongo_make_indexes(mongo_store *store, const mongo_call *call, const char *collection,
                           const char *list, bool is_quick, hf_error *err);

#endif
