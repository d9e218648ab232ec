/* SPDX-License-Identifier: Apache-2.0 */
/* lease.h: how a lease is made, for who waits in a thread of his own (lease.c) and for those whom a
 * few threads drive (lease_wait.c). */
#ifndef CLIENT_LEASE_H
#define CLIENT_LEASE_H

#include "client/lease_id.h"

typedef struct making {
    hf_client *client;
    const hf_lease_options *options;
    hf_lock_options lock_options; /* to take the lock with */
    lease_ids ids;
    int64_t ttl_ms;
    bool has_begun; /* its session is there, or may be */
    bool is_known;  /* it was there before this call */
    hf_mono sent;   /* before its last beat was */
    hf_lock *lock;  /* whose place it takes */
    hf_pass pass;
    hf_lease *out;
} making;

/* Checks what is asked for, and names the lease. *options stays where it is. */
hf_code making_prepare(making *m, hf_client *client, const char *name,
                       const hf_lease_options *options, hf_lease *out, hf_error *err);

/* What an earlier call with the same key has made, if there is a key. */
hf_code making_find(making *m, bool *is_found, hf_error *err);

/* Makes m->lock, which is held, a lease; it is closed, also after a failure. */
hf_code making_finish(making *m, hf_error *err);

#endif
