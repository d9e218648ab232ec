/* SPDX-License-Identifier: Apache-2.0 */
/* backoff.h: how long to wait before trying again; chance is given in. */
#ifndef CORE_BACKOFF_H
#define CORE_BACKOFF_H

#include <holdfast/store.h>

/* Doubles from first_ms to most_ms with the count of failures; between half of that and all of it,
 * as chance (any number) says. */
int64_t backoff_ms(unsigned failures, int64_t first_ms, int64_t most_ms, uint64_t chance);

/* When to come back after BUSY: about half the time that the queue takes, read off the latest
 * grant; it does not grow with refusals, so that nobody falls behind. */
int64_t backoff_busy_ms(const hf_record *record, uint64_t chance);

#endif
