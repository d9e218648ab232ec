/* SPDX-License-Identifier: Apache-2.0 */
/* judging.c: watches the sessions that stand in a waiter's way (L1, R5, R6, R9): looks at them,
 * marks the dead, and takes their tickets out; called by attempt.c. */
#include "client/wait/judging.h"

#include "client/hold/hold.h"

#include "core/alloc.h"
#include "core/error.h"
#include "core/id.h"
#include "core/text.h"

#include <stdlib.h>

#define FIRST_LOOK_MS 400
#define LOOK_AT_ONCE 4 /* in the queue */

/* What one look at the sessions found. */
typedef struct findings {
    hf_death *deaths;
    size_t n_deaths;
    hf_leave *leaves; /* tickets that were asked for more than a ttl ago */
    size_t n_leaves;
} findings;

/* One look: the request it is for, what is known, and what it found. */
typedef struct look {
    struct lock_request *request;
    struct ahead *ahead;
    findings found;
} look;

/* Outside the queue it is enough to see once a ttl that somebody in the queue lives: that one
 * watches all ahead of it. */
static bool is_outside(const look *l, const hf_entry *own)
{
    return l->request->enter.number && !own && l->ahead->record.queued;
}

/* Most waits end before anybody could be judged, so the first look at a session is delayed: those
 * waits do without it. */
static hf_mono first_look(const look *l, const hf_entry *own, int32_t ttl_ms, hf_mono now)
{
    bool spares = own && !(l->request->client->store->can & HF_CAN_SEE_CRASH);
    int64_t most = ttl_ms / 25;
    if (is_outside(l, own))
        return mono_add_ms(now, ttl_ms / 6);
    return spares ? mono_add_ms(now, most < FIRST_LOOK_MS ? most : FIRST_LOOK_MS) : now;
}

/* If a crash shows at once, beats are needed only to find a process that was stopped. Then the head
 * of the queue watches the holders, and everything else is watched less often, because in a long
 * queue many waiters would each watch many sessions. */
static bool is_far(const look *l, size_t at, const hf_entry *own)
{
    bool is_behind = own && record_position(&l->ahead->record, own) > 1;
    if (is_outside(l, own))
        return true;
    return l->request->client->store->can & HF_CAN_SEE_CRASH &&
           (is_behind || at >= l->ahead->record.holders);
}

/* A long queue of waiters that all look after each beat of each other costs the store more than
 * everything else at rest. Those who come first look at once; the others wait until several looks
 * are due, and so find that all before them have died so much later. */
static int64_t slack_ms(const look *l, const hf_entry *own)
{
    bool is_first = !own || record_position(&l->ahead->record, own) <= LOOK_AT_ONCE;
    return is_first ? 0 : l->request->client->ttl_ms / 6;
}

/* Every session in the record is watched, except this attempt's own and those behind it. */
static void watch_those_ahead(look *l, hf_mono now)
{
    const hf_record *record = &l->ahead->record;
    size_t n = record->holders + record->queued, kept = 0;
    const hf_entry *own = record_find(record, l->request->enter.entry.ticket);
    size_t ahead = own ? (size_t)(own - record->entries) : n;
    hf_id *keep = alloc_array(NULL, 2 * n, sizeof *keep);
    for (size_t i = 0; i < ahead; i++) {
        const hf_entry *entry = &record->entries[i];
        if (id_equal(entry->session, l->request->enter.entry.session))
            continue;
        hf_mono look_at = first_look(l, own, entry->ttl_ms, now);
        if (is_far(l, i, own))
            judge_add_far(&l->ahead->judge, entry->session, entry->ttl_ms, look_at);
        else
            judge_add(&l->ahead->judge, entry->session, entry->ttl_ms, i >= record->holders,
                      look_at);
        keep[kept++] = entry->session;
        keep[kept++] = entry->ticket;
    }
    judge_keep(&l->ahead->judge, keep, kept);
    l->ahead->judge.slack_ms = slack_ms(l, own);
    free(keep);
}

static const hf_entry *first_of(const hf_record *record, hf_id session)
{
    for (size_t i = 0; i < record->holders + record->queued; i++)
        if (id_equal(record->entries[i].session, session))
            return &record->entries[i];
    return NULL;
}

static bool is_first(const struct ahead *ahead, hf_id session)
{
    size_t n = ahead->record.holders + ahead->record.queued;
    for (size_t i = 0; i < n && i < AHEAD_SEEN; i++)
        if (id_equal(ahead->record.entries[i].session, session))
            return true;
    return false;
}

/* AHEAD_SEEN: nothing is known of it. */
static size_t find_seen(const struct ahead *ahead, hf_id session)
{
    size_t at = 0;
    while (at < AHEAD_SEEN && !id_equal(ahead->seen[at].session, session))
        at++;
    return at;
}

/* Where what is known of a session stands, or may stand. */
static struct ahead_seen *place_of(struct ahead *ahead, hf_id session)
{
    size_t at = find_seen(ahead, session);
    if (at == AHEAD_SEEN)
        at = is_first(ahead, ahead->seen[0].session) ? 1 : 0;
    return &ahead->seen[at];
}

/* Remembers those who come first, for messages and for the terminal. */
static void remember(look *l, const hf_session_state *state)
{
    if (state->presence == HF_ODD || !is_first(l->ahead, state->session.id))
        return;
    struct ahead_seen *seen = place_of(l->ahead, state->session.id);
    if (!id_equal(seen->session, state->session.id))
        *seen = (struct ahead_seen){.session = state->session.id};
    seen->is_missing = state->presence == HF_MISSING;
    seen->ttl_ms = state->session.ttl_ms;
    if (seen->is_missing)
        return;
    seen->overdue_ms = state->lease_left_ms < 0 ? -state->lease_left_ms : 0;
    session_who(&state->session, seen->who);
}

static void add_death(look *l, const hf_session_state *state)
{
    findings *found = &l->found;
    found->deaths = alloc_array(found->deaths, found->n_deaths + 1, sizeof *found->deaths);
    hf_death *death = &found->deaths[found->n_deaths++];
    *death = (hf_death){.session = state->session.id};
    if (state->presence != HF_MISSING)
        session_who(&state->session, death->who);
}

static void add_asked(look *l, const hf_session_state *state, hf_mono now)
{
    findings *found = &l->found;
    for (size_t i = 0; i < state->n_asked; i++) {
        hf_id ticket = state->asked[i].ticket;
        if (!record_find(&l->ahead->record, ticket) ||
            !judge_ask(&l->ahead->judge, ticket, state->session.ttl_ms, now))
            continue;
        found->leaves = alloc_array(found->leaves, found->n_leaves + 1, sizeof *found->leaves);
        hf_leave *leave = &found->leaves[found->n_leaves++];
        *leave = (hf_leave){.ticket = ticket, .outcome = HF_OUTCOME_ABANDONED, .told = true};
        session_who(&state->session, leave->who);
        text_broken(leave->reason, &state->asked[i]);
    }
}

/* The mark is the verdict: only its acknowledgement, or a look that shows it, makes a session dead.
 */
static hf_code mark(look *l, const hf_session_state *state, hf_error *err)
{
    hf_code code = client_mark(l->request->client, state, err);
    if (code == HF_OK) {
        add_death(l, state);
        client_log(l->request->client, HF_LOG_INFO, "%s: a session in its way was marked dead",
                   l->request->name);
    } else if (code == HF_HELD) {
        judge_lives(&l->ahead->judge, state->session.id, client_now(l->request->client));
    }
    bool lives_or_missing = code == HF_HELD || code == HF_NOT_FOUND; /* the next look tells */
    return lives_or_missing ? HF_OK : code;
}

static hf_code weigh(look *l, const hf_session_state *state, hf_mono now, hf_error *err)
{
    remember(l, state);
    switch (judge_session(&l->ahead->judge, state, now)) {
    case JUDGE_LIVES:
        add_asked(l, state, now);
        return HF_OK;
    case JUDGE_OVERDUE:
        return mark(l, state, err);
    case JUDGE_IS_DEAD:
        add_death(l, state);
        return HF_OK;
    }
    return HF_OK;
}

static hf_code take_out(look *l, hf_error *err)
{
    const findings *found = &l->found;
    hf_store *store = l->request->client->store;
    hf_step step = {.deaths = found->deaths,
                    .n_deaths = found->n_deaths,
                    .leaves = found->leaves,
                    .n_leaves = found->n_leaves};
    hf_record record;
    hf_step_reply reply;
    hf_code code = store->ops->step(store, l->request->name, &step, &record, &reply, err);
    if (code)
        return code;
    pthread_mutex_lock(&l->request->client->mutex);
    waiter_tell(&l->request->waiter, reply.stamp);
    pthread_mutex_unlock(&l->request->client->mutex);
    diary_note_taken(l->request->client, &l->ahead->record, &step, &record.last);
    record_done(&record);
    return HF_OK;
}

/* code: of the look. One that cannot be read spares no other that is dead. */
static hf_code weigh_all(look *l, hf_session_state *states, size_t n, hf_code code, hf_error *err)
{
    hf_code of_this = HF_OK;
    hf_mono arrival = client_now(l->request->client);
    for (size_t i = 0; i < n && !of_this; i++) {
        const hf_entry *entry = first_of(&l->ahead->record, states[i].session.id);
        if (states[i].presence == HF_MISSING && entry)
            states[i].session.ttl_ms = entry->ttl_ms;
        of_this = weigh(l, &states[i], arrival, err);
    }
    return of_this ? of_this : code;
}

static hf_code look_at(look *l, const hf_id *ids, size_t n, bool trusts, hf_error *err)
{
    hf_client *client = l->request->client;
    hf_session_state *states = alloc_array(NULL, n, sizeof *states);
    hf_code code =
        client_look_at_sessions(client, ids, n, trusts ? client->clock_trust_ms : -1, states, err);
    if (!code || code == HF_SHAPE)
        code = weigh_all(l, states, n, code, err);
    free(states);
    return code;
}

/* Which sessions to look at now: those that are due, or all after a notice that somebody may have
 * died. */
static size_t due_sessions(look *l, hf_mono now, hf_id *ids)
{
    pthread_mutex_lock(&l->request->client->mutex);
    bool all = l->request->waiter.judges_now;
    l->request->waiter.judges_now = false;
    pthread_mutex_unlock(&l->request->client->mutex);
    return judge_collect(&l->ahead->judge, all ? MONO_NEVER : now, ids, l->ahead->judge.n);
}

hf_code judging_tick(struct lock_request *request, struct ahead *ahead, hf_mono now, bool trusts,
                     judging *out, hf_error *err)
{
    look l = {.request = request, .ahead = ahead};
    *out = JUDGING_NONE;
    watch_those_ahead(&l, now);
    hf_id *ids = alloc_array(NULL, ahead->judge.n, sizeof *ids);
    size_t n = due_sessions(&l, now, ids);
    hf_code code = n ? look_at(&l, ids, n, trusts, err) : HF_OK;
    bool may_take_out = !code || code == HF_SHAPE;
    if (may_take_out && (l.found.n_deaths || l.found.n_leaves)) {
        code = take_out(&l, err);
        *out = code ? JUDGING_NONE : JUDGING_CHANGED;
    }
    free(l.found.deaths);
    free(l.found.leaves);
    free(ids);
    return code;
}

const struct ahead_seen *judging_seen(const struct ahead *ahead)
{
    const hf_record *record = &ahead->record;
    if (!record->holders || id_is_zero(record->entries[0].session))
        return NULL;
    size_t at = find_seen(ahead, record->entries[0].session);
    return at < AHEAD_SEEN ? &ahead->seen[at] : NULL;
}

const char *judging_holder(const struct lock_request *request, const struct ahead *ahead)
{
    const hf_record *record = &ahead->record;
    if (request->is_shut_out ||
        (record->holders && id_equal(record->entries[0].session, request->enter.entry.session)))
        return "this very process";
    if (record->who)
        return record->who;
    const struct ahead_seen *seen = judging_seen(ahead);
    if (seen && seen->who[0])
        return seen->who;
    return *request->told ? request->told : "another session";
}

void ahead_done(struct ahead *ahead)
{
    judge_done(&ahead->judge);
    record_done(&ahead->record);
}
