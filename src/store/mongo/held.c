/* SPDX-License-Identifier: Apache-2.0 */
/* held.c: remembers which tickets this store holds, or may hold: what the beats of protocols whose
 * documents carry the lease themselves have to renew. */
#include "core/alloc.h"
#include "core/id.h"
#include "store/mongo/parts.h"

void mongo_held_add(mongo_store *store, const char *name, hf_id ticket)
{
    mongo_held *held = alloc_zeroed(sizeof *held);
    held->name = alloc_text(name);
    held->ticket = ticket;
    pthread_mutex_lock(&store->mutex);
    held->next = store->held;
    store->held = held;
    pthread_mutex_unlock(&store->mutex);
}

static mongo_held *find_locked(const mongo_store *store, hf_id ticket)
{
    for (mongo_held *held = store->held; held; held = held->next)
        if (id_equal(held->ticket, ticket))
            return held;
    return NULL;
}

bool mongo_held_knows(mongo_store *store, hf_id ticket)
{
    pthread_mutex_lock(&store->mutex);
    bool knows = find_locked(store, ticket) != NULL;
    pthread_mutex_unlock(&store->mutex);
    return knows;
}

void mongo_held_granted(mongo_store *store, hf_id ticket)
{
    pthread_mutex_lock(&store->mutex);
    mongo_held *held = find_locked(store, ticket);
    if (held)
        held->is_granted = true;
    pthread_mutex_unlock(&store->mutex);
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

static size_t count_locked(const mongo_store *store)
{
    size_t n = 0;
    for (mongo_held *held = store->held; held; held = held->next)
        n += held->is_granted;
    return n;
}

mongo_held *mongo_held_copy(mongo_store *store, size_t *n)
{
    pthread_mutex_lock(&store->mutex);
    mongo_held *all = alloc_array(NULL, count_locked(store), sizeof *all);
    *n = 0;
    for (mongo_held *held = store->held; held; held = held->next)
        if (held->is_granted)
            all[(*n)++] = (mongo_held){.name = alloc_text(held->name), .ticket = held->ticket};
    pthread_mutex_unlock(&store->mutex);
    return all;
}

void mongo_held_free_copy(mongo_held *all, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(all[i].name);
    free(all);
}
