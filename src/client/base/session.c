/* SPDX-License-Identifier: Apache-2.0 */
/* session.c: keeps what the client knows about its session; see session.h. */
#include "client/base/client.h"

#include "core/alloc.h"
#include "core/id.h"
#include "core/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Its life ---- */

void session_forget(struct session *session)
{
    free(session->asks);
    for (size_t i = 0; i < session->n_suspects; i++)
        free(session->suspects[i]);
    free(session->suspects);
    session->asks = NULL;
    session->suspects = NULL;
    session->n_asks = session->n_suspects = 0;
}

void session_prepare_locked(hf_client *client)
{
    struct session *session = &client->session;
    session_forget(session);
    *session = (struct session){.state = SESSION_BEGINNING};
    session->self.id = client_new_id(client);
    session->self.ttl_ms = (int32_t)client->ttl_ms;
    session->self.pid = client->identity.pid;
    session->self.started_at = client_wall(client);
    snprintf(session->self.app, sizeof session->self.app, "%s", client->identity.app);
    snprintf(session->self.host, sizeof session->self.host, "%s", client->identity.host);
}

static hf_mono beat_due(hf_client *client, hf_mono sent)
{
    int64_t most_ms = client->store->beat_ms;
    int64_t every_ms = client->session.holds ? lease_beat_ms(client->ttl_ms)
                                             : lease_waiting_beat_ms(client->ttl_ms);
    if (most_ms && most_ms < every_ms)
        every_ms = most_ms;
    hf_mono due = mono_add_ms(sent, every_ms);
    if (!client->store->is_remote)
        return due;
    return lease_in_step(due, every_ms, client_now(client), client_wall(client));
}

/* Over a network, it comes in time to make its connection. */
static hf_mono first_beat_due(hf_client *client, hf_mono sent)
{
    hf_mono now = client_now(client), due = beat_due(client, sent);
    if (!client->store->is_remote)
        return due;
    return mono_add_ms(due, -lease_first_sooner_ms(mono_ms_until(now, sent)));
}

void session_begun_locked(hf_client *client, hf_mono sent)
{
    struct session *session = &client->session;
    session->state = SESSION_ALIVE;
    session->lease_end = lease_end(sent, client->ttl_ms);
    session->beat_due = first_beat_due(client, sent);
    session->beat_sent = sent;
    session->seen = session->beat_most = 1;
}

void session_gone_locked(hf_client *client)
{
    client->session.state = SESSION_NONE;
}

bool session_is_present_locked(const hf_client *client, hf_id session)
{
    return client->session.state == SESSION_ALIVE && id_equal(client->session.self.id, session);
}

/* ---- Beats ---- */

bool session_beats_locked(hf_client *client, hf_mono now)
{
    struct session *session = &client->session;
    bool is_due = session->state == SESSION_ALIVE && mono_reached(session->beat_due, now);
    if (is_due) {
        session->beat_sent = now;
        session->beat_most++;
    }
    return is_due;
}

#define ANEW ((int64_t)1 << 40) /* no session beats so often */

int64_t session_beat_anew(hf_mono now)
{
    return ANEW + now.ns / 1000;
}

bool session_is_anew(int64_t former, int64_t beat)
{
    return beat < former || (former < ANEW && beat >= ANEW);
}

/* The first answer may be of a session that was begun again, and so shows nothing. */
int64_t session_beat_most_locked(const hf_client *client)
{
    return client->session.is_lasting ? client->session.beat_most : INT64_MAX;
}

void session_renewed_locked(hf_client *client, hf_mono sent, const hf_session_state *state)
{
    struct session *session = &client->session;
    session->lease_end = lease_end(sent, client->ttl_ms);
    session->beat_due = beat_due(client, sent);
    session->last_failure.code = HF_OK;
    if (session_is_anew(session->seen, state->beat))
        session->beat_most += state->beat - session->seen - 1;
    session->seen = state->beat;
    session->is_lasting = true;
}

/* The first retry is at once, further ones come every twentieth of the ttl (R7). */
void session_not_renewed_locked(hf_client *client, const hf_error *err)
{
    struct session *session = &client->session;
    hf_mono now = client_now(client);
    bool first = session->last_failure.code == HF_OK;
    session->last_failure = *err;
    session->beat_due = first ? now : lease_retry_due(now, client->ttl_ms);
}

void session_holds_locked(hf_client *client, bool holds)
{
    struct session *session = &client->session;
    if (holds && !session->holds)
        session_hurry_locked(client, lease_beat_ms(client->ttl_ms));
    session->holds = holds;
}

void session_hurry_locked(hf_client *client, int64_t ms)
{
    struct session *session = &client->session;
    hf_mono due = mono_add_ms(session->beat_sent, ms);
    if (session->last_failure.code || mono_reached(session->beat_due, due))
        return;
    session->beat_due = due;
    ticker_poke(client, TICK_BEAT);
}

/* ---- Asks ---- */

session_ask *session_find_ask_locked(hf_client *client, hf_id ticket)
{
    for (size_t i = 0; i < client->session.n_asks; i++)
        if (id_equal(client->session.asks[i].ask.ticket, ticket))
            return &client->session.asks[i];
    return NULL;
}

void session_add_ask_locked(hf_client *client, const session_ask *ask)
{
    struct session *session = &client->session;
    session->asks = alloc_array(session->asks, session->n_asks + 1, sizeof *session->asks);
    session->asks[session->n_asks++] = *ask;
}

void session_answer_locked(hf_client *client, hf_id ticket)
{
    session_ask *ask = session_find_ask_locked(client, ticket);
    if (ask)
        ask->is_answered = true;
}

size_t session_answered_locked(const hf_client *client, hf_id answered[HF_ASKS_MAX])
{
    const struct session *session = &client->session;
    size_t n = 0;
    for (size_t i = 0; i < session->n_asks && n < HF_ASKS_MAX; i++)
        if (session->asks[i].is_answered)
            answered[n++] = session->asks[i].ask.ticket;
    return n;
}

void session_drop_asks_locked(hf_client *client, const hf_id *answered, size_t n)
{
    struct session *session = &client->session;
    size_t kept = 0;
    for (size_t i = 0; i < session->n_asks; i++) {
        bool gone = false;
        for (size_t j = 0; j < n; j++)
            gone |= id_equal(session->asks[i].ask.ticket, answered[j]);
        if (!gone)
            session->asks[kept++] = session->asks[i];
    }
    session->n_asks = kept;
}

/* ---- Suspects ---- */

void session_suspect_locked(hf_client *client, const char *name)
{
    struct session *session = &client->session;
    for (size_t i = 0; i < session->n_suspects; i++)
        if (strcmp(session->suspects[i], name) == 0)
            return;
    session->suspects =
        alloc_array(session->suspects, session->n_suspects + 1, sizeof *session->suspects);
    session->suspects[session->n_suspects++] = alloc_text(name);
}

/* ---- For people ---- */

void session_who(const hf_session *session, char who[HF_TEXT_MAX + 1])
{
    text_who(session, who);
}
