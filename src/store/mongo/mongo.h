/* SPDX-License-Identifier: Apache-2.0 */
/* mongo.h: the store in MongoDB, a replica set, sharded cluster or single server; store/open.c
 * opens it. */
#ifndef STORE_MONGO_H
#define STORE_MONGO_H

#include <holdfast/store.h>

/* Sets the driver up, at the first call. mongo_open() does so, too. Any thread. */
void mongo_start(void);

/* Keys of the URI that begin with `hf` are ours: hfProtocol=queue, hfCollection=locks,
 * hfWeakWrites=yes. *patience_ms gets the URI's serverSelectionTimeoutMS, if it has one.
 * HF_INVALID: URI or key; HF_UNSUPPORTED: unknown protocol. Sends nothing yet. */
hf_code mongo_open(const char *uri, const hf_store_config *config, hf_store **out,
                   int64_t *patience_ms, hf_error *err);

/* The ttl of a client of that URI that asks for none. Sends nothing. Any thread. */
int64_t mongo_default_ttl_ms(const char *uri);

#endif
