/* SPDX-License-Identifier: Apache-2.0 */
/* wait_estimate.h: estimates how quickly queues move, from this client's earlier waits, so that
 * nobody listens for a ticket that is still far back. A wrong estimate delays a notice and does no
 * other harm.
 */
#ifndef CORE_WAIT_ESTIMATE_H
#define CORE_WAIT_ESTIMATE_H

#include "core/record.h"
#include "core/waiters.h"

#define WAIT_ESTIMATE_LOCKS 64
#define WAIT_ESTIMATE_WAITS 4

/* At the hash of a lock's name: what a turn took in each of the last waits for it; 0: none yet. */
struct wait_estimate {
    struct wait_estimate_of_lock {
        uint64_t hash; /* of the last that came to this place */
        int64_t turn_ns[WAIT_ESTIMATE_WAITS];
        unsigned waits;
    } locks[WAIT_ESTIMATE_LOCKS];
};

/* The waiter's ticket (entry `own`) is in the record's queue now: sets in the waiter the time
 * before which no grant is expected. */
void wait_estimate_begin(const struct wait_estimate *estimate, const hf_record *record,
                         const hf_entry *own, struct waiter *waiter, hf_mono now);

/* It has been granted. */
void wait_estimate_learn(struct wait_estimate *estimate, const char *name,
                         const struct waiter *waiter, hf_mono now);

#endif
