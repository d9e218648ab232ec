/* SPDX-License-Identifier: Apache-2.0 */
/* indexes.h: makes the indexes of our own collections. */
#ifndef STORE_MONGO_SHARED_INDEXES_H
#define STORE_MONGO_SHARED_INDEXES_H

#include "store/mongo/driver/command.h"
#include "store/mongo/driver/store.h"

typedef struct mongo_indexes {
    const char *collection;
    const char *list; /* {'indexes': [...]}, as `createIndexes` takes them, in the form of text.h */
    const char *ours; /* an expression in the same form, true of each document of ours */
    bool is_quick;    /* the primary alone has to have them */
} mongo_indexes;

/* Makes those that are not there. HF_SHAPE: documents are there that are not ours; an index of ours
 * could delete them, or make their program fail. HF_DENIED: this user may not, and as far as he can
 * see, at least one is not there. */
hf_code mongo_make_indexes(mongo_store *store, const mongo_call *call, const mongo_indexes *wanted,
                           hf_error *err);

#endif
