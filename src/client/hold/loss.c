/* SPDX-License-Identifier: Apache-2.0 */
/* loss.c: ends belief in a lock, tells its holder, and gives the ticket up; see loss.h. Called
 * by every thread that finds a lock lost, by upkeep, and by the notify thread. */
#include "client/hold/hold.h"

#include "core/error.h"

#include <sys/eventfd.h>
#include <unistd.h>

/* ---- Lost ---- */

static void raise_fd(const struct hf_lock *lock)
{
    if (lock->loss.fd >= 0 && eventfd_write(lock->loss.fd, 1) < 0)
        return; /* it is readable already */
}

/* An ask for it, or for the ticket that an upgrade of it replaced, is what others call a break. */
static hf_turn_end end_of(const struct hf_lock *lock)
{
    bool is_asked = session_find_ask_locked(lock->client, lock->grant.ticket) ||
                    session_find_ask_locked(lock->client, lock->change.former);
    return is_asked ? HF_TURN_BROKEN : HF_TURN_LOST;
}

/* Then no work has to be stopped. */
static bool is_unused(const struct hf_lock *lock)
{
    return lock->turn.lingers || lock->loss.is_held_back;
}

static void lose_locked(struct hf_lock *lock, const hf_error *why, hf_mono stop_by)
{
    lock_end_locked(lock, LOCK_LOST);
    lock->loss.why = *why;
    if (!lock->loss.is_left) /* else its leave tells */
        diary_note_locked(lock, end_of(lock));
    lock->loss.stop_by = is_unused(lock) ? lock->belief.born : stop_by;
    if (!lock->loss.is_left)
        schedule_set(&lock->client->hold->stopping, &lock->loss.leaves, lock->loss.stop_by);
    line_left_locked(lock);
    raise_fd(lock);
    if (lock->loss.on_lost && !lock->loss.is_told)
        schedule_set(&lock->client->hold->telling, &lock->loss.tells, client_now(lock->client));
    if (lock->loss.on_lost)
        ticker_poke(lock->client, TICK_NOTIFY);
    ticker_poke(lock->client, TICK_UPKEEP);
}

/* One warning is enough for all. */
static void lose_peers_locked(const struct hf_lock *lock, hf_mono stop_by)
{
    hf_error why;
    for (struct hf_lock *peer = lock->loss.peer; peer && peer != lock; peer = peer->loss.peer) {
        error_set(&why, HF_LOST, "%.128s goes with %.128s, with which it was taken: %.220s",
                  peer->name, lock->name, lock->loss.why.text);
        peer->loss.is_told = true;
        if (peer->state == LOCK_HELD)
            lose_locked(peer, &why, stop_by);
    }
}

void loss_begin_locked(struct hf_lock *lock, const hf_error *why, hf_mono stop_by)
{
    if (lock->state != LOCK_HELD)
        return;
    lose_locked(lock, why, stop_by);
    lose_peers_locked(lock, stop_by);
}

void loss_of_no_lease_locked(struct hf_lock *lock)
{
    lock_end_pass_locked(lock);
    if (lock->state == LOCK_LOST && !lock->loss.is_left)
        diary_note_locked(lock, end_of(lock));
}

void loss_close_all_locked(hf_client *client)
{
    hf_error why;
    error_set(&why, HF_LOST, "the client was closed");
    for (struct hf_lock *lock = client->hold->locks; lock; lock = lock->next) {
        if (lock->state != LOCK_HELD)
            continue;
        hf_leave leave = lock_leave(lock);
        struct history_turn *turn = diary_turn_locked(lock, HF_TURN_RELEASED);
        lock->loss.is_told = lock->loss.is_left = true; /* the caller of hf_close() knows */
        lose_locked(lock, &why, client_now(client));    /* its peers are released, too */
        release_push_lock_locked(lock, &leave, true)->turn = turn;
    }
}

/* ---- Together ---- */

void loss_hold_back_locked(struct hf_lock *lock)
{
    lock->loss.is_held_back = true;
}

void loss_tie_locked(struct hf_lock *lock, struct hf_lock *peer)
{
    lock->loss.is_held_back = false;
    lock->loss.peer = peer;
}

void loss_untie_locked(struct hf_lock *lock)
{
    struct hf_lock *before = lock->loss.peer;
    if (!before)
        return;
    while (before->loss.peer != lock)
        before = before->loss.peer;
    before->loss.peer = before == lock->loss.peer ? NULL : lock->loss.peer;
    lock->loss.peer = NULL;
}

/* ---- Telling the holder ---- */

void loss_tell_locked(struct hf_lock *lock, hf_lost_fn on_lost, void *ctx)
{
    lock->loss.on_lost = on_lost;
    lock->loss.ctx = ctx;
}

int loss_fd_locked(struct hf_lock *lock)
{
    if (lock->loss.fd >= 0)
        return lock->loss.fd;
    lock->loss.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (lock->state == LOCK_LOST)
        raise_fd(lock);
    return lock->loss.fd;
}

/* Those that were lost first are first. */
static struct hf_lock *next_to_tell_locked(hf_client *client)
{
    struct schedule *telling = &client->hold->telling;
    struct slot *slot;
    while ((slot = schedule_first(telling))) {
        struct hf_lock *lock = SCHEDULE_OWNER(slot, struct hf_lock, loss.tells);
        schedule_remove(telling, slot);
        if (lock->state == LOCK_LOST && !lock->loss.is_told)
            return lock;
    }
    return NULL;
}

int64_t loss_time_left(const struct hf_lock *lock, hf_mono now)
{
    int64_t left = mono_ms_until(lock->loss.stop_by, now);
    return left > 0 ? left : 0;
}

hf_mono loss_notify_tick(hf_client *client, hf_mono now)
{
    MUTEX_SCOPE(&client->mutex);
    struct hf_lock *lock;
    while ((lock = next_to_tell_locked(client))) {
        hf_error why = lock->loss.why;
        int64_t left_ms = loss_time_left(lock, now);
        lock->loss.is_told = true;
        client->hold->calling = lock;
        pthread_mutex_unlock(&client->mutex);
        lock->loss.on_lost(lock->loss.ctx, lock, &why, left_ms);
        now = client_now(client);
        pthread_mutex_lock(&client->mutex);
        client->hold->calling = NULL;
        pthread_cond_broadcast(&client->changed);
    }
    return MONO_NEVER;
}

void loss_await_callback_locked(struct hf_lock *lock)
{
    hf_client *client = lock->client;
    bool in_callback = ticker_is_own_thread(client, TICK_NOTIFY);
    while (client->hold->calling == lock && !in_callback)
        pthread_cond_wait(&client->changed, &client->mutex);
    if (client->hold->calling == lock)
        client->hold->calling = NULL;
}

/* ---- Giving up the tickets ---- */

void loss_stopped_locked(struct hf_lock *lock, hf_mono now)
{
    if (lock->state != LOCK_LOST)
        return;
    lock->loss.stop_by = mono_min(lock->loss.stop_by, now);
    if (lock->loss.leaves.at)
        schedule_set(&lock->client->hold->stopping, &lock->loss.leaves, lock->loss.stop_by);
    ticker_poke(lock->client, TICK_UPKEEP);
}

/* Nobody can believe in the lock any more, so waiting for hf_lock_close() would gain nothing. What
 * an ended session holds, its mark gives up. */
static void leave_locked(struct hf_lock *lock)
{
    if (lock->state != LOCK_LOST || lock->loss.is_left ||
        !session_is_present_locked(lock->client, lock->grant.session))
        return;
    hf_leave leave = lock_leave(lock);
    if (!lock->turn.lingers) /* nobody was at work */
        leave.outcome = HF_OUTCOME_ABANDONED;
    release_push_lock_locked(lock, &leave, false);
    lock->loss.is_left = true;
}

hf_mono loss_leave_locked(hf_client *client, hf_mono now)
{
    struct schedule *stopping = &client->hold->stopping;
    struct slot *slot;
    while ((slot = schedule_next_due(stopping, now))) {
        struct hf_lock *lock = SCHEDULE_OWNER(slot, struct hf_lock, loss.leaves);
        schedule_remove(stopping, slot);
        leave_locked(lock);
        line_over_locked(lock);
    }
    return schedule_due(stopping);
}

hf_mono loss_stops_by_locked(hf_client *client, hf_mono now)
{
    hf_mono latest = now;
    for (const struct hf_lock *lock = client->hold->locks; lock; lock = lock->next)
        if (lock->state == LOCK_LOST && lock->loss.stop_by.ns > latest.ns)
            latest = lock->loss.stop_by;
    return latest;
}
