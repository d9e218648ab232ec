/* SPDX-License-Identifier: Apache-2.0 */
/* settle.c: sends the leaves that a client could not send, marks its sessions, and takes their
 * tickets out; see settle.h. Called by the guardian.
 *
 * A watcher that marks a session proves by a ttl of watching that its holder has stopped believing
 * (R5). Here the end of the process, or of the client, is the proof. The rest is as for watchers:
 * the mark compares the beat, because one may still be on its way, and tickets are taken out only
 * after the mark was acknowledged. What arrives later belongs to a marked session. */
#include "client/guardian/settle.h"

#include "client/hold/hold.h"

#include "core/error.h"
#include "core/id.h"

#include <string.h>

#define LOOKS_MOST 20 /* so many beats of one session cannot be on their way */

/* ---- Leaves ---- */

/* An earlier try may have been sent by the client itself. Others may have taken the ticket out
 * meanwhile: then there is nothing left to do. */
static hf_code send_leave(hf_client *client, const struct estate_leave *one, hf_error *err)
{
    pthread_mutex_lock(&client->mutex);
    struct release *release =
        release_push_locked(client, one->name, (hf_id){{0}}, &one->leave, false);
    release->upgrade = one->upgrade;
    release->token = one->token;
    release->was_sent = release->in_flight = true;
    pthread_mutex_unlock(&client->mutex);
    hf_code code = release_send(client, release, client_now(client), err);
    pthread_mutex_lock(&client->mutex);
    release_free_all(client); /* the estate keeps it, if it is to be tried again */
    pthread_mutex_unlock(&client->mutex);
    return error_is_no_answer(code) ? code : HF_OK; /* what was refused once is refused again */
}

static hf_code send_leaves(hf_client *client, struct estate *estate, hf_error *err)
{
    hf_code code = HF_OK;
    while (estate->n_leaves && !code) {
        code = send_leave(client, &estate->leaves[estate->n_leaves - 1], err);
        if (!code)
            estate_drop_leave(estate, estate->n_leaves - 1);
    }
    return code;
}

/* ---- Sessions ---- */

/* A session that nobody keeps any more. What it is called, the store may not know. */
static hf_session session_of(const struct estate *estate, hf_id id)
{
    hf_session session = estate->self;
    session.id = id;
    return session;
}

/* One that is missing is marked, too: see life.c. One that cannot be read, nobody can mark. */
static hf_code look_and_mark(hf_client *client, hf_id session, hf_error *err)
{
    hf_session_state state;
    hf_code code = client_look_at_sessions(client, &session, 1, -1, &state, err);
    if (code)
        return code == HF_SHAPE ? HF_OK : code;
    bool wants_mark = state.presence == HF_LIVE || state.presence == HF_MISSING;
    return wants_mark ? client_mark(client, &state, err) : HF_OK;
}

/* A beat that arrives between look and mark keeps the mark away; the next look sees it. */
static hf_code mark(hf_client *client, hf_id session, hf_error *err)
{
    hf_code code = HF_HELD;
    for (int i = 0; i < LOOKS_MOST && (code == HF_HELD || code == HF_NOT_FOUND); i++)
        code = look_and_mark(client, session, err);
    return code;
}

/* ---- Tickets of marked sessions ---- */

static bool keep_copy(void *ctx, const hf_record *record)
{
    record_copy(ctx, record);
    return false;
}

/* As it is before, for the history, which says who held it. */
static void look_before(hf_client *client, const char *name, hf_record *out)
{
    hf_error err;
    record_init(out, name);
    client->store->ops->look(client->store, &name, 1, (hf_stamp){0}, false, keep_copy, out, &err);
}

/* The same call tells the waiters that this step grants the lock. */
static hf_code take_out(hf_client *client, const hf_session *session, const char *name,
                        hf_error *err)
{
    hf_death death = {.session = session->id};
    hf_step step = {.deaths = &death, .n_deaths = 1};
    hf_record before, after;
    hf_step_reply reply;
    session_who(session, death.who);
    look_before(client, name, &before);
    hf_code code = client->store->ops->step(client->store, name, &step, &after, &reply, err);
    if (!code) {
        diary_note_taken(client, &before, &step, &after.last);
        record_done(&after);
    }
    record_done(&before);
    return code == HF_SHAPE ? HF_OK : code;
}

/* Several tickets may be for one lock. */
static void drop_tickets(struct estate *estate, hf_id session, const char *name)
{
    for (size_t i = estate->n_tickets; i > 0; i--) {
        const struct estate_ticket *ticket = &estate->tickets[i - 1];
        if (ticket->name != name && id_equal(ticket->session, session) &&
            strcmp(ticket->name, name) == 0)
            estate_drop_ticket(estate, i - 1);
    }
}

static hf_code settle_dead(hf_client *client, struct estate *estate, hf_error *err)
{
    hf_id marked = {{0}};
    hf_code code = HF_OK;
    while (estate->n_tickets && !code) {
        const struct estate_ticket first = estate->tickets[0];
        hf_session session = session_of(estate, first.session);
        if (!id_equal(marked, first.session))
            code = mark(client, session.id, err);
        marked = first.session;
        if (!code)
            code = take_out(client, &session, first.name, err);
        if (!code) {
            drop_tickets(estate, first.session, first.name);
            estate_drop_ticket(estate, 0);
        }
    }
    return code;
}

/* Best effort: nothing of theirs stands. */
static void mark_the_rest(hf_client *client, struct estate *estate)
{
    hf_error err;
    while (estate->n_sessions) {
        mark(client, estate->sessions[0], &err);
        estate_drop_session(estate, estate->sessions[0]);
    }
}

/* ---- Protocols without sessions ---- */

/* A document has a ticket of the process that is gone, or another's. */
static hf_code leave_document(hf_client *client, const struct estate *estate,
                              const struct estate_ticket *ticket, hf_error *err)
{
    struct estate_leave one = {
        .name = ticket->name,
        .leave = {.ticket = ticket->ticket, .outcome = HF_OUTCOME_ABANDONED, .told = true}};
    session_who(&estate->self, one.leave.who);
    return send_leave(client, &one, err);
}

static hf_code leave_documents(hf_client *client, struct estate *estate, hf_error *err)
{
    hf_code code = HF_OK;
    while (estate->n_tickets && !code) {
        code = leave_document(client, estate, &estate->tickets[estate->n_tickets - 1], err);
        if (!code)
            estate_drop_ticket(estate, estate->n_tickets - 1);
    }
    return code;
}

/* ---- All of it ---- */

/* The leaves first: with a marked session, others could take their tickets out as abandoned. */
hf_code settle(hf_client *client, struct estate *estate, hf_error *err)
{
    bool has_queue = client->store->can & HF_CAN_QUEUE;
    hf_code code = send_leaves(client, estate, err);
    if (!code)
        code = (has_queue ? settle_dead : leave_documents)(client, estate, err);
    if (!code && has_queue)
        mark_the_rest(client, estate);
    return code;
}
