/* SPDX-License-Identifier: Apache-2.0 */
/* turn.h: one turn under the locks. */
#ifndef HOLDFAST_CLI_TURN_H
#define HOLDFAST_CLI_TURN_H

#include "plan.h"

/* What came of one run of the command, or of not getting to it. */
typedef struct turn {
    hf_code code; /* of taking the locks */
    int status;
    bool has_run, is_lost, is_over; /* over: asked to end, or the command cannot be started */
} turn;

turn turn_run(const plan *p, hf_client *client, signals *events);

#endif
