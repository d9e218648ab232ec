/* SPDX-License-Identifier: Apache-2.0 */
/* verify.c: decides when a held lock is verified; see verify.h. */
#include "client/hold/hold.h"

#include "core/lease.h"

#include <string.h>

void verify_begin_locked(hf_client *client, hf_mono now)
{
    agenda_advance(&client->hold->agenda, JOB_VERIFY, mono_add_ms(now, client->ttl_ms));
    agenda_advance(&client->hold->agenda, JOB_SUSPECTS, mono_add_ms(now, client->ttl_ms));
}

void verify_granted_locked(struct hf_lock *lock, hf_mono now)
{
    lock->verification.due = mono_add_ms(now, lock->client->ttl_ms);
}

void verify_now_locked(hf_client *client, const char *name)
{
    hf_mono now = client_now(client);
    bool any = false;
    for (struct hf_lock *lock = client->hold->locks; lock; lock = lock->next)
        if (lock->state == LOCK_HELD && (!name || strcmp(lock->name, name) == 0)) {
            lock->verification.due = now;
            any = true;
        }
    if (!any)
        return;
    agenda_advance(&client->hold->agenda, JOB_VERIFY, now);
    ticker_poke(client, TICK_UPKEEP);
}

void verify_soon_locked(struct hf_lock *lock)
{
    hf_client *client = lock->client;
    lock->verification.due = mono_add_ms(lock->belief.born, lease_beat_ms(client->ttl_ms));
    agenda_advance(&client->hold->agenda, JOB_VERIFY, lock->verification.due);
    ticker_poke(client, TICK_UPKEEP);
}

bool verify_take_locked(struct hf_lock *lock, bool has_room, hf_mono now)
{
    int64_t ttl_ms = lock->client->ttl_ms;
    struct verification *it = &lock->verification;
    it->is_under_way = lock->state == LOCK_HELD && has_room && mono_reached(it->due, now);
    if (it->is_under_way)
        it->due = mono_add_ms(now, lock->turn.has_block ? lease_beat_ms(ttl_ms) : ttl_ms);
    return it->is_under_way;
}

void verify_failed_locked(hf_client *client, hf_mono now)
{
    for (struct hf_lock *lock = client->hold->locks; lock; lock = lock->next)
        if (lock->verification.is_under_way)
            lock->verification.due = now;
    agenda_advance(&client->hold->agenda, JOB_VERIFY, lease_retry_due(now, client->ttl_ms));
}

void verify_drop_locked(struct hf_lock *lock)
{
    lock->verification.is_under_way = false;
}
