/* SPDX-License-Identifier: Apache-2.0 */
/* lease_make.c: makes a lease of a lock that is held. One step gives the lock's place to the
 * lease's session, and decides for all calls with the same key. */
#include "client/lease/lease.h"

#include "client/hold/handle.h"
#include "client/hold/hold.h"
#include "client/wait/listen.h"

#include "core/error.h"
#include "core/id.h"

#include <stdio.h>
#include <string.h>

/* ---- Its session ---- */

static hf_code begin(lease_request *r, hf_error *err)
{
    hf_store *store = r->client->store;
    hf_session self = lease_request_session(r);
    r->view.sent = client_now(r->client);
    hf_code code = store->ops->session_begin(store, &self, err);
    r->has_begun = code == HF_OK;
    r->view.session = self;
    return code;
}

/* Whether most of its time is left; then it need not be renewed before the caller hears of it. */
static bool is_fresh(const lease_request *r)
{
    hf_mono due = lease_beat_due(r->view.sent, r->ttl_ms);
    return r->has_begun && !mono_reached(due, client_now(r->client));
}

/* The sessions were dropped: the lease's session begins anew at the next try. */
static hf_code session_went(lease_request *r, hf_error *err)
{
    r->has_begun = false;
    return error_set(err, HF_UNKNOWN, "%.128s: the sessions were dropped while the lease was made",
                     r->ids.name);
}

/* An earlier insert, by another call with this key or by this one, may have arrived. If a beat
 * after it is acknowledged by a majority, so is the insert (R3). Once the ticket may stand,
 * somebody may watch the session as missing since before it began, so a beat shows that it is
 * there. */
static hf_code begin_or_join(lease_request *r, hf_error *err)
{
    bool is_there;
    hf_code code = begin(r, err);
    if (code == HF_HELD)
        code = lease_request_compare(r, &is_there, err);
    else if (!code && !r->was_passed)
        return HF_OK;
    return code ? code : lease_request_attend(r, err);
}

static hf_code be_alive(lease_request *r, hf_error *err)
{
    if (is_fresh(r))
        return HF_OK;
    hf_code code = r->has_begun ? lease_request_attend(r, err) : begin_or_join(r, err);
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

/* The next call with the key finds out whether a lease was made of it and has ended. */
static hf_code lock_went(lease_request *r, hf_error *err)
{
    r->is_gone = true;
    if (client_is_closing(r->client))
        return error_set(err, HF_CLOSED, "the client is being closed");
    return error_set(err, HF_UNKNOWN, "%.128s was lost before it was made a lease: ask again",
                     r->ids.name);
}

/* If a deposed primary may have answered, a step that changed nothing proves nothing. */
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
        return error_set(err, HF_UNKNOWN, "%.128s: it has not become a lease yet", name);
    return lock_went(r, err);
}

/* Attempts that wait in this client have seen this client hold the lock. They look again now, to
 * watch the lease's session; those with the same key find the lease. */
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

/* If several may hold at once, another call with this key may have made the lease, and its owner
 * released it, between this call's look at the session and its pass. Then nobody owns what this
 * pass made.
 */
static hf_code look_back(lease_request *r, hf_error *err)
{
    hf_leave leave = {.ticket = r->ids.ticket, .outcome = HF_OUTCOME_RELEASED, .told = true};
    const hf_step step = {.leaves = &leave, .n_leaves = 1};
    hf_step_reply reply;
    hf_store *store = r->client->store;
    session_who(&r->view.session, leave.who);
    bool is_alone = r->view.holder.permits == HF_LIMIT_RW; /* another limit may be raised */
    if (!r->options->key || is_alone)
        return HF_OK;
    hf_code code = lease_request_attend(r, err);
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

/* One try. Once a pass may have happened, the call keeps trying: the lock itself may be gone. */
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
        code = lease_request_check(r, err);
    return code ? code : lease_check_time(r->client, &r->view, r->ids.name, err);
}

/* Until the outcome is known, the lease may have the lock's place. So the lock is not passed on to
 * other threads, and its ticket may be missing. */
static void prepare_pass(lease_request *r)
{
    pthread_mutex_lock(&r->client->mutex);
    lock_begin_pass_locked(r->lock);
    r->pass = (hf_pass){.ticket = r->lock->grant.ticket,
                        .to = r->ids.ticket,
                        .session = r->ids.session,
                        .token = r->lock->grant.token,
                        .why = r->lock_options.why,
                        .actor = r->actor};
    r->before = lock_leave_before(r->lock);
    if (r->lock->previous.is_local)
        r->pass.before = &r->before;
    pthread_mutex_unlock(&r->client->mutex);
}

/* Nobody else knows the id of a lease without a key: its session is ended, and others take out what
 * stands of it. A lease with a key stays for a repeat, or ends by itself. If the store gives no
 * answer, the caller does not wait for this one. */
static void abandon(lease_request *r, hf_code why)
{
    hf_client *client = r->client;
    if (r->options->key)
        return;
    if (!error_is_no_answer(why)) {
        client->store->ops->session_end(client->store, r->ids.session, true, NULL);
        return;
    }
    MUTEX_SCOPE(&client->mutex);
    life_end_other_locked(client, r->ids.session);
}

/* If it is not known whether the pass has happened, the one that takes the ticket out notes the
 * turn.
 */
static void give_back(lease_request *r)
{
    if (r->is_gone) {
        MUTEX_SCOPE(&r->client->mutex);
        loss_of_no_lease_locked(r->lock);
    }
    lock_return(r->lock);
}

hf_code lease_request_make(lease_request *r, hf_error *err)
{
    bool may_wait = r->lock_options.wait_ms >= 0;
    hf_mono end = lease_request_patience_end(r, may_wait ? client_now(r->client) : r->since);
    unsigned failures = 0;
    hf_code code;
    BOUND_SCOPE(r->client->store, end, NULL);
    prepare_pass(r);
    r->has_begun = false; /* what was found before the wait may be over */
    do
        code = make_once(r, err);
    while (!r->is_gone && client_may_retry_until(r->client, NULL, code, &failures, end));
    if (code) {
        abandon(r, code);
        give_back(r);
    } else {
        lease_tell(r->client, r->ids.name, &r->view, r->out);
        handle_goes_over(r->lock);
    }
    handle_close(r->lock);
    return code;
}
