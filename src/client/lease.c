/* SPDX-License-Identifier: Apache-2.0 */
/* lease.c: locks that an id holds and no process: a lease is a session of its own with one ticket,
 * both named by hashes of the id. It is taken by the client's own session, with which it waits in
 * line as any lock; then the ticket's place goes over to the lease's session in one step. */
#include "client/lease.h"

#include "core/error.h"
#include "core/id.h"
#include "core/text.h"

#include <stdio.h>
#include <string.h>

/* ---- What is asked for ---- */

static hf_code check_lock(const hf_lock_options *lock, hf_error *err)
{
    bool wants_process = lock->on_lost || lock->linger_ms || lock->no_refresh || lock->feed_ms ||
                         lock->max_hold_ms || lock->period_ms;
    if (!wants_process)
        return HF_OK;
    return error_set(err, HF_INVALID,
                     "no process keeps a lease: on_lost, linger_ms, no_refresh, feed_ms, "
                     "max_hold_ms and period_ms are for locks");
}

static hf_code check(hf_client *client, const hf_lease_options *options, hf_error *err)
{
    if (!(client->store->can & HF_CAN_QUEUE))
        return error_set(err, HF_UNSUPPORTED,
                         "protocol %s has no leases that an id holds: hfProtocol=queue has them",
                         client->store->protocol);
    int64_t ttl_ms = options->ttl_ms ? options->ttl_ms : client->ttl_ms;
    if (ttl_ms < LEASE_TTL_MIN_MS || ttl_ms > LEASE_TTL_MAX_MS)
        return error_set(err, HF_INVALID, "a ttl of %lld ms: from 1,000 to 3,600,000",
                         (long long)ttl_ms);
    hf_code code = text_check("the owner", options->owner, HF_TEXT_MAX, err);
    return code ? code : check_lock(&options->lock, err);
}

/* ---- Making one ---- */

static void tell_previous(const hf_last_mark *last, hf_lease *out)
{
    snprintf(out->previous_who, sizeof out->previous_who, "%s", last->who);
    snprintf(out->previous_reason, sizeof out->previous_reason, "%s", last->reason);
    out->previous = lock_last(last);
    out->previous.who = out->previous_who;
    out->previous.reason = out->previous_reason;
}

static void tell(hf_client *client, const hf_record *record, const hf_entry *holder, hf_mono sent,
                 hf_lease *out)
{
    out->token = holder->token;
    out->ttl_ms = holder->ttl_ms;
    out->left_ms = mono_ms_until(lease_end(sent, holder->ttl_ms), client_now(client));
    tell_previous(&record->last, out);
}

static const hf_entry *holder_of(const hf_record *record, hf_id ticket)
{
    const hf_entry *entry = record_find(record, ticket);
    return entry && record_position(record, entry) == 0 ? entry : NULL;
}

static hf_session session_of(const making *m)
{
    hf_session self = {.id = m->ids.session,
                       .ttl_ms = (int32_t)m->ttl_ms,
                       .started_at = m->client->env.wall(m->client->env.ctx)};
    const char *owner = m->options->owner;
    snprintf(self.app, sizeof self.app, "%s", owner && *owner ? owner : m->client->app);
    snprintf(self.host, sizeof self.host, "%s", m->client->host);
    return self;
}

static hf_code beat(hf_client *client, hf_id session, hf_mono *sent, hf_session_state *state,
                    hf_error *err)
{
    static const hf_beat says = {.n_answered = 0};
    hf_store *store = client->store;
    *sent = client_now(client);
    return store->ops->session_beat(store, session, &says, state, err);
}

static hf_code ended(const char *name, hf_error *err)
{
    return error_set(err, HF_LOST,
                     "%.128s: the lease that was taken with this key has ended; take another key",
                     name);
}

/* Its insert is not idempotent: one that got no answer may be there, and a beat tells. */
static hf_code begin_once(making *m, hf_error *err)
{
    hf_store *store = m->client->store;
    hf_session_state state;
    hf_code code = HF_LOST;
    if (m->has_begun)
        code = beat(m->client, m->ids.session, &m->sent, &state, err);
    if (code == HF_LOST && m->is_known)
        return ended(m->ids.name, err);
    if (code != HF_LOST)
        return code;
    hf_session self = session_of(m);
    m->sent = client_now(m->client);
    code = store->ops->session_begin(store, &self, err);
    m->has_begun |= code == HF_OK || code == HF_UNKNOWN;
    return code;
}

typedef struct sought {
    making *making;
    bool is_there, is_passed;
} sought;

static bool seek(void *ctx, const hf_record *record)
{
    sought *it = ctx;
    making *m = it->making;
    const hf_entry *holder = holder_of(record, m->ids.ticket);
    it->is_passed = holder;
    it->is_there = record_find(record, m->pass.ticket);
    if (holder)
        tell(m->client, record, holder, m->sent, m->out);
    return false;
}

static hf_code look_at_record(making *m, bool linearizable, sought *it, hf_error *err)
{
    hf_store *store = m->client->store;
    const char *name = m->ids.name;
    *it = (sought){.making = m};
    return store->ops->look(store, &name, 1, (hf_stamp){0}, linearizable, seek, it, err);
}

/* A step that changed nothing proves nothing where it may have reached a deposed primary. */
static hf_code confirm(making *m, hf_error *err)
{
    sought it;
    hf_code code = look_at_record(m, true, &it, err);
    if (code || it.is_passed)
        return code;
    return error_set(err, it.is_there ? HF_UNKNOWN : HF_LOST, "%.128s: %s", m->ids.name,
                     it.is_there ? "to make it a lease has not taken effect"
                                 : "was lost before it was made a lease");
}

/* Who waits here has seen this very client hold: the lease's session is to be watched from now on,
 * not from the next look on. */
static void tell_waiters(const making *m, hf_stamp stamp)
{
    pthread_mutex_lock(&m->client->mutex);
    listen_tell_locked(m->client, m->ids.name, stamp);
    pthread_mutex_unlock(&m->client->mutex);
}

static hf_code pass_once(making *m, hf_error *err)
{
    hf_store *store = m->client->store;
    hf_step step = {.pass = &m->pass};
    hf_step_reply reply;
    hf_record record;
    sought it = {.making = m};
    hf_code code = store->ops->step(store, m->ids.name, &step, &record, &reply, err);
    if (code)
        return code;
    seek(&it, &record);
    record_done(&record);
    code = it.is_passed ? HF_OK : confirm(m, err);
    if (!code)
        tell_waiters(m, reply.stamp);
    return code;
}

/* Until its outcome is known either ticket may stand for the lock, as in an upgrade: who verifies
 * accepts both, who gives the lock up takes out both. */
static void prepare_pass(making *m)
{
    pthread_mutex_lock(&m->client->mutex);
    m->lock->is_changing = true;
    m->lock->upgrade = m->ids.ticket;
    m->pass = (hf_pass){.ticket = m->lock->ticket,
                        .to = m->ids.ticket,
                        .session = m->ids.session,
                        .ttl_ms = (int32_t)m->ttl_ms,
                        .token = m->lock->token};
    pthread_mutex_unlock(&m->client->mutex);
}

/* What was done counts, also when belief in the lock has ended meanwhile. */
static hf_code repeat(making *m, hf_code (*once)(making *m, hf_error *err), hf_error *err)
{
    hf_mono since = client_now(m->client);
    unsigned failures = 0;
    hf_code code;
    do
        code = once(m, err);
    while (client_may_retry(m->client, NULL, code, &failures, since) &&
           !hf_lock_check(m->lock, NULL, NULL));
    return code;
}

/* What was begun ends by itself; where no repeat can come back for it, at once. */
static void abandon(making *m)
{
    hf_store *store = m->client->store;
    if (m->has_begun && !m->options->key)
        store->ops->session_end(store, m->ids.session, true, NULL); /* it may have been passed */
}

hf_code making_finish(making *m, hf_error *err)
{
    m->out->waited_ms = m->lock->waited_ms;
    prepare_pass(m);
    hf_code code = repeat(m, begin_once, err);
    if (!code)
        code = repeat(m, pass_once, err);
    if (code)
        abandon(m);
    else
        lock_went_over(m->lock);
    hf_lock_close(m->lock);
    return code;
}

/* ---- What an earlier call with the same key has made ---- */

static hf_code find_ticket(making *m, bool *is_found, hf_error *err)
{
    hf_session_state state;
    sought it;
    hf_code code = look_at_record(m, false, &it, err);
    if (code || !it.is_passed)
        return code;
    code = beat(m->client, m->ids.session, &m->sent, &state, err);
    if (code)
        return code == HF_LOST ? ended(m->ids.name, err) : code;
    m->out->left_ms = mono_ms_until(lease_end(m->sent, m->out->ttl_ms), client_now(m->client));
    *is_found = m->out->was_there = true;
    return HF_OK;
}

hf_code making_find(making *m, bool *is_found, hf_error *err)
{
    hf_session_state state;
    hf_store *store = m->client->store;
    *is_found = false;
    if (!m->options->key)
        return HF_OK;
    hf_code code = store->ops->sessions_look(store, &m->ids.session, 1, -1, &state, err);
    if (code || state.presence == HF_MISSING)
        return code;
    if (state.presence == HF_DEAD)
        return ended(m->ids.name, err);
    m->has_begun = m->is_known = true;
    return find_ticket(m, is_found, err);
}

/* ---- Acquire ---- */

/* What the record shows of it while it waits, and until it is a lease. */
static hf_lock_options lock_options(const hf_lease_options *options)
{
    hf_lock_options lock = options->lock;
    bool fits = options->owner && strlen(options->owner) <= HF_ACTOR_MAX;
    if (!lock.actor && fits)
        lock.actor = options->owner;
    return lock;
}

hf_code making_prepare(making *m, hf_client *client, const char *name,
                       const hf_lease_options *options, hf_lease *out, hf_error *err)
{
    *m = (making){.client = client, .options = options, .out = out};
    *out = (hf_lease){.previous.who = ""};
    hf_code code = client_name(client, name, m->ids.name, err);
    if (!code)
        code = check(client, options, err);
    if (code)
        return code;
    m->ttl_ms = options->ttl_ms ? options->ttl_ms : client->ttl_ms;
    m->lock_options = lock_options(options);
    lease_id_make(client, options->key, &m->ids, out->id);
    return acquire_check(client, &m->lock_options, err);
}

static hf_code acquire(making *m, hf_error *err)
{
    bool is_found;
    hf_code code = making_find(m, &is_found, err);
    if (code || is_found)
        return code;
    code =
        acquire_run(m->client, m->ids.name, NULL, &m->lock_options, client_thread(), &m->lock, err);
    return code ? code : making_finish(m, err);
}

hf_code hf_lease_acquire(hf_client *client, const char *name, const hf_lease_options *options,
                         hf_lease *out, hf_error *err)
{
    static const hf_lease_options defaults = {0};
    making m;
    hf_code code = client_begin(client, err);
    if (code)
        return code;
    code = making_prepare(&m, client, name, options ? options : &defaults, out, err);
    if (!code)
        code = acquire(&m, err);
    client_end(client);
    return code;
}

/* ---- Renew ---- */

static hf_code lost(const char *name, const char *how, hf_error *err)
{
    return error_set(err, HF_LOST, "the lease of %.128s %.300s", name, how);
}

static hf_code find_ask(const hf_session_state *state, const lease_ids *ids, hf_error *err)
{
    for (size_t i = 0; i < state->n_asked; i++)
        if (id_equal(state->asked[i].ticket, ids->ticket))
            return error_set(err, HF_LOST, "%.128s was broken by %.100s: %.160s", ids->name,
                             state->asked[i].by, state->asked[i].reason);
    return HF_OK;
}

/* The session lives; a ticket that is not there was broken, or its record was dropped. */
static hf_code look_at_ticket(making *m, hf_error *err)
{
    sought it;
    hf_store *store = m->client->store;
    hf_code code = look_at_record(m, false, &it, err);
    if (code || it.is_passed)
        return code;
    store->ops->session_end(store, m->ids.session, true, NULL);
    return lost(m->ids.name, "is over: somebody took its ticket out, or the record is gone", err);
}

static hf_code renew(making *m, hf_error *err)
{
    hf_session_state state;
    hf_code code = beat(m->client, m->ids.session, &m->sent, &state, err);
    if (code == HF_LOST)
        return lost(m->ids.name, "has run out, or was released", err);
    if (!code)
        code = find_ask(&state, &m->ids, err);
    return code ? code : look_at_ticket(m, err);
}

hf_code hf_lease_renew(hf_client *client, const char *id, hf_lease *out, hf_error *err)
{
    hf_lease unwanted;
    making m = {.client = client, .out = out ? out : &unwanted};
    hf_code code = client_begin(client, err);
    if (code)
        return code;
    code = lease_id_read(id, &m.ids, err);
    *m.out = (hf_lease){.previous.who = ""};
    if (!code)
        snprintf(m.out->id, sizeof m.out->id, "%s", id);
    if (!code)
        code = renew(&m, err);
    client_end(client);
    return code;
}

/* ---- Release ---- */

typedef struct leaving {
    const lease_ids *ids;
    hf_leave leave;
    bool was_sent; /* an earlier try had no answer */
    bool is_there;
    hf_last_mark last;
} leaving;

static bool see(void *ctx, const hf_record *record)
{
    leaving *l = ctx;
    l->is_there = record_find(record, l->ids->ticket);
    l->last = record->last;
    return false;
}

static hf_code look_for(hf_client *client, leaving *l, hf_error *err)
{
    hf_store *store = client->store;
    const char *name = l->ids->name;
    return store->ops->look(store, &name, 1, (hf_stamp){0}, true, see, l, err);
}

/* How it ended is known as long as nobody has left since. */
static bool was_last(const leaving *l, hf_outcome outcome)
{
    return id_equal(l->last.session, l->ids->session) && l->last.outcome == outcome;
}

static hf_code leave_once(hf_client *client, leaving *l, hf_error *err)
{
    hf_step step = {.leaves = &l->leave, .n_leaves = 1};
    hf_step_reply reply;
    hf_store *store = client->store;
    hf_code code = store->ops->step(store, l->ids->name, &step, NULL, &reply, err);
    if (code || reply.confirmed)
        return code;
    code = look_for(client, l, err);
    if (code)
        return code;
    if (l->is_there)
        return error_set(err, HF_UNKNOWN, "%.128s: the release has not taken effect", l->ids->name);
    return l->was_sent || was_last(l, HF_OUTCOME_RELEASED)
               ? HF_OK
               : lost(l->ids->name, "was lost before it was released", err);
}

static hf_code leave(hf_client *client, leaving *l, hf_error *err)
{
    hf_mono since = client_now(client);
    unsigned failures = 0;
    hf_code code;
    do {
        code = leave_once(client, l, err);
        l->was_sent |= code == HF_UNKNOWN;
    } while (client_may_retry(client, NULL, code, &failures, since));
    return code;
}

/* Its session is over. Nobody may have been there since to take its ticket out. */
static hf_code was_released(hf_client *client, leaving *l, hf_error *err)
{
    hf_code code = look_for(client, l, err);
    bool has_run_out = l->is_there || was_last(l, HF_OUTCOME_ABANDONED);
    l->leave.outcome = HF_OUTCOME_ABANDONED;
    if (!code && l->is_there)
        code = leave(client, l, err);
    if (code || !has_run_out)
        return code;
    return lost(l->ids->name, "had run out before it was released", err);
}

static hf_code release(hf_client *client, const lease_ids *ids, hf_error *err)
{
    hf_store *store = client->store;
    hf_session_state state;
    leaving l = {.ids = ids,
                 .leave = {.ticket = ids->ticket, .outcome = HF_OUTCOME_RELEASED, .told = true}};
    hf_code code = store->ops->sessions_look(store, &ids->session, 1, -1, &state, err);
    if (code)
        return code;
    if (state.presence != HF_MISSING)
        session_who(&state.session, l.leave.who);
    if (state.presence != HF_LIVE)
        return was_released(client, &l, err);
    code = leave(client, &l, err);
    if (!code || code == HF_LOST)
        store->ops->session_end(store, ids->session, false, NULL);
    return code;
}

hf_code hf_lease_release(hf_client *client, const char *id, hf_error *err)
{
    lease_ids ids;
    hf_code code = client_begin(client, err);
    if (code)
        return code;
    code = lease_id_read(id, &ids, err);
    if (!code)
        code = release(client, &ids, err);
    client_end(client);
    return code;
}
