/* SPDX-License-Identifier: Apache-2.0 */
/* judging.c: a waiter's watch over the sessions that stand in its way (L1, R5, R6, R9): looks at
 * them, marks the dead, and takes their tickets out; called by attempt.c. */
#include "client/client.h"

#include "core/alloc.h"
#include "core/error.h"
#include "core/id.h"

#include <stdio.h>

#define FIRST_LOOK_MS 400

/* What one look at the sessions came to. */
typedef struct findings {
    hf_death *deaths;
    size_t n_deaths;
    hf_leave *leaves; /* of tickets that were asked for a ttl and more ago */
    size_t n_leaves;
} findings;

/* Most waits end before anybody could be judged: the first look at a session in the queue's way is
 * spared those. */
static hf_mono first_look(const struct attempt *attempt, int32_t ttl_ms, hf_mono now)
{
    bool spares =
        attempt->state == ATTEMPT_WAITS && !(attempt->client->store->can & HF_CAN_SEE_CRASH);
    int64_t most = ttl_ms / 25;
    return spares ? mono_add_ms(now, most < FIRST_LOOK_MS ? most : FIRST_LOOK_MS) : now;
}

/* Where a crash shows at once, only one that was stopped has to be found by its beats. There the
 * head of the queue watches those who hold; all others watch all whom they do less often: in a
 * long queue they are many, and each watches many. */
static bool is_far(const struct attempt *attempt, size_t at, const hf_entry *own)
{
    bool is_behind = own && record_position(&attempt->record, own) > 1;
    return attempt->client->store->can & HF_CAN_SEE_CRASH &&
           (is_behind || at >= attempt->record.holders);
}

/* Everybody in the record counts, but for this attempt's own session, and those behind it. */
static void watch_those_ahead(struct attempt *attempt, hf_mono now)
{
    const hf_record *record = &attempt->record;
    size_t n = record->holders + record->queued, kept = 0;
    const hf_entry *own = record_find(record, attempt->enter.entry.ticket);
    size_t ahead = own ? (size_t)(own - record->entries) : n;
    hf_id *keep = alloc_array(NULL, 2 * n, sizeof *keep);
    for (size_t i = 0; i < ahead; i++) {
        const hf_entry *entry = &record->entries[i];
        if (id_equal(entry->session, attempt->enter.entry.session))
            continue;
        (is_far(attempt, i, own) ? judge_add_far
                                 : judge_add)(&attempt->judge, entry->session, entry->ttl_ms,
                                              first_look(attempt, entry->ttl_ms, now));
        keep[kept++] = entry->session;
        keep[kept++] = entry->ticket;
    }
    judge_keep(&attempt->judge, keep, kept);
    free(keep);
}

static const hf_entry *first_of(const hf_record *record, hf_id session)
{
    for (size_t i = 0; i < record->holders + record->queued; i++)
        if (id_equal(record->entries[i].session, session))
            return &record->entries[i];
    return NULL;
}

/* Remembers who holds, for messages and for the terminal. */
static void remember_holder(struct attempt *attempt, const hf_session_state *state)
{
    const hf_record *record = &attempt->record;
    if (!record->holders || state->presence == HF_MISSING ||
        !id_equal(record->entries[0].session, state->session.id))
        return;
    session_who(&state->session, attempt->holder);
    attempt->overdue_ms = state->lease_left_ms < 0 ? -state->lease_left_ms : 0;
    attempt->holder_ttl_ms = state->session.ttl_ms;
}

static void add_death(findings *found, const hf_session_state *state)
{
    found->deaths = alloc_array(found->deaths, found->n_deaths + 1, sizeof *found->deaths);
    hf_death *death = &found->deaths[found->n_deaths++];
    *death = (hf_death){.session = state->session.id};
    if (state->presence != HF_MISSING)
        session_who(&state->session, death->who);
}

static void add_asked(struct attempt *attempt, const hf_session_state *state, hf_mono now,
                      findings *found)
{
    for (size_t i = 0; i < state->n_asked; i++) {
        hf_id ticket = state->asked[i].ticket;
        if (!record_find(&attempt->record, ticket) ||
            !judge_ask(&attempt->judge, ticket, state->session.ttl_ms, now))
            continue;
        found->leaves = alloc_array(found->leaves, found->n_leaves + 1, sizeof *found->leaves);
        hf_leave *leave = &found->leaves[found->n_leaves++];
        *leave = (hf_leave){.ticket = ticket, .outcome = HF_OUTCOME_ABANDONED, .told = true};
        session_who(&state->session, leave->who);
    }
}

/* The mark is the verdict: only its acknowledgement, or a look that shows it, makes a session dead.
 */
static hf_code mark(struct attempt *attempt, const hf_session_state *state, findings *found,
                    hf_error *err)
{
    hf_store *store = attempt->client->store;
    hf_code code = store->ops->session_mark(store, state, err);
    if (code == HF_OK) {
        add_death(found, state);
        client_log(attempt->client, HF_LOG_INFO, "%s: a session in its way was marked dead",
                   attempt->name);
    } else if (code == HF_HELD) {
        judge_lives(&attempt->judge, state->session.id, client_now(attempt->client));
    }
    bool lives_or_missing = code == HF_HELD || code == HF_NOT_FOUND; /* the next look tells */
    return lives_or_missing ? HF_OK : code;
}

static hf_code weigh(struct attempt *attempt, const hf_session_state *state, hf_mono now,
                     findings *found, hf_error *err)
{
    remember_holder(attempt, state);
    switch (judge_session(&attempt->judge, state, now)) {
    case JUDGE_LIVES:
        add_asked(attempt, state, now, found);
        return HF_OK;
    case JUDGE_OVERDUE:
        return mark(attempt, state, found, err);
    case JUDGE_IS_DEAD:
        add_death(found, state);
        return HF_OK;
    }
    return HF_OK;
}

static hf_code take_out(struct attempt *attempt, const findings *found, hf_error *err)
{
    hf_store *store = attempt->client->store;
    hf_step step = {.deaths = found->deaths,
                    .n_deaths = found->n_deaths,
                    .leaves = found->leaves,
                    .n_leaves = found->n_leaves};
    hf_record record;
    hf_step_reply reply;
    hf_code code = store->ops->step(store, attempt->name, &step, &record, &reply, err);
    if (code)
        return code;
    pthread_mutex_lock(&attempt->client->mutex);
    waiter_tell(&attempt->waiter, reply.stamp);
    pthread_mutex_unlock(&attempt->client->mutex);
    record_done(&record);
    return HF_OK;
}

static hf_code look_at(struct attempt *attempt, const hf_id *ids, size_t n, bool trusts,
                       findings *found, hf_error *err)
{
    hf_client *client = attempt->client;
    hf_session_state *states = alloc_array(NULL, n, sizeof *states);
    hf_code code = client->store->ops->sessions_look(
        client->store, ids, n, trusts ? client->clock_trust_ms : -1, states, err);
    hf_mono arrival = client_now(client);
    for (size_t i = 0; i < n && !code; i++) {
        const hf_entry *entry = first_of(&attempt->record, ids[i]);
        if (states[i].presence == HF_MISSING && entry)
            states[i].session.ttl_ms = entry->ttl_ms;
        code = weigh(attempt, &states[i], arrival, found, err);
    }
    free(states);
    return code;
}

/* What wants to be looked at now: what is due, or all of it after a notice that somebody may have
 * died. */
static size_t due_sessions(struct attempt *attempt, hf_mono now, hf_id *ids)
{
    pthread_mutex_lock(&attempt->client->mutex);
    bool all = attempt->waiter.judges_now;
    attempt->waiter.judges_now = false;
    pthread_mutex_unlock(&attempt->client->mutex);
    return judge_collect(&attempt->judge, all ? MONO_NEVER : now, ids, attempt->judge.n);
}

hf_code judging_tick(struct attempt *attempt, hf_mono now, bool trusts, judging *out, hf_error *err)
{
    *out = JUDGING_NONE;
    watch_those_ahead(attempt, now);
    hf_id *ids = alloc_array(NULL, attempt->judge.n, sizeof *ids);
    size_t n = due_sessions(attempt, now, ids);
    findings found = {.n_deaths = 0};
    hf_code code = n ? look_at(attempt, ids, n, trusts, &found, err) : HF_OK;
    if (!code && (found.n_deaths || found.n_leaves)) {
        code = take_out(attempt, &found, err);
        *out = code ? JUDGING_NONE : JUDGING_CHANGED;
    }
    free(found.deaths);
    free(found.leaves);
    free(ids);
    return code;
}
