/* SPDX-License-Identifier: Apache-2.0 */
/* set.h: what members say of their replica set: whether it is the one that the URI names, which
 * members it has, and which of them is the primary. */
#ifndef STORE_MONGO_DRIVER_SET_H
#define STORE_MONGO_DRIVER_SET_H

#include "store/mongo/driver/store.h"

/* A server has answered `hello`, after took_ms from the first question. An answer with ok: 0, as of
 * a server that starts or ends, says nothing. */
void mongo_note_hello(mongo_store *store, const bson_t *hello, int64_t took_ms);

/* If it is a primary's: its host, as its set names it; otherwise *out stays. */
void mongo_hello_primary(const bson_t *hello, char out[MONGO_HOST_SIZE]);

/* What is known. The primary is "" if it is not known, or need not be, as on a standalone server
 * and on a cluster. */
void mongo_set_get(mongo_store *store, mongo_set_seen *out);
/* Whether another member than this one is the set's primary now. False: not known, or no set is
 * looked for. */
bool mongo_set_is_former(mongo_store *store, const char *primary);
/* It did not answer, or is the primary no longer. */
void mongo_forget_primary(mongo_store *store, const char *host);

/* Whether the driver looks for a set, with such a URI, or goes to its one host, whatever that is.
 */
bool mongo_looks_for_a_set(const mongoc_uri_t *uri);

/* HF_INVALID, with the name of their set: all that have answered belong to another one. */
hf_code mongo_other_set(mongo_store *store, hf_error *err);

#endif
