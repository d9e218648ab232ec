/* SPDX-License-Identifier: Apache-2.0 */
/* judge.c: decides whether a session counts as dead, from what one watcher has seen. */
#include "core/judge.h"

#include "core/alloc.h"
#include "core/id.h"
#include "core/lease.h"

#define TOGETHER_MS 50 /* looks due so close share one read (L1) */

void judge_done(struct judge *judge)
{
    free(judge->watches);
    judge->watches = NULL;
    judge->n = 0;
}

static judge_watch *find(const struct judge *judge, hf_id id)
{
    for (size_t i = 0; i < judge->n; i++)
        if (id_equal(judge->watches[i].id, id))
            return &judge->watches[i];
    return NULL;
}

static judge_watch *find_or_add(struct judge *judge, hf_id id, int32_t ttl_ms, hf_mono look_at)
{
    judge_watch *watch = find(judge, id);
    if (watch)
        return watch;
    judge->watches = alloc_array(judge->watches, judge->n + 1, sizeof *judge->watches);
    watch = &judge->watches[judge->n++];
    *watch = (judge_watch){.id = id, .ttl_ms = ttl_ms, .look_at = look_at};
    return watch;
}

static int64_t every_ms(bool waits, int32_t ttl_ms)
{
    return waits ? lease_waiting_beat_ms(ttl_ms) : lease_beat_ms(ttl_ms);
}

void judge_add(struct judge *judge, hf_id session, int32_t ttl_ms, bool waits, hf_mono look_at)
{
    judge_watch *watch = find_or_add(judge, session, ttl_ms, look_at);
    if (watch->is_far)
        watch->look_at = (hf_mono){0};
    if (watch->waits && !waits)
        watch->look_at = mono_min(watch->look_at, mono_add_ms(look_at, every_ms(false, ttl_ms)));
    watch->is_far = false;
    watch->waits = waits;
}

void judge_add_far(struct judge *judge, hf_id session, int32_t ttl_ms, hf_mono look_at)
{
    if (!find(judge, session))
        find_or_add(judge, session, ttl_ms, look_at)->is_far = true;
}

static bool is_among(hf_id id, const hf_id *ids, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (id_equal(ids[i], id))
            return true;
    return false;
}

void judge_keep(struct judge *judge, const hf_id *ids, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < judge->n; i++)
        if (is_among(judge->watches[i].id, ids, n))
            judge->watches[kept++] = judge->watches[i];
    judge->n = kept;
}

static hf_mono due_with_slack(const judge_watch *watch, int64_t slack_ms)
{
    hf_mono end = lease_watch_end(watch->since, watch->ttl_ms);
    if (watch->is_ask || !watch->is_seen || mono_reached(end, watch->look_at))
        return watch->look_at;
    return mono_min(mono_add_ms(watch->look_at, slack_ms), end);
}

hf_mono judge_due(const struct judge *judge)
{
    hf_mono due = MONO_NEVER;
    for (size_t i = 0; i < judge->n; i++)
        if (!judge->watches[i].is_far)
            due = mono_min(due, due_with_slack(&judge->watches[i], judge->slack_ms));
    return due;
}

size_t judge_collect(const struct judge *judge, hf_mono now, hf_id *ids, size_t max)
{
    size_t n = 0;
    hf_mono horizon = mono_add_ms(now, TOGETHER_MS);
    if (judge->slack_ms && !mono_reached(judge_due(judge), horizon))
        return 0;
    for (size_t i = 0; i < judge->n && n < max; i++) {
        const judge_watch *watch = &judge->watches[i];
        if (!watch->is_ask && mono_reached(watch->look_at, horizon))
            ids[n++] = watch->id;
    }
    return n;
}

/* Whether this same value has been seen for the ttl plus the allowance. A new value starts the
 * watch over. */
static bool is_unchanged_for_ttl(judge_watch *watch, int64_t value, hf_mono now)
{
    if (!watch->is_seen || watch->value != value) {
        watch->was_alive = watch->was_alive || (watch->is_seen && value > watch->value);
        watch->is_seen = true;
        watch->value = value;
        watch->since = now;
        return false;
    }
    return mono_reached(lease_watch_end(watch->since, watch->ttl_ms), now);
}

/* A session whose beat is late is looked at more often. A late beat starts the watch over, and if
 * that is seen sooner, so is a crash after it. */
static hf_mono next_look(const judge_watch *watch, bool is_new, int64_t lease_left_ms, hf_mono now)
{
    hf_mono end = lease_watch_end(watch->since, watch->ttl_ms);
    if (mono_reached(end, now))
        return mono_add_ms(now, TOGETHER_MS);
    if (watch->is_far)
        return end;
    if (is_new)
        return lease_look_due(now, watch->ttl_ms, every_ms(watch->waits, watch->ttl_ms),
                              lease_left_ms);
    return mono_min(mono_add_ms(now, watch->ttl_ms / 6), end);
}

/* What cannot be read may live: its watch starts over. */
static judge_verdict spare(judge_watch *watch, hf_mono now)
{
    watch->is_seen = false;
    watch->look_at = mono_add_ms(now, watch->ttl_ms / 6);
    return JUDGE_LIVES;
}

judge_verdict judge_session(struct judge *judge, const hf_session_state *state, hf_mono now)
{
    bool missing = state->presence == HF_MISSING, odd = state->presence == HF_ODD;
    judge_watch *known = find(judge, state->session.id);
    if ((missing || odd) && !known)
        return JUDGE_LIVES; /* nobody told its ttl: it cannot be judged */
    if (odd)
        return spare(known, now);
    judge_watch *watch = find_or_add(judge, state->session.id, state->session.ttl_ms, now);
    if (state->presence == HF_DEAD) {
        watch->look_at = mono_add_ms(now, watch->ttl_ms / 6);
        return JUDGE_IS_DEAD;
    }
    int64_t value = missing ? JUDGE_MISSING : state->beat;
    if (!missing)
        watch->ttl_ms = state->session.ttl_ms;
    bool is_new = !watch->is_seen || watch->value != value;
    bool is_due = is_unchanged_for_ttl(watch, value, now);
    watch->look_at = next_look(watch, is_new && !missing, state->lease_left_ms, now);
    return is_due || state->is_gone ? JUDGE_OVERDUE : JUDGE_LIVES;
}

void judge_drop(struct judge *judge, hf_id session)
{
    judge_watch *watch = find(judge, session);
    if (watch)
        *watch = judge->watches[--judge->n];
}

void judge_lives(struct judge *judge, hf_id session, hf_mono now)
{
    judge_watch *watch = find(judge, session);
    if (!watch)
        return;
    watch->is_seen = false;
    watch->was_alive = true;
    watch->look_at = now;
}

bool judge_ask(struct judge *judge, hf_id ticket, int32_t ttl_ms, hf_mono now)
{
    judge_watch *watch = find_or_add(judge, ticket, ttl_ms, MONO_NEVER);
    watch->is_ask = true;
    return is_unchanged_for_ttl(watch, 0, now);
}

bool judge_saw_life(const struct judge *judge)
{
    for (size_t i = 0; i < judge->n; i++)
        if (judge->watches[i].was_alive)
            return true;
    return false;
}
