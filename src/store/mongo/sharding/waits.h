/* SPDX-License-Identifier: Apache-2.0 */
/* waits.h: which waits last long, for the log. */
#ifndef STORE_MONGO_SHARDING_WAITS_H
#define STORE_MONGO_SHARDING_WAITS_H

#include "store/mongo/driver/store.h"

/* The lock was busy once more: logs that from time to time. */
void sharding_wait_note(mongo_store *store, hf_id ticket, const char *name, const char *who);
void sharding_wait_end(mongo_store *store, hf_id ticket);
void sharding_waits_clear(mongo_store *store);

#endif
