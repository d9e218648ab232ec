/* SPDX-License-Identifier: Apache-2.0 */
/* seen.h: a lockId as it stands in a document. */
#ifndef STORE_MONGO_DOCUMENT_SEEN_H
#define STORE_MONGO_DOCUMENT_SEEN_H

#include "store/mongo/driver/store.h"

/* To a query: the lock of this name, as long as it carries the lockId that stands there now. False:
 * that is not the one of `ticket`, or the look failed, and nothing was appended. */
bool mongo_document_append_seen(mongo_store *store, bson_t *query, const char *name, hf_id ticket);

#endif
