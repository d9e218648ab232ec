/* SPDX-License-Identifier: Apache-2.0 */
/* lease_attend.c: renews a lease. Renewals, repeats with the same key, and calls that make one
 * lease at the same time all come here, so none of them overlooks an ask (R9). */
#include "client/lease/lease.h"

#include "client/hold/hold.h"

#include "core/error.h"
#include "core/id.h"
#include "core/text.h"

#include <stdio.h>

hf_code lease_lost(const char *name, const char *how, hf_error *err)
{
    return error_set(err, HF_LOST, "the lease of %.128s %.300s", name, how);
}

/* ---- What the caller is told ---- */

static void copy_text(char to[HF_TEXT_MAX + 1], const char **from)
{
    if (!*from)
        return;
    snprintf(to, HF_TEXT_MAX + 1, "%s", *from);
    *from = to;
}

static void tell_previous(const hf_last_mark *last, hf_lease *out)
{
    out->previous = previous_text(last);
    copy_text(out->previous_who, &out->previous.who);
    copy_text(out->previous_reason, &out->previous.reason);
    copy_text(out->previous_done_who, &out->previous.done.who);
}

/* How long a lease that stands lasts: never longer than a watcher of its session waits. The two
 * ttls differ only if the session was dropped, and a call with another ttl began it anew. */
static int64_t ttl_ms(const lease_view *view)
{
    return view->session.ttl_ms < view->holder.ttl_ms ? view->session.ttl_ms : view->holder.ttl_ms;
}

/* Its session's name, if that is known, else that in the record. */
static void show_in_diary(hf_client *client, const char *name, const lease_view *view)
{
    char who[HF_TEXT_MAX + 1] = "";
    if (view->session.app[0])
        session_who(&view->session, who);
    diary_saw_lease(client, name, &view->holder, view->limit, who[0] ? who : view->who);
}

void lease_tell(hf_client *client, const char *name, const lease_view *view, hf_lease *out)
{
    show_in_diary(client, name, view);
    hf_mono end = lease_end(view->sent, ttl_ms(view));
    out->token = view->holder.token;
    out->ttl_ms = ttl_ms(view);
    out->ends_at_ns = end.ns;
    out->left_ms = mono_ms_until(end, client_now(client));
    tell_previous(&view->last, out);
}

/* ---- Its ticket ---- */

void lease_read(lease_view *view, hf_id ticket, const hf_record *record)
{
    const hf_entry *entry = record_find(record, ticket);
    view->is_recorded = record->exists;
    view->stands = entry && record_position(record, entry) == 0;
    view->limit = record->limit;
    view->last = record->last;
    snprintf(view->who, sizeof view->who, "%s", record->who ? record->who : "");
    if (view->stands)
        view->holder = *entry;
}

typedef struct lookup {
    const lease_ids *ids;
    lease_view *view;
} lookup;

static bool seek(void *ctx, const hf_record *record)
{
    lookup *it = ctx;
    lease_read(it->view, it->ids->ticket, record);
    return false;
}

hf_code lease_look(hf_client *client, const lease_ids *ids, bool linearizable, lease_view *out,
                   hf_error *err)
{
    hf_store *store = client->store;
    const char *name = ids->name;
    lookup it = {ids, out};
    out->is_recorded = out->stands = false;
    return store->ops->look(store, &name, 1, (hf_stamp){0}, linearizable, seek, &it, err);
}

/* Only a linearizable look proves that it is missing. */
static hf_code look(hf_client *client, const lease_ids *ids, lease_view *out, hf_error *err)
{
    hf_code code = lease_look(client, ids, false, out, err);
    if (code || out->stands)
        return code;
    return lease_look(client, ids, true, out, err);
}

/* ---- Its session ---- */

/* An ask that names nobody is the owner's own release (lease_release.c). */
static hf_code why_asked(const lease_ids *ids, const hf_ask *ask, lease_view *out, hf_error *err)
{
    out->is_released = !*ask->by;
    text_broken(out->broken, ask);
    if (out->is_released)
        return lease_lost(ids->name, "was released", err);
    return error_set(err, HF_LOST, "%.128s was broken by %.100s: %.160s", ids->name, ask->by,
                     ask->reason);
}

static hf_code find_ask(const hf_session_state *state, const lease_ids *ids, lease_view *out,
                        hf_error *err)
{
    for (size_t i = 0; i < state->n_asked; i++)
        if (id_equal(state->asked[i].ticket, ids->ticket))
            return why_asked(ids, &state->asked[i], out, err);
    return HF_OK;
}

/* A beat found no living session: it has not begun, or it is over. */
static hf_code why_lost(hf_client *client, const lease_ids *ids, lease_view *out, hf_error *err)
{
    hf_session_state state;
    hf_store *store = client->store;
    hf_code code = store->ops->sessions_look(store, &ids->session, 1, -1, &state, err);
    if (code)
        return code;
    out->is_released = state.presence == HF_DEAD;
    switch (state.presence) {
    case HF_DEAD:
        return lease_lost(ids->name, "has run out, or was released", err);
    case HF_MISSING:
        return error_set(err, HF_NOT_FOUND,
                         "the lease of %.128s is not there: it was never made, "
                         "or has ended long ago",
                         ids->name);
    case HF_LIVE:
    case HF_ODD: /* an error of the look */
    default:
        return error_set(err, HF_UNKNOWN, "the lease of %.128s began just now", ids->name);
    }
}

static hf_code beat(hf_client *client, const lease_ids *ids, lease_view *out, hf_error *err)
{
    static const hf_beat says = {.n_answered = 0};
    hf_session_state state;
    hf_store *store = client->store;
    out->sent = client_now(client);
    hf_code code = store->ops->session_beat(store, ids->session, &says, &state, err);
    if (code == HF_LOST)
        return why_lost(client, ids, out, err);
    if (code)
        return code;
    out->session = state.session;
    return find_ask(&state, ids, out, err);
}

hf_code lease_check_left(const lease_view *view, const lease_ids *ids, hf_error *err)
{
    bool has_left =
        view->last.outcome != HF_OUTCOME_NONE && id_equal(view->last.session, ids->session);
    if (view->stands || !has_left)
        return HF_OK;
    return lease_lost(ids->name, "has ended: its ticket was taken out", err);
}

hf_code lease_check_time(hf_client *client, const lease_view *view, const char *name, hf_error *err)
{
    hf_mono end = lease_end(view->sent, ttl_ms(view));
    if (!view->stands || !mono_reached(end, client_now(client)))
        return HF_OK;
    return error_set(err, HF_UNKNOWN, "%.128s: the store took longer than the lease's ttl", name);
}

static hf_code attend(hf_client *client, const lease_ids *ids, lease_view *out, hf_error *err)
{
    *out = (lease_view){.stands = false};
    hf_code code = beat(client, ids, out, err);
    if (!code)
        code = look(client, ids, out, err);
    return code ? code : lease_check_left(out, ids, err);
}

/* After a stall longer than the lease, somebody else may have the lock by now: a second beat tells.
 */
hf_code lease_attend(hf_client *client, const lease_ids *ids, lease_view *out, hf_error *err)
{
    hf_code code = attend(client, ids, out, err);
    if (!code && lease_check_time(client, out, ids->name, err))
        code = attend(client, ids, out, err);
    return code ? code : lease_check_time(client, out, ids->name, err);
}
