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
    int64_t wake_ns;
    const bool *is_poked; /* while it idles */
    bool is_used, is_travelling;
};

int64_t sim_now_ns;

static fiber fibers[MOST];
static size_t n_fibers; /* used or not, below here */
static fiber *running;
static coroutine scheduler;

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
    f->wake_ns = sim_now_ns;
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
    running->wake_ns = ns > sim_now_ns ? ns : sim_now_ns;
    yield();
}

void fiber_idle_until(int64_t ns, const bool *is_poked)
{
    if (*is_poked)
        ns = sim_now_ns;
    running->is_poked = is_poked;
    fiber_sleep_until(ns);
    running->is_poked = NULL;
}

void fiber_travel_until(int64_t ns)
{
    running->is_travelling = true;
    fiber_sleep_until(ns);
    running->is_travelling = false;
}

void fiber_wake(fiber *f)
{
    if (f->wake_ns > sim_now_ns)
        f->wake_ns = sim_now_ns;
}

_Noreturn void fiber_exit(void)
{
    running->is_used = false;
    coroutine_leave(&scheduler);
}

static int64_t due_of(const fiber *f)
{
    if (!f->is_used)
        return INT64_MAX;
    if (f->is_travelling || !f->node)
        return f->wake_ns;
    if (f->node->is_dead)
        return INT64_MAX;
    return f->wake_ns > f->node->stopped_until ? f->wake_ns : f->node->stopped_until;
}

/* Of those due at the same time the one that was due first runs, so that nobody starves. */
static fiber *next_due(int64_t *due)
{
    fiber *next = NULL;
    *due = INT64_MAX;
    for (size_t i = 0; i < n_fibers; i++) {
        int64_t ns = due_of(&fibers[i]);
        if (ns < *due) {
            *due = ns;
            next = &fibers[i];
        }
    }
    return next;
}

static void wake_poked(const struct node *of)
{
    for (size_t i = 0; i < n_fibers; i++) {
        fiber *f = &fibers[i];
        if (f->is_used && f->node == of && f->is_poked && *f->is_poked)
            fiber_wake(f);
    }
}

static void run_one(fiber *f)
{
    running = f;
    coroutine_switch(&scheduler, &f->routine);
    running = NULL;
    if (f->node && f->node->is_dead && f->is_used && !f->is_travelling)
        f->is_used = false;
    if (f->node)
        wake_poked(f->node);
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
            fibers[i].is_used = false;
}

void fiber_forget_all(void)
{
    for (size_t i = 0; i < n_fibers; i++)
        fibers[i].is_used = false;
}
