/* SPDX-License-Identifier: Apache-2.0 */
/* main.c: the simulator: worlds from seeds, each with clients, a server and bad weather.
 *
 *     sim [--seed N] [--client-seconds N] [--most-broken N] [--drift PPM] [--outages |
 *         --long-outages] [--narrow] [--verbose]
 *
 * With --narrow queues have one to three places, and the others wait outside with numbers.
 * With --outages the weather is fair, but the store is away now and then (outages.c).
 * Prints what a seed broke, and goes on (until N are broken); `--seed N` with --client-seconds 1
 * replays that one world. Exits 1 when
 * a rule was broken. With a drift beyond the allowance of 2000 ppm rules must break. */
#include "sim/world.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHAOS_S 90

world sim;

/* ---- Chance ---- */

/* splitmix64 */
uint64_t sim_random(void)
{
    uint64_t z = sim.random += 0x9e3779b97f4a7c15U;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9U;
    z = (z ^ z >> 27) * 0x94d049bb133111ebU;
    return z ^ z >> 31;
}

int64_t sim_below(int64_t n)
{
    return (int64_t)(sim_random() % (uint64_t)n);
}

bool sim_chance(int in_a_thousand)
{
    return sim_below(1000) < in_a_thousand;
}

const char *sim_name(int name)
{
    static const char *const names[NAMES] = {"a", "b",   "sem", [NAME_X] = "x",
                                             "y", "job", "fed", "lead"};
    return names[name];
}

/* ---- What is said ---- */

static void say(const char *kind, const char *format, va_list args)
{
    printf("%sseed %llu at %.6f s: ", kind, (unsigned long long)sim.seed, (double)sim_now_ns / 1e9);
    vprintf(format, args);
    putchar('\n');
}

void sim_violation(const char *format, ...)
{
    va_list args;
    if (sim.violations++ > 2)
        return; /* the first ones tell */
    va_start(args, format);
    say("BROKEN: ", format, args);
    va_end(args);
}

void sim_trace(const char *format, ...)
{
    va_list args;
    if (!sim.verbose)
        return;
    va_start(args, format);
    say("", format, args);
    va_end(args);
}

/* ---- The server's clock ---- */

static hf_mono server_mono(void *ctx)
{
    (void)ctx;
    return (hf_mono){1000 * SECOND + sim_now_ns + sim.server_offset_ns};
}

static hf_wall server_wall(void *ctx)
{
    (void)ctx;
    return (hf_wall){1800000000000 + (sim_now_ns + sim.server_offset_ns) / MS};
}

static void server_random(void *ctx, void *bytes, size_t n)
{
    (void)ctx;
    for (size_t i = 0; i < n; i++)
        ((uint8_t *)bytes)[i] = (uint8_t)sim_random();
}

/* Both jump by less than clock_trust: nobody is dead for that. */
const hf_env sim_server_env = {NULL, server_mono, server_wall, server_random, NULL};

int64_t sim_cluster_time(void)
{
    int64_t second = server_wall(NULL).ms / 1000 << 20;
    if (second > sim.cluster_time)
        sim.cluster_time = second;
    return sim.cluster_time;
}

/* ---- What happens ---- */

static node *living(int number)
{
    for (node *n = sim.nodes; n; n = n->next)
        if (n->number == number)
            return n;
    return NULL;
}

static int64_t soon(int64_t ttls)
{
    return sim_now_ns + sim_below(ttls * sim.ttl_ms) * MS;
}

static void elect(void)
{
    sim.server_offset_ns = (sim_below(51) - 25) * SECOND;
    sim.down_until = sim_now_ns + sim_below(2000) * MS;
    sim_trace("election: the server's clock is off by %lld s",
              (long long)(sim.server_offset_ns / SECOND));
}

static void crash(node *n)
{
    int number = n->number;
    sim_trace("node %d crashes", number);
    node_crash(n);
    if (sim_chance(700)) /* else its host has failed, too */
        guardians_start(n);
    fiber_sleep_until(sim_now_ns + sim_below(3000) * MS);
    node_start(number);
}

/* Cut off until its lease is all but over; the beat that comes through then is late. */
static void narrow_escape(node *n)
{
    const struct session *s = &n->client->session;
    if (s->state != SESSION_ALIVE)
        return;
    n->cut_until = node_true_ns(n, s->lease_end) -
                   (n->client->stop_margin_ms + sim.ttl_ms / 20 + sim_below(sim.ttl_ms / 10)) * MS;
    n->ambush = BEAT_LATE_THERE;
    sim_trace("node %d escapes narrowly at %.3f", n->number, (double)n->cut_until / 1e9);
}

/* Cut off before it gives up waiting, with something in its hands: others go on seeing it wait. */
static void give_up_unheard(void)
{
    for (node *n = sim.nodes; n; n = n->next)
        for (int i = WORKERS; i < SLOTS; i++) {
            const struct attempt *a = n->workers[i].attempt;
            if (!a || a->deadline.ns == MONO_NEVER.ns)
                continue;
            n->cut_until = node_true_ns(n, a->deadline) + sim_below(2 * sim.ttl_ms) * MS;
            sim_trace("node %d gives up unheard until %.3f", n->number, (double)n->cut_until / 1e9);
            return;
        }
}

static void happen(void)
{
    node *n = living((int)sim_below(NODES - 1));
    switch (sim_below(11)) {
    case 0:
        n->stopped_until = soon(3);
        sim_trace("node %d stops until %.3f", n->number, (double)n->stopped_until / 1e9);
        return;
    case 1:
    case 2:
        n->cut_until = sim_now_ns + (sim.ttl_ms / 2 + sim_below(sim.ttl_ms)) * MS;
        sim_trace("node %d is cut off until %.3f", n->number, (double)n->cut_until / 1e9);
        return;
    case 3:
        sim.down_until = soon(2);
        sim_trace("the server is down until %.3f", (double)sim.down_until / 1e9);
        return;
    case 4:
        crash(n);
        return;
    case 5:
        narrow_escape(n);
        return;
    case 6:
        n->ambush = ANSWER_LATE_BACK;
        sim_trace("node %d is cut off after its next beat", n->number);
        return;
    case 7:
    case 8:
        give_up_unheard();
        return;
    case 9:
        sim.drops_until = soon(3);
        sim_trace("records that nobody needs are dropped until %.3f",
                  (double)sim.drops_until / 1e9);
        return;
    default:
        elect();
    }
}

static void chaos(void *arg)
{
    const int64_t *end_ns = arg;
    while (sim_now_ns < *end_ns) {
        fiber_sleep_until(sim_now_ns + sim_below(4 * SECOND));
        happen();
    }
}

static void patrol(void *arg)
{
    (void)arg;
    for (;;) {
        fiber_sleep_until(sim_now_ns + SECOND / 2);
        rules_check_orphans(SECOND / 2);
    }
}

/* The first is calm. */
static const weather kinds[] = {
    {.delay_ns = 5 * MS, .loses_notice = 50},
    {10, 10, 10, 10, 50 * MS, 50},
    {50, 30, 30, 30, 300 * MS, 100},
    {20, 20, 100, 100, 2000 * MS, 100},
};

static void heal(void)
{
    for (node *n = sim.nodes; n; n = n->next)
        n->stopped_until = n->cut_until = n->ambush = 0;
    sim.down_until = 0;
    sim.weather = kinds[0];
    for (node *n = sim.nodes; n; n = n->next)
        n->delay_ns = 1;
    sim.is_draining = true;
}

/* ---- A world ---- */

static void choose_weather(void)
{
    static const int64_t ttls[] = {1000, 1500, 3000, 10000};
    sim.weather = kinds[sim_below(sizeof kinds / sizeof *kinds)];
    sim.ttl_ms = ttls[sim_below(sizeof ttls / sizeof *ttls)];
    sim.places = sim.is_narrow ? 1 + (int32_t)sim_below(3) : HF_QUEUE_MAX;
}

/* The default of MongoDB, and the shortest that outlives an outage of 15 s. */
static void choose_fair_weather(void)
{
    sim.weather = kinds[0];
    sim.ttl_ms = sim_chance(500) ? 40000 : 30000;
    sim.places = sim.is_narrow ? 1 + (int32_t)sim_below(3) : HF_QUEUE_MAX;
}

static void open_server(void)
{
    hf_error err;
    int64_t patience_ms;
    hf_store_config config = {.ttl_ms = sim.ttl_ms, .env = &sim_server_env};
    snprintf(sim.uri, sizeof sim.uri, "memory:sim-%llu", (unsigned long long)sim.seed);
    if (hf_store_open(sim.uri, &config, &sim.server, &patience_ms, &err))
        abort();
}

/* How long it may take until all who stand outside have come in. The numbers of those who have
 * given up are passed over after 2 s and the time between two looks: as many at a time as there are
 * places in the queue, while somebody holds the lock. So with one place to sixty-four it takes as
 * much longer. */
static int64_t numbers_ms(void)
{
    return sim.is_narrow ? 200000 : 0;
}

/* Whatever is still held is a dead client's, and is had when its lease is over. */
static void look_at_the_rest(void)
{
    node *observer = node_start(NODES - 1);
    for (int i = 0; i < NAMES; i++)
        if (node_take(observer, i, 3 * sim.ttl_ms + 5000 + numbers_ms()))
            sim_violation("L1: %s cannot be had in the end", sim_name(i));
}

/* The kind of world: what the words of the command say of it. */
static void run_world(uint64_t seed, const world *kind)
{
    int64_t chaos_end_ns = CHAOS_S * SECOND;
    sim = *kind;
    sim.seed = sim.random = seed;
    sim_now_ns = 0;
    if (sim.has_outages)
        choose_fair_weather();
    else
        choose_weather();
    open_server();
    rules_begin();
    outages_begin();
    breaks_begin();
    turns_begin();
    errands_begin();
    for (int i = 0; i < NODES - 1; i++)
        node_start(i);
    leases_begin();
    fiber_start(NULL, sim.has_outages ? outages_run : chaos, &chaos_end_ns);
    fiber_start(NULL, patrol, NULL);
    fiber_run_until(chaos_end_ns + 12 * SECOND, rules_check_beliefs);
    heal();
    fiber_run_until(sim_now_ns + (10 * sim.ttl_ms + 45000 + numbers_ms()) * MS,
                    rules_check_beliefs);
    rules_check_rest();
    turns_check();
    look_at_the_rest();
    node_free_all();
    guardians_done();
    leases_done();
    sim.server->ops->close(sim.server);
}

/* ---- The program ---- */

static uint64_t number_after(int argc, char **argv, const char *option, uint64_t otherwise)
{
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], option) == 0)
            return strtoull(argv[i + 1], NULL, 0);
    return otherwise;
}

static bool has_option(int argc, char **argv, const char *option)
{
    bool has = false;
    for (int i = 1; i < argc; i++)
        has |= strcmp(argv[i], option) == 0;
    return has;
}

int main(int argc, char **argv)
{
    uint64_t seed = number_after(argc, argv, "--seed", 1);
    uint64_t wanted = number_after(argc, argv, "--client-seconds", 10000);
    const bool has_long_outages = has_option(argc, argv, "--long-outages");
    const world kind = {.drift_most_ppm = (int64_t)number_after(argc, argv, "--drift", 1900),
                        .has_outages = has_long_outages || has_option(argc, argv, "--outages"),
                        .has_long_outages = has_long_outages,
                        .is_narrow = has_option(argc, argv, "--narrow"),
                        .verbose = has_option(argc, argv, "--verbose")};
    uint64_t most = number_after(argc, argv, "--most-broken", UINT64_MAX);
    uint64_t seconds = 0, worlds = 0, broken = 0, grants = 0, losses = 0, crashes = 0, late = 0;
    uint64_t downgrades = 0, upgrades = 0, victims = 0, leases = 0, breaks = 0, forced = 0;
    uint64_t settled = 0, together = 0;
    for (; seconds < wanted && broken < most; worlds++, seed++) {
        run_world(seed, &kind);
        seconds += (uint64_t)(sim_now_ns / SECOND) * (NODES - 1);
        broken += sim.violations > 0;
        grants += sim.grants;
        leases += sim.leases;
        breaks += sim.breaks;
        forced += sim.forced;
        losses += sim.losses;
        crashes += sim.crashes;
        settled += sim.settled;
        late += sim.late;
        together += sim.together;
        downgrades += sim.downgrades;
        upgrades += sim.upgrades;
        victims += sim.victims;
        fflush(stdout);
    }
    printf("%llu client-seconds in %llu worlds up to seed %llu: %llu grants, %llu leases "
           "had or renewed, %llu downgrades, "
           "%llu upgrades, %llu breaks (%llu by force), %llu victims of deadlocks, %llu losses "
           "told, %llu crashes, %llu of them settled by guardians, %llu "
           "requests landed late, %llu calls with several releases; %llu worlds "
           "broke a rule\n",
           (unsigned long long)seconds, (unsigned long long)worlds, (unsigned long long)(seed - 1),
           (unsigned long long)grants, (unsigned long long)leases, (unsigned long long)downgrades,
           (unsigned long long)upgrades, (unsigned long long)breaks, (unsigned long long)forced,
           (unsigned long long)victims, (unsigned long long)losses, (unsigned long long)crashes,
           (unsigned long long)settled, (unsigned long long)late, (unsigned long long)together,
           (unsigned long long)broken);
    return broken > 0;
}
