/* SPDX-License-Identifier: Apache-2.0 */
/* plan.h: the work of the verbs run and elect: read from their words, checked, carried out.
 *
 * This folder has everything around a command that runs under locks. A plan (plan.h) is carried out
 * in turns (turn.h): a turn takes the locks (taking.h, as lock_args.h says), starts the command
 * (child.h) and watches both until it has ended (watch.h). once.h, health.h and document.h are
 * options of `run`, each with its words; signals.h and clock.h serve them all. keeper.h and
 * interrupt.h are for verbs that start no command. It uses settings/ and terminal/. */
#ifndef HOLDFAST_CLI_PLAN_H
#define HOLDFAST_CLI_PLAN_H

#include <argp.h>
#include <stddef.h>

#include <holdfast/holdfast.h>

#include "cli/settings/settings.h"
#include "lock_args.h"
#include "signals.h"

typedef struct plan {
    settings *given;
    char **names; /* in byte order */
    size_t n_names;
    char **command;
    lock_args lock_args;
    const char *why;
    const char *lock_session; /* of protocol sharding; NULL: the URI's, or a new one */
    int lost_status;
    int64_t grace_ms;              /* from SIGTERM to SIGKILL; -1: the default for the ttl */
    int64_t margin_ms;             /* from SIGKILL to the end of the lease */
    const struct once_words *once; /* --once-per; NULL: always */
    const struct health_words *health;
    bool is_candidate;                     /* `elect`: campaigns again after a loss */
    const struct document_words *document; /* NULL: names of locks */
    struct document_round *round;          /* of --each */
} plan;

/* The parser of the words that both verbs take: names, command, --why, --grace. Its input is the
 * plan. */
extern const struct argp plan_argp;

/* Whether "--" is among the words. Without it the command would be taken for another name, and its
 * options for this program's. */
bool plan_has_dashes(const struct argp_state *state);

/* Sorts the names, and sets grace and margin; ends the program with a message if the plan cannot be
 * carried out. */
void plan_check(plan *p);

/* Takes signals as events, opens the store, does the work, closes both; returns the exit status. */
typedef int plan_fn(plan *p, hf_client *client, signals *events);
int plan_run(plan *p, plan_fn *work);

#endif
