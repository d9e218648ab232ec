/* SPDX-License-Identifier: Apache-2.0 */
/* unsent.h: what the store has still to be told when a client is closed. */
#ifndef CLIENT_HOLD_UNSENT_H
#define CLIENT_HOLD_UNSENT_H

#include "client/hold/release.h"

/* Leaves of one lock, or the end of a session, which comes after the leaves of its tickets. */
struct unsent {
    hf_id session;
    const char *name; /* of the lock; NULL: it is the session's end */
    hf_leave leaves[RELEASE_LEAVES];
    size_t n_leaves;
    bool leaves_any; /* as of hf_store_ops.session_end() */
};

typedef void (*unsent_fn)(void *ctx, const struct unsent *unsent);

/* Calls `each` for all, in the order in which they are to be sent. The threads have ended. What it
 * is given lives until it returns. */
void unsent_each(const hf_client *client, unsent_fn each, void *ctx);

#endif
