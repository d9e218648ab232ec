/* SPDX-License-Identifier: Apache-2.0 */
/* turn.h: one turn under the locks. */
#ifndef HOLDFAST_CLI_TURN_H
#define HOLDFAST_CLI_TURN_H

#include "plan.h"

/* The outcome of one turn, whether the command ran or not. */
typedef struct turn {
    hf_code code; /* of taking the locks */
    int status;
    bool has_run, is_lost,
        is_over; /* over: a signal asked for the end, or the command cannot be started */
} turn;

turn turn_run(const plan *p, hf_client *client, signals *events);

#endif
