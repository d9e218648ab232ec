/* SPDX-License-Identifier: Apache-2.0 */
/* send.c: sends what is to be taken out of records, and repeats that until the outcome is known
 * (R8): one in the caller's thread, for hf_lock_release(); in the background what is due, the
 * oldest first, many locks in one call of the store. Upkeep does that, beside it another ticker
 * while upkeep is busy, and a thread that closes locks faster than they can be released. See
 * release.h. */
#include "client/hold/hold.h"

#include "core/alloc.h"
#include "core/backoff.h"
#include "core/error.h"
#include "core/id.h"
#include "core/period.h"

#include <stdlib.h>
#include <string.h>

#define RETRY_FIRST_MS 5
#define RETRY_MOST_MS 500
#define CROWD HF_PARCELS_MOST /* are sent by the next call */

/* What is sent together: of each lock a parcel with all its leaves. */
struct load {
    hf_parcel *parcels;
    struct release **releases; /* of each parcel, linked by carried_next */
    size_t n;
};

/* ---- Loading ---- */

/* One is the release's own, several are the caller's to free. */
static const hf_leave *leaves_of(struct release *releases, size_t *n)
{
    *n = 1;
    if (!releases->carried_next && id_is_zero(releases->upgrade))
        return &releases->leave;
    hf_leave *leaves = NULL;
    *n = 0;
    for (const struct release *r = releases; r; r = r->carried_next) {
        leaves = alloc_array(leaves, *n + RELEASE_LEAVES, sizeof *leaves);
        *n += release_leaves(r, leaves + *n);
    }
    return leaves;
}

static void load_add(struct load *load, struct release *releases)
{
    load->parcels = alloc_more(load->parcels, load->n, sizeof *load->parcels);
    load->releases = alloc_more(load->releases, load->n, sizeof(struct release *));
    hf_parcel *parcel = &load->parcels[load->n];
    *parcel = (hf_parcel){.name = releases->name};
    parcel->step.leaves = leaves_of(releases, &parcel->step.n_leaves);
    load->releases[load->n++] = releases;
}

/* If one call cannot take several, each is answered for itself. */
static size_t load_most(const hf_client *client)
{
    return client->store->ops->steps ? HF_PARCELS_MOST : 1;
}

static void load_due_locked(hf_client *client, hf_mono now, struct load *load)
{
    struct release *releases;
    while (load->n < load_most(client) && (releases = release_take_due_locked(client, now)))
        load_add(load, releases);
}

static void load_done(struct load *load)
{
    for (size_t i = 0; i < load->n; i++)
        if (load->parcels[i].step.n_leaves > 1)
            free((void *)load->parcels[i].step.leaves);
    free(load->parcels);
    free(load->releases);
}

/* ---- Sending ---- */

/* It is gone, and an earlier try without an answer may have done that. This one did not: its holder
 * is said to have lost it, or work is not done of which the leave would have said so (I9). */
static bool was_lost(const struct release *release, const hf_last_mark *last)
{
    const hf_period period = release->leave.period;
    if (!release->token) /* the protocol has none, and `last` names no turn */
        return false;
    if (last->outcome == HF_OUTCOME_ABANDONED && last->token == release->token)
        return true;
    return last->outcome != HF_OUTCOME_NONE && period_is_any(period) &&
           last->done.token < release->token && !period_is_done(period, last);
}

/* An earlier try took it out. */
static bool has_left(const struct release *release, const hf_last_mark *last)
{
    bool is_last = last->outcome == HF_OUTCOME_RELEASED && last->token == release->token;
    return release->token && (is_last || last->done.token == release->token);
}

static bool seek(void *ctx, const hf_record *record)
{
    bool is_any_there = false;
    for (struct release *r = ctx; r; r = r->carried_next) {
        for (size_t i = 0; i < record->holders + record->queued; i++)
            r->is_there |= release_takes_out(r, record->entries[i].ticket);
        r->was_lost |= was_lost(r, &record->last);
        r->has_left = has_left(r, &record->last);
        is_any_there |= r->is_there;
    }
    return !is_any_there;
}

static bool is_asked_for(const struct release *release, const hf_session_state *state)
{
    for (size_t i = 0; i < state->n_asked; i++)
        if (release_takes_out(release, state->asked[i].ticket))
            return true;
    return false;
}

/* Others take out tickets of marked sessions, and what they have asked for (R5, R9). */
static hf_code look_at_session(hf_client *client, struct release *release, hf_error *err)
{
    hf_session_state state;
    hf_code code = client_look_at_sessions(client, &release->session, 1, -1, &state, err);
    if (code && code != HF_SHAPE)
        return code;
    release->in_doubt = state.presence != HF_LIVE || is_asked_for(release, &state);
    return HF_OK;
}

/* Where there are no sessions, others take a lock whose lease is over. */
static hf_code look_at_lease(hf_client *client, struct release *release)
{
    MUTEX_SCOPE(&client->mutex);
    hf_mono now = client_now(client);
    release->in_doubt = !belief_in_session_locked(client, release->session, now) ||
                        mono_reached(release->lease_end, now);
    return HF_OK;
}

/* The tickets are gone. Where the record does not say how, an earlier try took them out if nobody
 * else may have done so until now. */
static hf_code doubt(hf_client *client, struct release *releases, hf_error *err)
{
    hf_code code = HF_OK;
    for (struct release *r = releases; r && !code; r = r->carried_next)
        if (r->is_held && !r->is_there && !r->was_lost && !r->has_left)
            code = client->store->can & HF_CAN_QUEUE ? look_at_session(client, r, err)
                                                     : look_at_lease(client, r);
    return code;
}

/* If a deposed primary may have answered, a leave that changed nothing proves nothing. */
static void confirm(hf_client *client, hf_parcel *parcel, struct release *releases)
{
    for (struct release *r = releases; r; r = r->carried_next) {
        r->is_there = r->has_left = r->in_doubt = false;
        r->was_lost = !r->was_sent;
    }
    parcel->code = client->store->ops->look(client->store, &parcel->name, 1, (hf_stamp){0}, true,
                                            seek, releases, &parcel->err);
    if (!parcel->code)
        parcel->code = doubt(client, releases, &parcel->err);
}

/* A step of several leaves that a majority has seen change something has taken all of them out. */
static bool is_confirmed(const hf_parcel *parcel)
{
    return parcel->code || parcel->reply.confirmed;
}

static void send_one(hf_store *store, hf_parcel *parcel)
{
    parcel->code =
        store->ops->step(store, parcel->name, &parcel->step, NULL, &parcel->reply, &parcel->err);
}

/* One try. */
static void send_load(hf_client *client, struct load *load)
{
    hf_store *store = client->store;
    if (load->n > 1)
        store->ops->steps(store, load->parcels, load->n);
    else
        send_one(store, load->parcels);
    for (size_t i = 0; i < load->n; i++)
        if (!is_confirmed(&load->parcels[i]))
            confirm(client, &load->parcels[i], load->releases[i]);
}

/* What came of a release. HF_HELD: it is still there, send it again. */
static hf_code outcome_of(const struct release *release, const hf_parcel *parcel, hf_error *err)
{
    if (is_confirmed(parcel) && parcel->code && err)
        *err = parcel->err;
    if (is_confirmed(parcel))
        return parcel->code;
    if (release->is_there)
        return error_set(err, HF_HELD, "%.128s: the release has not taken effect", release->name);
    if (release->is_held && release->was_lost)
        return error_set(err, HF_LOST,
                         "%.128s was not held any more when it was released: somebody took the "
                         "ticket out, or the record is gone",
                         release->name);
    if (release->in_doubt)
        return error_set(err, HF_LOST,
                         "%.128s may have been lost before it was released: the first try had no "
                         "answer, and its lease was over before the next",
                         release->name);
    return HF_OK;
}

/* ---- What came of it ---- */

static bool is_known(hf_code code)
{
    return code == HF_OK || code == HF_LOST;
}

/* Whether to try again at once. What the store refused is tried again too, but rarely. */
static bool is_passing(hf_code code)
{
    return code == HF_HELD || hf_code_retryable(code);
}

/* What the store refuses is left, at the end, to the mark of its session. */
static bool gives_up_locked(const hf_client *client, const struct release *release, hf_code code)
{
    bool lives = session_is_present_locked(client, release->session);
    return !is_passing(code) && (client->closing.has_begun || !lives);
}

/* The release was tried: done, or to be tried again. Returns whether it is over. */
static bool settle_locked(hf_client *client, struct release *release, hf_code code)
{
    bool gives_up = gives_up_locked(client, release, code);
    client->hold->releases.is_answered = !error_is_no_answer(code);
    client->is_silent = error_is_no_answer(code);
    release->was_sent |= code == HF_UNKNOWN;
    release->failures++;
    if (!is_known(code) && !gives_up)
        return false;
    if (!is_known(code) && session_is_present_locked(client, release->session))
        session_suspect_locked(client, release->name); /* its ticket stands */
    if (code)
        release_note_lost_locked(client, release);
    if (is_known(code))
        release_tell_guardian(client, release);
    release_over_locked(client, release);
    return true;
}

static int64_t pause_ms(hf_client *client, const struct release *release, hf_code code)
{
    if (!is_passing(code))
        return lease_beat_ms(client->ttl_ms);
    return backoff_ms(release->failures, RETRY_FIRST_MS, RETRY_MOST_MS, client_chance(client));
}

/* Enters that carry releases wait for those of their name that are in flight. */
static void wake_enters_locked(hf_client *client)
{
    if (client->hold->releases.is_awaited)
        lock_request_wake_all_locked(client);
    client->hold->releases.is_awaited = false;
}

/* What is not over goes on in the background. */
static void settle_all_locked(hf_client *client, const struct load *load)
{
    for (size_t i = 0; i < load->n; i++)
        for (struct release *r = load->releases[i], *next; r; r = next) {
            next = r->carried_next;
            hf_code code = outcome_of(r, &load->parcels[i], NULL);
            if (!settle_locked(client, r, code))
                release_hand_over_locked(client, r, pause_ms(client, r, code));
        }
    wake_enters_locked(client);
}

/* ---- One, in the caller's thread ---- */

static hf_code send_once(hf_client *client, struct release *release, hf_error *err)
{
    hf_parcel parcel = {.name = release->name};
    struct load one = {.parcels = &parcel, .releases = &release, .n = 1};
    release->carried_next = NULL;
    parcel.step.leaves = leaves_of(release, &parcel.step.n_leaves);
    send_load(client, &one);
    if (parcel.step.n_leaves > 1)
        free((void *)parcel.step.leaves);
    return outcome_of(release, &parcel, err);
}

hf_code release_send(hf_client *client, struct release *release, hf_mono stop_by, hf_error *err)
{
    for (;;) {
        hf_code code = send_once(client, release, err);
        pthread_mutex_lock(&client->mutex);
        bool over = settle_locked(client, release, code);
        bool leaves_it = !over && (!is_passing(code) || mono_reached(stop_by, client_now(client)));
        int64_t ms = over ? 0 : pause_ms(client, release, code);
        if (leaves_it)
            release_hand_over_locked(client, release, ms);
        if (over || leaves_it)
            wake_enters_locked(client);
        pthread_mutex_unlock(&client->mutex);
        if (over || leaves_it)
            return code;
        client->env.pause(client->env.ctx, ms);
    }
}

/* ---- What is due ---- */

static bool is_too_late_locked(const hf_client *client, hf_mono now)
{
    return client->closing.has_begun && mono_reached(client->closing.until, now);
}

/* A network takes the next call while this one is under way. */
static void share_locked(hf_client *client, hf_mono now)
{
    if (client->store->is_remote && schedule_next_due(&client->hold->releases.due, now))
        release_send_beside_locked(client);
}

/* Sends as much as one call takes; returns of how many locks. */
static size_t send_due(hf_client *client, hf_mono now)
{
    struct load load = {.n = 0};
    pthread_mutex_lock(&client->mutex);
    if (!is_too_late_locked(client, now))
        load_due_locked(client, now, &load);
    if (load.n)
        share_locked(client, now);
    pthread_mutex_unlock(&client->mutex);
    if (!load.n)
        return 0;
    send_load(client, &load);
    pthread_mutex_lock(&client->mutex);
    settle_all_locked(client, &load);
    pthread_mutex_unlock(&client->mutex);
    load_done(&load);
    return load.n;
}

hf_mono release_due_locked(const hf_client *client, hf_mono now)
{
    return is_too_late_locked(client, now) ? MONO_NEVER : schedule_due(&client->hold->releases.due);
}

hf_mono release_tick(hf_client *client, hf_mono now)
{
    size_t n = 0, more;
    while (n < HF_PARCELS_MOST && (more = send_due(client, now))) {
        n += more;
        now = client_now(client);
    }
    MUTEX_SCOPE(&client->mutex);
    return release_due_locked(client, now);
}

hf_mono release_tick_beside(hf_client *client, hf_mono now)
{
    while (send_due(client, now))
        now = client_now(client);
    MUTEX_SCOPE(&client->mutex);
    return release_due_locked(client, now);
}

bool release_is_crowded_locked(const hf_client *client)
{
    const struct releases *all = &client->hold->releases;
    return all->due.n >= CROWD && all->is_answered && !client->closing.has_begun;
}
