/* SPDX-License-Identifier: Apache-2.0 */
/* attempt_enter.c: enters, judges the answer, and believes a grant; called by attempt.c. */
#include "client/wait/attempt_internal.h"

#include "client/hold/hold.h"
#include "client/hold/long_waits.h"

#include "core/backoff.h"
#include "core/error.h"
#include "core/id.h"

#include <stdio.h>
#include <string.h>

/* L2: a lost notice costs this much; after a long wait, or on one host, where none is lost, up to
 * the other. */
#define LOOK_MS 3000
#define LOOK_MOST_MS 10000
#define LOOK_JOINING_MS 1000
#define POLL_FIRST_MS 10 /* where there are no notices */
#define POLL_MOST_MS 500
#define REFUSED_MS 500 /* until a refused limit is tried again */
#define CLEARS_MOST 3
#define CLAIM_REST_MS 50 /* between two tries of a claim, however many notices come */
#define BEAT_MS 100      /* until a grant is looked at again that waits for a beat */
#define NOTICED_MS 500   /* without a queue: the time to the next try if no notice comes */

/* ---- Belief ---- */

static void make_lock_locked(struct attempt *attempt, const hf_entry *entry, hf_mono now)
{
    struct lock_request *request = &attempt->request;
    const hf_record *record = &attempt->ahead.record;
    hf_client *client = request->client;
    struct hf_lock *lock = request->lock = lock_new_locked(request, entry, record, now);
    if (attempt->is_rung && client->store->is_remote)
        verify_rung_locked(lock, now);
    else
        verify_granted_locked(lock, now);
    belief_begin_locked(lock, request, now);
    loss_tell_locked(lock, request->options->on_lost, request->options->lost_ctx);
    turns_granted_locked(request, lock, entry, record);
    if (attempt->state == ATTEMPT_WAITS)
        wait_estimate_learn(&client->wait_estimate, request->name, &request->waiter, now);
    waiters_remove(&request->waiter);
    if (client->store->can & HF_CAN_TELL_LOST &&
        !listener_want_locked(client, request->waiter.stamp))
        verify_now_locked(client, lock->name);
}

/* The lease is nearly over, as after a long outage: a beat comes first. */
static hf_mono await_beat(struct attempt *attempt, hf_mono now)
{
    attempt->state = ATTEMPT_WAITS;
    attempt->look_due = mono_add_ms(now, BEAT_MS);
    return attempt->look_due;
}

/* An acknowledged answer, a look, or a notice with its token says that it was granted. Believes
 * that only if the lease still runs (R4). */
hf_mono attempt_believe(struct attempt *attempt, const hf_entry *entry, hf_mono now)
{
    hf_client *client = attempt->request.client;
    pthread_mutex_lock(&client->mutex);
    bool alive = belief_in_session_locked(client, entry->session, now);
    session_ask *asked = alive ? session_find_ask_locked(client, entry->ticket) : NULL;
    hf_ask ask = asked ? asked->ask : (hf_ask){.by = ""};
    bool closing = client->closing.has_begun;
    bool is_late = alive && !belief_has_time_locked(client, now);
    if (alive && !asked && !closing && !is_late)
        make_lock_locked(attempt, entry, now);
    pthread_mutex_unlock(&client->mutex);
    if (closing)
        return attempt_stopped(attempt, HF_CLOSED, now);
    if (asked)
        return attempt_refuse_asked(attempt, &ask, now);
    if (is_late)
        return await_beat(attempt, now);
    return alive ? attempt_end(attempt, HF_OK) : attempt_start_over(attempt, now);
}

/* ---- Entering ---- */

static hf_mono enter_again(struct attempt *attempt, hf_mono now)
{
    pthread_mutex_lock(&attempt->request.client->mutex);
    waiters_remove(&attempt->request.waiter);
    pthread_mutex_unlock(&attempt->request.client->mutex);
    attempt->state = ATTEMPT_ENTERS;
    attempt->enter_due = now;
    return now;
}

/* The old ticket is gone. */
hf_mono attempt_start_anew(struct attempt *attempt, hf_mono now)
{
    guardian_out(attempt->request.client, attempt->request.enter.entry.ticket);
    attempt->request.enter.entry.ticket = (hf_id){{0}};
    attempt->request.is_in_flight = attempt->request.is_unanswered = false;
    return enter_again(attempt, now);
}

/* The session is gone. As after an enter without an answer, the next one takes the old ticket out.
 */
hf_mono attempt_start_over(struct attempt *attempt, hf_mono now)
{
    attempt->request.is_unanswered = true;
    return enter_again(attempt, now);
}

/* The ticket may stand in the record, or may still arrive there: the background takes it out. If a
 * claim got no answer, its document is not known. The next claim uses a new ticket, because the
 * same one could end up in two documents. */
static void disown_locked(struct attempt *attempt)
{
    hf_client *client = attempt->request.client;
    hf_leave leave = {.ticket = attempt->request.enter.entry.ticket,
                      .outcome = HF_OUTCOME_RELEASED};
    release_push_locked(client, attempt->request.claim ? "" : attempt->request.name,
                        attempt->request.enter.entry.session, &leave, false);
    ticker_poke(client, TICK_UPKEEP);
    attempt->request.enter.entry.ticket = (hf_id){{0}};
    attempt->request.is_in_flight = attempt->request.is_unanswered = false;
}

static hf_id new_ticket_locked(const struct lock_request *request)
{
    return id_is_zero(request->lease) ? client_new_id(request->client) : request->lease;
}

/* Its own ticket, from a session that was lost before it was believed, would be in its way. */
static void take_ticket_locked(struct attempt *attempt)
{
    hf_client *client = attempt->request.client;
    hf_entry *entry = &attempt->request.enter.entry;
    bool same = id_equal(entry->session, client->session.self.id);
    if (same && !id_is_zero(entry->ticket))
        return;
    if (attempt->request.is_unanswered && id_is_zero(attempt->request.lease))
        disown_locked(attempt);
    waiters_remove(&attempt->request.waiter);
    entry->session = client->session.self.id;
    entry->ticket = new_ticket_locked(&attempt->request);
    turns_request_block_locked(&attempt->request, entry);
    attempt->request.is_unanswered = false;
    attempt->request.waiter.ticket = entry->ticket;
    attempt->request.waiter.token = 0;
    attempt->request.waiter.stamp = (hf_stamp){0};
    attempt->request.waiter.quiet_until = MONO_NEVER;
    waiters_add(&client->hold->waiters, &attempt->request.waiter);
}

static bool load_locked(struct attempt *attempt, struct carried *carried)
{
    *carried = (struct carried){.n = 0};
    if (attempt->request.claim)
        return true;
    return carried_load_locked(attempt->request.client, attempt->request.name, carried);
}

static bool prepare(struct attempt *attempt, struct carried *carried)
{
    hf_client *client = attempt->request.client;
    MUTEX_SCOPE(&client->mutex);
    if (client->session.state != SESSION_ALIVE)
        return false;
    take_ticket_locked(attempt);
    attempt->request.outside = attempt->request.enter.number;
    attempt->request.enter.is_nested = long_waits_is_nested_locked(&attempt->request);
    bool ready = load_locked(attempt, carried);
    attempt->request.is_in_flight |= ready;
    return ready;
}

static hf_code step_or_claim(struct attempt *attempt, const struct carried *carried,
                             hf_record *record, hf_step_reply *reply)
{
    hf_store *store = attempt->request.client->store;
    hf_step step = {
        .leaves = carried->leaves, .n_leaves = carried->n, .enter = &attempt->request.enter};
    attempt->request.sent = client_now(attempt->request.client);
    if (attempt->request.claim)
        return store->ops->claim(store, attempt->request.claim, &attempt->request.enter, record,
                                 reply, &attempt->err);
    return store->ops->step(store, attempt->request.name, &step, record, reply, &attempt->err);
}

/* An ID lease outlives its process, so a guardian does not learn of its ticket. */
static void tell_guardian(const struct lock_request *request)
{
    if (id_is_zero(request->lease))
        guardian_ticket(request->client, request->enter.entry.session, request->enter.entry.ticket,
                        request->name);
}

/* The entry says when it entered. */
static void hear_time_locked(const struct attempt *attempt, const hf_record *record)
{
    const struct lock_request *request = &attempt->request;
    const hf_entry *own = record_find(record, request->enter.entry.ticket);
    if (own)
        diary_hear_locked(request->client, request->sent, client_now(request->client), own->since);
}

static void note_overtaken(const struct attempt *attempt, const hf_record *record,
                           const hf_overtaken *overtaken)
{
    const struct lock_request *request = &attempt->request;
    const hf_entry *own = record_find(record, request->enter.entry.ticket);
    if (own)
        diary_note_overtaken(request->client, record->name, overtaken, own->granted_at);
}

/* A notice may be older than this answer (R1): somebody has taken the granted ticket out by force,
 * and the repeated enter has brought it back. A look tells. */
static void doubt_notices_locked(struct waiter *waiter)
{
    waiter->is_told |= waiter->token != 0;
    waiter->token = 0;
}

static hf_code send_enter(struct attempt *attempt, struct carried *carried)
{
    hf_client *client = attempt->request.client;
    bool was_unanswered = attempt->request.is_unanswered;
    hf_step_reply reply = {.confirmed = false};
    hf_record record;
    tell_guardian(&attempt->request);
    hf_code code = step_or_claim(attempt, carried, &record, &reply);
    pthread_mutex_lock(&client->mutex);
    carried_unload_locked(client, carried, code, reply.confirmed);
    if (reply.is_out)
        attempt->request.is_in_flight = attempt->request.is_unanswered;
    if (code == HF_UNKNOWN) {
        session_suspect_locked(client, attempt->request.name);
        attempt->request.is_unanswered = true;
        if (attempt->request.claim)
            disown_locked(attempt);
    }
    if (code == HF_OK && reply.stamp.value > attempt->request.waiter.stamp.value)
        attempt->request.waiter.stamp = reply.stamp; /* a notice may have come first */
    if (code == HF_OK && was_unanswered)
        doubt_notices_locked(&attempt->request.waiter);
    else if (code == HF_OK)
        hear_time_locked(attempt, &record);
    pthread_mutex_unlock(&client->mutex);
    if (code == HF_OK) {
        note_overtaken(attempt, &record, &reply.overtaken);
        record_done(&attempt->ahead.record);
        attempt->ahead.record = record;
        attempt->again_ms = reply.again_ms;
    }
    return code;
}

/* Where a notice can be lost: half of what was waited, within bounds. */
static int64_t look_ms(const struct attempt *attempt, int64_t most_ms, hf_mono now)
{
    int64_t half_ms = (now.ns - attempt->request.started.ns) / 2000000;
    if (!(attempt->request.client->store->can & HF_CAN_QUEUE) || half_ms < LOOK_MS ||
        most_ms < LOOK_MS)
        return LOOK_MS;
    return half_ms < most_ms ? half_ms : most_ms;
}

hf_mono attempt_after_look(struct attempt *attempt, hf_mono now)
{
    hf_client *client = attempt->request.client;
    int64_t most = client->ttl_ms < LOOK_MOST_MS ? client->ttl_ms : LOOK_MOST_MS, first = most / 2;
    if (client->hold->listener.is_polling) {
        most = POLL_MOST_MS;
        first = POLL_FIRST_MS;
    } else if (!(client->store->can & HF_CAN_SEE_CRASH)) {
        first = most = look_ms(attempt, most, now);
    }
    if (attempt_is_joined_for_locked(attempt)) { /* no notice tells of a lease made elsewhere */
        most = most < LOOK_JOINING_MS ? most : LOOK_JOINING_MS;
        first = first < most ? first : most;
    }
    return mono_add_ms(now, backoff_ms(++attempt->polls, first, most, client_chance(client)));
}

/* If notices may have been missed, a look finds out. */
static void want_notices_locked(struct attempt *attempt)
{
    hf_client *client = attempt->request.client;
    if (!listener_want_locked(client, attempt->request.waiter.stamp))
        waiter_tell(&attempt->request.waiter, client->hold->listener.from);
}

static hf_mono queued(struct attempt *attempt, const hf_entry *own, hf_mono now)
{
    hf_client *client = attempt->request.client;
    attempt->state = ATTEMPT_WAITS;
    pthread_mutex_lock(&client->mutex);
    attempt->request.outside = 0;
    wait_estimate_begin(&client->wait_estimate, &attempt->ahead.record, own,
                        &attempt->request.waiter, now);
    want_notices_locked(attempt);
    attempt->look_due = attempt_after_look(attempt, now);
    pthread_mutex_unlock(&client->mutex);
    return now;
}

/* A refused try looks once at the sessions in its way (R6). It ends even if new ones come and die
 * as fast as it clears them away. */
static hf_mono refused_try(struct attempt *attempt, hf_mono now)
{
    judging result;
    attempt->request.is_in_flight = attempt->request.is_unanswered;
    hf_code code =
        judging_tick(&attempt->request, &attempt->ahead, now, true, &result, &attempt->err);
    if (code)
        return attempt_failed(attempt, code, now);
    if (result == JUDGING_CHANGED && attempt->cleared++ < CLEARS_MOST)
        return attempt_start_anew(attempt, client_now(attempt->request.client));
    if (attempt->ahead.record.limit != attempt->request.enter.limit)
        return attempt_refuse_limit(attempt, now);
    return attempt_describe_held(attempt, HF_HELD, now);
}

static hf_mono come_back(struct attempt *attempt, attempt_state state, int64_t ms, hf_mono now)
{
    attempt->state = state;
    attempt->request.is_in_flight = attempt->request.is_unanswered;
    attempt->enter_due = mono_add_ms(now, ms);
    return now;
}

/* This session itself uses the lock with the other limit, so there is no need to check that it
 * lives. */
static bool is_ours(const struct attempt *attempt)
{
    const hf_record *record = &attempt->ahead.record;
    for (size_t i = 0; i < record->holders + record->queued; i++)
        if (id_equal(record->entries[i].session, attempt->request.enter.entry.session))
            return true;
    return false;
}

/* Without a queue: tries again from time to time, and at a notice. */
static hf_mono held_by_others(struct attempt *attempt, hf_mono now)
{
    hf_client *client = attempt->request.client;
    if (attempt->request.enter.try_only || attempt->is_last)
        return attempt_describe_held(attempt, attempt->is_last ? HF_TIMEOUT : HF_HELD, now);
    attempt->called_from = mono_add_ms(now, attempt->request.claim ? CLAIM_REST_MS : 0);
    pthread_mutex_lock(&client->mutex);
    want_notices_locked(attempt);
    int64_t ms = attempt->again_ms ? attempt->again_ms : POLL_MOST_MS;
    if (!client->hold->listener.is_polling && ms < NOTICED_MS)
        ms = NOTICED_MS;
    ms = backoff_ms(1, ms, ms, client_chance(client));
    pthread_mutex_unlock(&client->mutex);
    return come_back(attempt, ATTEMPT_BUSY, ms, now);
}

/* Once per period: how the last holder left decides whether there is work. The period is that of
 * the time when this is read, by the store's clock. */
static hf_code ask_previous(struct attempt *attempt, hf_entry *entry)
{
    hf_client *client = attempt->request.client;
    hf_record *record = &attempt->ahead.record;
    hf_successor asks = {.holder = entry, .period_ms = attempt->request.options->period_ms};
    pthread_mutex_lock(&client->mutex);
    asks.until = belief_end_of_grant_locked(&attempt->request);
    pthread_mutex_unlock(&client->mutex);
    return previous_ask(client, record->name, &asks, &record->last, &entry->granted_at,
                        &attempt->err);
}

/* Without a queue. The record may name a lease's session, which is no session of this client. */
static hf_mono granted(struct attempt *attempt, const hf_entry *own, hf_mono now)
{
    hf_entry entry = *own;
    entry.session = attempt->request.enter.entry.session;
    hf_code code = attempt->request.options->period_ms ? ask_previous(attempt, &entry) : HF_OK;
    now = client_now(attempt->request.client);
    if (code && attempt->request.claim) /* another try would claim another document */
        return attempt_give_up(attempt, code, now);
    return code ? attempt_failed(attempt, code, now) : attempt_believe(attempt, &entry, now);
}

static hf_mono judge_answer(struct attempt *attempt, hf_mono now)
{
    const hf_entry *own = record_find(&attempt->ahead.record, attempt->request.enter.entry.ticket);
    if (!attempt_has_queue(attempt))
        return own ? granted(attempt, own, now) : held_by_others(attempt, now);
    switch (record_judge(&attempt->ahead.record, &attempt->request.enter)) {
    case RECORD_HOLDS:
        return attempt_believe(attempt, own, now);
    case RECORD_WAITS:
        return queued(attempt, own, now);
    case RECORD_HELD:
        return refused_try(attempt, now);
    case RECORD_BUSY:
        return attempt_keep_out(attempt, now);
    case RECORD_LIMIT:
        if (attempt->request.enter.try_only)
            return refused_try(attempt, now);
        if (is_ours(attempt))
            return attempt_refuse_limit(attempt, now);
        return come_back(attempt, ATTEMPT_REFUSED, REFUSED_MS, now);
    case RECORD_GONE:
        break;
    }
    return attempt_start_anew(attempt, now);
}

/* Whether this attempt is to send an enter. */
static bool joins(struct attempt *attempt, hf_mono now, hf_mono *due)
{
    hf_client *client = attempt->request.client;
    pthread_mutex_lock(&client->mutex);
    turns_place place =
        attempt->request.is_alone ? PLACE_ALONE : turns_join_locked(&attempt->request, now);
    attempt->request.is_alone = place == PLACE_ALONE;
    pthread_mutex_unlock(&client->mutex);
    if (place == PLACE_IN_LINE)
        attempt->state = ATTEMPT_IN_LINE;
    *due = place == PLACE_TAKEN  ? attempt_end(attempt, HF_OK)
           : place == PLACE_HELD ? attempt_describe_held(attempt, HF_HELD, now)
                                 : attempt->deadline;
    return place == PLACE_ALONE || place == PLACE_LEADS;
}

hf_mono attempt_enter(struct attempt *attempt, hf_mono now)
{
    struct carried carried;
    hf_mono due;
    if (!joins(attempt, now, &due))
        return due;
    hf_code code = life_begin(attempt->request.client, &attempt->awaited, &attempt->err);
    if (code == HF_HELD || (!code && !prepare(attempt, &carried)))
        return attempt_await_others(attempt, client_now(attempt->request.client));
    if (!code)
        code = send_enter(attempt, &carried);
    now = client_now(attempt->request.client);
    if (code == HF_NOT_FOUND) /* a document: there is nothing to leave */
        attempt->request.is_in_flight = attempt->request.is_unanswered;
    if (code)
        return attempt_failed(attempt, code, now);
    attempt_succeeded(attempt);
    attempt_tell_joined(attempt->request.client, &attempt->ahead.record);
    return judge_answer(attempt, now);
}
