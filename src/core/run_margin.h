/* SPDX-License-Identifier: Apache-2.0 */
/* run_margin.h: how long before the end of its lease `run` stops its command (R7): the command sets
 * it, and lease.c counts what a lease outlives with it. Only a header, as the command is not linked
 * with the core. */
#ifndef CORE_RUN_MARGIN_H
#define CORE_RUN_MARGIN_H

#include <stdint.h>

#define RUN_GRACE_MOST_MS 5000
#define RUN_KILL_LEAST_MS 50
#define RUN_KILL_MOST_MS 500

/* From SIGTERM to SIGKILL, if nobody says otherwise. */
static inline int64_t run_grace_ms(int64_t ttl_ms)
{
    int64_t quarter_ms = ttl_ms / 4;
    return quarter_ms < RUN_GRACE_MOST_MS ? quarter_ms : RUN_GRACE_MOST_MS;
}

/* From SIGKILL to the end of the lease. What killing takes has nothing to do with the ttl, but a
 * short lease has little to spare. */
static inline int64_t run_kill_ms(int64_t ttl_ms)
{
    int64_t part_ms = ttl_ms / 20 > RUN_KILL_LEAST_MS ? ttl_ms / 20 : RUN_KILL_LEAST_MS;
    return part_ms < RUN_KILL_MOST_MS ? part_ms : RUN_KILL_MOST_MS;
}

#endif
