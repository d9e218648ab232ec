/* SPDX-License-Identifier: Apache-2.0 */
/* outages.c: worlds in which nothing happens but that the store is away, at any moment, while all
 * clients have the stop margin of `run`. Outages of up to 15 s cost nobody a lock with a ttl of
 * 30 s or more; with the default of MongoDB, 40 s, those of up to 25 s cost none that was granted a
 * while before. After others, which may be longer than the lease, nothing is forgotten: leaves and
 * the ends of sessions are sent as soon as the store is back. */
#include "sim/world.h"

#include "core/id.h"

#include <string.h>

#define OUTAGE_MS 15000
#define HANGING_MS 25000 /* of a primary that hangs */
#define GRANTED_MS 6000  /* before: its holder beats as often as holders do */
#define LONG_MS 90000
#define BETWEEN_MS 4000 /* at least: every session's beat gets through */
/* After an outage: a call that hangs is given up after 5 s, and one after it may have hung, too. */
#define BACK_MS 11000
#define AFTER_MS 20000 /* between two long ones, at least */

static bool was_broken;
static int64_t away_since_ns;

void outages_begin(void)
{
    was_broken = false;
    away_since_ns = 0;
}

static int64_t most_ms(void)
{
    if (sim.has_long_outages)
        return LONG_MS;
    return sim.ttl_ms < 40000 ? OUTAGE_MS : HANGING_MS;
}

void outages_run(void *arg)
{
    const int64_t *end_ns = arg;
    const int64_t between_ms = sim.has_long_outages ? AFTER_MS : BETWEEN_MS;
    while (sim_now_ns < *end_ns) {
        fiber_sleep_until(sim_now_ns + (between_ms + sim_below(20000)) * MS);
        int64_t sooner_ms = sim_chance(500) ? sim_below(most_ms()) : 0;
        away_since_ns = sim_now_ns;
        sim.down_until = sim_now_ns + (most_ms() - sooner_ms) * MS;
        sim_trace("the store is away until %.3f", (double)sim.down_until / 1e9);
        fiber_sleep_until(sim.down_until);
    }
}

/* One that was granted just before a long outage may not have been renewed as a holder is. */
static bool may_be_lost(const node *n, const struct hf_lock *lock)
{
    int64_t granted_ns = node_true_ns(n, lock->belief.born);
    return sim.down_until - away_since_ns > OUTAGE_MS * MS &&
           granted_ns > away_since_ns - GRANTED_MS * MS;
}

/* Other locks are lost for reasons of their own: a watchdog, or a break. */
static void check_losses(const node *n)
{
    for (const struct hf_lock *lock = n->client->hold->locks; lock; lock = lock->next)
        if (lock->state == LOCK_LOST && strstr(lock->loss.why.text, "run out") &&
            !may_be_lost(n, lock)) {
            sim_violation("an outage cost node %d %s: %s", n->number, lock->name,
                          lock->loss.why.text);
            was_broken = true;
        }
}

/* The store has been there for long enough. */
static bool is_back(void)
{
    return sim.down_until && sim_now_ns > sim.down_until + BACK_MS * MS;
}

/* What was to be sent then has been sent. */
static void check_unsent(const node *n)
{
    const struct hold *hold = n->client->hold;
    int64_t since_ns = node_clock_ns(n) - BACK_MS * MS;
    bool is_left = false;
    for (size_t i = 0; i < hold->endings.n; i++)
        is_left |= hold->endings.of[i].due.ns < since_ns;
    for (const struct release *r = hold->releases.first; r; r = r->next)
        is_left |= !id_equal(r->session, n->client->session.self.id);
    if (is_left)
        sim_violation("P4: node %d has not sent what an outage kept back", n->number);
    was_broken |= is_left;
}

void outages_check(void)
{
    bool may_lose = !sim.has_outages || sim.has_long_outages;
    bool checks_unsent = sim.has_outages && is_back();
    for (const node *n = sim.nodes; n && !was_broken; n = n->next) {
        if (!may_lose)
            check_losses(n);
        if (checks_unsent)
            check_unsent(n);
    }
}
