/* SPDX-License-Identifier: Apache-2.0 */
/* lease.c: makes leases: locks that an id holds and no process. The lock is taken by the client's
 * own session, with which it waits in line as any lock; then its place goes over to the lease's
 * session in one step, which decides for all calls with the same key. */
#include "client/lease/lease.h"

#include "client/hold/handle.h"
#include "client/hold/hold.h"
#include "client/wait/acquire.h"
#include "client/wait/listen.h"

#include "core/backoff.h"
#include "core/error.h"
#include "core/id.h"
#include "core/text.h"

#include <stdio.h>
#include <string.h>

#define YOUNG_MS 2000    /* clocks may differ */
#define UNDER_WAY_MS 250 /* from a grant to its lease; more where the store stalls */

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

/* What the record shows of it while it waits, and when it is a lease. */
static hf_lock_options lock_options(const hf_lease_options *options)
{
    hf_lock_options lock = options->lock;
    bool fits = options->owner && strlen(options->owner) <= HF_ACTOR_MAX;
    if (!lock.actor && fits)
        lock.actor = options->owner;
    return lock;
}

hf_code lease_request_prepare(lease_request *r, hf_client *client, const char *name,
                              const hf_lease_options *options, hf_lease *out, hf_error *err)
{
    *r = (lease_request){.client = client, .options = options, .out = out};
    *out = (hf_lease){.previous.who = ""};
    hf_code code = client_name(client, name, r->ids.name, err);
    if (!code)
        code = check(client, options, err);
    if (code)
        return code;
    r->ttl_ms = options->ttl_ms ? options->ttl_ms : client->ttl_ms;
    r->lock_options = lock_options(options);
    lease_id_make(client, options->key, &r->ids, out->id);
    return acquire_check(client, &r->lock_options, err);
}

/* ---- What another call with the same key has made ---- */

static hf_code ended(hf_error *err)
{
    hf_error why = *err;
    return error_set(err, HF_LOST, "%.300s; a key names one lease: take another key", why.text);
}

static hf_code reused(const lease_request *r, const char *what, hf_error *err)
{
    return error_set(err, HF_KEY_REUSED,
                     "%.128s: this key was used for a lease with another %s: a repeat asks for the "
                     "same, another lease needs another key",
                     r->ids.name, what);
}

/* Only what the caller said itself: the rest may differ from one program to the next. */
static hf_code check_session(const lease_request *r, hf_error *err)
{
    const hf_lease_options *options = r->options;
    const hf_session *session = &r->view.session;
    if (!r->view.stands && options->ttl_ms && options->ttl_ms != session->ttl_ms)
        return reused(r, "ttl", err);
    if (options->owner && *options->owner && strcmp(options->owner, session->app) != 0)
        return reused(r, "owner", err);
    return HF_OK;
}

static hf_code check_holder(const lease_request *r, hf_error *err)
{
    hf_enter asked = {.limit = 0};
    const hf_lock_options *options = &r->lock_options;
    lock_request_set_permits(&asked, options);
    if (r->options->ttl_ms && r->options->ttl_ms != r->view.holder.ttl_ms)
        return reused(r, "ttl", err);
    if (asked.entry.permits != r->view.holder.permits || asked.limit != r->view.limit)
        return reused(r, "mode, or number of permits", err);
    if (strcmp(options->why ? options->why : "", r->view.holder.why) != 0)
        return reused(r, "reason (why)", err);
    return HF_OK;
}

/* Its session is there, and is this request's from now on. */
static hf_code attend(lease_request *r, hf_error *err)
{
    hf_code code = lease_attend(r->client, &r->ids, &r->view, err);
    if (code == HF_LOST)
        return ended(err);
    if (!code)
        code = check_session(r, err);
    if (code)
        return code;
    r->has_begun = true;
    r->ttl_ms = r->view.session.ttl_ms;
    return HF_OK;
}

static hf_code join(lease_request *r, hf_error *err)
{
    hf_code code = check_holder(r, err);
    if (code)
        return code;
    lease_tell(r->client, &r->view, r->out);
    r->out->was_there = true;
    return HF_OK;
}

/* Most calls are the first of their key: a look at the session is enough. */
hf_code lease_request_find(lease_request *r, bool *is_found, hf_error *err)
{
    hf_session_state state;
    hf_store *store = r->client->store;
    *is_found = false;
    if (!r->options->key)
        return HF_OK;
    hf_code code = store->ops->sessions_look(store, &r->ids.session, 1, -1, &state, err);
    if (code || state.presence == HF_MISSING)
        return code;
    code = attend(r, err);
    *is_found = !code && r->view.stands;
    if (code == HF_NOT_FOUND) /* forgotten between the two */
        return HF_OK;
    return *is_found ? join(r, err) : code;
}

/* ---- Its session ---- */

static hf_session session_of(const lease_request *r)
{
    hf_session self = {
        .id = r->ids.session, .ttl_ms = (int32_t)r->ttl_ms, .started_at = client_wall(r->client)};
    const char *owner = r->options->owner;
    snprintf(self.app, sizeof self.app, "%s", owner && *owner ? owner : r->client->identity.app);
    snprintf(self.host, sizeof self.host, "%s", r->client->identity.host);
    return self;
}

static hf_code begin(lease_request *r, hf_error *err)
{
    hf_store *store = r->client->store;
    hf_session self = session_of(r);
    r->view.sent = client_now(r->client);
    hf_code code = store->ops->session_begin(store, &self, err);
    r->has_begun = code == HF_OK;
    r->view.session = self;
    return code;
}

/* Most of its time is left, so that it need not be renewed before the caller hears of it. */
static bool is_fresh(const lease_request *r)
{
    hf_mono due = lease_beat_due(r->view.sent, r->ttl_ms);
    return r->has_begun && !mono_reached(due, client_now(r->client));
}

/* Somebody has dropped the sessions: it begins anew at the next try. */
static hf_code session_went(lease_request *r, hf_error *err)
{
    r->has_begun = false;
    return error_set(err, HF_UNKNOWN, "%.128s: the session of the lease went as it was made",
                     r->ids.name);
}

/* The insert of another call with this key, or of this one, may have come first. It was
 * acknowledged by a majority when a beat after it was (R3). */
static hf_code be_alive(lease_request *r, hf_error *err)
{
    if (is_fresh(r))
        return HF_OK;
    hf_code code = r->has_begun ? HF_HELD : begin(r, err);
    if (code == HF_HELD)
        code = attend(r, err);
    return code == HF_NOT_FOUND ? session_went(r, err) : code;
}

/* ---- The pass ---- */

typedef struct lookup {
    lease_request *request;
    bool is_waiting; /* the own ticket is still there */
} lookup;

static bool seek(void *ctx, const hf_record *record)
{
    lookup *it = ctx;
    lease_request *r = it->request;
    lease_read(&r->view, r->ids.ticket, record);
    it->is_waiting = record_find(record, r->pass.ticket);
    return false;
}

/* Whether a lease was made of it, and has ended, the next call with the key finds out. */
static hf_code lock_went(lease_request *r, hf_error *err)
{
    r->is_gone = true;
    if (client_is_closing(r->client))
        return error_set(err, HF_CLOSED, "the client is being closed");
    return error_set(err, HF_UNKNOWN, "%.128s was lost before it was made a lease: ask again",
                     r->ids.name);
}

/* A step that changed nothing proves nothing where it may have reached a deposed primary. */
static hf_code confirm(lease_request *r, hf_error *err)
{
    hf_store *store = r->client->store;
    const char *name = r->ids.name;
    lookup it = {.request = r};
    hf_code code = store->ops->look(store, &name, 1, (hf_stamp){0}, true, seek, &it, err);
    if (!code)
        code = lease_check_left(&r->view, &r->ids, err);
    if (code || r->view.stands)
        return code;
    if (it.is_waiting)
        return error_set(err, HF_UNKNOWN, "%.128s: to make it a lease has not taken effect", name);
    return lock_went(r, err);
}

/* Attempts that wait here have seen this very client hold. They look again now, to watch the
 * lease's session; and those with the same key find the lease. */
static void tell_waiters(const lease_request *r, hf_stamp stamp)
{
    pthread_mutex_lock(&r->client->mutex);
    listen_tell_locked(r->client, r->ids.name, stamp);
    pthread_mutex_unlock(&r->client->mutex);
}

static hf_code pass(lease_request *r, hf_error *err)
{
    hf_store *store = r->client->store;
    hf_step step = {.pass = &r->pass};
    hf_step_reply reply;
    hf_record record;
    lookup it = {.request = r};
    r->was_passed = true;
    r->pass.ttl_ms = (int32_t)r->ttl_ms;
    hf_code code = store->ops->step(store, r->ids.name, &step, &record, &reply, err);
    if (code)
        return code;
    seek(&it, &record);
    record_done(&record);
    code = r->view.stands ? HF_OK : confirm(r, err);
    if (!code)
        tell_waiters(r, reply.stamp);
    return code;
}

/* Where several may hold at once, another call of this key may have made the lease, and its owner
 * released it, between the look at the session and the pass; then what the pass made is nobody's.
 */
static hf_code look_back(lease_request *r, hf_error *err)
{
    hf_leave leave = {.ticket = r->ids.ticket, .outcome = HF_OUTCOME_RELEASED, .told = true};
    const hf_step step = {.leaves = &leave, .n_leaves = 1};
    hf_step_reply reply;
    hf_store *store = r->client->store;
    session_who(&r->view.session, leave.who);
    bool is_alone = r->view.holder.permits == r->view.limit;
    if (!r->options->key || is_alone)
        return HF_OK;
    hf_code code = attend(r, err);
    if (code == HF_LOST && r->view.is_released)
        store->ops->step(store, r->ids.name, &step, NULL, &reply, NULL);
    if (code == HF_NOT_FOUND)
        return session_went(r, err);
    return !code && !r->view.stands ? lease_lost(r->ids.name, "has ended", err) : code;
}

static bool is_held(struct hf_lock *lock)
{
    int64_t left_ms;
    MUTEX_SCOPE(&lock->client->mutex);
    return !belief_check_locked(lock, &left_ms, client_now(lock->client), NULL);
}

/* One try. Whatever may have been passed goes on being tried: the lock itself may be gone. */
static hf_code make_once(lease_request *r, hf_error *err)
{
    if (!r->was_passed && !is_held(r->lock))
        return lock_went(r, err);
    hf_code code = be_alive(r, err);
    if (!code)
        code = pass(r, err);
    if (!code)
        code = look_back(r, err);
    if (!code)
        code = check_holder(r, err);
    return code ? code : lease_check_time(r->client, &r->view, r->ids.name, err);
}

/* Until the outcome is known the lock's place may be the lease's: nobody here is passed the lock
 * on, and its ticket may be missing. */
static void prepare_pass(lease_request *r)
{
    pthread_mutex_lock(&r->client->mutex);
    lock_begin_pass_locked(r->lock);
    r->pass = (hf_pass){.ticket = r->lock->grant.ticket,
                        .to = r->ids.ticket,
                        .session = r->ids.session,
                        .token = r->lock->grant.token,
                        .why = r->lock_options.why,
                        .actor = r->lock_options.actor};
    pthread_mutex_unlock(&r->client->mutex);
}

/* Nobody knows the id of a lease without a key: whatever stands of it is taken out by others once
 * its session is over. One with a key is there for a repeat, or ends by itself. */
static void abandon(lease_request *r)
{
    hf_store *store = r->client->store;
    if (!r->options->key)
        store->ops->session_end(store, r->ids.session, true, NULL);
}

/* A call that fails gives its own ticket back, and nothing else. */
static hf_code make(lease_request *r, hf_error *err)
{
    hf_mono since = client_now(r->client);
    unsigned failures = 0;
    hf_code code;
    prepare_pass(r);
    r->has_begun = false; /* what was found before the wait may be over */
    do
        code = make_once(r, err);
    while (!r->is_gone && client_may_retry(r->client, NULL, code, &failures, since));
    if (code) {
        abandon(r);
        lock_return(r->lock);
    } else {
        if (r->lock->previous.is_known) /* of a local turn the record knows nothing */
            r->view.last = r->lock->previous.mark;
        lease_tell(r->client, &r->view, r->out);
        handle_goes_over(r->lock);
    }
    handle_close(r->lock);
    return code;
}

/* ---- Acquire ---- */

static bool may_be_made_by_another(const lease_request *r, hf_code code)
{
    bool has_waited =
        code == HF_HELD || code == HF_TIMEOUT || code == HF_LIMIT || code == HF_DEADLOCK;
    return r->options->key && has_waited;
}

/* The lock was not had; its lease may have been, by another call. One that stood and stands no more
 * has ended. */
static hf_code look_again(lease_request *r, bool has_joined, hf_code code, hf_error *err)
{
    bool is_found;
    hf_error found;
    hf_code now = lease_request_find(r, &is_found, &found);
    bool is_told = now == HF_LOST || now == HF_KEY_REUSED;
    if (!is_found && !has_joined && !is_told)
        return code;
    if (!now && !is_found)
        now = lease_lost(r->ids.name, "has ended", &found);
    if (now)
        *err = found;
    return now;
}

/* An entry that another call with this key may have made just now, to make a lease of it. */
static bool is_alike(const lease_request *r, const hf_entry *holder, const hf_entry *own)
{
    int64_t age_ms = client_wall(r->client).ms - holder->granted_at.ms;
    return age_ms > -YOUNG_MS && age_ms < YOUNG_MS && holder->permits == own->permits &&
           strcmp(holder->why, own->why) == 0 && strcmp(holder->actor, own->actor) == 0;
}

/* Not a lease already: a process keeps its session. */
static bool is_of_process(const lease_request *r, const hf_entry *holder)
{
    hf_session_state state;
    hf_store *store = r->client->store;
    return !store->ops->sessions_look(store, &holder->session, 1, -1, &state, NULL) &&
           state.presence == HF_LIVE && state.session.pid;
}

static bool may_be_under_way(const lease_request *r, const struct attempt *attempt)
{
    const hf_record *record = &attempt->ahead.record;
    if (!r->options->key || attempt->code != HF_HELD)
        return false;
    for (size_t i = 0; i < record->holders; i++)
        if (is_alike(r, &record->entries[i], &attempt->request.enter.entry) &&
            is_of_process(r, &record->entries[i]))
            return true;
    return false;
}

/* A try that its own first call refused would end before that is answered: it waits for the lease,
 * for a moment. */
static hf_code look_for_a_while(lease_request *r, bool has_joined, hf_error *err)
{
    hf_error refused = *err;
    hf_mono end = mono_add_ms(client_now(r->client), UNDER_WAY_MS);
    hf_code code;
    unsigned looks = 0;
    do {
        *err = refused;
        code = look_again(r, has_joined, refused.code, err);
        int64_t ms = backoff_ms(++looks, 10, 200, client_chance(r->client));
        if (code != HF_HELD || cancel_pause(&r->client->env, r->lock_options.cancel, ms))
            break;
    } while (!mono_reached(end, client_now(r->client)));
    return code;
}

void lease_request_enter(lease_request *r, struct attempt *attempt)
{
    attempt_init(attempt, r->client, r->ids.name, &r->lock_options);
    if (r->options->key)
        attempt_join(attempt, r->ids.ticket);
}

hf_code lease_request_conclude(lease_request *r, struct attempt *attempt, hf_error *err)
{
    hf_mono now = client_now(r->client);
    hf_code code = attempt->code;
    bool has_joined = attempt->request.has_joined;
    bool is_under_way = may_be_under_way(r, attempt);
    *err = attempt->err;
    r->out->waited_ms = (now.ns - attempt->request.started.ns) / 1000000;
    r->lock = attempt->request.lock;
    attempt_done(attempt);
    if (!code)
        return make(r, err);
    if (is_under_way)
        return look_for_a_while(r, has_joined, err);
    return may_be_made_by_another(r, code) ? look_again(r, has_joined, code, err) : code;
}

static hf_code acquire(lease_request *r, hf_error *err)
{
    struct attempt attempt;
    bool is_found;
    hf_code code = lease_request_find(r, &is_found, err);
    if (code || is_found)
        return code;
    lease_request_enter(r, &attempt);
    acquire_drive(&attempt);
    return lease_request_conclude(r, &attempt, err);
}

hf_code lease_make(hf_client *client, const char *name, const hf_lease_options *options,
                   hf_lease *out, hf_error *err)
{
    lease_request r;
    hf_code code = lease_request_prepare(&r, client, name, options, out, err);
    return code ? code : acquire(&r, err);
}
