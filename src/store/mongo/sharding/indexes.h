/* SPDX-License-Identifier: Apache-2.0 */
/* indexes.h: the indexes on locks and pings. */
#ifndef STORE_MONGO_SHARDING_INDEXES_H
#define STORE_MONGO_SHARDING_INDEXES_H

#include "store/mongo/driver/store.h"

/* Makes them, unless this store has done it, or may not. From any thread. */
void sharding_settle_indexes(mongo_store *store);

#endif
