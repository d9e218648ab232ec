/* SPDX-License-Identifier: Apache-2.0 */
/* health.h: `holdfast run --health-cmd` and `--max-hold`: is the command stuck? */
#ifndef HOLDFAST_CLI_HEALTH_H
#define HOLDFAST_CLI_HEALTH_H

#include <argp.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <holdfast/holdfast.h>

#include "signals.h"

/* What the words said. */
typedef struct health_words {
    const char *command; /* NULL: none */
    int64_t interval_ms; /* 0: not said */
    int64_t max_hold_ms; /* 0: none */
} health_words;

/* The parser of these options; its input is the words. */
extern const struct argp health_argp;

/* Ends the program with a message if the options contradict each other. */
void health_check_usage(health_words *w, struct argp_state *state);

/* How long a lock may go without being fed; 0: for ever. */
int64_t health_feed_ms(const health_words *w);

/* Feeds the locks that are held so far. Several are taken one after the other, and meanwhile
 * nothing counts as stuck. */
void health_feed(const health_words *w, hf_lock **locks, size_t n);

/* The checks of a command that runs. */
typedef struct health {
    const health_words *words;
    hf_lock **locks;
    size_t n;
    char **environment;
    const signals *events;
    pid_t pid; /* of the check that runs, and of its group; 0: none does */
    bool is_killed;
    int64_t due_ms; /* of the next one; INT64_MAX: there is none */
} health;

void health_begin(health *h, const health_words *w, hf_lock **locks, size_t n, char **environment,
                  const signals *events);

/* A process has ended: if it was the check, and it succeeded, feeds the locks. */
void health_look(health *h);

/* Starts the next check when it is due; a check that still runs counts as failed. */
void health_tick(health *h);

/* No more checks; waits for nothing. */
void health_stop(health *h);

void health_end(health *h);

#endif
