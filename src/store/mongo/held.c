/* SPDX-License-Identifier: Apache-2.0 */
/* held.c: remembers which tickets this store holds or has asked for: what the beats of protocols
 * whose documents carry the lease themselves have to renew.
 *
 * A ticket stands here from before it is asked for: the client counts its lease from its last beat,
 * so a beat that is later than the taking must have moved the document's time, also when the answer
 * to the taking was late or lost. */
#include "core/alloc.h"
#include "core/id.h"
#include "store/mongo/parts.h"

static mongo_held *find_locked(const mongo_store *store, hf_id ticket)
{
    for (mongo_held *held = store->held; held; held = held->next)
        if (id_equal(held->ticket, ticket))
            return held;
    return NULL;
}

void mongo_held_add(mongo_store *store, const char *name, hf_id ticket)
{
    pthread_mutex_lock(&store->mutex);
    if (!find_locked(store, ticket)) {
        mongo_held *held = alloc_zeroed(sizeof *held);
        *held = (mongo_held){store->held, alloc_text(name), ticket};
        store->held = held;
    }
    pthread_mutex_unlock(&store->mutex);
}

bool mongo_held_knows(mongo_store *store, hf_id ticket)
{
    pthread_mutex_lock(&store->mutex);
    bool knows = find_locked(store, ticket) != NULL;
    pthread_mutex_unlock(&store->mutex);
    return knows;
}

static void free_one(mongo_held *held)
{
    free(held->name);
    free(held);
}

void mongo_held_drop(mongo_store *store, hf_id ticket)
{
    pthread_mutex_lock(&store->mutex);
    for (mongo_held **at = &store->held; *at;) {
        mongo_held *held = *at;
        if (id_equal(held->ticket, ticket)) {
            *at = held->next;
            free_one(held);
        } else {
            at = &held->next;
        }
    }
    pthread_mutex_unlock(&store->mutex);
}

void mongo_held_clear(mongo_store *store)
{
    while (store->held) {
        mongo_held *held = store->held;
        store->held = held->next;
        free_one(held);
    }
}

mongo_held *mongo_held_copy(mongo_store *store, size_t *n)
{
    mongo_held *all = NULL;
    *n = 0;
    pthread_mutex_lock(&store->mutex);
    for (mongo_held *held = store->held; held; held = held->next) {
        all = alloc_array(all, *n + 1, sizeof *all);
        all[(*n)++] = (mongo_held){.name = alloc_text(held->name), .ticket = held->ticket};
    }
    pthread_mutex_unlock(&store->mutex);
    return all;
}

void mongo_held_free_copy(mongo_held *all, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(all[i].name);
    free(all);
}
