/* SPDX-License-Identifier: Apache-2.0 */
/* pace.h: how quickly locks' queues move, as this client's waits have shown: a ticket far back need
 * not be listened for yet. A guess that is wrong makes a notice be heard later, and nothing else.
 */
#ifndef CORE_PACE_H
#define CORE_PACE_H

#include "core/record.h"
#include "core/waiters.h"

#define PACE_LOCKS 64
#define PACE_WAITS 4

/* At the hash of a lock's name: what a turn took in each of the last waits for it; 0: none yet. */
struct pace {
    struct pace_of_lock {
        uint64_t hash; /* of the last that came to this place */
        int64_t turn_ns[PACE_WAITS];
        unsigned waits;
    } locks[PACE_LOCKS];
};

/* The waiter's ticket, whose entry `own` is, has come to the record's queue: says in the waiter
 * until when its grant is not expected. */
void pace_begin(const struct pace *pace, const hf_record *record, const hf_entry *own,
                struct waiter *waiter, hf_mono now);

/* It has been granted. */
void pace_learn(struct pace *pace, const char *name, const struct waiter *waiter, hf_mono now);

#endif
