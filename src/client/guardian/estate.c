/* SPDX-License-Identifier: Apache-2.0 */
/* estate.c: keeps what a client would leave; see estate.h. */
#include "client/guardian/estate.h"

#include "core/alloc.h"
#include "core/id.h"

/* ---- Dropping ---- */

void estate_drop_ticket(struct estate *estate, size_t at)
{
    free(estate->tickets[at].name);
    estate->n_tickets--;
    memmove(&estate->tickets[at], &estate->tickets[at + 1],
            (estate->n_tickets - at) * sizeof *estate->tickets);
}

void estate_drop_leave(struct estate *estate, size_t at)
{
    free(estate->leaves[at].name);
    estate->n_leaves--;
    memmove(&estate->leaves[at], &estate->leaves[at + 1],
            (estate->n_leaves - at) * sizeof *estate->leaves);
}

void estate_drop_session(struct estate *estate, hf_id session)
{
    for (size_t i = estate->n_tickets; i > 0; i--)
        if (id_equal(estate->tickets[i - 1].session, session))
            estate_drop_ticket(estate, i - 1);
    for (size_t i = 0; i < estate->n_sessions; i++)
        if (id_equal(estate->sessions[i], session))
            estate->sessions[i--] = estate->sessions[--estate->n_sessions];
}

static void drop_ticket_of(struct estate *estate, hf_id ticket)
{
    for (size_t i = estate->n_tickets; i > 0; i--)
        if (id_equal(estate->tickets[i - 1].ticket, ticket))
            estate_drop_ticket(estate, i - 1);
}

/* ---- Noting ---- */

static void introduce(struct estate *estate, const guardian_message *hello)
{
    free(estate->uri);
    estate->uri = alloc_text(hello->uri);
    estate->self = hello->session;
}

static void add_session(struct estate *estate, const hf_session *session)
{
    estate->self.ttl_ms = session->ttl_ms;
    estate->sessions = alloc_array(estate->sessions, estate->n_sessions + 1, sizeof(hf_id));
    estate->sessions[estate->n_sessions++] = session->id;
}

/* A ticket may be entered with again. */
static void add_ticket(struct estate *estate, const guardian_message *message)
{
    drop_ticket_of(estate, message->leave.ticket);
    estate->tickets = alloc_more(estate->tickets, estate->n_tickets, sizeof *estate->tickets);
    estate->tickets[estate->n_tickets++] =
        (struct estate_ticket){.session = message->session.id,
                               .ticket = message->leave.ticket,
                               .name = alloc_text(message->name)};
}

/* Its ticket is taken out by this leave, and not as abandoned. */
static void add_leave(struct estate *estate, const guardian_message *message)
{
    drop_ticket_of(estate, message->leave.ticket);
    drop_ticket_of(estate, message->upgrade);
    estate->leaves = alloc_more(estate->leaves, estate->n_leaves, sizeof *estate->leaves);
    estate->leaves[estate->n_leaves++] = (struct estate_leave){.name = alloc_text(message->name),
                                                               .leave = message->leave,
                                                               .upgrade = message->upgrade,
                                                               .token = message->token};
}

void estate_note(struct estate *estate, const guardian_message *message)
{
    switch (message->kind) {
    case GUARDIAN_HELLO:
        introduce(estate, message);
        return;
    case GUARDIAN_SESSION:
        add_session(estate, &message->session);
        return;
    case GUARDIAN_SESSION_OVER:
        estate_drop_session(estate, message->session.id);
        return;
    case GUARDIAN_TICKET:
        add_ticket(estate, message);
        return;
    case GUARDIAN_OUT:
        drop_ticket_of(estate, message->leave.ticket);
        return;
    case GUARDIAN_LEAVE:
        add_leave(estate, message);
        return;
    case GUARDIAN_BYE:
        return;
    }
}

bool estate_is_empty(const struct estate *estate)
{
    return !estate->n_tickets && !estate->n_leaves;
}

void estate_done(struct estate *estate)
{
    while (estate->n_tickets)
        estate_drop_ticket(estate, estate->n_tickets - 1);
    while (estate->n_leaves)
        estate_drop_leave(estate, estate->n_leaves - 1);
    free(estate->tickets);
    free(estate->leaves);
    free(estate->sessions);
    free(estate->uri);
    *estate = (struct estate){.uri = NULL};
}
