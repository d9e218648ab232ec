/* SPDX-License-Identifier: Apache-2.0 */
/* outages.c: worlds in which nothing happens but that the store is away for up to 15 s, at any
 * moment, while all clients have the default ttl of MongoDB and the stop margin of `run`: nobody
 * loses a lock. */
#include "sim/world.h"

#include <string.h>

#define OUTAGE_MS 15000
#define BETWEEN_MS 4000 /* at least: every session's beat gets through */

static bool was_lost;

void outages_begin(void)
{
    was_lost = false;
}

void outages_run(void *arg)
{
    const int64_t *end_ns = arg;
    while (sim_now_ns < *end_ns) {
        fiber_sleep_until(sim_now_ns + (BETWEEN_MS + sim_below(20000)) * MS);
        sim.down_until =
            sim_now_ns + (OUTAGE_MS - (sim_chance(500) ? sim_below(OUTAGE_MS) : 0)) * MS;
        sim_trace("the store is away until %.3f", (double)sim.down_until / 1e9);
        fiber_sleep_until(sim.down_until);
    }
}

/* Other locks are lost for reasons of their own: a watchdog, or a break. */
static void check(const node *n)
{
    for (const struct hf_lock *lock = n->client->hold->locks; lock; lock = lock->next)
        if (lock->state == LOCK_LOST && strstr(lock->loss.why.text, "run out")) {
            sim_violation("an outage cost node %d %s: %s", n->number, lock->name,
                          lock->loss.why.text);
            was_lost = true;
        }
}

void outages_check(void)
{
    for (const node *n = sim.nodes; n && sim.has_outages && !was_lost; n = n->next)
        check(n);
}
