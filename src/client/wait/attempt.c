/* SPDX-License-Identifier: Apache-2.0 */
/* attempt.c: one acquire, as steps that are told the time: its beginning, and its waits in the
 * queue or outside. attempt_enter.c enters and believes; attempt_end.c gives up. Called in a loop
 * by acquire.c, lease_wait.c, or a simulator. */
#include "client/wait/attempt_internal.h"

#include "client/hold/hold.h"

#include "core/alloc.h"
#include "core/error.h"
#include "core/id.h"

#include <stdio.h>
#include <unistd.h>

/* ---- Making one ---- */

void attempt_init(struct attempt *attempt, hf_client *client, const char *name,
                  const hf_lock_options *options)
{
    *attempt = (struct attempt){.request = {.client = client,
                                            .name = name,
                                            .options = options,
                                            .thread = client_thread(),
                                            .inherited = &client->inherited}};
    hf_entry *entry = &attempt->request.enter.entry;
    lock_request_set_permits(&attempt->request.enter, options);
    entry->ttl_ms = (int32_t)client->ttl_ms;
    snprintf(entry->why, sizeof entry->why, "%s", options->why ? options->why : "");
    snprintf(entry->actor, sizeof entry->actor, "%s", options->actor ? options->actor : "");
    attempt->request.enter.queue_max = client->queue_max;
    attempt->request.enter.by_hand = options->no_refresh;
    client_lock_session(client, options->lock_session, &attempt->request.enter.lock_session, NULL);
    attempt->request.enter.try_only = options->wait_ms < 0;
    attempt->request.enter.wants_number = !client->store->is_remote && options->wait_ms >= 0;
    attempt->request.started = attempt->asked = attempt->enter_due = client_now(client);
    int64_t wait_ms = options->wait_ms ? options->wait_ms : client->store->wait_ms;
    attempt->deadline = wait_ms > 0 ? mono_add_ms(attempt->request.started, wait_ms) : MONO_NEVER;
    attempt->deadlock.due = mono_add_ms(attempt->request.started, client->deadlock_ms);
    record_init(&attempt->ahead.record, name);
    lock_request_begin(&attempt->request);
}

void attempt_init_claim(struct attempt *attempt, hf_client *client, const hf_claim *claim,
                        const hf_lock_options *options)
{
    attempt_init(attempt, client, "", options);
    attempt->request.claim = claim;
}

void attempt_make_lease(struct attempt *attempt, hf_id ticket, const hf_session *session,
                        bool is_common)
{
    attempt->request.lease = ticket;
    attempt->request.is_common = is_common;
    attempt->request.enter.lease = session;
    attempt->request.enter.entry.ttl_ms = session->ttl_ms;
}

void attempt_done(struct attempt *attempt)
{
    hf_client *client = attempt->request.client;
    pthread_mutex_lock(&client->mutex);
    client->hold->joining -= !id_is_zero(attempt->request.joins);
    line_quit_locked(&attempt->request);
    listener_unheed_locked(&attempt->request);
    lock_request_end_locked(&attempt->request);
    pthread_mutex_unlock(&client->mutex);
    ahead_done(&attempt->ahead);
    deadlock_done(&attempt->deadlock);
}

static hf_mono joined(struct attempt *attempt, hf_mono now)
{
    error_set(&attempt->err, HF_HELD, "%.128s: another call has made its lease",
              attempt->request.name);
    return attempt_give_up(attempt, HF_HELD, now);
}

/* ---- Waiting ---- */

/* The ticket's session is no longer alive: the wait begins anew with the next session (L3). */
static bool is_orphaned(struct attempt *attempt)
{
    hf_client *client = attempt->request.client;
    MUTEX_SCOPE(&client->mutex);
    return !session_is_present_locked(client, attempt->request.enter.entry.session);
}

static hf_mono vanished(struct attempt *attempt, hf_mono now)
{
    hf_client *client = attempt->request.client;
    pthread_mutex_lock(&client->mutex);
    session_ask *asked = session_find_ask_locked(client, attempt->request.enter.entry.ticket);
    hf_ask ask = asked ? asked->ask : (hf_ask){.by = ""};
    pthread_mutex_unlock(&client->mutex);
    return asked ? attempt_refuse_asked(attempt, &ask, now) : attempt_start_anew(attempt, now);
}

static hf_mono look_and_see(struct attempt *attempt, hf_stamp after)
{
    hf_code code = attempt_look(attempt, after);
    hf_mono now = client_now(attempt->request.client);
    if (code)
        return attempt_failed(attempt, code, now);
    attempt_succeeded(attempt);
    attempt_tell_joined(attempt->request.client, &attempt->ahead.record);
    pthread_mutex_lock(&attempt->request.client->mutex);
    attempt->look_due = attempt_after_look(attempt, now);
    pthread_mutex_unlock(&attempt->request.client->mutex);
    const hf_entry *entry =
        record_find(&attempt->ahead.record, attempt->request.enter.entry.ticket);
    if (!entry)
        return vanished(attempt, now);
    return record_position(&attempt->ahead.record, entry) ? now
                                                          : attempt_believe(attempt, entry, now);
}

static hf_mono wait_in_queue(struct attempt *attempt, hf_mono now)
{
    hf_client *client = attempt->request.client;
    if (is_orphaned(attempt))
        return attempt_start_over(attempt, now);
    pthread_mutex_lock(&client->mutex);
    bool told = waiter_take(&attempt->request.waiter);
    hf_stamp stamp = attempt->request.waiter.stamp;
    hf_entry granted = attempt->request.enter.entry;
    granted.token = attempt->request.waiter.token;
    granted.block = attempt->request.waiter.block;
    pthread_mutex_unlock(&client->mutex);
    attempt->is_rung = granted.token && !attempt->request.options->period_ms;
    if (attempt->is_rung)
        return attempt_believe(attempt, &granted, now);
    if (told || mono_reached(attempt->look_due, now)) {
        hf_mono due = look_and_see(attempt, stamp);
        if (attempt->state != ATTEMPT_WAITS || attempt->trouble.failures)
            return due;
    }
    hf_mono deadlock_due;
    if (deadlock_tick(&attempt->request, &attempt->deadlock, now, &deadlock_due, &attempt->err))
        return attempt_give_up(attempt, HF_DEADLOCK, client_now(client));
    return attempt_watch_ahead(attempt, client_now(client),
                               mono_min(attempt->look_due, deadlock_due));
}

/* Whether the lock may be free, so that coming back early is worth it. A claim is told of every
 * change, and tells by asking. */
static bool is_called(struct attempt *attempt, hf_mono now)
{
    MUTEX_SCOPE(&attempt->request.client->mutex);
    if (attempt_has_queue(attempt) || !waiter_take(&attempt->request.waiter))
        return false;
    if (mono_reached(attempt->called_from, now))
        return true;
    attempt->enter_due = mono_min(attempt->enter_due, attempt->called_from);
    return false;
}

static hf_mono wait_to_enter(struct attempt *attempt, hf_mono now)
{
    if (mono_reached(attempt->enter_due, now) || is_called(attempt, now)) {
        attempt->state = ATTEMPT_ENTERS;
        return attempt_enter(attempt, now);
    }
    if (attempt->state == ATTEMPT_BUSY)
        return mono_min(attempt->enter_due, attempt->deadline);
    hf_mono due = attempt_watch_ahead(attempt, now, attempt->enter_due);
    if (judge_saw_life(&attempt->ahead.judge))
        return attempt_refuse_limit(attempt, now);
    return due;
}

/* ---- In line ---- */

static hf_mono go_on(struct attempt *attempt, line_news news, hf_mono now)
{
    if (news == NEWS_LOCK)
        return attempt_end(attempt, HF_OK);
    attempt->state = news == NEWS_TICKET ? ATTEMPT_WAITS : ATTEMPT_ENTERS;
    attempt->look_due = attempt->enter_due = now;
    return now;
}

/* ---- One step ---- */

/* Without a queue nobody hands the lock over: one more try finds a lock that was freed since the
 * last. */
static hf_mono try_once_more(struct attempt *attempt, hf_mono now)
{
    attempt->is_last = true;
    return attempt_enter(attempt, now);
}

/* The watch ends with the wait, and a request that comes after it would begin its own. So at its
 * end a wait looks once at the sessions in its way, as a try does (R6): requests that all wait for
 * less than a ttl take over from the dead too. */
static hf_mono look_once_more(struct attempt *attempt, hf_mono now)
{
    judging result;
    hf_client *client = attempt->request.client;
    attempt->is_last = true;
    pthread_mutex_lock(&client->mutex);
    attempt->request.waiter.judges_now = true;
    pthread_mutex_unlock(&client->mutex);
    hf_code code =
        judging_tick(&attempt->request, &attempt->ahead, now, true, &result, &attempt->err);
    if (error_is_no_answer(code))
        attempt->trouble.failures++;
    if (!code && result == JUDGING_CHANGED)
        return look_and_see(attempt, (hf_stamp){0});
    return attempt_describe_held(attempt, HF_TIMEOUT, client_now(client));
}

static hf_mono time_out(struct attempt *attempt, hf_mono now)
{
    if (attempt->trouble.failures)
        return attempt_give_up(attempt, attempt->err.code, now);
    if (!attempt_has_queue(attempt) && attempt->state == ATTEMPT_BUSY && !attempt->is_last)
        return try_once_more(attempt, now);
    if (attempt->state == ATTEMPT_WAITS && !attempt->is_last)
        return look_once_more(attempt, now);
    if (attempt->state == ATTEMPT_REFUSED)
        return attempt_refuse_limit(attempt, now);
    return attempt_describe_held(attempt, HF_TIMEOUT, now);
}

hf_mono attempt_cancel(struct attempt *attempt, hf_mono now)
{
    return attempt_stopped(attempt, HF_CANCELLED, now);
}

static hf_mono step(struct attempt *attempt, hf_mono now)
{
    hf_client *client = attempt->request.client;
    pthread_mutex_lock(&client->mutex);
    bool closing = client->closing.has_begun;
    attempt->request.is_woken = false;
    line_news news = turns_hear_locked(&attempt->request);
    bool has_joined = attempt->request.has_joined && news != NEWS_LOCK;
    pthread_mutex_unlock(&client->mutex);
    if (has_joined)
        return joined(attempt, now);
    if (news)
        return go_on(attempt, news, now);
    if (closing)
        return attempt_stopped(attempt, HF_CLOSED, now);
    if (cancel_is_fired(attempt->request.options->cancel))
        return attempt_cancel(attempt, now);
    if (mono_reached(attempt->deadline, now))
        return time_out(attempt, now);
    switch (attempt->state) {
    case ATTEMPT_ENTERS:
        if (mono_reached(attempt->enter_due, now))
            return attempt_enter(attempt, now);
        return mono_min(attempt->enter_due, attempt->deadline);
    case ATTEMPT_WAITS:
        return wait_in_queue(attempt, now);
    case ATTEMPT_IN_LINE:
        return attempt->deadline;
    case ATTEMPT_OUTSIDE:
        return attempt_outside(attempt, now);
    case ATTEMPT_BUSY:
    case ATTEMPT_REFUSED:
        return wait_to_enter(attempt, now);
    case ATTEMPT_ENDED:
        break;
    }
    return MONO_NEVER;
}

hf_mono attempt_step(struct attempt *attempt, hf_mono now)
{
    attempt->stepped = now;
    BOUND_SCOPE(attempt->request.client->store, attempt_calls_end(attempt, now),
                attempt->request.options->cancel);
    return step(attempt, now);
}

/* Nothing is known about a request in line but its place. */
static void info_in_line(const struct attempt *attempt, hf_wait_info *info)
{
    pthread_mutex_lock(&attempt->request.client->mutex);
    size_t position = line_position(&attempt->request);
    pthread_mutex_unlock(&attempt->request.client->mutex);
    info->position = info->queued = position;
    info->n_holders = 1;
    info->holder = judging_holder(&attempt->request, &attempt->ahead);
}

/* As many wait before it as numbers were given before, less those that are gone. */
static size_t place_outside(const struct attempt *attempt)
{
    const hf_record *record = &attempt->ahead.record;
    int64_t number = attempt->request.enter.number;
    return number > record->reached ? record->queued + (size_t)(number - record->reached) : 0;
}

static void info_of_record(const struct attempt *attempt, hf_wait_info *info)
{
    const hf_record *record = &attempt->ahead.record;
    const hf_entry *own = record_find(record, attempt->request.enter.entry.ticket);
    const hf_entry *holder = record->holders ? &record->entries[0] : NULL;
    info->position = own ? record_position(record, own) : place_outside(attempt);
    info->queued = record->queued + (size_t)(record->given - record->reached);
    info->n_holders = record->holders;
    if (!holder)
        return;
    info->holder = judging_holder(&attempt->request, &attempt->ahead);
    info->why = holder->why;
    info->held_since_ms = holder->granted_at.ms;
}

void attempt_info(const struct attempt *attempt, hf_wait_info *info, hf_mono now)
{
    *info = (hf_wait_info){
        .name = client_shown_name(attempt->request.client, lock_request_title(&attempt->request)),
        .waited_ms = lock_request_waited_ms(&attempt->request, now),
        .holder = "",
        .why = "",
        .trouble = attempt->trouble.failures ? attempt->err.text : ""};
    if (attempt->state == ATTEMPT_IN_LINE)
        info_in_line(attempt, info);
    else
        info_of_record(attempt, info);
}
