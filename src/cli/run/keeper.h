/* SPDX-License-Identifier: Apache-2.0 */
/* keeper.h: a process that renews a lease for as long as another process runs, for a given time, or
 * both. */
#ifndef HOLDFAST_CLI_KEEPER_H
#define HOLDFAST_CLI_KEEPER_H

#include <holdfast/holdfast.h>

#include "cli/settings/settings.h"

typedef struct keeper {
    settings *given;
    int pid_fd;     /* the process during which it renews; -1: none */
    int64_t for_ms; /* 0: without an end */
} keeper;

/* Goes into the background: a session of its own, without terminal, input and output. */
void keeper_detach(void);

/* Renews until the process or the time is over, a signal comes, or the lease is gone. Then releases
 * it and returns. */
void keeper_run(const keeper *k, const hf_lease *lease);

#endif
