/* SPDX-License-Identifier: Apache-2.0 */
/* plan.h: what the parts of the verbs run and elect share: the plan that is read from the words,
 * and how it is carried out. */
#ifndef HOLDFAST_CLI_PLAN_H
#define HOLDFAST_CLI_PLAN_H

#include <argp.h>
#include <stddef.h>

#include "asking.h"
#include "child.h"
#include "cli/settings/settings.h"
#include "signals.h"

typedef struct plan {
    settings *given;
    char **names; /* in byte order */
    size_t n_names;
    char **command;
    asking ask;
    const char *why;
    int lost_status;
    int64_t grace_ms;              /* from SIGTERM to SIGKILL; -1: the default for the ttl */
    int64_t margin_ms;             /* from SIGKILL to the end of the lease */
    const struct once_words *once; /* --once-per; NULL: always */
    const struct health_words *health;
    bool is_candidate;                     /* of `elect`: it campaigns again when it has lost */
    const struct document_words *document; /* NULL: names of locks */
    struct document_round *round;          /* of --each */
} plan;

/* plan.c. The parser of the words that both verbs take: names, command, --why, --grace. Its input
 * is the plan. */
extern const struct argp plan_argp;

/* Sorts the names, and settles grace and margin; ends the program with a message where the plan
 * cannot be carried out. */
void plan_check(plan *p);

/* Takes signals as events, opens the store, does the work, closes both; returns the exit status. */
typedef int plan_fn(plan *p, hf_client *client, signals *events);
int plan_run(plan *p, plan_fn *work);

/* turn.c. What came of one run of the command, or of not getting to it. */
typedef struct turn {
    hf_code code; /* of taking the locks */
    int status;
    bool has_run, is_lost, is_over; /* over: asked to end, or the command cannot be started */
} turn;

turn turn_run(const plan *p, hf_client *client, signals *events);

/* taking.c. Takes every name or none, in one of the library's waits after the other, while this
 * thread looks for signals. HF_CANCELLED: *signal came. */
hf_code taking_run(const plan *p, hf_client *client, signals *events, hf_lock **locks, int *signal,
                   hf_error *err);

/* watch.c. Until the child has ended: passes signals on to it, follows its stops, and stops it in
 * time when a lock is lost. Returns whether one was. */
bool watch_run(const plan *p, hf_lock **locks, child *c, char **environment, signals *events);

/* CLOCK_BOOTTIME, as the lease. */
int64_t run_now_ms(void);

#endif
