/* SPDX-License-Identifier: Apache-2.0 */
/* handle.c: releases and closes locks; see handle.h. Called by the program, in its threads. */
#include "client/hold/handle.h"

#include "client/hold/hold.h"

#include "core/error.h"

#include <unistd.h>

/* How long the release of a closed lock waits for an acquire of the same name to carry it. A thread
 * that works turn by turn then sends one request per turn instead of two. This is much shorter than
 * a write, and longer than such a thread needs to come back. */
#define COME_BACK_NS 100000

void handle_goes_over(struct hf_lock *lock)
{
    pthread_mutex_lock(&lock->client->mutex);
    if (lock->state == LOCK_HELD) {
        loss_untie_locked(lock);
        line_left_locked(lock);
    }
    lock_end_locked(lock, LOCK_RELEASED);
    guardian_out(lock->client, lock->grant.ticket);
    pthread_mutex_unlock(&lock->client->mutex);
}

hf_code handle_release(struct hf_lock *lock, hf_error *err)
{
    hf_client *client = lock->client;
    hf_code code = HF_OK;
    pthread_mutex_lock(&client->mutex);
    hf_mono now = client_now(client);
    int64_t left;
    bool was_released = lock->state == LOCK_RELEASED;
    if (was_released && release_is_pending_locked(client, lock->grant.ticket))
        code = error_set(err, HF_UNKNOWN,
                         "%.128s: the release is not acknowledged yet; it is tried "
                         "in the background",
                         lock->name);
    struct release *release = NULL;
    struct waker *to_wake = NULL;
    bool ends = !was_released && !(code = belief_check_locked(lock, &left, now, err));
    loss_stopped_locked(lock, now);
    if (ends)
        loss_untie_locked(lock);
    if (ends && !turns_pass_locked(lock, now, &to_wake)) {
        release = release_begin_locked(lock);
        release->in_flight = true;
    }
    pthread_mutex_unlock(&client->mutex);
    waker_wake(to_wake);
    if (!release)
        return code;
    hf_mono end = mono_add_ms(now, client->patience_ms);
    BOUND_SCOPE(client->store, end, NULL);
    return release_send(client, release, end, err);
}

/* Returns whether another thread of this client has the lock now, or it lingers. */
static bool passes_locked(struct hf_lock *lock, struct waker **to_wake)
{
    hf_mono now = client_now(lock->client);
    int64_t left_ms;
    return lock->state == LOCK_HELD && !lock->leaving.is_returned &&
           !belief_check_locked(lock, &left_ms, now, NULL) && turns_pass_locked(lock, now, to_wake);
}

/* The ticket of a lost lock is taken out, too, if its session still lives: the loss may be due to
 * an ask. */
static void close_locked(struct hf_lock *lock, struct waker **to_wake)
{
    hf_client *client = lock->client;
    loss_await_callback_locked(lock);
    loss_untie_locked(lock);
    if (passes_locked(lock, to_wake)) {
        lock_unlink_locked(lock);
        return;
    }
    if (lock->state != LOCK_RELEASED && !lock->loss.is_left &&
        session_is_present_locked(client, lock->grant.session)) {
        bool was_lost = lock->state == LOCK_LOST;
        struct release *release = release_begin_locked(lock);
        if (was_lost)
            release->leave.outcome = HF_OUTCOME_ABANDONED;
        release_later_locked(client, release, COME_BACK_NS);
    }
    lock_unlink_locked(lock);
}

/* A thread that closes locks faster than they can be released is slowed: it sends some itself. */
static void close_and_help(hf_client *client, struct hf_lock *lock)
{
    struct waker *to_wake = NULL;
    pthread_mutex_lock(&client->mutex);
    close_locked(lock, &to_wake);
    bool helps = release_is_crowded_locked(client);
    if (helps)
        client_begin_locked(client);
    pthread_mutex_unlock(&client->mutex);
    waker_wake(to_wake);
    if (!helps)
        return;
    release_tick(client, client_now(client));
    client_end(client);
}

void handle_close(struct hf_lock *lock)
{
    hf_client *client = lock->client;
    if (client && getpid() == client->identity.pid) {
        close_and_help(client, lock);
    } else {
        lock_unlink_locked(lock); /* a forked child is alone with its copy */
    }
    lock_free(lock);
}

void handle_abandon_all(hf_client *client)
{
    for (struct hf_lock *lock = client->hold->locks, *next; lock; lock = next) {
        next = lock->next;
        lock->client = NULL;
        lock->link = NULL;
    }
}
