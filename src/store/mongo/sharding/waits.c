/* SPDX-License-Identifier: Apache-2.0 */
/* waits.c: logs from time to time which locks of protocol `sharding` are still waited for. The
 * client comes back round by round, and does not say when it stops.
 */
#include "store/mongo/sharding/waits.h"
#include "core/alloc.h"
#include "core/id.h"
#include "core/lease.h"
#include "store/mongo/driver/log.h"
#include "store/mongo/sharding/sharding.h"

#define FORGET_MS 60000 /* a waiter that has not come back for this long no longer waits */

struct sharding_wait {
    struct sharding_wait *next;
    hf_id ticket;
    hf_mono began, said, seen;
};

static bool is_over(const struct sharding_wait *wait, hf_id ended, hf_mono now)
{
    return id_equal(wait->ticket, ended) || mono_reached(mono_add_ms(wait->seen, FORGET_MS), now);
}

static void drop_locked(struct mongo_sharding *own, hf_id ended, hf_mono now)
{
    for (struct sharding_wait **at = &own->waits; *at;) {
        struct sharding_wait *wait = *at;
        if (is_over(wait, ended, now)) {
            *at = wait->next;
            free(wait);
        } else {
            at = &wait->next;
        }
    }
}

static struct sharding_wait *take_locked(struct mongo_sharding *own, hf_id ticket, hf_mono now)
{
    struct sharding_wait *wait = own->waits;
    while (wait && !id_equal(wait->ticket, ticket))
        wait = wait->next;
    if (wait)
        return wait;
    wait = alloc_zeroed(sizeof *wait);
    *wait = (struct sharding_wait){.next = own->waits, .ticket = ticket, .began = now, .said = now};
    own->waits = wait;
    return wait;
}

void sharding_wait_note(mongo_store *store, hf_id ticket, const char *name, const char *who)
{
    struct mongo_sharding *own = store->sharding;
    hf_mono now = mongo_mono(store);
    pthread_mutex_lock(&own->mutex);
    struct sharding_wait *wait = take_locked(own, ticket, now);
    bool says = mono_reached(mono_add_ms(wait->said, own->settings.still_ms), now);
    int64_t waited_ms = (now.ns - wait->began.ns) / 1000000;
    wait->seen = now;
    if (says)
        wait->said = now;
    pthread_mutex_unlock(&own->mutex);
    if (says)
        mongo_log(store, HF_LOG_INFO, "still waiting for %.128s, since %lld s: held by %.200s",
                  name, (long long)waited_ms / 1000, who ? who : "others");
}

void sharding_wait_end(mongo_store *store, hf_id ticket)
{
    hf_mono now = mongo_mono(store);
    pthread_mutex_lock(&store->sharding->mutex);
    drop_locked(store->sharding, ticket, now);
    pthread_mutex_unlock(&store->sharding->mutex);
}

void sharding_waits_clear(mongo_store *store)
{
    while (store->sharding->waits) {
        struct sharding_wait *wait = store->sharding->waits;
        store->sharding->waits = wait->next;
        free(wait);
    }
}
