/* SPDX-License-Identifier: Apache-2.0 */
/* sweep.c: does its share of the housekeeping (R5), at a client's start and then hourly, and writes
 * the diary. It works part by part in a thread of its own, so that nothing waits behind it. Where
 * it leaves off, another client goes on: the store keeps how far all of them have come.
 */
#include "client/hold/hold.h"

#include "core/alloc.h"
#include "core/backoff.h"
#include "core/sweep.h"

#include <stdlib.h>

#define FIRST_MS 1000
#define AGAIN_MS 3600000
#define PART_MS 20 /* between two parts: others want the store, too */
#define IN_VAIN_MOST_MS (AGAIN_MS / 2)
#define OVERDUE_MOST 32

/* One start in eight sweeps at once, so that short-lived clients sweep, too. All others sweep after
 * a second, so that the sweep does not delay the work. */
void sweep_begin_locked(hf_client *client, hf_mono now)
{
    int64_t first_ms = client_chance(client) % 8 ? FIRST_MS : 0;
    client->hold->sweep.due = mono_min(client->hold->sweep.due, mono_add_ms(now, first_ms));
}

static void mark_if_due(hf_client *client, const hf_session_state *state, hf_mono now)
{
    hf_error err;
    judge_verdict verdict = judge_session(&client->hold->sweep.judge, state, now);
    bool is_over = verdict == JUDGE_IS_DEAD || state->presence == HF_MISSING;
    if (!is_over && verdict == JUDGE_OVERDUE && client_mark(client, state, &err) == HF_OK) {
        client_log(client, HF_LOG_INFO, "marked a session dead that is long overdue");
        is_over = true;
    }
    if (is_over)
        judge_drop(&client->hold->sweep.judge, state->session.id);
}

/* It is watched for at most this long. */
static hf_mono watch_end(const hf_session_state *state, hf_mono now)
{
    int64_t ttl_ms = state->session.ttl_ms;
    return mono_min(mono_add_ms(lease_watch_end(now, ttl_ms), ttl_ms),
                    mono_add_ms(now, AGAIN_MS / 2));
}

/* Marks those of which the store knows that they are gone, and starts to watch the others, as many
 * as there is room for: those that are left over are found again. */
static void take_in(hf_client *client, size_t n, hf_mono now)
{
    struct sweep *sweep = &client->hold->sweep;
    if (!sweep->judge.n)
        sweep->until = now;
    for (size_t i = 0; i < n; i++) {
        const hf_session_state *state = &sweep->overdue[i];
        if (!state->is_gone && sweep->judge.n == OVERDUE_MOST)
            continue;
        mark_if_due(client, state, now);
        hf_mono end = watch_end(state, now);
        if (end.ns > sweep->until.ns)
            sweep->until = end;
    }
}

/* When another's turn (HF_HELD) is over, also if that one was killed in it. While others go on, it
 * comes more and more rarely: there may be thousands. So too while the store is away. */
static int64_t again_ms(hf_client *client, hf_code code, bool more)
{
    struct sweep *sweep = &client->hold->sweep;
    if (!hf_code_retryable(code)) {
        sweep->in_vain = 0;
        return more ? PART_MS : AGAIN_MS;
    }
    return SWEEP_TURN_MS +
           backoff_ms(++sweep->in_vain, SWEEP_TURN_MS, IN_VAIN_MOST_MS, client_chance(client));
}

/* One part; returns when the next one is due. */
static int64_t sweep(hf_client *client, hf_mono now)
{
    hf_error err;
    size_t n = 0;
    bool more = false;
    if (!client->hold->sweep.overdue)
        client->hold->sweep.overdue =
            alloc_array(NULL, OVERDUE_MOST, sizeof *client->hold->sweep.overdue);
    hf_code code = client->store->ops->sweep(client->store, client->hold->sweep.overdue,
                                             OVERDUE_MOST, &n, &more, &err);
    if (code && code != HF_HELD)
        client_log(client, HF_LOG_INFO, "sweeping: %s", err.text);
    if (n)
        take_in(client, n, now);
    return again_ms(client, code, more);
}

/* Watches the sessions that the sweep found, by the same rule as waiters, and marks the dead. A
 * session that was judged dead or alive over a whole ttl is watched no longer. */
static hf_mono watch_overdue(hf_client *client, hf_mono now)
{
    hf_id ids[OVERDUE_MOST];
    hf_error err;
    size_t n = judge_collect(&client->hold->sweep.judge, now, ids, OVERDUE_MOST);
    hf_code code =
        n ? client_look_at_sessions(client, ids, n, -1, client->hold->sweep.overdue, &err) : HF_OK;
    if (code && code != HF_SHAPE)
        n = 0;
    hf_mono arrival = client_now(client);
    for (size_t i = 0; i < n; i++)
        mark_if_due(client, &client->hold->sweep.overdue[i], arrival);
    if (mono_reached(client->hold->sweep.until, arrival))
        judge_done(&client->hold->sweep.judge);
    return judge_due(&client->hold->sweep.judge);
}

static void set_due(hf_client *client, int64_t ms)
{
    pthread_mutex_lock(&client->mutex);
    client->hold->sweep.due = mono_add_ms(client_now(client), ms);
    pthread_mutex_unlock(&client->mutex);
}

hf_mono sweep_tick(hf_client *client, hf_mono now)
{
    pthread_mutex_lock(&client->mutex);
    bool is_closing = client->closing.has_begun;
    hf_mono due = client->hold->sweep.due;
    pthread_mutex_unlock(&client->mutex);
    if (is_closing)
        return MONO_NEVER;
    if (mono_reached(due, now))
        set_due(client, sweep(client, now));
    due = watch_overdue(client, client_now(client));
    due = mono_min(due, diary_tick(client, client_now(client)));
    MUTEX_SCOPE(&client->mutex);
    return mono_min(due, client->hold->sweep.due);
}

void sweep_free(struct sweep *sweep)
{
    judge_done(&sweep->judge);
    free(sweep->overdue);
}
