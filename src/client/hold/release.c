/* SPDX-License-Identifier: Apache-2.0 */
/* release.c: takes tickets out of records, and repeats that until the outcome is known (R8): in the
 * caller's thread for hf_lock_release(), in the background for all others. See release.h. */
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

struct release *release_push_locked(hf_client *client, const char *name, hf_id session,
                                    const hf_leave *leave, bool is_held)
{
    struct release *release = alloc_zeroed(sizeof *release);
    release->name = alloc_text(name);
    release->session = session;
    release->leave = *leave;
    release->is_held = is_held;
    release->next = client->hold->releases.first;
    client->hold->releases.first = release;
    return release;
}

struct release *release_push_lock_locked(struct hf_lock *lock, const hf_leave *leave, bool is_held)
{
    struct release *release =
        release_push_locked(lock->client, lock->name, lock->grant.session, leave, is_held);
    release->upgrade = lock->change.upgrade;
    release->token = lock->grant.token;
    return release;
}

struct release *release_begin_locked(struct hf_lock *lock)
{
    hf_leave leave = lock_leave(lock);
    bool ends_turn = lock->state == LOCK_HELD;
    struct history_turn *turn = ends_turn ? diary_turn_locked(lock, HF_TURN_RELEASED) : NULL;
    lock_end_locked(lock, LOCK_RELEASED);
    line_left_locked(lock);
    struct release *release = release_push_lock_locked(lock, &leave, true);
    release->turn = turn;
    return release;
}

static void unlink_locked(hf_client *client, const struct release *gone)
{
    for (struct release **at = &client->hold->releases.first; *at; at = &(*at)->next)
        if (*at == gone) {
            *at = gone->next;
            return;
        }
}

void release_free(struct release *release)
{
    free(release->turn);
    free(release->name);
    free(release);
}

static bool takes_out(const struct release *release, hf_id ticket)
{
    return id_equal(release->leave.ticket, ticket) || id_equal(release->upgrade, ticket);
}

size_t release_leaves(const struct release *release, hf_leave out[RELEASE_LEAVES])
{
    out[0] = out[1] = release->leave;
    out[1].ticket = release->upgrade;
    return id_is_zero(release->upgrade) ? 1 : 2;
}

bool release_is_pending_locked(hf_client *client, hf_id ticket)
{
    for (struct release *r = client->hold->releases.first; r; r = r->next)
        if (takes_out(r, ticket))
            return true;
    return false;
}

bool release_is_any_of_locked(const hf_client *client, hf_id session)
{
    for (const struct release *r = client->hold->releases.first; r; r = r->next)
        if (id_equal(r->session, session))
            return true;
    return false;
}

struct release *release_take_locked(hf_client *client, const char *name, bool *is_busy)
{
    *is_busy = false;
    for (struct release *r = client->hold->releases.first; r; r = r->next)
        if (r->in_flight && strcmp(r->name, name) == 0)
            *is_busy = true;
    struct release *taken = NULL;
    for (struct release *r = client->hold->releases.first; r && !*is_busy; r = r->next) {
        if (strcmp(r->name, name) != 0)
            continue;
        r->in_flight = true;
        r->carried_next = taken;
        taken = r;
    }
    return taken;
}

/* Notes the turn that its holder has ended. */
static void note_turn_locked(hf_client *client, struct release *release)
{
    diary_add_locked(client, release->turn);
    release->turn = NULL;
}

/* Others will take its ticket out, or have done so. */
static void note_lost_locked(hf_client *client, struct release *release)
{
    if (!release->turn)
        return;
    release->turn->note.end = HF_TURN_LOST;
    release->turn->note.reason = "it was lost before its release was acknowledged";
    note_turn_locked(client, release);
}

/* The ticket is certainly out. If there was an ask for it, the next beat takes that out (R9). The
 * end of a session waits for its releases. */
static void done_locked(hf_client *client, struct release *release)
{
    session_answer_locked(client, release->leave.ticket);
    session_answer_locked(client, release->upgrade);
    note_turn_locked(client, release);
    unlink_locked(client, release);
    release_free(release);
    pthread_cond_broadcast(&client->changed);
    if (client->hold->endings.n)
        ticker_poke(client, TICK_UPKEEP);
}

static void tell_guardian(hf_client *client, const struct release *release)
{
    guardian_out(client, release->leave.ticket);
    guardian_out(client, release->upgrade);
}

void release_put_back_locked(hf_client *client, struct release *carried, bool was_sent)
{
    while (carried) {
        struct release *next = carried->carried_next;
        carried->was_sent |= was_sent;
        carried->in_flight = false;
        carried = next;
    }
    ticker_poke(client, TICK_UPKEEP);
}

void release_done_locked(hf_client *client, struct release *carried)
{
    while (carried) {
        struct release *next = carried->carried_next;
        tell_guardian(client, carried);
        done_locked(client, carried);
        carried = next;
    }
}

void release_free_all(hf_client *client)
{
    while (client->hold->releases.first) {
        struct release *release = client->hold->releases.first;
        client->hold->releases.first = release->next;
        release_free(release);
    }
}

void release_bequeath(hf_client *client)
{
    for (struct release *r = client->hold->releases.first; r; r = r->next) {
        client_log(client, HF_LOG_WARNING,
                   "%s: its release was not acknowledged: it may stand until its lease is over",
                   *r->name ? r->name : "a document");
        guardian_leave(client, r->name, &r->leave, r->upgrade, r->token);
    }
}

/* ---- Sending ---- */

struct lookup {
    const struct release *release;
    bool is_there, was_lost;
};

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

static bool seek(void *ctx, const hf_record *record)
{
    struct lookup *lookup = ctx;
    for (size_t i = 0; i < record->holders + record->queued; i++)
        lookup->is_there |= takes_out(lookup->release, record->entries[i].ticket);
    lookup->was_lost |= was_lost(lookup->release, &record->last);
    return !lookup->is_there;
}

/* If a deposed primary may have answered, a leave that changed nothing proves nothing. */
static hf_code confirm(hf_client *client, struct lookup *lookup, hf_error *err)
{
    const char *names[] = {lookup->release->name};
    return client->store->ops->look(client->store, names, 1, (hf_stamp){0}, true, seek, lookup,
                                    err);
}

/* One try. HF_HELD: it is still there, send it again. */
static hf_code send_once(hf_client *client, struct release *release, hf_error *err)
{
    hf_leave leaves[RELEASE_LEAVES];
    hf_step step = {.leaves = leaves, .n_leaves = release_leaves(release, leaves)};
    hf_step_reply reply;
    struct lookup lookup = {.release = release, .was_lost = !release->was_sent};
    hf_code code = client->store->ops->step(client->store, release->name, &step, NULL, &reply, err);
    if (code || reply.confirmed)
        return code;
    code = confirm(client, &lookup, err);
    if (code)
        return code;
    if (lookup.is_there)
        return error_set(err, HF_HELD, "%.128s: the release has not taken effect", release->name);
    if (release->is_held && lookup.was_lost)
        return error_set(err, HF_LOST,
                         "%.128s was not held any more when it was released: somebody took the "
                         "ticket out, or the record is gone",
                         release->name);
    return HF_OK;
}

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
    release->was_sent |= code == HF_UNKNOWN;
    release->failures++;
    if (!is_known(code) && !gives_up)
        return false;
    if (!is_known(code) && session_is_present_locked(client, release->session))
        session_suspect_locked(client, release->name); /* its ticket stands */
    if (code)
        note_lost_locked(client, release);
    if (is_known(code))
        tell_guardian(client, release);
    done_locked(client, release);
    lock_request_wake_all_locked(client);
    return true;
}

static int64_t pause_ms(hf_client *client, const struct release *release, hf_code code)
{
    if (!is_passing(code))
        return lease_beat_ms(client->ttl_ms);
    return backoff_ms(release->failures, RETRY_FIRST_MS, RETRY_MOST_MS, client_chance(client));
}

static void hand_over_locked(hf_client *client, struct release *release, hf_code code)
{
    release->in_flight = false;
    release->due = mono_add_ms(client_now(client), pause_ms(client, release, code));
    ticker_poke(client, TICK_UPKEEP);
    lock_request_wake_all_locked(client);
}

hf_code release_send(hf_client *client, struct release *release, hf_mono stop_by, hf_error *err)
{
    for (;;) {
        hf_code code = send_once(client, release, err);
        pthread_mutex_lock(&client->mutex);
        bool over = settle_locked(client, release, code);
        bool leaves_it = !over && (!is_passing(code) || mono_reached(stop_by, client_now(client)));
        if (leaves_it)
            hand_over_locked(client, release, code);
        int64_t ms = over || leaves_it ? 0 : pause_ms(client, release, code);
        pthread_mutex_unlock(&client->mutex);
        if (over || leaves_it)
            return code;
        client->env.pause(client->env.ctx, ms);
    }
}

/* ---- In the background ---- */

void release_later_locked(hf_client *client, struct release *release, int64_t delay_ns)
{
    release->due.ns = client_now(client).ns + delay_ns;
    ticker_poke_later_locked(client, TICK_UPKEEP, delay_ns);
}

void release_hurry_locked(hf_client *client)
{
    for (struct release *release = client->hold->releases.first; release; release = release->next)
        release->due = client_now(client);
}

static struct release *next_due_locked(hf_client *client, hf_mono now, hf_mono *due)
{
    *due = MONO_NEVER;
    for (struct release *r = client->hold->releases.first; r; r = r->next) {
        if (r->in_flight)
            continue;
        if (mono_reached(r->due, now))
            return r;
        *due = mono_min(*due, r->due);
    }
    return NULL;
}

static void send_in_background(hf_client *client, struct release *release)
{
    hf_error err;
    hf_code code = send_once(client, release, &err);
    pthread_mutex_lock(&client->mutex);
    if (!settle_locked(client, release, code))
        hand_over_locked(client, release, code);
    pthread_mutex_unlock(&client->mutex);
}

hf_mono release_tick(hf_client *client, hf_mono now)
{
    for (;;) {
        hf_mono due;
        pthread_mutex_lock(&client->mutex);
        bool too_late = client->closing.has_begun && mono_reached(client->closing.until, now);
        struct release *release = too_late ? NULL : next_due_locked(client, now, &due);
        if (release)
            release->in_flight = true;
        pthread_mutex_unlock(&client->mutex);
        if (!release)
            return too_late ? MONO_NEVER : due;
        send_in_background(client, release);
        now = client_now(client);
    }
}
