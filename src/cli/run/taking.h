/* SPDX-License-Identifier: Apache-2.0 */
/* taking.h: takes the locks of a plan, and looks for signals meanwhile. */
#ifndef HOLDFAST_CLI_TAKING_H
#define HOLDFAST_CLI_TAKING_H

#include "plan.h"

/* Takes every name or none, in one of the library's waits after the other, while this thread looks
 * for signals. HF_CANCELLED: *signal came. */
hf_code taking_run(const plan *p, hf_client *client, signals *events, hf_lock **locks, int *signal,
                   hf_error *err);

#endif
