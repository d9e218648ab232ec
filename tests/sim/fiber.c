/* SPDX-License-Identifier: Apache-2.0 */
/* fiber.c: coroutines, and the clock that runs them. */
#include "sim/fiber.h"

#include "sim/world.h"

#include "support/coroutine.h"

#include <stdlib.h>

#define STACK_SIZE (256 * 1024)
#define MOST 512

struct fiber {
    coroutine routine;
    char *stack;
    struct node *node;
    void (*body)(void *arg);
    void *arg;
    const bool *is_poked; /* while it idles, as one of its node's */
    fiber *next_idle;
    bool is_used, is_travelling;
};

int64_t sim_now_ns;

/* What is read of all fibers after each slice stands side by side. */
static fiber fibers[MOST];
static int64_t wake_ns[MOST]; /* INT64_MAX: it is not used */
static size_t n_fibers;       /* those in use are below here */
static fiber *running;
static coroutine scheduler;

static int64_t *wake_of(const fiber *f)
{
    return &wake_ns[f - fibers];
}

static void retire(fiber *f)
{
    f->is_used = false;
    *wake_of(f) = INT64_MAX;
    while (n_fibers && !fibers[n_fibers - 1].is_used)
        n_fibers--;
}

static void begin(void)
{
    running->body(running->arg);
    fiber_exit();
}

static fiber *free_place(void)
{
    for (size_t i = 0; i < n_fibers; i++)
        if (!fibers[i].is_used)
            return &fibers[i];
    if (n_fibers == MOST)
        abort();
    return &fibers[n_fibers++];
}

fiber *fiber_start(struct node *of, void (*body)(void *arg), void *arg)
{
    fiber *f = free_place();
    char *stack = f->stack ? f->stack : malloc(STACK_SIZE);
    *f = (fiber){.stack = stack, .node = of, .body = body, .arg = arg, .is_used = true};
    *wake_of(f) = sim_now_ns;
    coroutine_make(&f->routine, stack, STACK_SIZE, begin);
    return f;
}

fiber *fiber_self(void)
{
    return running;
}

struct node *fiber_node(void)
{
    return running->node;
}

static void yield(void)
{
    coroutine_switch(&running->routine, &scheduler);
}

void fiber_sleep_until(int64_t ns)
{
    *wake_of(running) = ns > sim_now_ns ? ns : sim_now_ns;
    yield();
}

static void end_idling(fiber *f)
{
    fiber **at = &f->node->idle;
    while (*at != f)
        at = &(*at)->next_idle;
    *at = f->next_idle;
}

void fiber_idle_until(int64_t ns, const bool *is_poked)
{
    if (*is_poked)
        ns = sim_now_ns;
    running->is_poked = is_poked;
    running->next_idle = running->node->idle;
    running->node->idle = running;
    fiber_sleep_until(ns);
    end_idling(running);
}

void fiber_travel_until(int64_t ns)
{
    running->is_travelling = true;
    fiber_sleep_until(ns);
    running->is_travelling = false;
}

void fiber_wake(fiber *f)
{
    if (*wake_of(f) > sim_now_ns)
        *wake_of(f) = sim_now_ns;
}

_Noreturn void fiber_exit(void)
{
    retire(running);
    coroutine_leave(&scheduler);
}

/* Never before wake_ns. */
static int64_t due_of(const fiber *f)
{
    int64_t ns = *wake_of(f);
    if (f->is_travelling || !f->node)
        return ns;
    if (f->node->is_dead)
        return INT64_MAX;
    return ns > f->node->stopped_until ? ns : f->node->stopped_until;
}

/* Of those due at the same time the one that was due first runs, so that nobody starves. */
static fiber *next_due(int64_t *due)
{
    fiber *next = NULL;
    *due = INT64_MAX;
    for (size_t i = 0; i < n_fibers; i++) {
        int64_t ns = wake_ns[i] < *due ? due_of(&fibers[i]) : INT64_MAX;
        if (ns < *due) {
            *due = ns;
            next = &fibers[i];
        }
    }
    return next;
}

static void wake_poked(const struct node *of)
{
    for (fiber *f = of->idle; f; f = f->next_idle)
        if (*f->is_poked)
            fiber_wake(f);
}

static void run_one(fiber *f)
{
    running = f;
    coroutine_switch(&scheduler, &f->routine);
    running = NULL;
    if (f->node && !f->node->is_dead)
        wake_poked(f->node);
    else if (f->node && f->is_used && !f->is_travelling)
        retire(f);
}

void fiber_run_until(int64_t ns, void (*check)(void))
{
    int64_t due;
    fiber *f;
    while ((f = next_due(&due)) && due <= ns) {
        if (due > sim_now_ns)
            sim_now_ns = due;
        run_one(f);
        check();
    }
    sim_now_ns = ns;
}

void fiber_forget_node(const struct node *dead)
{
    for (size_t i = 0; i < n_fibers; i++)
        if (fibers[i].node == dead && !fibers[i].is_travelling)
            retire(&fibers[i]);
}

void fiber_forget_all(void)
{
    for (size_t i = 0; i < n_fibers; i++)
        retire(&fibers[i]);
}
