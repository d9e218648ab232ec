/* SPDX-License-Identifier: Apache-2.0 */
/* engine.h: refuses servers that are no MongoDB where this protocol is not safe on them. */
#ifndef STORE_MONGO_SHARDING_ENGINE_H
#define STORE_MONGO_SHARDING_ENGINE_H

#include "store/mongo/driver/store.h"

/* Asks once, before the first session. HF_UNUSABLE: two could hold one lock there. */
hf_code sharding_check_engine(mongo_store *store, hf_error *err);

#endif
