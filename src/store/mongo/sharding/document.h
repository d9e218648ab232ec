/* SPDX-License-Identifier: Apache-2.0 */
/* document.h: the documents: locks, pings, owners. */
#ifndef STORE_MONGO_SHARDING_DOCUMENT_H
#define STORE_MONGO_SHARDING_DOCUMENT_H

#include "core/sharding.h"
#include "store/mongo/driver/store.h"

#define SHARDING_WHO_MAX (SHARDING_PROCESS_MAX + 160)

typedef struct sharding_document {
    char name[HF_NAME_MAX + 1];
    char who[HF_TEXT_MAX + 1], why[HF_TEXT_MAX + 1];
    sharding_lock lock;
    hf_id session; /* ours: as it is; others': made of what they say */
} sharding_document;

void sharding_process_name(const char *host, int64_t pid, hf_id session,
                           char out[SHARDING_PROCESS_MAX + 1]);
void sharding_process(const mongo_store *store, hf_id session, char out[SHARDING_PROCESS_MAX + 1]);
void sharding_who(const mongo_store *store, hf_id session, char out[SHARDING_WHO_MAX + 1]);
hf_id sharding_session(const char *process, const char *who);

/* The process that a lease has in the documents. Its renewals are pings. */
void sharding_lease_process(hf_id session, char out[SHARDING_PROCESS_MAX + 1]);
void sharding_lease_who(const hf_session *lease, char out[SHARDING_WHO_MAX + 1]);
bool sharding_is_lease(const char *process);

/* How long a lease lasts: half of what others wait for before they take its lock over. */
int32_t sharding_lease_ttl_ms(const mongo_store *store);
hf_code sharding_read(const mongo_store *store, const bson_t *doc, sharding_document *out,
                      hf_error *err);
/* The name of a holder for the client: its own by ticket, others by their fields. */
hf_id sharding_ticket(mongo_store *store, const sharding_document *document);
hf_code sharding_read_record(mongo_store *store, const bson_t *doc, hf_record *out, hf_error *err);
bool sharding_read_ping(const bson_t *doc, int64_t *ping_ms);

#endif
