/* SPDX-License-Identifier: Apache-2.0 */
/* census.h: counts what a look at the locks found. */
#ifndef SHOW_CENSUS_H
#define SHOW_CENSUS_H

#include "show/board.h"

typedef struct census {
    size_t held;            /* locks */
    size_t overdue;         /* of them: the lease of a holder is over */
    size_t waiting;         /* places in all queues */
    int64_t oldest_hold_ms; /* 0: nothing is held, nobody waits */
    int64_t longest_wait_ms;
    int64_t took_ms; /* the look */
} census;

/* Times are measured up to the look, by this machine's clock; what began later counts as 0. */
census census_of(const board *b);

#endif
