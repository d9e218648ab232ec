/* SPDX-License-Identifier: Apache-2.0 */
/* fiber.h: threads of virtual time: one runs at a time, until it sleeps; the next one is chosen by
 * the clock alone, so that a run is the same for the same seed. */
#ifndef TESTS_SIM_FIBER_H
#define TESTS_SIM_FIBER_H

#include <stdbool.h>
#include <stdint.h>

struct node;

typedef struct fiber fiber;

extern int64_t sim_now_ns; /* true time, which no node knows */

/* A fiber of a node (NULL: of the world). */
fiber *fiber_start(struct node *of, void (*body)(void *arg), void *arg);

fiber *fiber_self(void);
struct node *fiber_node(void); /* of the running fiber */

void fiber_sleep_until(int64_t ns);
/* The same, ended early once *is_poked is true; it is looked at after each slice of the node. */
void fiber_idle_until(int64_t ns, const bool *is_poked);
void fiber_travel_until(int64_t ns); /* the same, for what a stopped or dead node cannot hold up */
void fiber_wake(fiber *fiber);
_Noreturn void fiber_exit(void);

/* Runs the fibers that are due, in order, up to that time; after each slice `check` is called. */
void fiber_run_until(int64_t ns, void (*check)(void));

/* Its fibers never run again, but for those travelling. */
void fiber_forget_node(const struct node *dead);
void fiber_forget_all(void);

#endif
