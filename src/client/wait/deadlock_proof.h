/* SPDX-License-Identifier: Apache-2.0 */
/* deadlock_proof.h: when a deadlock that was read is believed; deadlock.c asks. */
#ifndef CLIENT_WAIT_DEADLOCK_PROOF_H
#define CLIENT_WAIT_DEADLOCK_PROOF_H

#include "client/base/client.h"

#include "core/waits_graph.h"

/* One that is part of the deadlock, and its session's beat when that was noted. */
typedef struct member {
    hf_id ticket, session;
    int64_t beat;
} member;

/* A deadlock as it was when it was noted; own thread. Written by deadlock_proof.c, `looks` by
 * deadlock.c. */
struct deadlock {
    member *waiters; /* that wait for each other */
    size_t n_waiters;
    member *parents; /* what is held by processes that wait for those of the waiters */
    size_t n_parents;
    unsigned looks; /* that found none */
};

/* Whether it was noted before, and has been confirmed since. Notes it otherwise. n: how many
 * waiters are marked as in the deadlock. */
bool deadlock_is_proven(struct deadlock *deadlock, const struct waits_graph *graph, size_t n,
                        hf_client *client);
void deadlock_forget(struct deadlock *deadlock);

#endif
