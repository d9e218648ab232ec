/* SPDX-License-Identifier: Apache-2.0 */
/* verbs.h: the table of the verbs: what each is called, what it does, which words it takes. */
#ifndef HOLDFAST_CLI_VERBS_H
#define HOLDFAST_CLI_VERBS_H

#include <argp.h>

#include "cli/settings/settings.h"

typedef struct verb {
    const char *name, *help; /* help NULL: not for people */
    verb_fn *run;
    const struct argp *argp; /* NULL: takes any words */
} verb;

extern const verb verbs[]; /* ends with an empty one */
extern const struct argp main_argp;

/* NULL: there is none. */
const verb *verb_named(const char *name);

/* Each verb's words, in its own file. */
extern const struct argp run_argp, acquire_argp, renew_argp, release_argp, elect_argp, list_argp,
    show_argp, sessions_argp, break_argp, doctor_argp, bench_argp, config_argp, watch_argp,
    serve_argp;

#endif
