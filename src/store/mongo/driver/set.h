/* SPDX-License-Identifier: Apache-2.0 */
/* set.h: whether the servers belong to the replica set that the URI names. */
#ifndef STORE_MONGO_DRIVER_SET_H
#define STORE_MONGO_DRIVER_SET_H

#include "store/mongo/driver/store.h"

/* A server has answered `hello`. */
void mongo_note_set(mongo_store *store, const bson_t *hello);

/* HF_INVALID, with the name of their set: all that have answered belong to another one. */
hf_code mongo_other_set(mongo_store *store, hf_error *err);

#endif
