/* SPDX-License-Identifier: Apache-2.0 */
/* held.c: remembers which tickets this store holds or has asked for. Beats renew them in protocols
 * whose documents carry the lease.
 *
 * A ticket is noted here before it is asked for. The client counts the lease from its last beat. So
 * a beat after the taking must renew the document, even if the answer to the taking was late or
 * lost. */
#include "store/mongo/shared/held.h"
#include "core/alloc.h"
#include "core/id.h"
#include "sync/mutex_scope.h"

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
    mongo_held *held = find_locked(store, ticket);
    if (!held) {
        held = alloc_zeroed(sizeof *held);
        *held = (mongo_held){.next = store->held, .name = alloc_text(name), .ticket = ticket};
        store->held = held;
    }
    held->is_left = false;
    pthread_mutex_unlock(&store->mutex);
}

void mongo_held_doubt(mongo_store *store, hf_id ticket)
{
    pthread_mutex_lock(&store->mutex);
    mongo_held *held = find_locked(store, ticket);
    if (held)
        held->is_doubtful = true;
    pthread_mutex_unlock(&store->mutex);
}

void mongo_held_by_hand(mongo_store *store, hf_id ticket)
{
    pthread_mutex_lock(&store->mutex);
    mongo_held *held = find_locked(store, ticket);
    if (held)
        held->is_by_hand = true;
    pthread_mutex_unlock(&store->mutex);
}

hf_id mongo_held_session(mongo_store *store, hf_id ticket)
{
    MUTEX_SCOPE(&store->mutex);
    return find_locked(store, ticket) ? store->self.id : ticket;
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
        if (id_equal(held->ticket, ticket) && held->is_doubtful) {
            held->is_left = true;
            at = &held->next;
        } else if (id_equal(held->ticket, ticket)) {
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

/* A claim's ticket has no name until the answer comes; the answer gives its lock a lease of its
 * own.
 */
static bool is_renewed(const mongo_held *held)
{
    return held->name[0] && !held->is_by_hand && !held->is_left;
}

static bool is_doubtful(const mongo_held *held)
{
    return held->is_doubtful;
}

static mongo_held *copy(mongo_store *store, bool (*is_meant)(const mongo_held *), size_t *n)
{
    mongo_held *all = NULL;
    *n = 0;
    pthread_mutex_lock(&store->mutex);
    for (mongo_held *held = store->held; held; held = held->next) {
        if (!is_meant(held))
            continue;
        all = alloc_array(all, *n + 1, sizeof *all);
        all[(*n)++] = (mongo_held){.name = alloc_text(held->name), .ticket = held->ticket};
    }
    pthread_mutex_unlock(&store->mutex);
    return all;
}

mongo_held *mongo_held_copy(mongo_store *store, size_t *n)
{
    return copy(store, is_renewed, n);
}

mongo_held *mongo_held_copy_doubtful(mongo_store *store, size_t *n)
{
    return copy(store, is_doubtful, n);
}

void mongo_held_free_copy(mongo_held *all, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(all[i].name);
    free(all);
}
