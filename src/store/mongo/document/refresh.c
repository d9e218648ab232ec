/* SPDX-License-Identifier: Apache-2.0 */
/* refresh.c: decides when a lock in a user's document is stale. Notices if another program
 * refreshes its lock more slowly than the URI says, so that one late refresh could cost it the
 * lock. shape.c calls it for each document that another program holds. */
#include "core/alloc.h"
#include "core/id.h"
#include "core/lease.h"
#include "store/mongo/document/document.h"
#include "store/mongo/driver/log.h"
#include "sync/mutex_scope.h"

#define WARN_MS 60000
#define LEAST_LOOK_MS 700 /* a waiter looks more often */

/* When another program last refreshed its lock, as far as we saw. */
typedef struct mongo_refresh {
    hf_id ticket;
    int64_t time_ms;
    hf_mono looked_at;
} mongo_refresh;

#define MONGO_REFRESHES 32 /* locks that are watched like this at the same time */

/* Guarded by the store's mutex. */
struct mongo_refreshes {
    mongo_refresh of[MONGO_REFRESHES];
    hf_mono said;       /* when a warning was */
    hf_mono counted;    /* when a claim counted what it passes by */
    bool has_said_type; /* that another type is never taken over */
};

void mongo_document_refresh_open(mongo_store *store)
{
    store->refreshes = alloc_zeroed(sizeof *store->refreshes);
}

void mongo_document_refresh_close(mongo_store *store, bool is_ours)
{
    (void)is_ours;
    free(store->refreshes);
}

int64_t mongo_document_stale_ms(const mongo_uri *uri)
{
    return uri->refresh_ms * uri->multiplier;
}

/* If two looks are no further apart than this, several refreshes between them can be missed only if
 * they come more often than they must. */
static int64_t look_ms(const mongo_store *store)
{
    int64_t quarter = store->uri.foreign_refresh_ms / 4;
    return quarter > LEAST_LOOK_MS ? quarter : LEAST_LOOK_MS;
}

/* The entry of this ticket, or else the one that was not looked at for the longest time. */
static mongo_refresh *slot_of(mongo_store *store, hf_id ticket)
{
    mongo_refresh *oldest = &store->refreshes->of[0];
    for (size_t i = 0; i < MONGO_REFRESHES; i++) {
        mongo_refresh *each = &store->refreshes->of[i];
        if (id_equal(each->ticket, ticket))
            return each;
        if (each->looked_at.ns < oldest->looked_at.ns)
            oldest = each;
    }
    return oldest;
}

/* The time between this refresh and the one before; 0: not known. */
static int64_t gap_locked(mongo_store *store, const mongo_refresh *now)
{
    mongo_refresh *seen = slot_of(store, now->ticket);
    bool is_close = id_equal(seen->ticket, now->ticket) &&
                    !mono_reached(mono_add_ms(seen->looked_at, look_ms(store)), now->looked_at);
    int64_t gap_ms = is_close ? now->time_ms - seen->time_ms : 0;
    *seen = *now;
    return gap_ms;
}

static bool warns_locked(mongo_store *store, int64_t gap_ms, hf_mono now)
{
    bool is_slow = gap_ms > store->uri.foreign_refresh_ms + look_ms(store);
    bool is_said = store->refreshes->said.ns &&
                   !mono_reached(mono_add_ms(store->refreshes->said, WARN_MS), now);
    if (is_slow && !is_said)
        store->refreshes->said = now;
    return is_slow && !is_said;
}

void mongo_document_note_refresh(mongo_store *store, const char *name, hf_id ticket,
                                 int64_t time_ms)
{
    mongo_refresh now = {ticket, time_ms, mongo_mono(store)};
    pthread_mutex_lock(&store->mutex);
    int64_t gap_ms = gap_locked(store, &now);
    bool warns = warns_locked(store, gap_ms, now.looked_at);
    pthread_mutex_unlock(&store->mutex);
    if (warns)
        mongo_log(store, HF_LOG_WARNING,
                  "%.120s, _id %.120s: its holder refreshes it only every %lld ms, and here it is "
                  "stale after %lld ms: let hfRefreshMS be what the slowest program does, and "
                  "hfStaleMultiplier how many refreshes it may miss",
                  store->uri.collection, name, (long long)gap_ms,
                  (long long)mongo_document_stale_ms(&store->uri));
}

/* Whether it is still to be said. */
static bool says_type(mongo_store *store)
{
    MUTEX_SCOPE(&store->mutex);
    bool says = !store->refreshes->has_said_type;
    store->refreshes->has_said_type = true;
    return says;
}

void mongo_document_note_other_type(mongo_store *store, const char *name, const char *type)
{
    if (says_type(store))
        mongo_log(store, HF_LOG_WARNING,
                  "%.120s, _id %.120s: it is stale, and yet never taken over here, nor claimed, "
                  "because its %.80s is of another type than the one that is written: if all "
                  "programs write that one, put hfLockIdType=%s into the URI; if its program is "
                  "dead, free it with holdfast break --force",
                  store->uri.collection, name, store->uri.lock_field, type);
}

bool mongo_document_is_to_count(mongo_store *store)
{
    hf_mono now = mongo_mono(store);
    MUTEX_SCOPE(&store->mutex);
    struct mongo_refreshes *all = store->refreshes;
    if (all->has_said_type ||
        (all->counted.ns && !mono_reached(mono_add_ms(all->counted, WARN_MS), now)))
        return false;
    all->counted = now;
    return true;
}

void mongo_document_note_passed(mongo_store *store, int64_t n, const char *type)
{
    if (says_type(store))
        mongo_log(store, HF_LOG_WARNING,
                  "%.120s: a claim found nothing, but passed by %lld that match and are stale, "
                  "because their %.80s is of another type than the one that is written: if all "
                  "programs write that one, put hfLockIdType=%s into the URI; if their program is "
                  "dead, free them with holdfast break --force",
                  store->uri.collection, (long long)n, store->uri.lock_field, type);
}
