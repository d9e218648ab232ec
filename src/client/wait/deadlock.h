/* SPDX-License-Identifier: Apache-2.0 */
/* deadlock.h: whether a request waits for a session that waits for it. */
#ifndef CLIENT_WAIT_DEADLOCK_H
#define CLIENT_WAIT_DEADLOCK_H

#include "client/hold/lock_request.h"

/* Own thread; written by deadlock.c, its first due time by its owner. */
struct deadlock_watch {
    struct deadlock *found; /* one that the request may be in; NULL before the first look */
    hf_mono due;
    bool holds_nothing; /* when that was last looked at */
};

/* Looks whether this request, which waits in the queue, is the youngest in a deadlock: then true,
 * and err says which. *due: when it wants to look again. */
bool deadlock_tick(struct lock_request *request, struct deadlock_watch *watch, hf_mono now,
                   hf_mono *due, hf_error *err);
void deadlock_done(struct deadlock_watch *watch); /* frees what it points to */

/* For all that wait for each other now, as far as a single look can say; and for long waits. */
hf_code deadlock_doctor(hf_client *client, hf_finding_fn each, void *ctx, hf_error *err);

#endif
