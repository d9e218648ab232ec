/* SPDX-License-Identifier: Apache-2.0 */
/* skipped.h: documents that a listing leaves out because they are not Holdfast's: one must not hide
 * all others, and many must not fill the caller's log. */
#ifndef STORE_MONGO_SHARED_SKIPPED_H
#define STORE_MONGO_SHARED_SKIPPED_H

#include "store/mongo/driver/store.h"

/* Begins as zeros. */
typedef struct mongo_skipped {
    hf_error first; /* why the first one was */
    size_t n;
} mongo_skipped;

void mongo_skip(mongo_skipped *skipped, const hf_error *why);

/* One warning for all of them; none if there were none. */
void mongo_skipped_tell(mongo_store *store, const mongo_skipped *skipped);

#endif
