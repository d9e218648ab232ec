/* SPDX-License-Identifier: Apache-2.0 */
/* session.c: decides how long this client may believe itself alive: begins its session, beats, and
 * ends belief in time; called by acquiring threads, by the beat thread and by the watch thread. */
#include "client/client.h"

#include "core/alloc.h"
#include "core/error.h"
#include "core/id.h"

#include <stdio.h>

void session_who(const hf_session *session, char who[HF_TEXT_MAX + 1])
{
    size_t n = (size_t)snprintf(who, HF_TEXT_MAX + 1, "%.100s@%.100s", session->app, session->host);
    if (session->pid)
        snprintf(who + n, HF_TEXT_MAX + 1 - n, ":%lld", (long long)session->pid);
}

void session_forget(struct session *session)
{
    free(session->asks);
    for (size_t i = 0; i < session->n_suspects; i++)
        free(session->suspects[i]);
    free(session->suspects);
    session->asks = NULL;
    session->suspects = NULL;
    session->n_asks = session->n_suspects = 0;
}

/* ---- Begin ------------------------------------------------------------------------------------
 */

/* Nothing is held, or still being stopped, or waited for. */
static bool is_idle_locked(hf_client *client)
{
    hf_mono now = client_now(client);
    for (const struct hf_lock *lock = client->locks; lock; lock = lock->next)
        if (lock->state == LOCK_HELD)
            return false;
    return !client->waiters.first && !client->releases &&
           mono_reached(lock_stops_by_locked(client, now), now);
}

/* A client that holds nothing, waits for nothing and has suspects takes a new session (R8). */
static void renew_if_suspect_locked(hf_client *client)
{
    if (client->session.state == SESSION_ALIVE && client->session.n_suspects &&
        is_idle_locked(client))
        session_end_locked(client);
}

static void prepare_locked(hf_client *client)
{
    struct session *session = &client->session;
    session_forget(session);
    *session = (struct session){.state = SESSION_BEGINNING};
    client->has_waited = client->has_awaited = false;
    session->self.id = client_new_id(client);
    session->self.ttl_ms = (int32_t)client->ttl_ms;
    session->self.pid = client->owner;
    session->self.started_at = client->env.wall(client->env.ctx);
    snprintf(session->self.app, sizeof session->self.app, "%s", client->app);
    snprintf(session->self.host, sizeof session->self.host, "%s", client->host);
}

static hf_mono beat_due(const hf_client *client, hf_mono sent)
{
    hf_mono due = lease_beat_due(sent, client->ttl_ms);
    int64_t beat_ms = client->store->beat_ms;
    return beat_ms ? mono_min(due, mono_add_ms(sent, beat_ms)) : due;
}

static void begun_locked(hf_client *client, hf_mono sent)
{
    struct session *session = &client->session;
    session->state = SESSION_ALIVE;
    session->lease_end = lease_end(sent, client->ttl_ms);
    session->beat_due = beat_due(client, sent);
    session->beat_sent = sent;
    session->seen = 1;
    upkeep_begin_locked(client, sent);
    sweep_begin_locked(client, sent);
    ticker_start_all(client);
    for (unsigned i = 0; i < TICKERS; i++)
        ticker_poke(client, i);
}

/* The insert of a session that got no answer may have landed; the id is abandoned (R3). */
static void failed_locked(hf_client *client, hf_code code)
{
    if (code == HF_UNKNOWN)
        session_end_locked(client);
    client->session.state = SESSION_NONE;
}

/* A lease that is over when its session's insert is answered is no lease. */
static hf_code check_lease(hf_client *client, hf_mono sent, hf_error *err)
{
    if (!mono_reached(lease_end(sent, client->ttl_ms), client_now(client)))
        return HF_OK;
    return error_set(err, HF_UNKNOWN,
                     "the store took longer than the ttl of %lld ms to begin a session: give a "
                     "longer ttl",
                     (long long)client->ttl_ms);
}

static hf_code begin(hf_client *client, const hf_session *self, hf_error *err)
{
    hf_mono sent = client_now(client);
    hf_code code = client->store->ops->session_begin(client->store, self, err);
    if (!code)
        code = check_lease(client, sent, err);
    pthread_mutex_lock(&client->mutex);
    if (code)
        failed_locked(client, code);
    else
        begun_locked(client, sent);
    client_wake_attempts_locked(client);
    pthread_mutex_unlock(&client->mutex);
    return code;
}

hf_code session_ensure(hf_client *client, hf_error *err)
{
    pthread_mutex_lock(&client->mutex);
    renew_if_suspect_locked(client);
    session_state state = client->session.state;
    if (state == SESSION_NONE)
        prepare_locked(client);
    hf_session self = client->session.self;
    pthread_mutex_unlock(&client->mutex);
    switch (state) {
    case SESSION_ALIVE:
        return HF_OK;
    case SESSION_BEGINNING:
        return HF_HELD;
    case SESSION_NONE:
        break;
    }
    return begin(client, &self, err);
}

/* ---- End ---------------------------------------------------------------------------------------
 */

static bool leaves_any_locked(const hf_client *client)
{
    const struct hf_lock *lock = client->locks;
    while (lock && (lock->state == LOCK_RELEASED || lock->is_left))
        lock = lock->next;
    return lock || client->releases || client->waiters.first || client->session.n_suspects;
}

void session_end_locked(hf_client *client)
{
    hf_mono due = lock_stops_by_locked(client, client_now(client));
    client->ended = alloc_array(client->ended, client->n_ended + 1, sizeof *client->ended);
    client->ended[client->n_ended++] =
        (struct ended){client->session.self.id, due, leaves_any_locked(client)};
    client->session.state = SESSION_NONE;
    release_drop_locked(client);
    ticker_poke(client, TICK_UPKEEP);
}

void session_lose_locked(hf_client *client, const hf_error *why, hf_mono stop_by)
{
    if (client->session.state != SESSION_ALIVE)
        return;
    for (struct hf_lock *lock = client->locks; lock; lock = lock->next)
        lock_lose_locked(lock, why, stop_by);
    session_end_locked(client);
    client_wake_attempts_locked(client);
}

static hf_mono notice_at(const hf_client *client)
{
    return (hf_mono){client->session.lease_end.ns - client->notice_ms * 1000000};
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
    session_lose_locked(client, &why, client->session.lease_end);
}

bool session_is_present_locked(const hf_client *client, hf_id session)
{
    return client->session.state == SESSION_ALIVE && id_equal(client->session.self.id, session);
}

bool session_is_believed_locked(hf_client *client, hf_id session, hf_mono now)
{
    if (!session_is_present_locked(client, session))
        return false;
    if (!mono_reached(notice_at(client), now))
        return true;
    expire_locked(client, now);
    return false;
}

hf_mono session_watch(hf_client *client, hf_mono now)
{
    pthread_mutex_lock(&client->mutex);
    hf_mono due = MONO_NEVER;
    if (session_is_believed_locked(client, client->session.self.id, now))
        due = mono_min(notice_at(client), lock_watch_locked(client, now));
    pthread_mutex_unlock(&client->mutex);
    return due;
}

/* ---- Asks (R9) ---------------------------------------------------------------------------------
 */

session_ask *session_find_ask_locked(hf_client *client, hf_id ticket)
{
    for (size_t i = 0; i < client->session.n_asks; i++)
        if (id_equal(client->session.asks[i].ask.ticket, ticket))
            return &client->session.asks[i];
    return NULL;
}

/* Nobody here knows the ticket, and no enter of it can still land: it has left before it was asked
 * for. */
static bool has_left_locked(hf_client *client, hf_id ticket)
{
    const struct hf_lock *lock = lock_find_locked(client, ticket);
    bool stands = lock && !lock->is_left;
    return !client->session.n_suspects && !stands && !waiters_find(&client->waiters, ticket) &&
           !release_is_pending_locked(client, ticket);
}

/* An ask fixes the ticket's deadline at the lease that ran before the beat which brought it: that
 * lease counts from before the ask was there, so it ends before the breaker's wait does. An upgrade
 * does not escape an ask for the ticket that it replaced. */
static void asked_locked(hf_client *client, const hf_ask *ask, hf_mono deadline)
{
    struct session *session = &client->session;
    if (session_find_ask_locked(client, ask->ticket))
        return;
    struct hf_lock *lock = lock_find_asked_locked(client, ask->ticket);
    bool was_replaced = lock && id_equal(lock->former, ask->ticket);
    session->asks = alloc_array(session->asks, session->n_asks + 1, sizeof *session->asks);
    session->asks[session->n_asks++] =
        (session_ask){.ask = *ask,
                      .deadline = deadline,
                      .is_answered = was_replaced || has_left_locked(client, ask->ticket)};
    if (!lock)
        return;
    hf_error why;
    error_set(&why, HF_LOST, "%.128s was broken by %.100s: %.160s", lock->name, ask->by,
              ask->reason);
    lock_lose_locked(lock, &why, deadline);
}

static void forget_answered_locked(struct session *session, const hf_id *answered, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < session->n_asks; i++) {
        bool gone = false;
        for (size_t j = 0; j < n; j++)
            gone |= id_equal(session->asks[i].ask.ticket, answered[j]);
        if (!gone)
            session->asks[kept++] = session->asks[i];
    }
    session->n_asks = kept;
}

/* ---- Beats (R3, R4)
 * ------------------------------------------------------------------------------ */

static size_t answered_locked(const struct session *session, hf_id answered[HF_ASKS_MAX])
{
    size_t n = 0;
    for (size_t i = 0; i < session->n_asks && n < HF_ASKS_MAX; i++)
        if (session->asks[i].is_answered)
            answered[n++] = session->asks[i].ask.ticket;
    return n;
}

static void acknowledged_locked(hf_client *client, hf_mono sent, const hf_session_state *state)
{
    struct session *session = &client->session;
    hf_mono lease_before = session->lease_end;
    session->lease_end = lease_end(sent, client->ttl_ms);
    session->beat_due = beat_due(client, sent);
    session->last_failure.code = HF_OK;
    session->seen = state->beat;
    lock_renewed_locked(client, sent);
    for (size_t i = 0; i < state->n_asked; i++)
        asked_locked(client, &state->asked[i], lease_before);
    if (state->misses)
        upkeep_verify_locked(client, NULL);
    /* the watch thread need not hear of it: it wakes at the lease's former end, and sleeps on */
}

/* The first retry is at once, further ones come every twentieth of the ttl (R7). */
static void not_acknowledged_locked(hf_client *client, const hf_error *err)
{
    struct session *session = &client->session;
    hf_mono now = client_now(client);
    bool first = session->last_failure.code == HF_OK;
    session->last_failure = *err;
    session->beat_due = first ? now : lease_retry_due(now, client->ttl_ms);
}

static void marked_dead_locked(hf_client *client, const hf_error *err)
{
    hf_error why;
    error_set(&why, HF_LOST, "the session is gone from the store: %.300s", err->text);
    session_lose_locked(client, &why, client_now(client));
}

static void beat(hf_client *client, hf_id id, const hf_beat *says)
{
    hf_session_state state;
    hf_error err;
    hf_mono sent = client_now(client);
    hf_code code = client->store->ops->session_beat(client->store, id, says, &state, &err);
    pthread_mutex_lock(&client->mutex);
    /* a lease that ended meanwhile never revives */
    if (session_is_believed_locked(client, id, client_now(client))) {
        if (code == HF_LOST) {
            marked_dead_locked(client, &err);
        } else if (code) {
            not_acknowledged_locked(client, &err);
        } else {
            acknowledged_locked(client, sent, &state);
            forget_answered_locked(&client->session, says->answered, says->n_answered);
        }
    }
    pthread_mutex_unlock(&client->mutex);
}

void session_hurry_locked(hf_client *client, int64_t ms)
{
    struct session *session = &client->session;
    hf_mono due = mono_add_ms(session->beat_sent, ms);
    if (session->last_failure.code || mono_reached(session->beat_due, due))
        return;
    session->beat_due = due;
    ticker_poke(client, TICK_BEAT);
}

hf_mono session_tick(hf_client *client, hf_mono now)
{
    pthread_mutex_lock(&client->mutex);
    struct session *session = &client->session;
    bool alive = session->state == SESSION_ALIVE;
    bool due = alive && mono_reached(session->beat_due, now);
    hf_id id = session->self.id, answered[HF_ASKS_MAX];
    hf_beat says = {.answered = answered, .seen = session->seen};
    char *waits = due ? deadlock_say_locked(client, now) : NULL;
    if (due) {
        says.n_answered = answered_locked(session, answered);
        says.waits = waits;
        session->beat_sent = now;
    }
    pthread_mutex_unlock(&client->mutex);
    if (due)
        beat(client, id, &says);
    free(waits);
    pthread_mutex_lock(&client->mutex);
    hf_mono next = session->state == SESSION_ALIVE ? session->beat_due : MONO_NEVER;
    pthread_mutex_unlock(&client->mutex);
    return next;
}

/* ---- Suspects (R8)
 * -------------------------------------------------------------------------------- */

void session_suspect_locked(hf_client *client, const char *name)
{
    struct session *session = &client->session;
    for (size_t i = 0; i < session->n_suspects; i++)
        if (strcmp(session->suspects[i], name) == 0)
            return;
    session->suspects =
        alloc_array(session->suspects, session->n_suspects + 1, sizeof *session->suspects);
    session->suspects[session->n_suspects++] = alloc_text(name);
}
