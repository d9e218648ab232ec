/* SPDX-License-Identifier: Apache-2.0 */
/* fair.c: hfFair. Other programs poll, and we are told when a lock is free, so that we would take
 * most turns. With hfFair, after a turn that may have been one of ours, we wait for a random part
 * of a poll interval before the next try, as a program that polls does. The protocols without a
 * queue call it when they take a lock by its name. */
#include "store/mongo/shared/fair.h"
#include "core/alloc.h"
#include "core/id.h"
#include "core/lease.h"
#include "sync/mutex_scope.h"

#define LOCKS 32        /* that are remembered at the same time */
#define THEIRS_MS 60000 /* so long after another program's turn it counts as one that polls */

/* What is known of one lock. */
typedef struct turn {
    uint64_t name;            /* its hash */
    hf_mono seen_at;          /* when anything of it was seen */
    hf_mono theirs_at;        /* when anyone but us was last seen to hold it; 0: never */
    mongo_fair_holder holder; /* that was seen last */
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

/* Others use the lock, and the turn before was not certainly theirs. */
static bool yields(mongo_store *store, const char *name)
{
    MUTEX_SCOPE(&store->mutex);
    uint64_t hash = hash_of(name);
    const turn *last = slot_of_locked(store, hash);
    hf_mono until = mono_add_ms(last->theirs_at, THEIRS_MS);
    return last->name == hash && last->holder != MONGO_FAIR_THEIRS && last->theirs_at.ns &&
           !mono_reached(until, mongo_mono(store));
}

static int64_t part_of_poll_ms(const mongo_store *store)
{
    uint32_t chance;
    store->config.env->random(store->config.env->ctx, &chance, sizeof chance);
    return (int64_t)(chance % (uint64_t)(store->uri.poll_ms + 1));
}

void mongo_fair_wait(mongo_store *store, const char *name)
{
    if (store->fair && yields(store, name))
        mongo_pause(store, part_of_poll_ms(store));
}

mongo_fair_holder mongo_fair_guess(mongo_store *store, const hf_record *record)
{
    MUTEX_SCOPE(&store->mutex);
    bool is_self = record->holders && id_equal(record->entries[0].session, store->self.id);
    return is_self ? MONGO_FAIR_OURS : MONGO_FAIR_UNTOLD;
}

void mongo_fair_note(mongo_store *store, const hf_record *record, mongo_fair_holder holder)
{
    if (!store->fair || !record->holders)
        return;
    MUTEX_SCOPE(&store->mutex);
    uint64_t hash = hash_of(record->name);
    turn *last = slot_of_locked(store, hash);
    if (last->name != hash)
        *last = (turn){.name = hash};
    last->seen_at = mongo_mono(store);
    last->holder = holder;
    if (holder != MONGO_FAIR_OURS)
        last->theirs_at = last->seen_at;
}
