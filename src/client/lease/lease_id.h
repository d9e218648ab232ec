/* SPDX-License-Identifier: Apache-2.0 */
/* lease_id.h: what a lease's id says: the lock's name, and by hashes of it session and ticket. */
#ifndef CLIENT_LEASE_LEASE_ID_H
#define CLIENT_LEASE_LEASE_ID_H

#include <holdfast/store.h>

typedef struct lease_ids {
    hf_id session, ticket;
    bool is_keyed; /* a repeat may come: the id says so by its first bit */
    char name[HF_NAME_MAX + 1];
} lease_ids;

/* Of the lock that ids->name says: from the key, or, without one, by chance. */
void lease_id_make(hf_client *client, const char *key, lease_ids *ids, char id[HF_LEASE_ID_SIZE]);

/* HF_INVALID: it is none. */
hf_code lease_id_read(const char *id, lease_ids *ids, hf_error *err);

#endif
