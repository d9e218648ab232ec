/* SPDX-License-Identifier: Apache-2.0 */
/* attempt_outside.c: a wait for a lock whose queue is full. It takes a number, as at a counter, and
 * looks from time to time whether its number is called. Nobody tells it, and nobody needs to know
 * that it lives: the number of a waiter that is gone only leaves a place free. Called by attempt.c.
 *
 * How often it looks decides what a long line costs, and whether the queue ever runs dry while
 * others stand outside. So it looks when three quarters of the turns before it may be over, at the
 * pace that it has seen; and it never trusts that a slow line stays slow: if the quickest turns
 * that this store can do begin now, it looks before the queue can run dry. In a slow line it does
 * without a session, too, if its client needs none for something else. While nothing moves it then
 * heeds the head of the queue: the notice that the head is granted the lock is when turns begin. */
#include "client/wait/attempt_internal.h"

#include "client/hold/hold.h"
#include "client/hold/long_waits.h"

#include "core/backoff.h"
#include "core/id.h"

#define QUICK_MS 8              /* a quick turn, of processes that do next to nothing */
#define QUICK_REMOTE_MS 20      /* the same, over a network */
#define PEEKS 8                 /* in that time: turns of 1 ms have been seen */
#define PEEK_MOST_MS 2000       /* between two times that it sees whether it is called */
#define LOOK_LEAST_MS 10        /* between two looks */
#define LOOK_MOST_MS 10000      /* the same */
#define STILL_FIRST_MS 250      /* the same while nothing moves, at first */
#define LONG_WAIT 32            /* after so many times that, it need not be so exact */
#define LONG_TOLD 2             /* the same, where it sees that it is called */
#define SKIP_MS 2000            /* for so long those whose turn it is may take a free place */
#define LEAD (HF_QUEUE_MAX / 4) /* so many turns are left when the next look is due */

/* How many places must come free before its own, if the last that has one is `called`. */
static int64_t behind(const struct attempt *attempt, int64_t called)
{
    int64_t number = attempt->request.enter.number;
    return number > called ? number - called : 0;
}

static int64_t places_short(const struct attempt *attempt)
{
    return behind(attempt, record_called(&attempt->ahead.record, attempt->request.enter.queue_max));
}

static int64_t head_of(const hf_record *record)
{
    return record->queued ? record->entries[record->holders].number : record->reached;
}

/* ---- Looking ---- */

static void see(struct attempt *attempt, hf_mono now)
{
    struct outside *outside = &attempt->outside;
    const hf_record *record = &attempt->ahead.record;
    int64_t head = head_of(record), moved = outside->head ? head - outside->head : 0;
    bool has_places = record_places(record, attempt->request.enter.queue_max) > 0;
    outside->turn_ns = moved > 0 ? (now.ns - outside->seen.ns) / moved : 0;
    outside->head = head;
    outside->seen = now;
    bool was_so = outside->has_places && record->reached == outside->reached;
    if (has_places && !was_so)
        outside->free_since = now;
    outside->has_places = has_places;
    outside->reached = record->reached;
}

static int64_t quick_ms(const struct attempt *attempt)
{
    return attempt->request.client->store->is_remote ? QUICK_REMOTE_MS : QUICK_MS;
}

/* Whether it sees without a look how far the line has been called. */
static bool is_told(const struct attempt *attempt)
{
    return attempt->request.client->store->ops->called;
}

/* For so long the queue does not run dry. */
static int64_t quick_turns_ms(const struct attempt *attempt, int64_t turns)
{
    return (turns + HF_QUEUE_MAX / 2) * quick_ms(attempt);
}

/* While nothing moves. */
static int64_t still_ms(const struct attempt *attempt, hf_mono now)
{
    int64_t ms = lock_request_waited_ms(&attempt->request, now) / 8;
    ms = ms < LOOK_MOST_MS ? ms : LOOK_MOST_MS;
    return ms < STILL_FIRST_MS ? STILL_FIRST_MS : ms;
}

static int64_t look_ms(const struct attempt *attempt, hf_mono now)
{
    const struct outside *outside = &attempt->outside;
    int64_t turns = places_short(attempt);
    int64_t most_ms = quick_turns_ms(attempt, turns);
    int64_t long_ms =
        lock_request_waited_ms(&attempt->request, now) / (is_told(attempt) ? LONG_TOLD : LONG_WAIT);
    int64_t ms = still_ms(attempt, now);
    most_ms = most_ms < long_ms ? long_ms : most_ms;
    if (outside->turn_ns)
        ms = (turns / 4 * 3 > LEAD ? turns / 4 * 3 : LEAD) * outside->turn_ns / 1000000;
    ms = ms < most_ms ? ms : most_ms;
    ms = ms < LOOK_MOST_MS ? ms : LOOK_MOST_MS;
    return ms < LOOK_LEAST_MS ? LOOK_LEAST_MS : ms;
}

/* Where that costs next to nothing, it sees between two looks whether it is called. Then it looks.
 * Returns when it sees to that again. */
static hf_mono peek(struct attempt *attempt, hf_mono now)
{
    hf_store *store = attempt->request.client->store;
    if (!is_told(attempt))
        return attempt->look_due;
    int64_t turns = behind(attempt, store->ops->called(store, attempt->request.name));
    int64_t ms = quick_turns_ms(attempt, turns) / PEEKS;
    hf_mono again = mono_add_ms(now, ms < PEEK_MOST_MS ? ms : PEEK_MOST_MS);
    if (turns)
        return mono_min(attempt->look_due, again);
    attempt->look_due = mono_min(attempt->look_due, mono_add_ms(attempt->outside.seen, ms));
    return attempt->look_due;
}

/* By now: another thread may have taken a lock for the same actor since the enter. */
static bool is_nested(const struct attempt *attempt)
{
    MUTEX_SCOPE(&attempt->request.client->mutex);
    return long_waits_is_nested_locked(&attempt->request);
}

/* Its ticket is nowhere, and is not used any more. Only who holds something needs its reports. */
static void rest(struct attempt *attempt)
{
    struct lock_request *request = &attempt->request;
    hf_client *client = request->client;
    if (request->is_unanswered || is_nested(attempt) || !id_is_zero(request->lease))
        return;
    guardian_out(client, request->enter.entry.ticket);
    MUTEX_SCOPE(&client->mutex);
    waiters_remove(&request->waiter);
    request->enter.entry.ticket = (hf_id){{0}};
    life_rest_locked(client, attempt->look_due);
}

/* Those farther back look less often than turns can be told. */
static bool heeds(struct attempt *attempt)
{
    struct lock_request *request = &attempt->request;
    const hf_record *record = &attempt->ahead.record;
    bool is_still = attempt->outside.head && !attempt->outside.turn_ns;
    MUTEX_SCOPE(&request->client->mutex);
    return is_still && record->queued && places_short(attempt) <= HF_QUEUE_MAX &&
           listener_heed_locked(request, record->entries[record->holders].session);
}

/* The turns begin. */
static void heed(struct attempt *attempt, hf_mono now)
{
    MUTEX_SCOPE(&attempt->request.client->mutex);
    if (waiter_take(&attempt->request.waiter))
        attempt->look_due = mono_min(
            attempt->look_due, mono_add_ms(now, quick_turns_ms(attempt, places_short(attempt))));
}

static hf_mono come_in(struct attempt *attempt, hf_mono now)
{
    attempt->state = ATTEMPT_ENTERS;
    attempt->enter_due = now;
    MUTEX_SCOPE(&attempt->request.client->mutex);
    listener_unheed_locked(&attempt->request);
    return now;
}

static void plan_look(struct attempt *attempt, hf_mono now, int64_t ms)
{
    attempt->look_due =
        mono_add_ms(now, backoff_ms(1, ms, ms, client_chance(attempt->request.client)));
}

static hf_mono stay(struct attempt *attempt, hf_mono now)
{
    hf_client *client = attempt->request.client;
    if (id_is_zero(attempt->request.enter.entry.ticket) && is_nested(attempt))
        return come_in(attempt, now); /* for a ticket, which is reported */
    attempt->state = ATTEMPT_OUTSIDE;
    attempt->request.is_in_flight = attempt->request.is_unanswered;
    attempt->request.enter.skips = false;
    pthread_mutex_lock(&client->mutex);
    attempt->request.outside = attempt->request.enter.number;
    pthread_mutex_unlock(&client->mutex);
    plan_look(attempt, now, look_ms(attempt, now));
    rest(attempt);
    if (heeds(attempt))
        plan_look(attempt, now, still_ms(attempt, now));
    return attempt_watch_ahead(attempt, now, peek(attempt, now));
}

/* ---- Its turn ---- */

/* The record has given fewer numbers: it is another one than that which gave this number. */
static bool is_void(const struct attempt *attempt)
{
    return attempt->ahead.record.given < attempt->request.enter.number;
}

/* All who might have come in have had the time to look. The first in line skips first: those who
 * may be heeding look as rarely as that allows. */
static bool may_skip(const struct attempt *attempt, hf_mono now)
{
    int64_t turns = places_short(attempt);
    int64_t most_ms = SKIP_MS + quick_ms(attempt) * turns;
    if (turns > HF_QUEUE_MAX && !is_told(attempt))
        most_ms += LOOK_MOST_MS;
    return attempt->outside.has_places &&
           mono_reached(mono_add_ms(attempt->outside.free_since, most_ms), now);
}

/* An enter that got no answer has arrived after a later one: the next one's answer says where the
 * ticket stands. */
static bool has_arrived(const struct attempt *attempt)
{
    return record_find(&attempt->ahead.record, attempt->request.enter.entry.ticket);
}

static hf_mono look_outside(struct attempt *attempt, hf_mono now)
{
    hf_enter *enter = &attempt->request.enter;
    see(attempt, now);
    if (has_arrived(attempt))
        return come_in(attempt, now);
    if (is_void(attempt)) {
        enter->number = 0;
        return come_in(attempt, now);
    }
    bool has_place = record_has_place(&attempt->ahead.record, enter);
    enter->skips = !has_place && may_skip(attempt, now);
    enter->reached = attempt->ahead.record.reached;
    return has_place || enter->skips ? come_in(attempt, now) : stay(attempt, now);
}

static hf_mono look_if_due(struct attempt *attempt, hf_mono now)
{
    hf_mono due = peek(attempt, now);
    bool is_due = mono_reached(attempt->look_due, now);
    if (!is_due && attempt->ahead.record.queued) /* it watches those there when it looks */
        return mono_min(due, attempt->deadline);
    if (!is_due)
        return attempt_watch_ahead(attempt, now, due);
    hf_code code = attempt_look(attempt, (hf_stamp){0});
    now = client_now(attempt->request.client);
    if (code)
        return attempt_failed(attempt, code, now);
    attempt_succeeded(attempt);
    attempt_tell_joined(attempt->request.client, &attempt->ahead.record);
    return look_outside(attempt, now);
}

hf_mono attempt_outside(struct attempt *attempt, hf_mono now)
{
    hf_mono deadlock_due;
    heed(attempt, now);
    if (deadlock_tick(&attempt->request, &attempt->deadlock, now, &deadlock_due, &attempt->err))
        return attempt_give_up(attempt, HF_DEADLOCK, client_now(attempt->request.client));
    return mono_min(look_if_due(attempt, now), deadlock_due);
}

/* The answer to an enter was BUSY. If that enter wanted a number, the record's last is its own.
 * Over a network, the first enter does not want one: it may travel with others, which is cheaper,
 * but does not learn its number. */
hf_mono attempt_keep_out(struct attempt *attempt, hf_mono now)
{
    hf_enter *enter = &attempt->request.enter;
    if (!enter->number && !enter->wants_number) {
        enter->wants_number = true;
        return come_in(attempt, now);
    }
    if (enter->wants_number)
        enter->number = attempt->ahead.record.given;
    enter->wants_number = false;
    return look_outside(attempt, now);
}
