/* SPDX-License-Identifier: Apache-2.0 */
/* period.h: work that is done once per period: which period a grant falls into, and whether its
 * work was done; the client asks it, and the stores ask whether a record must still be kept. */
#ifndef CORE_PERIOD_H
#define CORE_PERIOD_H

#include <holdfast/store.h>

#define PERIOD_MIN_MS 1000
#define PERIOD_MAX_MS ((int64_t)87600 * 3600 * 1000) /* ten years */

/* The period of that length that a time falls into; periods are counted from 1970 on, in UTC. A
 * length of 0 has none. */
hf_period period_at(hf_dbtime at, int64_t length_ms);

bool period_is_any(hf_period period);

/* Whether the work of this period was done, by the last holder or by one before it. */
bool period_is_done(hf_period period, const hf_last_mark *last);

/* Whether nobody who works once per period needs `last` any more. */
bool period_is_over(const hf_last_mark *last, hf_dbtime now);

#endif
