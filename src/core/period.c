/* SPDX-License-Identifier: Apache-2.0 */
/* period.c: decides which period a time falls into, and whether the work of a period was done. */
#include "core/period.h"

hf_period period_at(hf_dbtime at, int64_t length_ms)
{
    if (length_ms <= 0 || at.ms < 0)
        return (hf_period){{0}, {0}};
    int64_t start = at.ms / length_ms * length_ms;
    return (hf_period){{start}, {start + length_ms}};
}

bool period_is_any(hf_period period)
{
    return period.end.ms > 0;
}

static bool covers(hf_period period, hf_period of_work)
{
    return period_is_any(period) && period_is_any(of_work) && of_work.start.ms >= period.start.ms &&
           of_work.start.ms <= period.end.ms;
}

/* Work counts for this period if its own period, whatever its length, began within this one. Work
 * of the next period counts too: the store's clock may have been set back since, or a primary whose
 * clock is behind may have taken over. */
bool period_is_done(hf_period period, const hf_last_mark *last)
{
    bool by_last = last->outcome == HF_OUTCOME_RELEASED && covers(period, last->period);
    return by_last || covers(period, last->done.period);
}

bool period_is_over(const hf_last_mark *last, hf_dbtime now)
{
    return last->period.end.ms <= now.ms && last->done.period.end.ms <= now.ms;
}
