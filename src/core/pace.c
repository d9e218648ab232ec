/* SPDX-License-Identifier: Apache-2.0 */
/* pace.c: learns from each wait how long a turn takes, and guesses how long the next wait is at
 * least; asked by attempts, for the listener. */
#include "core/pace.h"

#include "core/id.h"

#include <string.h>

/* In a slower queue few notices come that are another's, and more is lost by a wrong guess. */
#define QUICK_TURN_NS 50000000

static uint64_t hash_of(const char *name)
{
    return id_hash(ID_HASH, name, strlen(name));
}

/* How many are ahead in the queue, if each of them, and this one, has to have the lock alone. Those
 * who share it may come all at once: then nothing is known, 0. */
static size_t turns_ahead(const hf_record *record, const hf_entry *own)
{
    const hf_entry *first = record->entries + record->holders;
    for (const hf_entry *entry = first; entry <= own; entry++)
        if (entry->permits != record->limit)
            return 0;
    return (size_t)(own - first);
}

/* The quickest: one wait that was slow says little of the next. */
static int64_t quickest_turn_ns(const struct pace *pace, const char *name)
{
    uint64_t hash = hash_of(name);
    const struct pace_of_lock *lock = &pace->locks[hash % PACE_LOCKS];
    int64_t least = lock->hash == hash ? lock->turn_ns[0] : 0;
    for (size_t i = 1; i < PACE_WAITS; i++)
        least = lock->turn_ns[i] < least ? lock->turn_ns[i] : least;
    return least;
}

/* Less than it took: where all rest too long, they rest less in each round. */
void pace_begin(const struct pace *pace, const hf_record *record, const hf_entry *own,
                struct waiter *waiter, hf_mono now)
{
    int64_t turn_ns = quickest_turn_ns(pace, record->name);
    waiter->queued_at = waiter->rests_until = now;
    waiter->turns_ahead = turns_ahead(record, own);
    if (turn_ns <= QUICK_TURN_NS)
        waiter->rests_until.ns += (int64_t)waiter->turns_ahead * turn_ns / 8 * 7;
}

/* The holder's own turn was under way, so there was one more. With nobody else ahead that says
 * little. */
void pace_learn(struct pace *pace, const char *name, const struct waiter *waiter, hf_mono now)
{
    uint64_t hash = hash_of(name);
    struct pace_of_lock *lock = &pace->locks[hash % PACE_LOCKS];
    if (waiter->turns_ahead == 0)
        return;
    if (lock->hash != hash)
        *lock = (struct pace_of_lock){.hash = hash};
    lock->turn_ns[lock->waits++ % PACE_WAITS] =
        (now.ns - waiter->queued_at.ns) / (int64_t)(waiter->turns_ahead + 1);
}
