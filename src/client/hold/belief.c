/* SPDX-License-Identifier: Apache-2.0 */
/* belief.c: ends belief in time; see belief.h. Called whenever a holder asks, and by the deadline
 * thread, which calls no store. */
#include "client/hold/hold.h"

#include "core/error.h"

#define LEAST_PART 20 /* of the ttl: so much is left for beats at the grant, at least */

/* ---- A lock's own lease, and its watchdog ---- */

static hf_mono own_due(const struct hf_lock *lock)
{
    hf_mono end = lock->belief.lease_end;
    if (end.ns == MONO_NEVER.ns)
        return MONO_NEVER;
    return (hf_mono){end.ns - lock->client->stop_margin_ms * 1000000};
}

void belief_watch_locked(struct hf_lock *lock)
{
    struct hold *hold = lock->client->hold;
    schedule_set(&hold->leases, &lock->belief.lease, own_due(lock));
    schedule_set(&hold->dogs, &lock->belief.dog, watchdog_due(&lock->belief.watchdog));
}

void belief_begin_locked(struct hf_lock *lock, const struct lock_request *request, hf_mono now)
{
    const hf_lock_options *options = request->options;
    hf_client *client = lock->client;
    lock->belief.born = now;
    lock->belief.is_by_hand = options->no_refresh;
    watchdog_begin(&lock->belief.watchdog, options, now);
    if (request->claim || options->no_refresh)
        lock->belief.lease_end = lease_end(request->sent, client->ttl_ms);
    belief_watch_locked(lock);
    if (lock->belief.lease.at || lock->belief.dog.at)
        ticker_poke(client, TICK_WATCH);
}

/* Whether its own lease, if it has one, still runs. If not, the lock becomes lost. */
static bool is_leased_locked(struct hf_lock *lock, hf_mono now)
{
    hf_error why;
    if (!mono_reached(own_due(lock), now))
        return true;
    error_set(&why, HF_LOST, "%.128s: its lease of %lld ms %s: %s", lock->name,
              (long long)lock->client->ttl_ms,
              mono_reached(lock->belief.lease_end, now) ? "has run out" : "is about to run out",
              lock->belief.is_by_hand ? "it was not refreshed in time"
                                      : "taking it took long, and no beat has renewed it since");
    loss_begin_locked(lock, &why, lock->belief.lease_end);
    return false;
}

/* The worker has the stop margin to stop. The session lives, and its lease is longer than the
 * margin. */
static bool is_fed_locked(struct hf_lock *lock, hf_mono now)
{
    struct watchdog *dog = &lock->belief.watchdog;
    hf_error why;
    char reason[HF_TEXT_MAX + 1];
    if (!mono_reached(watchdog_due(dog), now))
        return true;
    watchdog_reason(dog, reason);
    error_set(&why, HF_LOST, "%.128s: %s", lock->name, reason);
    watchdog_bite(dog);
    loss_begin_locked(lock, &why, mono_add_ms(now, lock->client->stop_margin_ms));
    return false;
}

/* What was renewed or fed meanwhile is due later. */
static void watch_one_locked(struct hf_lock *lock, hf_mono now)
{
    struct hold *hold = lock->client->hold;
    if (lock->state == LOCK_HELD && is_leased_locked(lock, now) && is_fed_locked(lock, now)) {
        belief_watch_locked(lock);
        return;
    }
    schedule_remove(&hold->leases, &lock->belief.lease);
    schedule_remove(&hold->dogs, &lock->belief.dog);
}

static hf_mono watch_locks_locked(hf_client *client, hf_mono now)
{
    struct hold *hold = client->hold;
    struct slot *slot;
    while ((slot = schedule_next_due(&hold->leases, now)))
        watch_one_locked(SCHEDULE_OWNER(slot, struct hf_lock, belief.lease), now);
    while ((slot = schedule_next_due(&hold->dogs, now)))
        watch_one_locked(SCHEDULE_OWNER(slot, struct hf_lock, belief.dog), now);
    return mono_min(schedule_due(&hold->leases), schedule_due(&hold->dogs));
}

/* From the first beat that covers it, a lock lives as long as its session. */
void belief_renewed_locked(hf_client *client, hf_mono sent)
{
    const struct schedule *leases = &client->hold->leases;
    for (size_t i = 0; i < leases->n; i++) {
        struct hf_lock *lock = SCHEDULE_OWNER(leases->of[i], struct hf_lock, belief.lease);
        if (lock->state == LOCK_HELD && !lock->belief.is_by_hand &&
            mono_reached(lock->belief.born, sent) && is_leased_locked(lock, client_now(client)))
            lock->belief.lease_end = MONO_NEVER;
    }
}

void belief_refreshed_locked(struct hf_lock *lock, hf_mono sent)
{
    if (!lock->belief.is_by_hand)
        return;
    lock->belief.lease_end = lease_end(sent, lock->client->ttl_ms);
    belief_watch_locked(lock);
    ticker_poke(lock->client, TICK_WATCH);
}

/* ---- The session's lease ---- */

static hf_mono stops_at(const hf_client *client)
{
    return (hf_mono){client->session.lease_end.ns - client->stop_margin_ms * 1000000};
}

/* Who only waits has nothing to stop. */
static hf_mono session_due(const hf_client *client)
{
    return client->session.holds ? stops_at(client) : client->session.lease_end;
}

bool belief_has_time_locked(const hf_client *client, hf_mono now)
{
    int64_t least_ms = client->ttl_ms / LEAST_PART;
    return !mono_reached(stops_at(client), mono_add_ms(now, least_ms));
}

static void lose_all_locked(hf_client *client, const hf_error *why, hf_mono stop_by)
{
    for (struct hf_lock *lock = client->hold->locks; lock; lock = lock->next)
        loss_begin_locked(lock, why, stop_by);
}

void belief_lose_session_locked(hf_client *client, const hf_error *why, hf_mono stop_by)
{
    if (client->session.state != SESSION_ALIVE)
        return;
    lose_all_locked(client, why, stop_by);
    life_end_locked(client);
    lock_request_wake_all_locked(client);
}

void belief_abandon_session_locked(hf_client *client, const hf_error *why, hf_mono stop_by)
{
    lose_all_locked(client, why, stop_by);
    life_abandon_locked(client);
    lock_request_wake_all_locked(client);
}

static void expire_locked(hf_client *client, hf_mono now)
{
    const hf_error *failure = &client->session.last_failure;
    hf_error why;
    error_set(&why, HF_LOST, "the lease of %lld ms %s: %s%s", (long long)client->ttl_ms,
              mono_reached(client->session.lease_end, now) ? "has run out" : "is about to run out",
              failure->code ? "no beat was acknowledged, the last said: "
                            : "the process was paused, or its beats were too slow",
              failure->code ? failure->text : "");
    belief_lose_session_locked(client, &why, client->session.lease_end);
}

bool belief_in_session_locked(hf_client *client, hf_id session, hf_mono now)
{
    if (!session_is_present_locked(client, session))
        return false;
    if (!mono_reached(session_due(client), now))
        return true;
    expire_locked(client, now);
    return false;
}

hf_mono belief_tick(hf_client *client, hf_mono now)
{
    MUTEX_SCOPE(&client->mutex);
    if (!belief_in_session_locked(client, client->session.self.id, now))
        return MONO_NEVER;
    return mono_min(session_due(client), watch_locks_locked(client, now));
}

/* ---- What the holder asks ---- */

/* The watchdog fires; then the stop margin begins. */
static hf_mono end_locked(const struct hf_lock *lock)
{
    hf_mono bitten =
        mono_add_ms(watchdog_due(&lock->belief.watchdog), lock->client->stop_margin_ms);
    return mono_min(mono_min(lock->client->session.lease_end, lock->belief.lease_end), bitten);
}

hf_mono belief_end_of_grant_locked(const struct lock_request *request)
{
    const hf_client *client = request->client;
    if (!session_is_present_locked(client, request->enter.entry.session))
        return (hf_mono){0};
    if (!request->claim && !request->options->no_refresh)
        return client->session.lease_end;
    hf_mono own = lease_end(request->sent, request->client->ttl_ms);
    return mono_min(client->session.lease_end, own);
}

hf_code belief_check_locked(struct hf_lock *lock, int64_t *left_ms, hf_mono now, hf_error *err)
{
    hf_client *client = lock->client;
    if (lock->state == LOCK_RELEASED)
        return error_set(err, HF_LOST, "%.128s was released", lock->name);
    if (lock->state == LOCK_HELD && belief_in_session_locked(client, lock->grant.session, now) &&
        is_leased_locked(lock, now) && is_fed_locked(lock, now)) {
        *left_ms = mono_ms_until(end_locked(lock), now);
        return HF_OK;
    }
    *left_ms = loss_time_left(lock, now);
    if (err)
        *err = lock->loss.why;
    return HF_LOST;
}
