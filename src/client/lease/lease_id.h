/* SPDX-License-Identifier: Apache-2.0 */
/* lease_id.h: the contents of a lease's id: the lock's name and a secret. Hashes of them give
 * session and ticket. */
#ifndef CLIENT_LEASE_LEASE_ID_H
#define CLIENT_LEASE_LEASE_ID_H

#include <holdfast/store.h>

typedef struct lease_ids {
    hf_id session, ticket;
    bool is_keyed; /* there is a key, so a repeat may come; the first bit of the id says so */
    char name[HF_NAME_MAX + 1];
} lease_ids;

/* Makes the id of a lease of ids->name: from the key, or at random if there is none. */
void lease_id_make(hf_client *client, const char *key, lease_ids *ids, char id[HF_LEASE_ID_SIZE]);

/* HF_INVALID: it is no id. */
hf_code lease_id_read(const char *id, lease_ids *ids, hf_error *err);

#endif
