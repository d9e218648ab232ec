/* SPDX-License-Identifier: Apache-2.0 */
/* lease_release.c: renews and releases leases, for anybody who knows the id. */
#include "client/lease/lease.h"

#include "client/hold/hold.h"

#include "core/error.h"
#include "core/id.h"
#include "core/text.h"

#include <stdio.h>

/* As long as nobody else has left since, it is known how the lease ended. */
static bool was_last(const lease_view *view, const lease_ids *ids, hf_outcome outcome)
{
    return id_equal(view->last.session, ids->session) && view->last.outcome == outcome;
}

/* ---- Renew ---- */

/* Returns code; if it says that the lease was lost, the diary learns it. broken: as in lease_view.
 */
static hf_code ended(hf_client *client, const lease_ids *ids, hf_code code, const char *broken,
                     const hf_error *err)
{
    const char *how = err ? err->text : "";
    if (code == HF_LOST)
        diary_lease_lost(client, ids->ticket, *broken ? HF_TURN_BROKEN : HF_TURN_LOST,
                         *broken ? broken : how);
    return code;
}

/* The session lives without a ticket: a break took it out, or its record was dropped. */
static hf_code is_over(hf_client *client, const lease_ids *ids, hf_error *err)
{
    hf_store *store = client->store;
    store->ops->session_end(store, ids->session, true, NULL);
    return lease_lost(ids->name, "is over: somebody took its ticket out, or the record is gone",
                      err);
}

static hf_code renew(hf_client *client, const lease_ids *ids, lease_view *view, hf_lease *out,
                     hf_error *err)
{
    hf_code code = lease_attend(client, ids, view, err);
    if (code == HF_NOT_FOUND)
        return lease_lost(ids->name, "has run out, or was released", err);
    if (code)
        return code;
    if (!view->stands)
        return is_over(client, ids, err);
    lease_tell(client, ids->name, view, out);
    return HF_OK;
}

/* If its session is dead, the record was not read. */
static bool was_released_elsewhere(hf_client *client, const lease_ids *ids, lease_view *view)
{
    if (view->is_released &&
        (diary_misses_lease(client, ids->ticket) || lease_look(client, ids, false, view, NULL)))
        return false;
    return was_last(view, ids, HF_OUTCOME_RELEASED);
}

hf_code lease_renew(hf_client *client, const lease_ids *ids, hf_lease *out, hf_error *err)
{
    lease_view view;
    hf_mono end = mono_add_ms(client_now(client), client->call_patience_ms);
    unsigned failures = 0;
    hf_code code;
    if (lease_is_kept(client, ids))
        return lease_lost(ids->name, "is being released", err);
    BOUND_SCOPE(client->store, end, NULL);
    do {
        view = (lease_view){.broken = ""};
        code = lease_is_plain(client) ? lease_plain_renew(client, ids, out, err)
                                      : renew(client, ids, &view, out, err);
    } while (client_may_retry_until(client, NULL, code, &failures, end));
    if (code == HF_LOST && !*view.broken && was_released_elsewhere(client, ids, &view))
        diary_forget_lease(client, ids->ticket);
    return ended(client, ids, code, view.broken, err);
}

/* ---- Release ---- */

typedef struct departure {
    const lease_ids *ids;
    hf_mono patience_end; /* until when what gets no answer is repeated */
    lease_farewell *late; /* it was asked for earlier; NULL: its caller waits */
    hf_leave leave;
    bool was_sent;                /* an earlier try had no answer */
    bool is_out;                  /* this release took its ticket out, as far as is known */
    bool was_free;                /* its session lived, and nobody else had asked for it */
    hf_wall began;                /* its session, just after the lock was granted; 0: not known */
    char broken[HF_TEXT_MAX + 1]; /* as in lease_view */
    lease_view view;
} departure;

/* A death leaves a mark on the session, and a break leaves an ask in it. If there is neither, an
 * earlier try or call released the lease, unless somebody dropped the record. */
static bool was_released_before(const departure *l, bool is_plain)
{
    /* Before the earlier try could arrive. */
    bool was_lost = was_last(&l->view, l->ids, HF_OUTCOME_ABANDONED);
    bool was_first = l->was_sent && !was_lost && (l->was_free || is_plain);
    return was_first || was_last(&l->view, l->ids, HF_OUTCOME_RELEASED) ||
           (l->was_free && l->view.is_recorded);
}

/* An ask that names nobody is its owner's own release, which is no break. */
static void find_break(const hf_session_state *state, hf_id ticket, char broken[HF_TEXT_MAX + 1])
{
    for (size_t i = 0; i < state->n_asked; i++)
        if (id_equal(state->asked[i].ticket, ticket) && *state->asked[i].by)
            text_broken(broken, &state->asked[i]);
}

/* After a stall, the lease may have been lost since the release began, so this is checked now. */
static hf_code look_at_session(hf_client *client, departure *l, hf_error *err)
{
    hf_session_state state;
    hf_store *store = client->store;
    hf_code code = store->ops->sessions_look(store, &l->ids->session, 1, -1, &state, err);
    if (!code && state.presence == HF_LIVE)
        find_break(&state, l->leave.ticket, l->broken);
    l->was_free = !code && state.presence == HF_LIVE && !*l->broken;
    return code;
}

static hf_code leave_once(hf_client *client, departure *l, hf_error *err)
{
    hf_step step = {.leaves = &l->leave, .n_leaves = 1};
    hf_step_reply reply;
    hf_store *store = client->store;
    hf_code code = store->ops->step(store, l->ids->name, &step, NULL, &reply, err);
    l->is_out = !code && (reply.confirmed || l->was_sent);
    if (code || reply.confirmed)
        return code;
    code = lease_look(client, l->ids, true, &l->view, err);
    if (!code)
        code = look_at_session(client, l, err);
    if (code)
        return code;
    if (l->view.stands)
        return error_set(err, HF_UNKNOWN, "%.128s: the release has not taken effect", l->ids->name);
    if (was_released_before(l, lease_is_plain(client)))
        return HF_OK;
    return lease_lost(l->ids->name,
                      lease_is_plain(client) ? "was lost, or had been released before"
                                             : "was lost before it was released",
                      err);
}

static hf_code leave(hf_client *client, departure *l, hf_error *err)
{
    unsigned failures = 0;
    hf_code code;
    do {
        code = leave_once(client, l, err);
        l->was_sent |= code == HF_UNKNOWN;
    } while (client_may_retry_until(client, NULL, code, &failures, l->patience_end));
    return code;
}

/* Its session is over, but perhaps nobody has taken its ticket out yet. */
static hf_code was_released(hf_client *client, departure *l, hf_error *err)
{
    unsigned failures = 0;
    hf_code code;
    do
        code = lease_look(client, l->ids, true, &l->view, err);
    while (client_may_retry_until(client, NULL, code, &failures, l->patience_end));
    bool has_run_out = l->view.stands || was_last(&l->view, l->ids, HF_OUTCOME_ABANDONED);
    l->leave.outcome = HF_OUTCOME_ABANDONED;
    if (!code && l->view.stands)
        code = leave(client, l, err);
    if (code || !has_run_out)
        return code;
    return lease_lost(l->ids->name, "had run out before it was released", err);
}

/* A repeat with its key must never take the lock anew, however late it comes. So the session first
 * says that the lease is over; then the ticket is taken out. One that is late says so in any case:
 * from then on nobody renews. */
static hf_code say_so(hf_client *client, const departure *l, hf_error *err)
{
    const lease_ids *ids = l->ids;
    const hf_ask released = {.ticket = ids->ticket, .reason = "released"};
    unsigned failures = 0;
    hf_code code;
    if (!ids->is_keyed && !l->late)
        return HF_OK;
    do
        code = client->store->ops->ask(client->store, ids->session, &released, err);
    while (client_may_retry_until(client, NULL, code, &failures, l->patience_end));
    return code;
}

/* If another process has made and renewed it, the record says what the history will want to know.
 */
static void see(hf_client *client, const departure *l)
{
    const lease_ids *ids = l->ids;
    const char *who = l->leave.who;
    lease_view view;
    if (diary_misses_lease(client, ids->ticket) && !lease_look(client, ids, false, &view, NULL) &&
        view.stands)
        diary_saw_lease(client, ids->name, &view.holder, view.limit, *who ? who : view.who);
}

/* A break asked for it: its owner has stopped now, which releases nothing that was its own. */
static hf_code leave_broken(hf_client *client, departure *l, hf_error *err)
{
    l->leave.outcome = HF_OUTCOME_ABANDONED;
    snprintf(l->leave.reason, sizeof l->leave.reason, "%s", l->broken);
    hf_code code = leave(client, l, err);
    if (code)
        return code;
    return error_set(err, HF_LOST, "the lease of %.128s was %.300s", l->ids->name, l->broken);
}

static hf_code end_session(hf_client *client, const departure *l, hf_code code)
{
    if (!code || code == HF_LOST)
        client->store->ops->session_end(client->store, l->ids->session, false, NULL);
    return code;
}

/* Whether its last beat is younger than the request for its release. The store's clock tells the
 * age of the beat, this host's that of the request; they may run at different speeds. */
static bool was_renewed(hf_client *client, const departure *l, const hf_session_state *state)
{
    int64_t age_ms = state->session.ttl_ms - state->lease_left_ms;
    int64_t since_ms = -mono_ms_until(l->late->since, client_now(client));
    int64_t allowance_ms = lease_allowance_ns(since_ms) / 1000000;
    return age_ms <= since_ms + allowance_ms;
}

/* Its owner had ended its belief when it asked for the release. But one that got no answer may have
 * renewed the lease since, at another client, and believe again. There is an ask now, so no renewal
 * succeeds any more, and what one before it gave is over after a ttl (R9). HF_HELD: not yet. */
static hf_code check_belief(hf_client *client, const departure *l, hf_error *err)
{
    hf_session_state state;
    lease_farewell *late = l->late;
    if (late->over_at.ns == MONO_NEVER.ns) {
        hf_code code =
            client->store->ops->sessions_look(client->store, &l->ids->session, 1, -1, &state, err);
        if (code || state.presence != HF_LIVE || !was_renewed(client, l, &state))
            return code;
        late->over_at = lease_watch_end(client_now(client), state.session.ttl_ms);
    }
    if (mono_reached(late->over_at, client_now(client)))
        return HF_OK;
    return error_set(err, HF_HELD, "%.128s: its lease was renewed after its release", l->ids->name);
}

/* Its session lives. */
static hf_code give_up(hf_client *client, departure *l, const hf_session_state *state,
                       hf_error *err)
{
    see(client, l);
    find_break(state, l->leave.ticket, l->broken);
    hf_code code = *l->broken ? HF_OK : say_so(client, l, err);
    if (code == HF_NOT_FOUND)
        return was_released(client, l, err);
    if (!code && l->late)
        code = check_belief(client, l, err);
    if (code)
        return code;
    return end_session(client, l,
                       *l->broken ? leave_broken(client, l, err) : leave(client, l, err));
}

static hf_code release(hf_client *client, departure *l, hf_error *err)
{
    hf_store *store = client->store;
    const lease_ids *ids = l->ids;
    hf_session_state state;
    unsigned failures = 0;
    hf_code code;
    do
        code = store->ops->sessions_look(store, &ids->session, 1, -1, &state, err);
    while (client_may_retry_until(client, NULL, code, &failures, l->patience_end));
    if (code)
        return code;
    l->began = state.session.started_at;
    if (state.presence != HF_MISSING)
        session_who(&state.session, l->leave.who);
    return state.presence == HF_LIVE ? give_up(client, l, &state, err)
                                     : was_released(client, l, err);
}

static void note(hf_client *client, const departure *l)
{
    const hf_turn_note unseen = {.name = l->ids->name,
                                 .who = l->leave.who,
                                 .actor = "",
                                 .why = "",
                                 .reason = "",
                                 .ticket = l->ids->ticket,
                                 .session = l->ids->session,
                                 .granted_at = {l->began.ms}};
    diary_lease_released(client, &unseen);
}

/* No session says that it is over, and nothing is remembered. */
static hf_code release_plain(hf_client *client, departure *l, hf_error *err)
{
    see(client, l);
    return leave(client, l, err);
}

/* What came of it, for the history, too. */
static hf_code depart(hf_client *client, departure *l, hf_error *err)
{
    hf_code code = lease_is_plain(client) ? release_plain(client, l, err) : release(client, l, err);
    if (!code && l->is_out)
        note(client, l);
    client->is_silent = error_is_no_answer(code);
    return ended(client, l->ids, code, l->broken, err);
}

static departure departure_of(const lease_ids *ids, hf_mono patience_end)
{
    return (departure){
        .ids = ids,
        .patience_end = patience_end,
        .leave = {.ticket = ids->ticket, .outcome = HF_OUTCOME_RELEASED, .told = true}};
}

/* Without sessions nothing shows whether the owner has renewed the lease since, and a repeat with
 * its key takes the lock anew under the same ticket: there only its caller releases it. */
static hf_code keep(hf_client *client, const lease_ids *ids, hf_mono since, hf_error *err)
{
    hf_error why = *err;
    if (lease_is_plain(client) || !lease_keep(client, ids, since))
        return err->code;
    return error_set(err, why.code,
                     "%.400s; its release is sent again as long as this client lives", why.text);
}

hf_code lease_release(hf_client *client, const lease_ids *ids, hf_error *err)
{
    hf_error unwanted;
    hf_mono since = client_now(client);
    departure l = departure_of(ids, mono_add_ms(since, client->release_patience_ms));
    err = err ? err : &unwanted;
    if (!lease_withdraw(client, ids, &l.was_sent))
        return error_set(err, HF_UNKNOWN, "%.128s: its release is just being sent again",
                         ids->name);
    BOUND_SCOPE(client->store, l.patience_end, NULL);
    hf_code code = depart(client, &l, err);
    if (error_is_no_answer(code))
        return keep(client, ids, since, err);
    lease_forget(client, ids);
    return code;
}

hf_code lease_release_again(hf_client *client, const lease_ids *ids, lease_farewell *of,
                            hf_error *err)
{
    departure l = departure_of(ids, client_now(client));
    l.late = of;
    l.was_sent = true;
    return depart(client, &l, err);
}
