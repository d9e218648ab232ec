/* SPDX-License-Identifier: Apache-2.0 */
/* backoff.c: decides the pauses between tries; the caller gives the jitter. */
#include "core/backoff.h"

static int64_t jitter(int64_t ms, uint64_t chance)
{
    return ms / 2 + (int64_t)(chance % (uint64_t)(ms / 2 + 1));
}

int64_t backoff_ms(unsigned failures, int64_t first_ms, int64_t most_ms, uint64_t chance)
{
    int64_t ms = first_ms;
    for (unsigned i = 1; i < failures && ms < most_ms; i++)
        ms *= 2;
    return jitter(ms < most_ms ? ms : most_ms, chance);
}
