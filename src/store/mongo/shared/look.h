/* SPDX-License-Identifier: Apache-2.0 */
/* look.h: looks at locks. */
#ifndef STORE_MONGO_SHARED_LOOK_H
#define STORE_MONGO_SHARED_LOOK_H

#include "store/mongo/driver/store.h"

hf_code mongo_look(hf_store *base, const char *const *names, size_t n, hf_stamp after,
                   bool linearizable, hf_record_fn each, void *ctx, hf_error *err);
/* The same for one record, which the caller frees. */
hf_code mongo_look_at(mongo_store *store, const char *name, hf_stamp after, hf_record *out,
                      hf_error *err);

#endif
