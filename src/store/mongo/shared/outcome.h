/* SPDX-License-Identifier: Apache-2.0 */
/* outcome.h: how the last holder left, in protocols without a queue. */
#ifndef STORE_MONGO_SHARED_OUTCOME_H
#define STORE_MONGO_SHARED_OUTCOME_H

#include "store/mongo/driver/store.h"

/* The calls of the store interface: see hf_store_ops. */
hf_code mongo_outcome_previous(hf_store *base, const char *name, const hf_successor *asks,
                               hf_last_mark *out, hf_dbtime *now, hf_error *err);
hf_code mongo_outcome_lasts(hf_store *base, hf_record *records, size_t n, hf_error *err);

/* Writes how a ticket leaves, before it is taken out of the lock's document. Sends nothing for
 * tickets that are not noted and give no exit status. Can be repeated. Never HF_UNKNOWN: an error
 * says that the ticket may not be taken out yet. */
hf_code mongo_outcome_tell(mongo_store *store, const char *name, const hf_leave *leave,
                           hf_error *err);
/* The ticket is certainly out. */
void mongo_outcome_forget(mongo_store *store, hf_id ticket);

/* Prunes what has been idle for three days, if this store has noted anything. */
hf_code mongo_outcomes_prune(mongo_store *store, hf_error *err);

void mongo_outcomes_clear(mongo_store *store); /* closing: no other thread uses the store */

#endif
