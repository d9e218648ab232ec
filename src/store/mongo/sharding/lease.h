/* SPDX-License-Identifier: Apache-2.0 */
/* lease.h: ID leases in protocol `sharding`. */
#ifndef STORE_MONGO_SHARDING_LEASE_H
#define STORE_MONGO_SHARDING_LEASE_H

#include "store/mongo/sharding/document.h"

hf_code sharding_lease_check(const mongo_store *store, const hf_enter *enter, hf_error *err);

/* Its first ping. The lock has been granted. */
hf_code sharding_lease_begin(mongo_store *store, hf_id session, hf_error *err);
/* The lock is free: its ping is of no use any more. Best effort. */
void sharding_lease_end(mongo_store *store, const char *process);
hf_code sharding_lease_renew(hf_store *base, const char *name, hf_id session, hf_id ticket,
                             hf_record *out, hf_error *err);

#endif
