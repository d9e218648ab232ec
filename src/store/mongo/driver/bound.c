/* SPDX-License-Identifier: Apache-2.0 */
/* bound.c: keeps until when each thread waits for its calls; connection.c and batcher.c ask. */
#include "store/mongo/driver/bound.h"

#include "core/lease.h"

#include <stddef.h>

#define LEAST_MS 300 /* for a call that begins when there is no time left: the last try */

static _Thread_local hf_bound *of_thread;

void mongo_bound(hf_store *store, hf_bound *bound)
{
    (void)store;
    of_thread = bound;
}

hf_bound *mongo_bound_now(void)
{
    return of_thread;
}

int64_t mongo_bound_left_ms(const hf_bound *bound, hf_mono now)
{
    if (!bound || bound->until.ns == MONO_NEVER.ns)
        return INT64_MAX;
    int64_t left_ms = mono_ms_until(bound->until, now);
    return left_ms > LEAST_MS ? left_ms : LEAST_MS;
}

void mongo_bound_put_off(hf_mono now)
{
    if (of_thread && of_thread->answer_ms)
        of_thread->until = mono_add_ms(now, of_thread->answer_ms);
}
