/* SPDX-License-Identifier: Apache-2.0 */
/* history.h: the turns that have ended, in the capped collection `<hfCollection>.history`, for all
 * protocols. */
#ifndef STORE_MONGO_SHARED_HISTORY_H
#define STORE_MONGO_SHARED_HISTORY_H

#include "store/mongo/driver/store.h"

#define MONGO_HISTORY_BYTES 67108864 /* of the collection */

/* Whether turns are to be kept at all. */
bool mongo_history_is_kept(const mongo_uri *uri);

/* Whether turns may be written; makes the collection if need be, and writes none. HF_SHAPE: it is
 * another program's, or not capped. HF_DENIED: a right is missing. */
hf_code mongo_history_try(mongo_store *store, hf_error *err);

/* The calls of the store interface: see hf_store_ops. */
hf_code mongo_history_add(hf_store *store, const hf_turn_note *turns, size_t n, hf_error *err);
hf_code mongo_history(hf_store *store, const hf_history_part *part, hf_turn_note_fn each, void *ctx,
                      hf_error *err);

#endif
