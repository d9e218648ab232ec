/* SPDX-License-Identifier: Apache-2.0 */
/* fair.c: hfFair. Other programs poll, and we are told when a lock is free, so that we would take
 * most turns. With hfFair, after a turn of ours beside such programs we wait one poll interval
 * before the next try. The protocols without a queue call it when they take a lock by its name. */
#include "store/mongo/shared/fair.h"
#include "core/alloc.h"
#include "core/id.h"
#include "core/lease.h"
#include "sync/mutex_scope.h"

#define LOCKS 32        /* that are remembered at the same time */
#define THEIRS_MS 60000 /* so long after another program's turn it counts as one that polls */

/* What is known of one lock. */
typedef struct turn {
    uint64_t name;     /* its hash */
    hf_mono seen_at;   /* when anything of it was seen */
    hf_mono theirs_at; /* when another program was last seen to hold it; 0: never */
    bool was_ours;     /* the last holder that was seen */
} turn;

/* Guarded by the store's mutex. */
struct mongo_fair {
    turn of[LOCKS];
};

void mongo_fair_open(mongo_store *store)
{
    if (store->uri.fair)
        store->fair = alloc_zeroed(sizeof *store->fair);
}

void mongo_fair_close(mongo_store *store)
{
    free(store->fair);
}

/* The lock's, or else the one that was not seen for the longest time. */
static turn *slot_of_locked(mongo_store *store, uint64_t name)
{
    turn *oldest = &store->fair->of[0];
    for (size_t i = 0; i < LOCKS; i++) {
        turn *each = &store->fair->of[i];
        if (each->name == name)
            return each;
        if (each->seen_at.ns < oldest->seen_at.ns)
            oldest = each;
    }
    return oldest;
}

static uint64_t hash_of(const char *name)
{
    return id_hash(ID_HASH, name, strlen(name));
}

static bool yields(mongo_store *store, const char *name)
{
    MUTEX_SCOPE(&store->mutex);
    uint64_t hash = hash_of(name);
    const turn *last = slot_of_locked(store, hash);
    hf_mono until = mono_add_ms(last->theirs_at, THEIRS_MS);
    return last->name == hash && last->was_ours && last->theirs_at.ns &&
           !mono_reached(until, mongo_mono(store));
}

void mongo_fair_wait(mongo_store *store, const char *name)
{
    if (store->fair && yields(store, name))
        mongo_pause(store, store->uri.poll_ms);
}

bool mongo_fair_is_self(mongo_store *store, const hf_record *record)
{
    MUTEX_SCOPE(&store->mutex);
    return record->holders && id_equal(record->entries[0].session, store->self.id);
}

void mongo_fair_note(mongo_store *store, const hf_record *record, bool is_ours)
{
    if (!store->fair || !record->holders)
        return;
    MUTEX_SCOPE(&store->mutex);
    uint64_t hash = hash_of(record->name);
    turn *last = slot_of_locked(store, hash);
    if (last->name != hash)
        *last = (turn){.name = hash};
    last->seen_at = mongo_mono(store);
    last->was_ours = is_ours;
    if (!is_ours)
        last->theirs_at = last->seen_at;
}
