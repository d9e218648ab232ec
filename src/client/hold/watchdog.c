/* SPDX-License-Identifier: Apache-2.0 */
/* watchdog.c: decides when a lock is lost because its worker is stuck: it was not fed, or was held
 * for too long. belief.c asks it whenever it checks a lease. */
#include "client/hold/watchdog.h"

#include <stdio.h>

static hf_mono after(hf_mono now, int64_t ms)
{
    return ms ? mono_add_ms(now, ms) : MONO_NEVER;
}

void watchdog_begin(struct watchdog *dog, const hf_lock_options *options, hf_mono now)
{
    int64_t feed_ms = options ? options->feed_ms : 0;
    int64_t max_hold_ms = options ? options->max_hold_ms : 0;
    *dog = (struct watchdog){.feed_ms = feed_ms,
                             .max_hold_ms = max_hold_ms,
                             .feed_by = after(now, feed_ms),
                             .hold_until = after(now, max_hold_ms)};
}

void watchdog_feed(struct watchdog *dog, hf_mono now)
{
    dog->feed_by = after(now, dog->feed_ms);
}

void watchdog_bite(struct watchdog *dog)
{
    dog->has_bitten = true;
}

hf_mono watchdog_due(const struct watchdog *dog)
{
    return mono_min(dog->feed_by, dog->hold_until);
}

void watchdog_reason(const struct watchdog *dog, char reason[HF_TEXT_MAX + 1])
{
    if (dog->hold_until.ns <= dog->feed_by.ns)
        snprintf(reason, HF_TEXT_MAX + 1, "it was held for longer than %lld ms",
                 (long long)dog->max_hold_ms);
    else
        snprintf(reason, HF_TEXT_MAX + 1, "it was not fed for %lld ms", (long long)dog->feed_ms);
}
