/* SPDX-License-Identifier: Apache-2.0 */
/* backoff.h: how long to wait before trying again. The caller gives the random number. */
#ifndef CORE_BACKOFF_H
#define CORE_BACKOFF_H

#include <holdfast/store.h>

/* A pause that doubles with each failure, from first_ms up to most_ms. `chance` (any number) picks
 * a value between half of that and all of it. */
int64_t backoff_ms(unsigned failures, int64_t first_ms, int64_t most_ms, uint64_t chance);

#endif
