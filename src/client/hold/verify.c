/* SPDX-License-Identifier: Apache-2.0 */
/* verify.c: decides when a held lock is verified; see verify.h. */
#include "client/hold/hold.h"

#include "core/lease.h"

#define PROVE_MS 1000 /* what is held for less long than that costs no look */

void verify_begin_locked(hf_client *client, hf_mono now)
{
    agenda_advance(&client->hold->agenda, JOB_VERIFY, mono_add_ms(now, client->ttl_ms));
    agenda_advance(&client->hold->agenda, JOB_SUSPECTS, mono_add_ms(now, client->ttl_ms));
}

static void plan_locked(struct hf_lock *lock, hf_mono due)
{
    schedule_set(&lock->client->hold->verifying, &lock->verification.due, due);
}

void verify_granted_locked(struct hf_lock *lock, hf_mono now)
{
    plan_locked(lock, mono_add_ms(now, lock->client->ttl_ms));
}

void verify_rung_locked(struct hf_lock *lock, hf_mono now)
{
    struct agenda *agenda = &lock->client->hold->agenda;
    int64_t beat_ms = lease_beat_ms(lock->client->ttl_ms);
    hf_mono due = mono_add_ms(now, PROVE_MS < beat_ms ? PROVE_MS : beat_ms);
    lock->verification.is_rung = true;
    lock->client->hold->proves_at = due;
    plan_locked(lock, due);
    if (mono_reached(agenda->due[JOB_VERIFY], due))
        return; /* there is a look before, and one at `proves_at` */
    agenda_set(agenda, JOB_VERIFY, due);
    ticker_poke(lock->client, TICK_UPKEEP);
}

/* However many rings come, there is one look in PROVE_MS: a ring is proved after twice that at
 * most. */
void verify_again_locked(hf_client *client, hf_mono now)
{
    if (!mono_reached(client->hold->proves_at, now))
        agenda_advance(&client->hold->agenda, JOB_VERIFY, client->hold->proves_at);
}

static bool all_now_locked(hf_client *client, hf_mono now)
{
    for (struct hf_lock *lock = client->hold->locks; lock; lock = lock->next)
        if (lock->state == LOCK_HELD)
            plan_locked(lock, now);
    return client->hold->n_held;
}

static bool named_now_locked(hf_client *client, const char *name, hf_mono now)
{
    bool any = false;
    struct hf_lock *lock = lock_first_named_locked(client, name);
    for (; lock; lock = lock_next_named_locked(lock))
        if (lock->state == LOCK_HELD) {
            plan_locked(lock, now);
            any = true;
        }
    return any;
}

void verify_now_locked(hf_client *client, const char *name)
{
    hf_mono now = client_now(client);
    bool any = name ? named_now_locked(client, name, now) : all_now_locked(client, now);
    if (!any)
        return;
    agenda_advance(&client->hold->agenda, JOB_VERIFY, now);
    ticker_poke(client, TICK_UPKEEP);
}

void verify_soon_locked(struct hf_lock *lock)
{
    hf_client *client = lock->client;
    hf_mono beat = mono_add_ms(lock->belief.born, lease_beat_ms(client->ttl_ms));
    plan_locked(lock, mono_min(lock->verification.due.due, beat));
    agenda_advance(&client->hold->agenda, JOB_VERIFY, lock->verification.due.due);
    ticker_poke(client, TICK_UPKEEP);
}

static void take_locked(struct hf_lock *lock, hf_mono now)
{
    int64_t ttl_ms = lock->client->ttl_ms;
    plan_locked(lock, mono_add_ms(now, lock->turn.has_block ? lease_beat_ms(ttl_ms) : ttl_ms));
    lock->verification.is_under_way = true;
}

/* Those that are not held any more are not verified. */
static struct hf_lock *next_due_locked(hf_client *client, hf_mono now)
{
    struct schedule *verifying = &client->hold->verifying;
    struct slot *slot;
    while ((slot = schedule_next_due(verifying, now))) {
        struct hf_lock *lock = SCHEDULE_OWNER(slot, struct hf_lock, verification.due);
        if (lock->state == LOCK_HELD)
            return lock;
        schedule_remove(verifying, slot);
    }
    return NULL;
}

/* One look is enough for several holders of a lock, if all are due soon. */
struct hf_lock *verify_take_locked(hf_client *client, hf_mono now, hf_stamp *after, size_t *n)
{
    struct hf_lock *due = next_due_locked(client, now);
    hf_mono soon = mono_add_ms(now, lease_beat_ms(client->ttl_ms));
    struct hf_lock *lock = due ? lock_first_named_locked(client, due->name) : NULL;
    for (; lock; lock = lock_next_named_locked(lock)) {
        ++*n;
        if (lock->state != LOCK_HELD || !mono_reached(lock->verification.due.due, soon))
            continue;
        take_locked(lock, now);
        if (lock->grant.stamp.value > after->value)
            *after = lock->grant.stamp;
    }
    return due;
}

void verify_end_locked(hf_client *client, const char *name, bool has_answer)
{
    struct hf_lock *lock = lock_first_named_locked(client, name);
    for (; lock; lock = lock_next_named_locked(lock)) {
        if (lock->verification.is_under_way && !has_answer)
            plan_locked(lock, client_now(client));
        lock->verification.is_under_way = false;
    }
}

void verify_failed_locked(hf_client *client, hf_mono now)
{
    agenda_advance(&client->hold->agenda, JOB_VERIFY, lease_retry_due(now, client->ttl_ms));
}

/* A new primary may show for a moment what was before the grant, if a look has told of that. A ring
 * tells when the grant was, and the look is no older. */
void verify_found_locked(struct hf_lock *lock, bool holds)
{
    lock->verification.is_there |= holds || !lock->verification.is_rung;
    lock->verification.is_rung &= !holds;
}

void verify_drop_locked(struct hf_lock *lock)
{
    lock->verification.is_under_way = false;
}
