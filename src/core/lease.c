/* SPDX-License-Identifier: Apache-2.0 */
/* lease.c: decides when a lease begins and ends, from times that the caller gives. */
#include "core/lease.h"
#include "core/run_margin.h"

#define MS ((int64_t)1000000)
#define LOOK_DELAY_MS 100 /* L1: the look's delay after a beat is due */
#define RETRY_MOST_MS 500
/* An outage of 15 s, 4 s until a beat gets through after it, and a stop margin of 6 s. */
#define OUTAGE_MS 25000
/* The same with an outage of 25 s: a primary that hangs, and a second ballot. */
#define LONG_OUTAGE_MS 35000
#define BEAT_LEAST_MS 5000    /* no outage that long is worth beats that are closer */
#define ANSWERED_MOST_MS 4000 /* after an outage, until a beat is answered */
#define FIRST_TRIPS 8         /* for a connection, and as long to spare */
#define STEPS 6               /* moments at which beats go out, between two of one session */

hf_mono mono_add_ms(hf_mono t, int64_t ms)
{
    if (ms > 0 && ms > (INT64_MAX - t.ns) / MS)
        return MONO_NEVER;
    return (hf_mono){t.ns + ms * MS};
}

hf_mono mono_min(hf_mono a, hf_mono b)
{
    return a.ns < b.ns ? a : b;
}

hf_mono mono_max(hf_mono a, hf_mono b)
{
    return a.ns > b.ns ? a : b;
}

bool mono_reached(hf_mono due, hf_mono now)
{
    return now.ns >= due.ns;
}

int64_t mono_ms_until(hf_mono t, hf_mono now)
{
    int64_t ns = t.ns - now.ns;
    return ns > 0 ? (ns - 1) / MS + 1 : ns / MS;
}

int64_t lease_allowance_ns(int64_t ttl_ms)
{
    return ttl_ms * MS / 500 + 5 * MS;
}

int64_t lease_trust_ms(bool has_process, int64_t ttl_ms, int64_t clock_trust_ms)
{
    int64_t allowance_ms = lease_allowance_ns(ttl_ms) / MS + 1;
    return has_process || clock_trust_ms < allowance_ms ? clock_trust_ms : allowance_ms;
}

hf_mono lease_end(hf_mono sent, int64_t ttl_ms)
{
    return (hf_mono){sent.ns + ttl_ms * MS - lease_allowance_ns(ttl_ms)};
}

hf_mono lease_watch_end(hf_mono first_seen, int64_t ttl_ms)
{
    return (hf_mono){first_seen.ns + ttl_ms * MS + lease_allowance_ns(ttl_ms)};
}

static int64_t beat_that_outlives(int64_t outage_ms, int64_t ttl_ms)
{
    int64_t third_ms = ttl_ms / 3, spare_ms = ttl_ms - outage_ms;
    if (spare_ms < BEAT_LEAST_MS)
        spare_ms = BEAT_LEAST_MS;
    return third_ms < spare_ms ? third_ms : spare_ms;
}

int64_t lease_beat_ms(int64_t ttl_ms)
{
    return beat_that_outlives(LONG_OUTAGE_MS, ttl_ms);
}

int64_t lease_waiting_beat_ms(int64_t ttl_ms)
{
    return beat_that_outlives(OUTAGE_MS, ttl_ms);
}

hf_mono lease_beat_due(hf_mono sent, int64_t ttl_ms)
{
    return mono_add_ms(sent, lease_beat_ms(ttl_ms));
}

int64_t lease_outlives_ms(int64_t ttl_ms)
{
    int64_t held_ms = lease_end((hf_mono){0}, ttl_ms).ns / MS;
    int64_t answered_ms = ttl_ms / 10 < ANSWERED_MOST_MS ? ttl_ms / 10 : ANSWERED_MOST_MS;
    return held_ms - lease_beat_ms(ttl_ms) - answered_ms - run_grace_ms(ttl_ms) -
           run_kill_ms(ttl_ms);
}

int64_t lease_that_outlives_ms(int64_t outage_ms)
{
    int64_t ttl_ms = LEASE_TTL_MIN_MS;
    while (lease_outlives_ms(ttl_ms) < outage_ms)
        ttl_ms += 1000;
    return ttl_ms;
}

int64_t lease_first_sooner_ms(int64_t began_ms)
{
    return FIRST_TRIPS * began_ms;
}

hf_mono lease_retry_due(hf_mono now, int64_t ttl_ms)
{
    int64_t twentieth_ms = ttl_ms / 20;
    return mono_add_ms(now, twentieth_ms < RETRY_MOST_MS ? twentieth_ms : RETRY_MOST_MS);
}

hf_mono lease_in_step(hf_mono due, int64_t every_ms, hf_mono now, hf_wall wall)
{
    int64_t step_ms = every_ms / STEPS, due_ms = wall.ms + (due.ns - now.ns) / MS;
    if (step_ms <= 0 || due_ms < 0)
        return due;
    return mono_add_ms(due, -(due_ms % step_ms));
}

hf_mono lease_look_due(hf_mono now, int64_t ttl_ms, int64_t every_ms, int64_t lease_left_ms)
{
    int64_t until_beat = lease_left_ms - (ttl_ms - every_ms);
    if (until_beat < 0)
        until_beat = 0;
    if (until_beat > every_ms)
        until_beat = every_ms;
    return mono_add_ms(now, until_beat + LOOK_DELAY_MS);
}
