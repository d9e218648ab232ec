/* SPDX-License-Identifier: Apache-2.0 */
/* node.c: a process on a host: a client without threads, whose ticks are called by fibers on a
 * clock of its own, and workers that take locks. */
#include "sim/world.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- Its clock ---- */

int64_t node_clock_ns(const node *n)
{
    return n->clock_offset_ns + sim_now_ns + sim_now_ns / 1000 * n->drift_ppm / 1000;
}

int64_t node_true_ns(const node *n, hf_mono due)
{
    if (due.ns == INT64_MAX)
        return INT64_MAX;
    double rate = 1 + (double)n->drift_ppm / 1e6;
    int64_t ns = (int64_t)((double)(due.ns - n->clock_offset_ns) / rate) - 1000;
    for (;; ns += 1000)
        if (n->clock_offset_ns + ns + ns / 1000 * n->drift_ppm / 1000 >= due.ns)
            return ns;
}

static hf_mono mono(void *ctx)
{
    return (hf_mono){node_clock_ns(ctx)};
}

static hf_wall wall(void *ctx)
{
    (void)ctx;
    return (hf_wall){1800000000000 + sim_now_ns / MS};
}

static void fill_random(void *ctx, void *bytes, size_t n)
{
    (void)ctx;
    for (size_t i = 0; i < n; i++)
        ((uint8_t *)bytes)[i] = (uint8_t)sim_random();
}

static void pause_ms(void *ctx, int64_t ms)
{
    node *n = ctx;
    fiber_sleep_until(node_true_ns(n, (hf_mono){node_clock_ns(n) + ms * MS}));
}

/* ---- Its threads ---- */

static void run_ticker(unsigned which, tick_fn tick)
{
    node *n = fiber_node();
    struct ticker *ticker = &n->client->tickers.of[which];
    for (;;) {
        ticker->is_poked = false;
        hf_mono due = tick(n->client, client_now(n->client));
        int64_t ns = node_true_ns(n, due);
        fiber_idle_until(ns > sim_now_ns ? ns : sim_now_ns + 1000, &ticker->is_poked);
    }
}

static void run_watch(void *arg)
{
    (void)arg;
    run_ticker(TICK_WATCH, belief_tick);
}

static void run_beat(void *arg)
{
    (void)arg;
    run_ticker(TICK_BEAT, beat_tick);
}

static void run_upkeep(void *arg)
{
    (void)arg;
    run_ticker(TICK_UPKEEP, upkeep_tick);
}

static void run_sweep(void *arg)
{
    (void)arg;
    run_ticker(TICK_SWEEP, sweep_tick);
}

static void run_listen(void *arg)
{
    (void)arg;
    run_ticker(TICK_LISTEN, listen_tick);
}

static void run_notify(void *arg)
{
    (void)arg;
    run_ticker(TICK_NOTIFY, loss_notify_tick);
}

static void run_send(void *arg)
{
    (void)arg;
    run_ticker(TICK_SEND, release_tick_beside);
}

static void run_depart(void *arg)
{
    (void)arg;
    run_ticker(TICK_DEPART, lease_depart_tick);
}

/* ---- Taking locks ---- */

static void lost(void *ctx, hf_lock *lock, const hf_error *why, int64_t left_ms)
{
    (void)ctx;
    (void)lock;
    (void)left_ms;
    sim.losses++;
    sim_trace("lost: %s", why->text);
}

/* Fibers have one thread: they are told apart by their actors. */
static const char *actor_of(const worker *w)
{
    static const char *const actors[] = {"one", "two", "three", "first", "second", "third"};
    ptrdiff_t i = w - w->node->workers;
    return actors[i < CHILDREN ? i % WORKERS : i - WORKERS];
}

/* A limit that others may have set otherwise. No more than 3 are ever held. */
void sim_count(hf_lock_options *options)
{
    options->permits = 1 + (int32_t)sim_below(2);
    options->limit = 2 + (int32_t)sim_below(2);
    options->sets_limit = true;
}

static void choose(worker *w, hf_lock_options *options)
{
    w->name = (int)sim_below(PLAIN_NAMES);
    bool counts = w->name == SEMAPHORE;
    *options = (hf_lock_options){.on_lost = sim_chance(500) ? lost : NULL, .actor = actor_of(w)};
    if (counts)
        sim_count(options);
    else if (sim_chance(300))
        options->mode = HF_SHARED;
    else if (sim_chance(300))
        options->linger_ms = 1 + sim_below(2 * sim.ttl_ms);
    w->limit = counts ? 3 : HF_LIMIT_RW;
    int64_t kind = sim_below(10);
    options->wait_ms = kind < 4 ? 0 : kind < 5 ? HF_TRY : 1 + sim_below(3 * sim.ttl_ms);
}

static hf_code attempt(worker *w, const hf_lock_options *options, hf_lock **out)
{
    node *n = w->node;
    struct attempt a;
    attempt_init(&a, n->client, sim_name(w->name), options);
    if (w->parent)
        a.request.inherited = &w->inherited;
    w->attempt = &a;
    w->was_stuck = false;
    w->trying_since = sim_now_ns;
    for (;;) {
        hf_mono due = attempt_step(&a, client_now(n->client));
        if (a.state == ATTEMPT_ENDED)
            break;
        int64_t ns = node_true_ns(n, due);
        fiber_idle_until(ns > sim_now_ns ? ns : sim_now_ns + 1000, &a.request.is_woken);
    }
    hf_code code = a.code;
    w->attempt = NULL;
    if (code == HF_DEADLOCK) {
        sim.victims++;
        sim_trace("node %d: %s", n->number, a.err.text);
        rules_victim(w);
    }
    *out = a.request.lock;
    attempt_done(&a);
    return code;
}

static int64_t time_to_hold(void)
{
    int64_t kind = sim_below(10);
    return sim_below(kind < 6 ? 50 : kind < 8 ? sim.ttl_ms : 4 * sim.ttl_ms) * MS;
}

static void downgrade(const worker *w)
{
    sim.downgrades++;
    hf_lock_downgrade(w->lock, NULL);
    if (hf_lock_mode(w->lock) == HF_EXCLUSIVE && !hf_lock_check(w->lock, NULL, NULL))
        sim_violation("R4: a downgraded lock is believed to be exclusive");
}

static void upgrade(const worker *w)
{
    int64_t before = hf_lock_token(w->lock);
    if (hf_lock_upgrade(w->lock, NULL))
        return;
    sim.upgrades++;
    if (hf_lock_token(w->lock) <= before)
        sim_violation("P3: the token of an upgrade of %s is not higher", sim_name(w->name));
}

/* Now and then, from the one mode to the other. */
static void change(const worker *w)
{
    if (w->limit != HF_LIMIT_RW || !sim_chance(300))
        return;
    if (hf_lock_mode(w->lock) == HF_EXCLUSIVE)
        downgrade(w);
    if (hf_lock_mode(w->lock) == HF_SHARED && sim_chance(500))
        upgrade(w);
}

static void give_back(worker *w)
{
    hf_lock *lock = w->lock;
    hf_id ticket = lock->grant.ticket, doubtful = lock->change.upgrade;
    int64_t token = lock->grant.token;
    bool releases = sim_chance(500);
    hf_code code = releases ? hf_lock_release(lock, NULL) : HF_OK;
    if (releases && (!code || code == HF_LOST))
        turns_ended(w->node, w->name, token, code == HF_LOST);
    if (releases && !code &&
        !lock_find_locked(w->node->client, ticket)) /* it was not passed on, and does not linger */
        rules_left(sim_name(w->name), ticket, doubtful);
    w->lock = NULL;
    hf_lock_close(lock);
}

static void take_second(worker *w)
{
    hf_lock_options options;
    hf_lock *lock = NULL;
    choose(w, &options);
    if (attempt(w, &options, &lock))
        return;
    sim.grants++;
    w->lock = lock;
    rules_believed(w);
    for (int64_t until = sim_now_ns + time_to_hold(); sim_now_ns < until && !sim.is_draining;)
        fiber_sleep_until(sim_now_ns + SECOND < until ? sim_now_ns + SECOND : until);
    give_back(w);
}

static void live_as_child(void *arg)
{
    worker *w = arg;
    take_second(w);
    w->parent = NULL;
    w->is_child = false;
}

/* Of those whose workers stand in no line together: the first in a line speaks for all, and
 * inherits what they inherit, as long as they are one process. */
static node *another_node(const node *than)
{
    int64_t i = sim_below(NODES - 2);
    for (node *n = sim.nodes; n; n = n->next)
        if (n != than && n->number != NODES - 1 && !i--)
            return n->client->hold->turns.bound < 0 ? n : NULL;
    return NULL;
}

/* It is killed if its parent learns in time that the lock is lost: then it keeps up nobody. */
static void wait_for(worker *child, const worker *parent)
{
    while (child->parent == parent && !child->node->is_dead) {
        if (hf_lock_check(parent->lock, NULL, NULL)) {
            child->inherited.n = 0;
            child->parent = NULL;
        }
        fiber_sleep_until(sim_now_ns + 20 * MS);
    }
}

/* A process that takes a lock while this one waits for it. */
static void run_child(const worker *parent)
{
    node *n = another_node(parent->node);
    worker *child = n ? &n->workers[CHILDREN + (parent - parent->node->workers)] : NULL;
    if (!child || child->is_child)
        return;
    child->is_child = true;
    child->parent = parent;
    child->held.ticket = parent->lock->grant.ticket;
    snprintf(child->held.name, sizeof child->held.name, "%s", sim_name(parent->name));
    child->inherited = (waits_items){&child->held, 1};
    fiber_start(n, live_as_child, child);
    wait_for(child, parent);
}

/* While it holds one: so deadlocks come about. */
static void take_another(worker *first)
{
    if (first >= &first->node->workers[WORKERS] || sim.is_draining)
        return;
    if (sim_chance(500))
        run_child(first);
    else
        take_second(first + WORKERS);
}

static void hold(worker *w)
{
    int64_t until = sim_now_ns + time_to_hold();
    while (sim_now_ns < until && !sim.is_draining) {
        change(w);
        int64_t piece = 1 + sim_below(sim.ttl_ms) * MS;
        fiber_sleep_until(sim_now_ns + piece < until ? sim_now_ns + piece : until);
        if (sim_chance(300) && hf_lock_check(w->lock, NULL, NULL))
            return;
        if (sim_chance(100))
            take_another(w);
    }
}

static void work(void *arg)
{
    worker *w = arg;
    for (;;) {
        fiber_sleep_until(sim_now_ns + sim_below(sim_chance(500) ? 20 : 3000) * MS);
        if (sim.is_draining)
            continue;
        hf_lock_options options;
        hf_lock *lock = NULL;
        choose(w, &options);
        if (attempt(w, &options, &lock))
            continue;
        sim.grants++;
        w->lock = lock;
        rules_believed(w);
        hold(w);
        give_back(w);
    }
}

/* ---- Its life ---- */

static void start_fibers(node *n)
{
    static void (*const tickers[])(void *) = {run_watch,  run_beat,   run_upkeep, run_sweep,
                                              run_listen, run_notify, run_send,   run_depart};
    for (size_t i = 0; i < sizeof tickers / sizeof *tickers; i++)
        fiber_start(n, tickers[i], NULL);
    for (int i = 0; i < SLOTS; i++)
        n->workers[i].node = n;
    if (n->number == NODES - 1)
        return; /* the observer */
    for (int i = 0; i < WORKERS; i++) {
        n->workers[i].fiber = fiber_start(n, work, &n->workers[i]);
    }
    errands_start(n);
    if (n->number == 0)
        breaks_start(n);
}

/* That of `run` is 5.5 s with the default ttl of MongoDB. */
static int64_t choose_stop_margin(void)
{
    if (sim.has_outages)
        return 5500;
    return sim_chance(500) ? 0 : sim_below(sim.ttl_ms / 6);
}

static node *node_new(int number, hf_options options)
{
    const int64_t delays[] = {1, 1, 1, sim.ttl_ms * MS / 20, sim.ttl_ms * MS / 7};
    node *n = calloc(1, sizeof *n);
    hf_error err;
    n->number = number;
    n->clock_offset_ns = SECOND * (1 + sim_below(1000000));
    n->drift_ppm = sim_chance(500) ? sim.drift_most_ppm : -sim.drift_most_ppm;
    n->delay_ns =
        sim.is_draining || sim.has_outages ? 1 : delays[sim_below(sizeof delays / sizeof *delays)];
    n->env = (hf_env){n, mono, wall, fill_random, pause_ms};
    options.app = "sim";
    options.ttl_ms = sim.ttl_ms;
    options.env = &n->env;
    if (hf_open_on(network_open(n), &options, &n->client, &err))
        abort();
    n->client->tickers.is_threaded = false;
    n->client->queue_max = sim.places;
    return n;
}

node *node_start(int number)
{
    node *n =
        node_new(number, (hf_options){.stop_margin_ms = choose_stop_margin(),
                                      .local_turns = sim_chance(300) ? -1 : (int32_t)sim_below(4)});
    n->next = sim.nodes;
    sim.nodes = n;
    start_fibers(n);
    return n;
}

/* Among the dead it is freed with them, and left alone until then. */
node *node_guardian(void)
{
    node *n = node_new(NODES, (hf_options){.local_turns = -1});
    n->next = sim.dead;
    sim.dead = n;
    return n;
}

static void move_to_dead(node *n)
{
    node **at = &sim.nodes;
    while (*at != n)
        at = &(*at)->next;
    *at = n->next;
    n->next = sim.dead;
    sim.dead = n;
}

void node_crash(node *n)
{
    n->is_dead = true;
    n->listener = NULL;
    move_to_dead(n);
    fiber_forget_node(n);
    sim.crashes++;
}

struct taking {
    int name;
    int64_t wait_ms;
    hf_code code;
    bool is_over;
};

static void take(void *arg)
{
    struct taking *t = arg;
    worker w = {.node = fiber_node(), .name = t->name, .limit = HF_LIMIT_RW};
    hf_lock_options options = {.wait_ms = t->wait_ms};
    hf_lock *lock;
    if (t->name == SEMAPHORE)
        options.permits = options.limit = 3, options.sets_limit = true;
    t->code = attempt(&w, &options, &lock);
    if (!t->code) {
        hf_lock_release(lock, NULL);
        hf_lock_close(lock);
    }
    t->is_over = true;
}

hf_code node_take(node *n, int name, int64_t wait_ms)
{
    struct taking t = {.name = name, .wait_ms = wait_ms};
    fiber_start(n, take, &t);
    while (!t.is_over)
        fiber_run_until(sim_now_ns + SECOND, rules_check_beliefs);
    return t.code;
}

static void free_node(node *n)
{
    hf_client *client = n->client;
    release_free_all(client);
    turns_free(client);
    for (struct hf_lock *lock = client->hold->locks, *next; lock; lock = next) {
        next = lock->next;
        free(lock->name);
        free(lock);
    }
    session_forget(&client->session);
    hold_free(client->hold);
    client->store->ops->close(client->store);
    free(client);
    free(n);
}

static void free_nodes(node *n)
{
    for (node *next; n; n = next) {
        next = n->next;
        free_node(n);
    }
}

void node_free_all(void)
{
    fiber_forget_all();
    free_nodes(sim.nodes);
    free_nodes(sim.dead);
    sim.nodes = sim.dead = NULL;
}
