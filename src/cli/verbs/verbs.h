/* SPDX-License-Identifier: Apache-2.0 */
/* verbs.h: the table of verbs: their names, help, functions and words.
 *
 * This folder has one file per verb (or for two that differ little), with its words and its action.
 * The table itself is in main.c. It may use all other folders of the command. */
#ifndef HOLDFAST_CLI_VERBS_H
#define HOLDFAST_CLI_VERBS_H

#include <argp.h>

#include "cli/settings/settings.h"

/* A verb gets its own words, argv[0] being "holdfast verb", and returns the exit status. */
typedef int verb_fn(settings *given, int argc, char **argv);

verb_fn cmd_run, cmd_acquire, cmd_renew, cmd_release, cmd_elect, cmd_list, cmd_show, cmd_why,
    cmd_history, cmd_sessions, cmd_break, cmd_unlock_all, cmd_doctor, cmd_bench, cmd_config,
    cmd_watch, cmd_serve, cmd_guardian;

typedef struct verb {
    const char *name, *help; /* help NULL: not for people */
    verb_fn *run;
    const struct argp *argp; /* NULL: takes any words */
} verb;

/* In a table that ends with an empty one; NULL: there is none. */
const verb *verb_named(const verb *table, const char *name);

/* The verb complete needs the other verbs, and the words that may stand before a verb. */
int cmd_complete(const verb *table, const struct argp *before, settings *given, int argc,
                 char **argv);

/* Each verb's words, in its own file. */
extern const struct argp run_argp, acquire_argp, renew_argp, release_argp, elect_argp, list_argp,
    show_argp, why_argp, history_argp, sessions_argp, break_argp, unlock_all_argp, doctor_argp,
    bench_argp, config_argp, watch_argp, serve_argp;

#endif
