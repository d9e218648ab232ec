/* SPDX-License-Identifier: Apache-2.0 */
/* errands.c: what a node does besides taking single locks: two at once, a job once per period, a
 * lock that must be fed, an election. Each has locks of its own, and is an actor of its own. */
#include "sim/world.h"

#include <stdlib.h>

#define PERIOD_MS 600000 /* longer than a world, and than the server's clock jumps */

static int64_t job_done = -1; /* the start of the period whose work was finished, for sure */

void errands_begin(void)
{
    job_done = -1;
}

static void rest(void)
{
    do
        fiber_sleep_until(sim_now_ns + sim_below(6000) * MS);
    while (sim.is_draining);
}

static int64_t some_wait(void)
{
    return sim_chance(300) ? HF_TRY : 1 + sim_below(4 * sim.ttl_ms);
}

static void hold(errand *e, int name, hf_lock *lock)
{
    int at = e->locks[0] ? 1 : 0;
    e->names[at] = name;
    e->locks[at] = lock;
    if (hf_lock_token(lock) == e->token)
        return; /* a leader that goes on leading */
    e->token = hf_lock_token(lock);
    rules_errand_had(name, lock);
    sim.grants++;
}

static void close_all(errand *e)
{
    for (int i = 0; i < 2; i++) {
        hf_lock *lock = e->locks[i];
        e->locks[i] = NULL;
        hf_lock_close(lock);
    }
}

/* ---- Two locks at once ---- */

static void check_together(hf_lock *const locks[2])
{
    if (hf_lock_check(locks[0], NULL, NULL) != hf_lock_check(locks[1], NULL, NULL))
        sim_violation("P21: of two locks that were taken together one is lost");
}

/* All that want them take them both, so no two wait for each other. */
static void take_two(errand *e)
{
    const bool is_turned = sim_chance(500);
    const int names[] = {is_turned ? NAME_Y : NAME_X, is_turned ? NAME_X : NAME_Y};
    const char *const texts[] = {sim_name(names[0]), sim_name(names[1])};
    hf_lock_options options = {.wait_ms = some_wait(), .actor = "both"};
    hf_lock *locks[2];
    hf_code code = hf_lock_acquire_all(e->node->client, texts, 2, &options, locks, NULL);
    if (code == HF_DEADLOCK)
        sim_violation("P21: there is a deadlock of those that take two locks at once");
    if (code)
        return;
    check_together(locks);
    for (int i = 0; i < 2; i++)
        hold(e, names[i], locks[i]);
    fiber_sleep_until(sim_now_ns + sim_below(sim.ttl_ms) * MS);
    check_together(locks);
    close_all(e);
}

/* ---- Once per period ---- */

static void finish(errand *e)
{
    hf_lock *lock = e->locks[0];
    int64_t start = lock->grant.period.start.ms;
    hf_lock_set_exit_status(lock, 0);
    e->locks[0] = NULL;
    if (hf_lock_release(lock, NULL) == HF_OK)
        job_done = start;
    hf_lock_close(lock);
}

static void do_job(errand *e)
{
    hf_lock_options options = {.wait_ms = some_wait(), .actor = "job", .period_ms = PERIOD_MS};
    hf_lock *lock;
    if (hf_lock_acquire(e->node->client, sim_name(NAME_JOB), &options, &lock, NULL))
        return;
    hold(e, NAME_JOB, lock);
    bool has_run = hf_lock_has_run(lock);
    if (!has_run && job_done == lock->grant.period.start.ms)
        sim_violation("P17: the work of a period is done again");
    fiber_sleep_until(sim_now_ns + sim_below(sim_chance(500) ? 100 : 2 * sim.ttl_ms) * MS);
    if (!has_run && sim_chance(200) && !hf_lock_check(lock, NULL, NULL))
        finish(e);
    else
        close_all(e);
}

/* ---- A lock that must be fed ---- */

/* The worker that is stuck stops as late as it may, or later. */
static void stop(const node *n)
{
    fiber_sleep_until(sim_now_ns + sim_below(2 * n->client->stop_margin_ms + 1) * MS);
}

static void feed(errand *e)
{
    hf_lock_options options = {
        .wait_ms = some_wait(), .actor = "fed", .feed_ms = 100 + sim_below(sim.ttl_ms)};
    hf_lock *lock;
    if (hf_lock_acquire(e->node->client, sim_name(NAME_FED), &options, &lock, NULL))
        return;
    hold(e, NAME_FED, lock);
    for (int64_t i = sim_below(6); i > 0; i--) {
        int64_t fed_ns = node_clock_ns(e->node);
        if (hf_lock_feed(lock, NULL))
            break;
        fiber_sleep_until(sim_now_ns + sim_below(options.feed_ms * 5 / 4) * MS);
        bool is_late = node_clock_ns(e->node) > fed_ns + (options.feed_ms + 5) * MS;
        if (is_late && hf_lock_check(lock, NULL, NULL) == HF_OK)
            sim_violation("P18: a lock that was not fed in time is still believed");
    }
    if (hf_lock_check(lock, NULL, NULL))
        stop(e->node);
    close_all(e);
}

/* ---- An election ---- */

static void lead(errand *e)
{
    hf_election *election;
    hf_campaign_options options = {.wait_ms = 1 + sim_below(4 * sim.ttl_ms)};
    if (hf_election_open(e->node->client, sim_name(NAME_LEAD), NULL, &election, NULL))
        return;
    for (int terms = (int)sim_below(3); terms >= 0 && !sim.is_draining; terms--) {
        if (hf_election_campaign(election, &options, NULL))
            continue;
        if (!hf_election_is_leader(election, NULL, NULL))
            sim_violation("a campaign for %s was won by one that does not lead",
                          sim_name(NAME_LEAD));
        hold(e, NAME_LEAD, hf_election_lock(election));
        fiber_sleep_until(sim_now_ns + sim_below(2 * sim.ttl_ms) * MS);
        e->locks[0] = NULL;
        if (sim_chance(700))
            hf_election_resign(election, NULL);
    }
    hf_election_close(election);
}

/* ---- Their lives ---- */

static void run(void *arg)
{
    static void (*const kinds[])(errand * e) = {take_two, do_job, feed, lead};
    errand *e = arg;
    for (;;) {
        rest();
        kinds[e->kind](e);
    }
}

void errands_start(node *n)
{
    for (int i = 0; i < ERRANDS; i++) {
        n->errands[i] = (errand){.node = n, .kind = i};
        fiber_start(n, run, &n->errands[i]);
    }
}
