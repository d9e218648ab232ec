/* SPDX-License-Identifier: Apache-2.0 */
/* lease_request.c: checks what a call asks for, and finds the lease that another call with the same
 * key has made. */
#include "client/lease/lease.h"

#include "client/wait/acquire.h"

#include "core/caller.h"
#include "core/error.h"
#include "core/text.h"

#include <stdio.h>
#include <string.h>

/* ---- What is asked for ---- */

static hf_code check_lock(const hf_lock_options *lock, hf_error *err)
{
    bool wants_process = lock->on_lost || lock->linger_ms || lock->no_refresh || lock->feed_ms ||
                         lock->max_hold_ms || lock->period_ms || lock->lock_session;
    if (!wants_process)
        return HF_OK;
    return error_set(err, HF_INVALID,
                     "no process keeps a lease: on_lost, linger_ms, no_refresh, feed_ms, "
                     "max_hold_ms, period_ms and lock_session are for locks");
}

bool lease_is_plain(const hf_client *client)
{
    return !(client->store->can & HF_CAN_QUEUE);
}

static hf_code check(hf_client *client, const hf_lease_options *options, hf_error *err)
{
    if (lease_is_plain(client) && !client->store->ops->lease_renew)
        return error_set(err, HF_UNSUPPORTED,
                         "protocol %s has no ID leases: hfProtocol=queue has them",
                         client->store->protocol);
    int64_t ttl_ms = options->ttl_ms ? options->ttl_ms : client->ttl_ms;
    if (ttl_ms < LEASE_TTL_MIN_MS || ttl_ms > LEASE_TTL_MAX_MS)
        return error_set(err, HF_INVALID, "a ttl of %lld ms: from 1,000 to 3,600,000",
                         (long long)ttl_ms);
    hf_code code = text_check("the owner", options->owner, HF_TEXT_MAX, err);
    if (!code)
        code = text_check("the host", options->host, HF_TEXT_MAX, err);
    return code ? code : check_lock(&options->lock, err);
}

/* What the record shows when it is a lease, and while it waits. The session that waits is this
 * client's, so a caller from another host is named then. */
static void set_lock_options(lease_request *r)
{
    const hf_lease_options *options = r->options;
    bool fits = options->owner && strlen(options->owner) <= HF_ACTOR_MAX;
    r->lock_options = options->lock;
    r->actor = !options->lock.actor && fits ? options->owner : options->lock.actor;
    if (!options->lock.actor && options->host && *options->host) {
        const hf_session self = lease_request_session(r);
        caller_write(self.app, self.host, r->caller);
    }
    r->lock_options.actor = *r->caller ? r->caller : r->actor;
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
    r->since = client_now(client);
    r->ttl_ms = options->ttl_ms ? options->ttl_ms : client->ttl_ms;
    set_lock_options(r);
    lease_id_make(client, options->key, &r->ids, out->id);
    return acquire_check(client, &r->lock_options, err);
}

hf_session lease_request_session(const lease_request *r)
{
    hf_session self = {
        .id = r->ids.session, .ttl_ms = (int32_t)r->ttl_ms, .started_at = client_wall(r->client)};
    const char *owner = r->options->owner, *host = r->options->host;
    snprintf(self.app, sizeof self.app, "%s", owner && *owner ? owner : r->client->identity.app);
    snprintf(self.host, sizeof self.host, "%s", host && *host ? host : r->client->identity.host);
    return self;
}

hf_mono lease_request_patience_end(const lease_request *r, hf_mono since)
{
    bool may_wait = r->lock_options.wait_ms >= 0;
    return mono_add_ms(since, may_wait ? r->client->patience_ms : r->client->call_patience_ms);
}

/* ---- What another call with the same key has made ---- */

static hf_code ended(hf_error *err)
{
    hf_error why = *err;
    return error_set(err, HF_LOST, "%.300s; a key names one lease: take another key", why.text);
}

bool lease_request_suits_why(const lease_request *r, const char *why)
{
    const char *asked = r->lock_options.why;
    return !asked || !*asked || strcmp(asked, why) == 0;
}

hf_code lease_request_reused(const lease_request *r, const char *what, hf_error *err)
{
    return error_set(err, HF_KEY_REUSED,
                     "%.128s: this key was used for a lease with another %s: a repeat asks for the "
                     "same, another lease needs another key",
                     r->ids.name, what);
}

/* Compares only what the caller set: defaults may differ between programs. A session that was
 * dropped, and begun by a watcher to be marked, names no owner. */
static hf_code check_session(const lease_request *r, hf_error *err)
{
    const hf_lease_options *options = r->options;
    const hf_session *session = &r->view.session;
    if (!r->view.stands && options->ttl_ms && options->ttl_ms != session->ttl_ms)
        return lease_request_reused(r, "ttl", err);
    bool is_owned = options->owner && *options->owner && *session->app;
    if (is_owned && strcmp(options->owner, session->app) != 0)
        return lease_request_reused(r, "owner", err);
    return HF_OK;
}

/* That of a semaphore may have been set anew since. */
static bool is_limit_like(int32_t asked, int32_t present)
{
    return (asked == HF_LIMIT_RW) == (present == HF_LIMIT_RW);
}

hf_code lease_request_check(const lease_request *r, hf_error *err)
{
    hf_enter asked = {.limit = 0};
    const hf_lock_options *options = &r->lock_options;
    lock_request_set_permits(&asked, options);
    if (r->options->ttl_ms && r->options->ttl_ms != r->view.holder.ttl_ms)
        return lease_request_reused(r, "ttl", err);
    if (asked.entry.permits != r->view.holder.permits || !is_limit_like(asked.limit, r->view.limit))
        return lease_request_reused(r, "mode, number of permits, or limit", err);
    if (!lease_request_suits_why(r, r->view.holder.why))
        return lease_request_reused(r, "reason (why)", err);
    return HF_OK;
}

hf_code lease_request_attend(lease_request *r, hf_error *err)
{
    hf_code code = lease_is_kept(r->client, &r->ids)
                       ? lease_lost(r->ids.name, "is being released", err)
                       : lease_attend(r->client, &r->ids, &r->view, err);
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

/* What stands now: the record is compared too, so that nothing is renewed for a call that is
 * refused.
 */
static hf_code compare(lease_request *r, const hf_session_state *state, hf_error *err)
{
    r->view = (lease_view){.session = state->session};
    hf_code code = lease_look(r->client, &r->ids, false, &r->view, err);
    if (!code)
        code = check_session(r, err);
    return !code && r->view.stands ? lease_request_check(r, err) : code;
}

hf_code lease_request_compare(lease_request *r, bool *is_there, hf_error *err)
{
    hf_session_state state;
    hf_store *store = r->client->store;
    hf_code code = store->ops->sessions_look(store, &r->ids.session, 1, -1, &state, err);
    *is_there = !code && state.presence != HF_MISSING;
    return !code && state.presence == HF_LIVE ? compare(r, &state, err) : code;
}

static hf_code join(lease_request *r, hf_error *err)
{
    hf_code code = lease_request_check(r, err);
    if (code)
        return code;
    lease_tell(r->client, r->ids.name, &r->view, r->out);
    r->out->was_there = true;
    return HF_OK;
}

/* Most calls are the first with their key: a look at the session is enough. */
hf_code lease_request_find(lease_request *r, bool *is_found, hf_error *err)
{
    bool is_there;
    *is_found = false;
    if (!r->options->key)
        return HF_OK;
    hf_code code = lease_request_compare(r, &is_there, err);
    if (code || !is_there)
        return code;
    code = lease_request_attend(r, err);
    *is_found = !code && r->view.stands;
    if (code == HF_NOT_FOUND) /* the session was forgotten between the two calls */
        return HF_OK;
    return *is_found ? join(r, err) : code;
}
