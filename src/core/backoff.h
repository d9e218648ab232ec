/* SPDX-License-Identifier: Apache-2.0 */
/* backoff.h: how long to wait before trying again. The caller gives the random number. */
#ifndef CORE_BACKOFF_H
#define CORE_BACKOFF_H

#include <holdfast/store.h>

/* A pause that doubles with each failure, from first_ms up to most_ms. `chance` (any number) picks
 * a value between half of that and all of it. */
int64_t backoff_ms(unsigned failures, int64_t first_ms, int64_t most_ms, uint64_t chance);

/* When to come back after BUSY: after about half the time that the queue takes, estimated from the
 * latest grant. It does not grow with refusals, so that nobody falls behind. */
int64_t backoff_busy_ms(const hf_record *record, uint64_t chance);

#endif
