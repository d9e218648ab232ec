/* SPDX-License-Identifier: Apache-2.0 */
/* once.h: `holdfast run --once-per`: the length of the period, and whether its work was done. */
#ifndef HOLDFAST_CLI_ONCE_H
#define HOLDFAST_CLI_ONCE_H

#include <argp.h>
#include <stdbool.h>
#include <stdint.h>

#include <holdfast/holdfast.h>

/* What the options said; period_ms is 0 without --once-per. */
typedef struct once_words {
    int64_t period_ms;
    bool retries;
    int skip_status; /* -1: not said */
} once_words;

/* The parser of these options; its input is the words. */
extern const struct argp once_argp;

/* Ends the program with a message if the options contradict each other or other options. */
void once_check_usage(const once_words *w, size_t n_names, bool is_exclusive,
                      struct argp_state *state);

/* Whether the command was run in this period and must not run again; if so, prints where, and with
 * which status. */
bool once_skips(const once_words *w, hf_lock *lock);

#endif
