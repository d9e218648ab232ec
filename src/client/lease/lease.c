/* SPDX-License-Identifier: Apache-2.0 */
/* lease.c: acquires ID leases: locks that are held by an id, not by a process. The client's own
 * session waits for the lock like for any other and takes it; then lease_make.c makes an ID lease
 * of it. */
#include "client/lease/lease.h"

#include "client/hold/hold.h"
#include "client/wait/acquire.h"

#include "core/backoff.h"
#include "core/caller.h"

#include <string.h>

#define YOUNG_MS 2000    /* clocks may differ */
#define UNDER_WAY_MS 250 /* from a grant to its lease; more where the store stalls */
#define LATE_MS 1000     /* for what is asked after a wait that was in vain */

static hf_code find(lease_request *r, bool *is_found, hf_error *err)
{
    return lease_is_plain(r->client) ? lease_plain_find(r, is_found, err)
                                     : lease_request_find(r, is_found, err);
}

/* ---- The search for a lease that another call has made ---- */

/* A wait, however short, has the time of a try. */
static hf_mono search_end(const lease_request *r)
{
    const int64_t wait_ms = r->lock_options.wait_ms, least_ms = r->client->call_patience_ms;
    hf_mono end = lease_request_patience_end(r, r->since);
    if (wait_ms <= 0)
        return end;
    return mono_min(end, mono_add_ms(r->since, wait_ms > least_ms ? wait_ms : least_ms));
}

hf_code lease_find(lease_request *r, bool *is_found, hf_error *err)
{
    BOUND_SCOPE(r->client->store, search_end(r), r->lock_options.cancel);
    return find(r, is_found, err);
}

bool lease_finds_again(lease_request *r, hf_code code, int64_t *ms)
{
    return !client_is_closing(r->client) &&
           client_retries_until(r->client, code, &r->failures, search_end(r), ms);
}

/* The lock is waited for as long as the search has left. */
static void shorten_wait(lease_request *r)
{
    int64_t *wait_ms = &r->lock_options.wait_ms;
    int64_t gone_ms = (client_now(r->client).ns - r->since.ns) / 1000000;
    if (*wait_ms > 0 && *wait_ms != HF_WAIT_FOREVER)
        *wait_ms = *wait_ms > gone_ms ? *wait_ms - gone_ms : 1;
}

/* ---- Acquire ---- */

static bool may_be_made_by_another(const lease_request *r, hf_code code)
{
    bool has_waited =
        code == HF_HELD || code == HF_TIMEOUT || code == HF_LIMIT || code == HF_DEADLOCK;
    return r->options->key && has_waited;
}

/* The lock was not granted to this call, but another call may have made the lease. A lease that
 * stood and stands no more has ended. */
static hf_code look_again(lease_request *r, bool has_joined, hf_code code, hf_error *err)
{
    bool is_found;
    hf_error found;
    hf_code now = find(r, &is_found, &found);
    bool is_told = now == HF_LOST || now == HF_KEY_REUSED;
    if (!is_found && !has_joined && !is_told)
        return code;
    if (!now && !is_found)
        now = lease_lost(r->ids.name, "has ended", &found);
    if (now)
        *err = found;
    return now;
}

/* Whether another call with this key may have made this entry just now, to make a lease of it. */
static bool is_alike(const lease_request *r, const hf_entry *holder, const hf_entry *own)
{
    int64_t age_ms = client_wall(r->client).ms - holder->granted_at.ms;
    return age_ms > -YOUNG_MS && age_ms < YOUNG_MS && holder->permits == own->permits &&
           strcmp(holder->why, own->why) == 0 && caller_is_same(own->actor, holder->actor);
}

/* A process keeps its session, so it is no lease yet. */
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

/* A repeated try can be refused because of its own first call, which is not answered yet. So it
 * waits a moment for that call's lease, and looks once more when that moment is over. */
static hf_code look_for_a_while(lease_request *r, bool has_joined, hf_error *err)
{
    hf_error refused = *err;
    hf_mono end = mono_add_ms(client_now(r->client), UNDER_WAY_MS);
    hf_code code;
    unsigned looks = 0;
    bool is_last;
    int64_t ms;
    do {
        *err = refused;
        is_last = mono_reached(end, client_now(r->client));
        code = look_again(r, has_joined, refused.code, err);
        ms = backoff_ms(++looks, 10, 200, client_chance(r->client));
    } while (code == HF_HELD && !is_last &&
             !cancel_pause(&r->client->env, r->lock_options.cancel, ms));
    return code;
}

void lease_request_enter(lease_request *r, struct attempt *attempt)
{
    shorten_wait(r);
    attempt_init(attempt, r->client, r->ids.name, &r->lock_options);
    attempt->asked = r->since;
    if (lease_is_plain(r->client))
        lease_plain_enter(r, attempt);
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
    r->out->waited_ms = (now.ns - r->since.ns) / 1000000;
    r->lock = attempt->request.lock;
    bool is_plain = lease_is_plain(r->client);
    if (!code && is_plain)
        lease_plain_granted(r, attempt);
    attempt_done(attempt);
    if (!code)
        return is_plain ? lease_plain_make(r, err) : lease_request_make(r, err);
    BOUND_SCOPE(r->client->store, mono_add_ms(now, LATE_MS), r->lock_options.cancel);
    if (is_under_way)
        return look_for_a_while(r, has_joined, err);
    return may_be_made_by_another(r, code) ? look_again(r, has_joined, code, err) : code;
}

static hf_code acquire(lease_request *r, hf_error *err)
{
    struct attempt attempt;
    bool is_found, is_cancelled = false;
    int64_t ms;
    hf_code code = lease_find(r, &is_found, err);
    while (!is_cancelled && lease_finds_again(r, code, &ms)) {
        is_cancelled = cancel_pause(&r->client->env, r->lock_options.cancel, ms);
        if (!is_cancelled)
            code = lease_find(r, &is_found, err);
    }
    if (!is_cancelled && (code || is_found))
        return code;
    lease_request_enter(r, &attempt);
    acquire_drive(&attempt);
    return lease_request_conclude(r, &attempt, err);
}

hf_code lease_acquire(hf_client *client, const char *name, const hf_lease_options *options,
                      hf_lease *out, hf_error *err)
{
    lease_request r;
    hf_code code = lease_request_prepare(&r, client, name, options, out, err);
    return code ? code : acquire(&r, err);
}
