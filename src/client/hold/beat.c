/* SPDX-License-Identifier: Apache-2.0 */
/* beat.c: sends beats, and acts on their answers; called by the beat thread. See beat.h. */
#include "client/hold/beat.h"

#include "client/hold/hold.h"
#include "client/hold/long_waits.h"

#include "core/error.h"
#include "core/id.h"

#include <stdlib.h>

/* ---- Asks (R9) ---- */

/* No lock here has the ticket, and no enter with it can still arrive: it left before the ask came.
 */
static bool has_left_locked(hf_client *client, hf_id ticket)
{
    const struct hf_lock *lock = lock_find_locked(client, ticket);
    bool stands = lock && !lock->loss.is_left;
    return !client->session.n_suspects && !stands &&
           !waiters_find(&client->hold->waiters, ticket) &&
           !release_is_pending_locked(client, ticket);
}

/* An ask sets the ticket's deadline to the end of the lease that ran before the beat that brought
 * the ask. That lease counts from before the ask was written, so it ends before the breaker's wait
 * does. An upgrade does not escape an ask for the ticket that it replaced. */
static void asked_locked(hf_client *client, const hf_ask *ask, hf_mono deadline)
{
    if (session_find_ask_locked(client, ask->ticket))
        return;
    struct hf_lock *lock = lock_find_asked_locked(client, ask->ticket);
    bool was_replaced = lock && id_equal(lock->change.former, ask->ticket);
    const session_ask asked = {.ask = *ask,
                               .deadline = deadline,
                               .is_answered = was_replaced || has_left_locked(client, ask->ticket)};
    session_add_ask_locked(client, &asked);
    if (!lock)
        return;
    hf_error why;
    error_set(&why, HF_LOST, "%.128s was broken by %.100s: %.160s", lock->name, ask->by,
              ask->reason);
    loss_begin_locked(lock, &why, deadline);
}

/* ---- The answer ---- */

static void acknowledged_locked(hf_client *client, hf_mono sent, const hf_session_state *state)
{
    hf_mono lease_before = client->session.lease_end;
    session_renewed_locked(client, sent, state);
    belief_renewed_locked(client, sent);
    for (size_t i = 0; i < state->n_asked; i++)
        asked_locked(client, &state->asked[i], lease_before);
    if (state->misses)
        verify_now_locked(client, NULL);
    /* no need to tell the deadline thread: it wakes at the lease's former end, and sleeps on */
}

static void marked_dead_locked(hf_client *client, const hf_error *err)
{
    hf_error why;
    error_set(&why, HF_LOST, "the session is gone from the store: %.300s", err->text);
    belief_lose_session_locked(client, &why, client_now(client));
}

/* Where a running machine was copied, with this process in its memory, both believe until their
 * next beats. */
static void shared_locked(hf_client *client)
{
    hf_error why;
    error_set(&why, HF_LOST,
              "another process beats this session: was this machine copied while it ran? Let one "
              "of the two start its programs anew");
    belief_abandon_session_locked(client, &why, client_now(client));
}

static void beat(hf_client *client, hf_id id, const hf_beat *says)
{
    hf_session_state state;
    hf_error err;
    hf_mono sent = client_now(client);
    hf_code code = client->store->ops->session_beat(client->store, id, says, &state, &err);
    MUTEX_SCOPE(&client->mutex);
    /* a lease that ended meanwhile never revives */
    if (!belief_in_session_locked(client, id, client_now(client)))
        return;
    if (code == HF_LOST) {
        marked_dead_locked(client, &err);
    } else if (!code && state.beat > session_beat_most_locked(client)) {
        shared_locked(client);
    } else if (code) {
        session_not_renewed_locked(client, &err);
    } else {
        acknowledged_locked(client, sent, &state);
        session_drop_asks_locked(client, says->answered, says->n_answered);
    }
}

hf_mono beat_tick(hf_client *client, hf_mono now)
{
    const struct session *session = &client->session;
    pthread_mutex_lock(&client->mutex);
    bool is_due = session_beats_locked(client, now);
    hf_session self = session->self;
    hf_id answered[HF_ASKS_MAX];
    hf_beat says = {.answered = answered,
                    .seen = session->seen,
                    .begins = session->is_lasting ? NULL : &self,
                    .begins_at = session_beat_anew(now)};
    char *waits = is_due ? long_waits_say_locked(client, now) : NULL;
    says.waits = waits;
    says.holds_nothing = hold_is_empty_locked(client);
    says.n_answered = is_due ? session_answered_locked(client, answered) : 0;
    pthread_mutex_unlock(&client->mutex);
    if (is_due)
        beat(client, self.id, &says);
    free(waits);
    MUTEX_SCOPE(&client->mutex);
    return session->state == SESSION_ALIVE ? session->beat_due : MONO_NEVER;
}
