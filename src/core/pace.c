/* SPDX-License-Identifier: Apache-2.0 */
/* pace.c: learns from each wait how long a turn takes, and guesses how long the next wait is at
 * least; asked by attempts, for the listener. */
#include "core/pace.h"

#include "core/id.h"

#include <string.h>

/* In a slower queue few notices come that are another's, and more is lost by a wrong guess. */
#define QUICK_TURN_NS 50000000

static size_t slot_of(const char *name)
{
    return id_hash(ID_HASH, name, strlen(name)) % PACE_LOCKS;
}

/* How many of those ahead in the queue have to have the lock alone, one after the other. Those who
 * share it may come all at once. */
static size_t turns_ahead(const hf_record *record, const hf_entry *own)
{
    size_t turns = 0;
    const hf_entry *queue = record->entries + record->holders;
    for (const hf_entry *entry = queue; entry < own; entry++)
        turns += entry->permits == record->limit;
    return own->permits == record->limit ? turns : 0;
}

/* The quickest: one wait that was slow says little of the next. */
static int64_t quickest_turn_ns(const struct pace *pace, const char *name)
{
    const int64_t *turns = pace->turn_ns[slot_of(name)];
    int64_t least = turns[0];
    for (size_t i = 1; i < PACE_WAITS; i++)
        least = turns[i] < least ? turns[i] : least;
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

/* One more than those ahead: the holder's own turn was under way. */
void pace_learn(struct pace *pace, const char *name, const struct waiter *waiter, hf_mono now)
{
    size_t slot = slot_of(name);
    int64_t waited_ns = now.ns - waiter->queued_at.ns;
    pace->turn_ns[slot][pace->waits[slot]++ % PACE_WAITS] =
        waited_ns / ((int64_t)waiter->turns_ahead + 1);
}
