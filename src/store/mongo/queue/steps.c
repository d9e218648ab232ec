/* SPDX-License-Identifier: Apache-2.0 */
/* steps.c: makes leaves on several locks that one caller has at hand, in few commands; the client
 * calls it through the store interface.
 *
 * They go as one batch. If a ticket is missing, the demand of the batch stops it, and nothing was
 * done: an earlier try may have had no answer. Then a look tells which tickets are there, those go
 * as a batch once more, and the others go by themselves. */
#include "core/alloc.h"
#include "core/record.h"
#include "store/mongo/driver/server.h"
#include "store/mongo/queue/batch.h"
#include "store/mongo/queue/queue.h"
#include "store/mongo/queue/step.h"
#include "store/mongo/shared/look.h"

#include <stdlib.h>
#include <string.h>

typedef struct members {
    mongo_member *of;
    size_t n;
} members;

static mongo_member *find(const members *all, const char *name)
{
    for (size_t i = 0; i < all->n; i++)
        if (all->of[i].state == MEMBER_ALONE && strcmp(all->of[i].name, name) == 0)
            return &all->of[i];
    return NULL;
}

/* What would stop the batch is passed by. */
static bool note_present(void *ctx, const hf_record *record)
{
    mongo_member *member = find(ctx, record->name);
    if (member && record_find(record, member->step->leaves[0].ticket))
        member->state = MEMBER_IN_BATCH;
    return true;
}

static void look_for_tickets(mongo_store *store, members *all)
{
    const char *names[MONGO_BATCH_MOST];
    size_t n = 0;
    hf_error err;
    for (size_t i = 0; i < all->n; i++)
        if (all->of[i].state == MEMBER_ALONE && all->of[i].step->n_leaves == 1)
            names[n++] = all->of[i].name;
    if (n)
        mongo_look(&store->base, names, n, (hf_stamp){0}, false, note_present, all, &err);
}

/* Those that are in the batch. */
static void send_batch(mongo_store *store, members *all)
{
    mongo_member *together[MONGO_BATCH_MOST];
    size_t n = 0;
    for (size_t i = 0; i < all->n; i++)
        if (all->of[i].state == MEMBER_IN_BATCH)
            together[n++] = &all->of[i];
    if (n > 1)
        mongo_batch_send(store, together, n);
    else if (n)
        together[0]->state = MEMBER_ALONE;
}

static void send_alone(mongo_store *store, const members *all)
{
    for (size_t i = 0; i < all->n; i++) {
        mongo_member *member = &all->of[i];
        if (member->state == MEMBER_ALONE)
            member->code = mongo_step_alone(store, member->name, member->step, NULL, &member->reply,
                                            &member->err);
    }
}

/* Batches need a replica set. */
static void send_all(mongo_store *store, members *all)
{
    if (mongo_topology_of(store) == MONGO_SET) {
        send_batch(store, all);
        look_for_tickets(store, all);
        send_batch(store, all);
    }
    send_alone(store, all);
}

/* Only a step with one leave can be a part of a batch. */
static members members_of(mongo_store *store, const hf_parcel *parcels, size_t n)
{
    members all = {alloc_zeroed(n * sizeof *all.of), n};
    bool is_set = mongo_topology_of(store) == MONGO_SET;
    for (size_t i = 0; i < n; i++) {
        mongo_member *member = &all.of[i];
        member->name = parcels[i].name;
        member->step = &parcels[i].step;
        member->state = is_set && member->step->n_leaves == 1 ? MEMBER_IN_BATCH : MEMBER_ALONE;
        pthread_cond_init(&member->changed, NULL);
    }
    return all;
}

static void tell(const members *all, hf_parcel *parcels)
{
    for (size_t i = 0; i < all->n; i++) {
        parcels[i].code = all->of[i].code;
        parcels[i].reply = all->of[i].reply;
        parcels[i].err = all->of[i].err;
        pthread_cond_destroy(&all->of[i].changed);
    }
}

void mongo_steps(hf_store *base, hf_parcel *parcels, size_t n)
{
    mongo_store *store = (mongo_store *)base;
    hf_error err;
    hf_code code = mongo_ready(store, &err);
    for (size_t i = 0; i < n && code; i++) {
        parcels[i].code = code;
        parcels[i].err = err;
    }
    if (code)
        return;
    members all = members_of(store, parcels, n);
    send_all(store, &all);
    tell(&all, parcels);
    free(all.of);
}
