/* SPDX-License-Identifier: Apache-2.0 */
/* census.h: counts what a look at the locks found. */
#ifndef SHOW_CENSUS_H
#define SHOW_CENSUS_H

#include "show/board.h"

typedef struct census {
    totals totals;
    int64_t longest_overdue_ms; /* 0: no lease is over */
    int64_t oldest_hold_ms;     /* 0: nothing is held, nobody waits */
    int64_t longest_wait_ms;
    int64_t took_ms; /* the look */
} census;

/* Times are measured up to the look, by this machine's clock; what began later counts as 0. */
census census_of(const board *b);

#endif
