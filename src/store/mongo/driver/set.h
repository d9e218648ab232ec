/* SPDX-License-Identifier: Apache-2.0 */
/* set.h: what members say of their replica set: whether it is the one that the URI names, and which
 * of them is the primary. */
#ifndef STORE_MONGO_DRIVER_SET_H
#define STORE_MONGO_DRIVER_SET_H

#include "store/mongo/driver/store.h"

/* A server has answered `hello`. */
void mongo_note_hello(mongo_store *store, const bson_t *hello);

/* The primary, as its set calls it. False: it is not known, or need not be, as on a standalone
 * server, on a cluster, and behind an address that stands for several (mongodb+srv). */
bool mongo_primary_of(mongo_store *store, char out[MONGO_HOST_SIZE]);
void mongo_forget_primary(mongo_store *store);

/* HF_INVALID, with the name of their set: all that have answered belong to another one. */
hf_code mongo_other_set(mongo_store *store, hf_error *err);

#endif
