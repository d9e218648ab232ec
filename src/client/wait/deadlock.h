/* SPDX-License-Identifier: Apache-2.0 */
/* deadlock.h: finds out whether a request waits for a session that waits for it. */
#ifndef CLIENT_WAIT_DEADLOCK_H
#define CLIENT_WAIT_DEADLOCK_H

#include "client/hold/lock_request.h"

/* Own thread; written by deadlock.c, its first due time by its owner. */
struct deadlock_watch {
    struct deadlock *found; /* one that the request may be in; NULL before the first look */
    hf_mono due;
    bool holds_nothing; /* when that was last looked at */
};

/* Whether this request, which waits in the queue or outside, is the youngest in a deadlock; err
 * then shows the deadlock. *due: when to look again. */
bool deadlock_tick(struct lock_request *request, struct deadlock_watch *watch, hf_mono now,
                   hf_mono *due, hf_error *err);
void deadlock_done(struct deadlock_watch *watch); /* frees what it points to */

/* Reports deadlocks, as far as a single look can show them, and long waits. */
hf_code deadlock_doctor(hf_client *client, hf_finding_fn each, void *ctx, hf_error *err);

#endif
