/* SPDX-License-Identifier: Apache-2.0 */
/* orders.c: the coroutines, their virtual time, and the search through all orders. */
#include "orders/orders.h"

#include "core/record.h"
#include "support/coroutine.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define STACK_SIZE (256 * 1024)
#define DEPTH_MOST 4096
#define TTL_MS 3600000 /* of the clients: no beat is due */

actor actors[ACTORS];
const scene *on_stage;
unsigned long orders_failures;

static struct routine {
    coroutine context;
    char *stack;
    int64_t sleeps_until;
} routines[ACTORS];

static coroutine director;
static int running = -1; /* -1: nobody */
static int64_t now_ns;
static int n_passes_lost;

/* What was chosen at each fork, and how many could have been. */
static struct fork {
    unsigned char chosen, of;
} path[DEPTH_MOST];
static size_t depth, known; /* how far this run is; how far the path is given */
static bool is_random;
static uint64_t chance;

/* ---- Time ---- */

static hf_mono mono(void *ctx)
{
    (void)ctx;
    return (hf_mono){now_ns};
}

static hf_wall wall(void *ctx)
{
    (void)ctx;
    return (hf_wall){1800000000000 + now_ns / 1000000};
}

static uint64_t draw(void)
{
    chance = chance * 6364136223846793005U + 1442695040888963407U;
    return chance >> 33;
}

static void fill_random(void *ctx, void *bytes, size_t n)
{
    (void)ctx;
    static uint64_t counter;
    for (size_t i = 0; i < n; i++)
        ((uint8_t *)bytes)[i] = (uint8_t)(++counter >> (i % 4 * 8));
}

static void stop_until(int64_t ns)
{
    int self = running;
    routines[self].sleeps_until = ns;
    coroutine_switch(&routines[self].context, &director);
}

static void pause_ms(void *ctx, int64_t ms)
{
    (void)ctx;
    if (running < 0)
        now_ns += ms * 1000000;
    else
        stop_until(now_ns + ms * 1000000);
}

static const hf_env env = {NULL, mono, wall, fill_random, pause_ms};

/* ---- Calls ---- */

static hf_code stop_before(faulty *f, faulty_call call, const void *arg)
{
    (void)f;
    (void)call;
    (void)arg;
    if (running >= 0)
        stop_until(now_ns);
    return HF_OK;
}

static bool is_pass(faulty_call call, const void *arg)
{
    return call == FAULTY_STEP && ((const struct faulty_step *)arg)->step->pass;
}

static hf_code lose_passes(faulty *f, faulty_call call, const void *arg)
{
    const actor *of = f->ctx;
    if (of != actors || !is_pass(call, arg) || n_passes_lost >= on_stage->loses_passes)
        return HF_OK;
    n_passes_lost++;
    return HF_UNKNOWN;
}

/* ---- A run ---- */

static void play(void)
{
    actor *self = &actors[running];
    self->body(self);
    self->is_over = true;
    coroutine_leave(&director);
}

static void begin_actor(int i, const char *uri)
{
    struct routine *r = &routines[i];
    hf_options options = {.app = "orders",
                          .ttl_ms = TTL_MS,
                          .env = &env,
                          .patience_ms = on_stage->loses_passes ? 1 : 0};
    actors[i] = (actor){.body = on_stage->bodies[i]};
    actors[i].store = faulty_open(uri, &options, &actors[i].client);
    actors[i].client->tickers.is_threaded = false;
    actors[i].store->before = stop_before;
    actors[i].store->after = lose_passes;
    actors[i].store->ctx = &actors[i];
    r->sleeps_until = 0;
    r->stack = r->stack ? r->stack : malloc(STACK_SIZE);
    coroutine_make(&r->context, r->stack, STACK_SIZE, play);
}

static int ready(int out[ACTORS])
{
    int n = 0;
    for (int i = 0; i < ACTORS; i++)
        if (actors[i].body && !actors[i].is_over && routines[i].sleeps_until <= now_ns)
            out[n++] = i;
    return n;
}

/* False: all are over. */
static bool let_time_pass(void)
{
    int64_t next = INT64_MAX;
    for (int i = 0; i < ACTORS; i++)
        if (actors[i].body && !actors[i].is_over && routines[i].sleeps_until < next)
            next = routines[i].sleeps_until;
    now_ns = next == INT64_MAX ? now_ns : next;
    return next != INT64_MAX;
}

static int choose(int of)
{
    if (of == 1 || depth == DEPTH_MOST)
        return 0;
    struct fork *fork = &path[depth];
    if (depth++ >= known) {
        fork->chosen = (unsigned char)(is_random ? draw() % (unsigned)of : 0);
        fork->of = (unsigned char)of;
        known = depth;
    }
    return fork->chosen;
}

static void run_actors(void)
{
    int among[ACTORS], n;
    do
        while ((n = ready(among)) > 0) {
            running = among[choose(n)];
            coroutine_switch(&director, &routines[running].context);
            running = -1;
        }
    while (let_time_pass());
}

/* What was left to the background. */
static void send_releases(void)
{
    for (int round = 0; round < 50; round++, now_ns += 10000000)
        for (int i = 0; i < ACTORS; i++)
            if (actors[i].body && actors[i].client->hold->releases.first)
                release_tick(actors[i].client, client_now(actors[i].client));
}

static bool keep(void *ctx, const hf_record *record)
{
    record_copy(ctx, record);
    return false;
}

static void check(void)
{
    hf_record after;
    hf_store *store = actors[0].store->inner;
    const char *name = "x";
    record_init(&after, name);
    hf_error err;
    store->ops->look(store, &name, 1, (hf_stamp){0}, false, keep, &after, &err);
    on_stage->check(on_stage, actors, &after);
    record_done(&after);
}

static void run_once(unsigned long number)
{
    char uri[64];
    snprintf(uri, sizeof uri, "memory:orders-%lu", number);
    now_ns = INT64_C(1000000000000);
    n_passes_lost = 0;
    depth = 0;
    for (int i = 0; i < ACTORS; i++) {
        actors[i].body = NULL;
        if (on_stage->bodies[i])
            begin_actor(i, uri);
    }
    run_actors();
    send_releases();
    check();
    for (int i = 0; i < ACTORS; i++)
        if (actors[i].body)
            hf_close(actors[i].client);
}

/* ---- All runs ---- */

void orders_fail(const char *what)
{
    if (orders_failures++ > 2)
        return; /* the first ones tell */
    printf("BROKEN: %s: %s; choices:", on_stage->name, what);
    for (size_t i = 0; i < depth; i++)
        printf(" %d/%d", path[i].chosen, path[i].of);
    putchar('\n');
}

/* To the next path; false: that was the last one. */
static bool turn_back(void)
{
    known = depth;
    while (known && path[known - 1].chosen + 1 == path[known - 1].of)
        known--;
    if (!known)
        return false;
    path[known - 1].chosen++;
    return true;
}

void orders_run(const scene *played, unsigned long most)
{
    unsigned long n = 0;
    bool goes_on = true;
    on_stage = played;
    known = 0;
    is_random = false;
    for (; goes_on && n < most / 2; n++) {
        run_once(n);
        goes_on = turn_back();
    }
    chance = 16;
    for (is_random = goes_on; is_random && n < most; n++) {
        known = 0;
        run_once(n);
    }
    printf("%s: %lu orders, %s\n", played->name, n, is_random ? "half of them by chance" : "all");
    fflush(stdout);
}
