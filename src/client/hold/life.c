/* SPDX-License-Identifier: Apache-2.0 */
/* life.c: begins and ends the client's session; called by acquiring threads, by the thread that
 * finds the session lost, and by upkeep, which marks ended sessions. */
#include "client/hold/hold.h"

#include "core/alloc.h"
#include "core/backoff.h"
#include "core/error.h"

#define RETRY_FIRST_MS 5
#define RETRY_MOST_MS 500

/* ---- Begin ---- */

/* Whether nothing is held, waited for, or still being stopped. */
static bool is_idle_locked(hf_client *client)
{
    const struct hold *hold = client->hold;
    hf_mono now = client_now(client);
    return !hold->n_held && !hold->waiters.first && !hold->releases.first &&
           mono_reached(loss_stops_by_locked(client, now), now);
}

/* A client that holds nothing, waits for nothing and has suspects takes a new session (R8). */
static void renew_if_suspect_locked(hf_client *client)
{
    if (client->session.state == SESSION_ALIVE && client->session.n_suspects &&
        is_idle_locked(client))
        life_end_locked(client);
}

void life_rest_locked(hf_client *client, hf_mono until)
{
    bool beats_first = mono_reached(client->session.beat_due, until);
    if (client->session.state == SESSION_ALIVE && beats_first && is_idle_locked(client))
        life_end_locked(client);
}

static void begun_locked(hf_client *client, hf_mono sent)
{
    session_begun_locked(client, sent);
    verify_begin_locked(client, sent);
    sweep_begin_locked(client, sent);
    for (unsigned i = 0; i < TICKERS; i++)
        ticker_poke(client, i);
}

/* An insert without an answer may have arrived all the same, so the session's id is given up (R3).
 */
static void failed_locked(hf_client *client, hf_code code, const hf_error *why)
{
    client->hold->beginnings.failed++;
    client->hold->beginnings.why = *why;
    client->hold->beginnings.why.code = code;
    guardian_session_over(client, client->session.self.id); /* nothing was entered with it */
    if (code == HF_UNKNOWN)
        life_end_locked(client);
    session_gone_locked(client);
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

static hf_code start_threads(hf_client *client, hf_error *err)
{
    MUTEX_SCOPE(&client->mutex);
    return ticker_start_all_locked(client, err);
}

struct beginning {
    hf_session self;
    bool listens; /* the listener may be awaiting notices of the session before */
};

static hf_code connect_store(hf_client *client, hf_error *err)
{
    const hf_store_ops *ops = client->store->ops;
    return ops->connect ? ops->connect(client->store, err) : HF_OK;
}

static hf_code begin(hf_client *client, const struct beginning *one, hf_error *err)
{
    hf_code code = start_threads(client, err);
    if (!code) {
        guardian_begin(client, &one->self);
        code = connect_store(client, err);
    }
    hf_mono sent = client_now(client);
    if (!code)
        code = client->store->ops->session_begin(client->store, &one->self, err);
    if (!code)
        code = check_lease(client, sent, err);
    if (one->listens)
        client->store->ops->wake(client->store);
    MUTEX_SCOPE(&client->mutex);
    if (code)
        failed_locked(client, code, err);
    else
        begun_locked(client, sent);
    lock_request_wake_all_locked(client);
    return code;
}

/* Whether the beginning that was awaited has failed. */
static bool has_failed_locked(const hf_client *client, unsigned awaited)
{
    return awaited && client->hold->beginnings.failed >= awaited &&
           client->session.state != SESSION_ALIVE;
}

/* Whether this thread is to begin one; else *code says how it stands. */
static bool prepare(hf_client *client, unsigned *awaited, struct beginning *out, hf_code *code,
                    hf_error *err)
{
    MUTEX_SCOPE(&client->mutex);
    const struct beginnings *beginnings = &client->hold->beginnings;
    if (has_failed_locked(client, *awaited)) {
        *awaited = 0;
        *err = beginnings->why;
        *code = err->code;
        return false;
    }
    renew_if_suspect_locked(client);
    session_state state = client->session.state;
    *awaited = state == SESSION_BEGINNING ? beginnings->failed + 1 : 0;
    *code = state == SESSION_ALIVE ? HF_OK : HF_HELD;
    if (state != SESSION_NONE)
        return false;
    out->listens = client->hold->listener.has_awaited;
    session_prepare_locked(client);
    listener_begin_locked(client);
    out->self = client->session.self;
    return true;
}

hf_code life_begin(hf_client *client, unsigned *awaited, hf_error *err)
{
    struct beginning one;
    hf_code code;
    return prepare(client, awaited, &one, &code, err) ? begin(client, &one, err) : code;
}

/* ---- End ---- */

static bool leaves_any_locked(const hf_client *client)
{
    const struct hf_lock *lock = client->hold->locks;
    while (lock && (lock->state == LOCK_RELEASED || lock->loss.is_left))
        lock = lock->next;
    return lock || client->hold->releases.first || client->hold->waiters.first ||
           client->session.n_suspects;
}

static void add_ended_locked(hf_client *client, struct ended ended)
{
    struct endings *endings = &client->hold->endings;
    endings->of = alloc_array(endings->of, endings->n + 1, sizeof *endings->of);
    endings->of[endings->n++] = ended;
}

void life_end_locked(hf_client *client)
{
    add_ended_locked(client, (struct ended){.id = client->session.self.id,
                                            .beat_most = session_beat_most_locked(client),
                                            .due = loss_stops_by_locked(client, client_now(client)),
                                            .leaves_any = leaves_any_locked(client)});
    session_gone_locked(client);
    ticker_poke(client, TICK_UPKEEP);
}

void life_abandon_locked(hf_client *client)
{
    guardian_session_over(client, client->session.self.id);
    session_gone_locked(client);
}

void life_end_other_locked(hf_client *client, hf_id session)
{
    add_ended_locked(client, (struct ended){.id = session,
                                            .beat_most = INT64_MAX,
                                            .due = client_now(client),
                                            .leaves_any = true});
    ticker_poke(client, TICK_UPKEEP);
}

/* ---- Marking what has ended ---- */

/* A mark lets others take the tickets out, as those of a dead session. So the leaves come first:
 * they say how the locks were left, and which work is done. */
static bool is_due_locked(const hf_client *client, const struct ended *ended, hf_mono now)
{
    return mono_reached(ended->due, now) && !release_is_any_of_locked(client, ended->id);
}

static bool take_locked(hf_client *client, hf_mono now, struct ended *ended, hf_mono *due)
{
    struct endings *endings = &client->hold->endings;
    *due = MONO_NEVER;
    for (size_t i = 0; i < endings->n; i++) {
        if (is_due_locked(client, &endings->of[i], now)) {
            *ended = endings->of[i];
            endings->of[i] = endings->of[--endings->n];
            return true;
        }
        if (!mono_reached(endings->of[i].due, now)) /* else its last release wakes upkeep */
            *due = mono_min(*due, endings->of[i].due);
    }
    return false;
}

static void put_back(hf_client *client, struct ended ended)
{
    int64_t ms = backoff_ms(++ended.failures, RETRY_FIRST_MS, RETRY_MOST_MS, client_chance(client));
    MUTEX_SCOPE(&client->mutex);
    ended.due = mono_add_ms(client_now(client), ms);
    add_ended_locked(client, ended);
}

/* If something may stand. One that is missing is marked, too, so that nobody waits for a lease
 * after which it is dead: a failover may have taken its insert back, or somebody has removed it
 * (R3). One that another process beats is left to that. */
static hf_code look_and_end(hf_client *client, const struct ended *ended, hf_error *err)
{
    hf_store *store = client->store;
    hf_session_state state;
    hf_code code = client_look_at_sessions(client, &ended->id, 1, -1, &state, err);
    if (error_is_no_answer(code) ||
        (!code && state.presence == HF_LIVE && state.beat > ended->beat_most))
        return code;
    if (!code && state.presence == HF_MISSING) {
        code = client_mark(client, &state, err);
        if (code != HF_HELD) /* else it has arrived meanwhile */
            return code;
    }
    return store->ops->session_end(store, ended->id, true, err);
}

static hf_code end(hf_client *client, const struct ended *ended, hf_error *err)
{
    hf_store *store = client->store;
    if (ended->leaves_any && store->can & HF_CAN_QUEUE)
        return look_and_end(client, ended, err);
    return store->ops->session_end(store, ended->id, ended->leaves_any, err);
}

/* What the store refuses is left to a waiter. */
static void mark(hf_client *client, const struct ended *ended)
{
    hf_error err;
    hf_code code = end(client, ended, &err);
    if (code && !ended->failures)
        client_log(client, HF_LOG_INFO, "ending a session: %s", err.text);
    if (!code)
        guardian_session_over(client, ended->id);
    if (hf_code_retryable(code))
        put_back(client, *ended);
}

hf_mono life_mark_ended(hf_client *client, hf_mono now)
{
    for (;;) {
        struct ended ended;
        hf_mono due;
        pthread_mutex_lock(&client->mutex);
        bool closing = client->closing.has_begun;
        bool any = !closing && take_locked(client, now, &ended, &due);
        pthread_mutex_unlock(&client->mutex);
        if (!any)
            return closing ? MONO_NEVER : due;
        mark(client, &ended);
    }
}

/* The mark comes after the leaves, which the guardian sends (R8). */
static bool is_left_to_guardian(hf_client *client, hf_id session)
{
    MUTEX_SCOPE(&client->mutex);
    return client->guardian.fd >= 0 && release_is_any_of_locked(client, session);
}

/* A clean end is the same mark that others set on dead sessions (R5). If the store does not answer,
 * there is no need to wait for it: the lease ends anyway. */
void life_close(hf_client *client, bool store_answers)
{
    struct endings *endings = &client->hold->endings;
    pthread_mutex_lock(&client->mutex);
    if (client->session.state == SESSION_ALIVE)
        life_end_locked(client);
    pthread_mutex_unlock(&client->mutex);
    while (store_answers && endings->n) {
        const struct ended *last = &endings->of[endings->n - 1];
        if (is_left_to_guardian(client, last->id))
            return;
        if (end(client, last, NULL))
            return;
        guardian_session_over(client, last->id);
        endings->n--;
    }
}
