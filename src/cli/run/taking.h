/* SPDX-License-Identifier: Apache-2.0 */
/* taking.h: takes the locks of a plan, and handles signals meanwhile. */
#ifndef HOLDFAST_CLI_TAKING_H
#define HOLDFAST_CLI_TAKING_H

#include "plan.h"

/* Takes every name or none, one wait of the library after the other, while this thread handles
 * signals. HF_CANCELLED: *signal came. */
hf_code taking_run(const plan *p, hf_client *client, signals *events, hf_lock **locks, int *signal,
                   hf_error *err);

#endif
