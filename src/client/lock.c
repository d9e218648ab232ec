/* SPDX-License-Identifier: Apache-2.0 */
/* lock.c: the handle of a lock: what the holder may believe, how it hears of a loss, how it
 * releases; called by the program, and by the watch and notify threads. */
#include "client/client.h"

#include "core/alloc.h"
#include "core/error.h"
#include "core/id.h"
#include "core/period.h"

#include <sys/eventfd.h>
#include <unistd.h>

/* So long a closed lock's release waits for an acquire of the same name that takes it along: a
 * thread that works turn by turn then sends one request a turn, not two. Much shorter than a write,
 * and longer than it takes to come back. */
#define COME_BACK_NS 100000

/* ---- Birth and loss ---------------------------------------------------------------------------
 */

static void link_locked(hf_client *client, struct hf_lock *lock)
{
    lock->next = client->locks;
    lock->link = &client->locks;
    if (lock->next)
        lock->next->link = &lock->next;
    client->locks = lock;
}

static void unlink_locked(struct hf_lock *lock)
{
    if (!lock->link)
        return;
    *lock->link = lock->next;
    if (lock->next)
        lock->next->link = lock->link;
    lock->link = NULL;
}

static bool shows_grant(const hf_record *record, hf_id ticket)
{
    const hf_entry *entry = record_find(record, ticket);
    return entry && record_position(record, entry) == 0;
}

struct hf_lock *lock_new_locked(hf_client *client, const char *name, const hf_entry *entry,
                                const hf_record *record, int64_t period_ms)
{
    struct hf_lock *lock = alloc_zeroed(sizeof *lock);
    lock->client = client;
    lock->name = alloc_text(name);
    lock->ticket = entry->ticket;
    lock->session = entry->session;
    lock->token = entry->token;
    lock->previous = record->last;
    lock->knows_previous = shows_grant(record, entry->ticket);
    lock->period = period_at(entry->granted_at, period_ms);
    lock->document = record->document ? alloc_text(record->document) : NULL;
    lock->lease_end = lock->dog.feed_by = lock->dog.hold_until = MONO_NEVER;
    lock->lost_fd = -1;
    link_locked(client, lock);
    return lock;
}

static bool stands_for(const struct hf_lock *lock, hf_id ticket)
{
    return lock->state != LOCK_RELEASED && !id_is_zero(ticket) &&
           (id_equal(lock->ticket, ticket) || id_equal(lock->upgrade, ticket));
}

struct hf_lock *lock_find_locked(hf_client *client, hf_id ticket)
{
    for (struct hf_lock *lock = client->locks; lock; lock = lock->next)
        if (stands_for(lock, ticket))
            return lock;
    return NULL;
}

struct hf_lock *lock_find_asked_locked(hf_client *client, hf_id ticket)
{
    for (struct hf_lock *lock = client->locks; lock; lock = lock->next)
        if (lock->state != LOCK_RELEASED && id_equal(lock->former, ticket))
            return lock;
    return lock_find_locked(client, ticket);
}

static void raise_fd(struct hf_lock *lock)
{
    uint64_t one = 1;
    if (lock->lost_fd >= 0 && write(lock->lost_fd, &one, sizeof one) < 0)
        return; /* it is readable already */
}

static void lose_locked(struct hf_lock *lock, const hf_error *why, hf_mono stop_by)
{
    lock->state = LOCK_LOST;
    lock->lost = *why;
    lock->stop_by = lock->lingers ? lock->born : stop_by;
    turns_left_locked(lock);
    raise_fd(lock);
    if (lock->on_lost)
        ticker_poke(lock->client, TICK_NOTIFY);
    ticker_poke(lock->client, TICK_UPKEEP);
}

/* Nothing ties it to those that it was taken together with any more. */
static void untie_locked(struct hf_lock *lock)
{
    struct hf_lock *before = lock->peer;
    if (!before)
        return;
    while (before->peer != lock)
        before = before->peer;
    before->peer = before == lock->peer ? NULL : lock->peer;
    lock->peer = NULL;
}

/* What was taken together is lost together, and one notice is enough. */
static void lose_peers_locked(const struct hf_lock *lock, hf_mono stop_by)
{
    hf_error why;
    for (struct hf_lock *peer = lock->peer; peer && peer != lock; peer = peer->peer) {
        error_set(&why, HF_LOST, "%.128s goes with %.128s, with which it was taken: %.220s",
                  peer->name, lock->name, lock->lost.text);
        peer->is_told = true;
        if (peer->state == LOCK_HELD)
            lose_locked(peer, &why, stop_by);
    }
}

void lock_lose_locked(struct hf_lock *lock, const hf_error *why, hf_mono stop_by)
{
    if (lock->state != LOCK_HELD)
        return;
    lose_locked(lock, why, stop_by);
    lose_peers_locked(lock, stop_by);
}

/* ---- The lost notice ----------------------------------------------------------------------------
 */

static struct hf_lock *next_to_tell_locked(hf_client *client)
{
    for (struct hf_lock *lock = client->locks; lock; lock = lock->next)
        if (lock->state == LOCK_LOST && lock->on_lost && !lock->is_told)
            return lock;
    return NULL;
}

static int64_t time_left(const struct hf_lock *lock, hf_mono now)
{
    int64_t left = mono_ms_until(lock->stop_by, now);
    return left > 0 ? left : 0;
}

hf_mono lock_notify_tick(hf_client *client, hf_mono now)
{
    pthread_mutex_lock(&client->mutex);
    struct hf_lock *lock;
    while ((lock = next_to_tell_locked(client))) {
        hf_error why = lock->lost;
        int64_t left_ms = time_left(lock, now);
        lock->is_told = true;
        client->calling = lock;
        pthread_mutex_unlock(&client->mutex);
        lock->on_lost(lock->lost_ctx, lock, &why, left_ms);
        now = client_now(client);
        pthread_mutex_lock(&client->mutex);
        client->calling = NULL;
        pthread_cond_broadcast(&client->changed);
    }
    pthread_mutex_unlock(&client->mutex);
    return MONO_NEVER;
}

/* A callback that runs must have ended before its lock goes, unless it is the callback that asks.
 */
static void await_callback_locked(struct hf_lock *lock)
{
    hf_client *client = lock->client;
    bool in_callback = client->tickers[TICK_NOTIFY].is_started &&
                       pthread_equal(pthread_self(), client->tickers[TICK_NOTIFY].thread);
    while (client->calling == lock && !in_callback)
        pthread_cond_wait(&client->changed, &client->mutex);
}

/* ---- A lease of its own, and a dog -------------------------------------------------------------
 */

static hf_mono notice_of(const struct hf_lock *lock)
{
    if (lock->lease_end.ns == MONO_NEVER.ns)
        return MONO_NEVER;
    return (hf_mono){lock->lease_end.ns - lock->client->notice_ms * 1000000};
}

/* Whether its own lease, if it has one, still runs; it is lost when not. */
static bool is_leased_locked(struct hf_lock *lock, hf_mono now)
{
    hf_error why;
    if (!mono_reached(notice_of(lock), now))
        return true;
    error_set(&why, HF_LOST, "%.128s: its lease of %lld ms %s: %s", lock->name,
              (long long)lock->client->ttl_ms,
              mono_reached(lock->lease_end, now) ? "has run out" : "is about to run out",
              lock->is_by_hand ? "it was not refreshed in time"
                               : "taking it took long, and no beat has renewed it since");
    lock_lose_locked(lock, &why, lock->lease_end);
    return false;
}

/* Its worker has the time of the notice to stop in. The session lives, so its lease is longer. */
static bool is_fed_locked(struct hf_lock *lock, hf_mono now)
{
    hf_error why;
    char reason[HF_TEXT_MAX + 1];
    if (!mono_reached(dog_due(&lock->dog), now))
        return true;
    dog_reason(&lock->dog, reason);
    error_set(&why, HF_LOST, "%.128s: %s", lock->name, reason);
    lock->dog.has_bitten = true;
    lock_lose_locked(lock, &why, mono_add_ms(now, lock->client->notice_ms));
    return false;
}

hf_mono lock_due(const struct hf_lock *lock)
{
    return mono_min(notice_of(lock), dog_due(&lock->dog));
}

hf_mono lock_watch_locked(hf_client *client, hf_mono now)
{
    hf_mono due = MONO_NEVER;
    for (struct hf_lock *lock = client->locks; lock; lock = lock->next)
        if (lock->state == LOCK_HELD && is_leased_locked(lock, now) && is_fed_locked(lock, now))
            due = mono_min(due, lock_due(lock));
    return due;
}

/* From the first beat on that knew of it, a lock lives as long as its session. */
void lock_renewed_locked(hf_client *client, hf_mono sent)
{
    for (struct hf_lock *lock = client->locks; lock; lock = lock->next)
        if (lock->state == LOCK_HELD && !lock->is_by_hand && mono_reached(lock->born, sent) &&
            is_leased_locked(lock, client_now(client)))
            lock->lease_end = MONO_NEVER;
}

/* ---- What the holder asks
 * ------------------------------------------------------------------------- */

static hf_code lost_error(const struct hf_lock *lock, hf_error *err)
{
    if (err)
        *err = lock->lost;
    return HF_LOST;
}

/* The dog's time is that of the notice. */
static hf_mono lease_end_locked(const struct hf_lock *lock)
{
    hf_mono bitten = mono_add_ms(dog_due(&lock->dog), lock->client->notice_ms);
    return mono_min(mono_min(lock->client->session.lease_end, lock->lease_end), bitten);
}

hf_code lock_check_locked(struct hf_lock *lock, int64_t *left_ms, hf_mono now, hf_error *err)
{
    hf_client *client = lock->client;
    if (lock->state == LOCK_RELEASED)
        return error_set(err, HF_LOST, "%.128s was released", lock->name);
    if (lock->state == LOCK_HELD && session_is_believed_locked(client, lock->session, now) &&
        is_leased_locked(lock, now) && is_fed_locked(lock, now)) {
        *left_ms = mono_ms_until(lease_end_locked(lock), now);
        return HF_OK;
    }
    *left_ms = time_left(lock, now);
    return lost_error(lock, err);
}

hf_code hf_lock_check(hf_lock *lock, int64_t *left_ms, hf_error *err)
{
    int64_t left = 0;
    hf_code code = client_usable(lock->client, err);
    if (code == HF_OK) {
        pthread_mutex_lock(&lock->client->mutex);
        code = lock_check_locked(lock, &left, client_now(lock->client), err);
        pthread_mutex_unlock(&lock->client->mutex);
    }
    if (left_ms)
        *left_ms = left;
    return code;
}

int hf_lock_fd(hf_lock *lock)
{
    if (client_usable(lock->client, NULL))
        return lock->lost_fd;
    pthread_mutex_lock(&lock->client->mutex);
    if (lock->lost_fd < 0) {
        lock->lost_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (lock->state == LOCK_LOST)
            raise_fd(lock);
    }
    pthread_mutex_unlock(&lock->client->mutex);
    return lock->lost_fd;
}

int64_t hf_lock_token(const hf_lock *lock)
{
    return lock->token;
}

const char *hf_lock_name(const hf_lock *lock)
{
    return lock->name;
}

int64_t hf_lock_waited_ms(const hf_lock *lock)
{
    return lock->waited_ms;
}

/* A lost lock may be on its way out in the background. */
void hf_lock_set_exit_status(hf_lock *lock, int exit_status)
{
    if (client_usable(lock->client, NULL))
        return;
    pthread_mutex_lock(&lock->client->mutex);
    lock->has_exit_status = true;
    lock->exit_status = exit_status;
    pthread_mutex_unlock(&lock->client->mutex);
}

/* ---- Release
 * ---------------------------------------------------------------------------------------- */

/* Once per period: that the holder says what its work came to is what says that it was done. Who
 * has not done it gives the lock back. */
static bool gives_back(const struct hf_lock *lock)
{
    bool is_skipped = period_is_any(lock->period) && !lock->has_exit_status;
    return (is_skipped || lock->is_returned) && lock->state != LOCK_LOST;
}

hf_leave lock_leave(const struct hf_lock *lock)
{
    hf_leave leave = {.ticket = lock->ticket,
                      .outcome = HF_OUTCOME_RELEASED,
                      .told = !gives_back(lock),
                      .has_exit_status = lock->has_exit_status,
                      .exit_status = lock->exit_status};
    if (lock->has_exit_status && lock->state != LOCK_LOST)
        leave.period = lock->period;
    if (lock->has_block)
        leave.used_token = lock->token;
    if (lock->dog.has_bitten)
        dog_reason(&lock->dog, leave.reason);
    client_who(lock->client, leave.who);
    return leave;
}

void lock_mark(const struct hf_lock *lock, hf_last_mark *out, hf_wall at)
{
    *out = (hf_last_mark){.outcome = HF_OUTCOME_RELEASED,
                          .session = lock->session,
                          .token = lock->token,
                          .has_exit_status = lock->has_exit_status,
                          .exit_status = lock->exit_status,
                          .at = {at.ms}};
    client_who(lock->client, out->who);
}

struct release *lock_push_leave_locked(struct hf_lock *lock, const hf_leave *leave, bool is_held)
{
    struct release *release = release_push_locked(lock->client, lock->name, leave, is_held);
    release->upgrade = lock->upgrade;
    return release;
}

/* Belief ends here, before the leave is sent (R4). */
struct release *lock_start_release_locked(struct hf_lock *lock)
{
    hf_leave leave = lock_leave(lock);
    lock->state = LOCK_RELEASED;
    turns_left_locked(lock);
    return lock_push_leave_locked(lock, &leave, true);
}

void lock_went_over(struct hf_lock *lock)
{
    pthread_mutex_lock(&lock->client->mutex);
    if (lock->state == LOCK_HELD) {
        untie_locked(lock);
        turns_left_locked(lock);
    }
    lock->state = LOCK_RELEASED;
    pthread_mutex_unlock(&lock->client->mutex);
}

void lock_return(struct hf_lock *lock)
{
    pthread_mutex_lock(&lock->client->mutex);
    lock->is_returned = true;
    pthread_mutex_unlock(&lock->client->mutex);
}

hf_code hf_lock_release(hf_lock *lock, hf_error *err)
{
    hf_client *client = lock->client;
    hf_code code = client_usable(client, err);
    if (code)
        return code;
    pthread_mutex_lock(&client->mutex);
    hf_mono now = client_now(client);
    int64_t left;
    bool was_released = lock->state == LOCK_RELEASED;
    if (was_released && release_is_pending_locked(client, lock->ticket))
        code = error_set(err, HF_UNKNOWN,
                         "%.128s: the release is not acknowledged yet; it is tried "
                         "in the background",
                         lock->name);
    struct release *release = NULL;
    struct waker *to_wake = NULL;
    bool ends = !was_released && !(code = lock_check_locked(lock, &left, now, err));
    if (ends)
        untie_locked(lock);
    if (ends && !turns_pass_locked(lock, now, &to_wake)) {
        release = lock_start_release_locked(lock);
        release->in_flight = true;
    }
    pthread_mutex_unlock(&client->mutex);
    waker_wake(to_wake);
    if (!release)
        return code;
    return release_send(client, release, mono_add_ms(now, client->patience_ms), err);
}

/* Nobody can believe in it any more, so nothing is gained by waiting for hf_lock_close(). */
hf_mono lock_leave_lost_locked(hf_client *client, hf_mono now)
{
    hf_mono due = MONO_NEVER;
    for (struct hf_lock *lock = client->locks; lock; lock = lock->next) {
        if (lock->state != LOCK_LOST || lock->is_left ||
            !session_is_present_locked(client, lock->session))
            continue;
        if (!mono_reached(lock->stop_by, now)) {
            due = mono_min(due, lock->stop_by);
            continue;
        }
        hf_leave leave = lock_leave(lock);
        if (!lock->lingers) /* nobody was at work */
            leave.outcome = HF_OUTCOME_ABANDONED;
        lock_push_leave_locked(lock, &leave, false);
        lock->is_left = true;
    }
    return due;
}

hf_mono lock_stops_by_locked(hf_client *client, hf_mono now)
{
    hf_mono latest = now;
    for (const struct hf_lock *lock = client->locks; lock; lock = lock->next)
        if (lock->state == LOCK_LOST && lock->stop_by.ns > latest.ns)
            latest = lock->stop_by;
    return latest;
}

static void free_lock(struct hf_lock *lock)
{
    if (lock->lost_fd >= 0)
        close(lock->lost_fd);
    free(lock->document);
    free(lock->name);
    free(lock);
}

void lock_discard_locked(struct hf_lock *lock)
{
    unlink_locked(lock);
    free_lock(lock);
}

/* Whether another thread of this client has it now, or it lingers. */
static bool passes_locked(struct hf_lock *lock, struct waker **to_wake)
{
    hf_mono now = client_now(lock->client);
    int64_t left_ms;
    return lock->state == LOCK_HELD && !lock->is_returned &&
           !lock_check_locked(lock, &left_ms, now, NULL) && turns_pass_locked(lock, now, to_wake);
}

/* A lost lock's ticket is taken out too, if its session still lives: it may have been asked for. */
static void close_locked(struct hf_lock *lock, struct waker **to_wake)
{
    hf_client *client = lock->client;
    await_callback_locked(lock);
    if (client->calling == lock)
        client->calling = NULL;
    untie_locked(lock);
    if (passes_locked(lock, to_wake)) {
        unlink_locked(lock);
        return;
    }
    if (lock->state != LOCK_RELEASED && !lock->is_left &&
        session_is_present_locked(client, lock->session)) {
        bool was_lost = lock->state == LOCK_LOST;
        struct release *release = lock_start_release_locked(lock);
        if (was_lost)
            release->leave.outcome = HF_OUTCOME_ABANDONED;
        release->is_held = false;
        release->due.ns = client_now(client).ns + COME_BACK_NS;
        ticker_poke_later_locked(client, TICK_UPKEEP, COME_BACK_NS);
    }
    unlink_locked(lock);
}

void hf_lock_close(hf_lock *lock)
{
    if (!lock)
        return;
    hf_client *client = lock->client;
    if (client && getpid() == client->owner) {
        struct waker *to_wake = NULL;
        pthread_mutex_lock(&client->mutex);
        close_locked(lock, &to_wake);
        pthread_mutex_unlock(&client->mutex);
        waker_wake(to_wake);
    } else {
        unlink_locked(lock); /* a forked child is alone with its copy */
    }
    free_lock(lock);
}
