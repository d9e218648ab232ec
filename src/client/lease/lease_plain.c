/* SPDX-License-Identifier: Apache-2.0 */
/* lease_plain.c: ID leases in protocols without sessions. The lock's document is the lease: the
 * enter that takes it has the lease's ticket already, and renewals and releases name that ticket.
 * Calls with the same key enter with the same ticket, so all of them get the one lease. Nothing
 * remembers it once it has ended: its key then takes the lock anew. */
#include "client/lease/lease.h"

#include "client/hold/handle.h"
#include "client/hold/hold.h"

#include "core/error.h"

#include <string.h>

/* ---- Acquire ---- */

void lease_plain_enter(lease_request *r, struct attempt *attempt)
{
    r->session = lease_request_session(r);
    attempt_make_lease(attempt, r->ids.ticket, &r->session, r->options->key);
}

void lease_plain_granted(lease_request *r, const struct attempt *attempt)
{
    r->view.sent = attempt->request.sent;
    lease_read(&r->view, r->ids.ticket, &attempt->ahead.record);
    r->view.session = r->session;
    r->view.session.ttl_ms = r->view.holder.ttl_ms;
}

/* A lease without a key that its caller never hears of. */
static void give_back(const lease_request *r)
{
    hf_leave leave = {.ticket = r->ids.ticket, .outcome = HF_OUTCOME_RELEASED};
    const hf_step step = {.leaves = &leave, .n_leaves = 1};
    hf_step_reply reply;
    hf_store *store = r->client->store;
    if (!r->options->key)
        store->ops->step(store, r->ids.name, &step, NULL, &reply, NULL);
}

hf_code lease_plain_make(lease_request *r, hf_error *err)
{
    hf_code code = lease_check_time(r->client, &r->view, r->ids.name, err);
    if (code)
        give_back(r);
    else
        lease_tell(r->client, r->ids.name, &r->view, r->out);
    handle_goes_over(r->lock);
    handle_close(r->lock);
    return code;
}

/* ---- Renew ---- */

static hf_code renew(hf_client *client, const lease_ids *ids, lease_view *out, hf_error *err)
{
    hf_record record;
    hf_store *store = client->store;
    *out = (lease_view){.sent = client_now(client)};
    hf_code code =
        store->ops->lease_renew(store, ids->name, ids->session, ids->ticket, &record, err);
    if (code)
        return code == HF_LOST ? lease_lost(ids->name, "has ended", err) : code;
    lease_read(out, ids->ticket, &record);
    record_done(&record);
    out->session.ttl_ms = out->holder.ttl_ms;
    return lease_check_time(client, out, ids->name, err);
}

hf_code lease_plain_renew(hf_client *client, const lease_ids *ids, hf_lease *out, hf_error *err)
{
    lease_view view;
    hf_code code = renew(client, ids, &view, err);
    if (!code)
        lease_tell(client, ids->name, &view, out);
    return code;
}

/* ---- Find ---- */

static hf_code check(const lease_request *r, hf_error *err)
{
    const hf_entry *holder = &r->view.holder;
    if (r->options->ttl_ms > holder->ttl_ms)
        return lease_request_reused(r, "ttl", err);
    if (*holder->why && !lease_request_suits_why(r, holder->why)) /* `document` keeps none */
        return lease_request_reused(r, "reason (why)", err);
    return HF_OK;
}

static hf_code join(lease_request *r, bool *is_found, hf_error *err)
{
    hf_code code = renew(r->client, &r->ids, &r->view, err);
    if (code)
        return code == HF_LOST ? HF_OK : code; /* it has ended since the look */
    lease_tell(r->client, r->ids.name, &r->view, r->out);
    r->out->was_there = *is_found = true;
    return HF_OK;
}

hf_code lease_plain_find(lease_request *r, bool *is_found, hf_error *err)
{
    *is_found = false;
    if (!r->options->key)
        return HF_OK;
    hf_code code = lease_look(r->client, &r->ids, false, &r->view, err);
    if (code || !r->view.stands)
        return code;
    code = check(r, err);
    return code ? code : join(r, is_found, err);
}
