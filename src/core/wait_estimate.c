/* SPDX-License-Identifier: Apache-2.0 */
/* wait_estimate.c: learns from each wait how long a turn takes, and guesses how long the next wait
 * is at least; asked by attempts, for the listener. */
#include "core/wait_estimate.h"

#include "core/table.h"

/* In a slower queue few notices for others arrive, and a wrong guess costs more. */
#define QUICK_TURN_NS 50000000

/* How many are ahead in the queue, if each of them and this one wants the lock exclusively. Sharers
 * may be granted all at once; then nothing can be said: 0. */
static size_t turns_ahead(const hf_record *record, const hf_entry *own)
{
    const hf_entry *first = record->entries + record->holders;
    for (const hf_entry *entry = first; entry <= own; entry++)
        if (entry->permits != record->limit)
            return 0;
    return (size_t)(own - first);
}

/* The quickest one counts: a slow wait says little about the next. */
static int64_t quickest_turn_ns(const struct wait_estimate *estimate, const char *name)
{
    uint64_t hash = table_hash_text(name);
    const struct wait_estimate_of_lock *lock = &estimate->locks[hash % WAIT_ESTIMATE_LOCKS];
    int64_t least = lock->hash == hash ? lock->turn_ns[0] : 0;
    for (size_t i = 1; i < WAIT_ESTIMATE_WAITS; i++)
        least = lock->turn_ns[i] < least ? lock->turn_ns[i] : least;
    return least;
}

/* Less than the turn took: if all rest too long, they rest less in each round. */
void wait_estimate_begin(const struct wait_estimate *estimate, const hf_record *record,
                         const hf_entry *own, struct waiter *waiter, hf_mono now)
{
    int64_t turn_ns = quickest_turn_ns(estimate, record->name);
    waiter->queued_at = waiter->quiet_until = now;
    waiter->turns_ahead = turns_ahead(record, own);
    if (turn_ns <= QUICK_TURN_NS)
        waiter->quiet_until.ns += (int64_t)waiter->turns_ahead * turn_ns / 8 * 7;
}

/* One turn more, because the holder's own turn was under way. With nobody else ahead, that says
 * little. */
void wait_estimate_learn(struct wait_estimate *estimate, const char *name,
                         const struct waiter *waiter, hf_mono now)
{
    uint64_t hash = table_hash_text(name);
    struct wait_estimate_of_lock *lock = &estimate->locks[hash % WAIT_ESTIMATE_LOCKS];
    if (waiter->turns_ahead == 0)
        return;
    if (lock->hash != hash)
        *lock = (struct wait_estimate_of_lock){.hash = hash};
    lock->turn_ns[lock->waits++ % WAIT_ESTIMATE_WAITS] =
        (now.ns - waiter->queued_at.ns) / (int64_t)(waiter->turns_ahead + 1);
}
