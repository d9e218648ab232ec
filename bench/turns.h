/* SPDX-License-Identifier: Apache-2.0 */
/* turns.h: processes that hand one lock over among them, for a while. */
#ifndef BENCH_TURNS_H
#define BENCH_TURNS_H

#include <stddef.h>
#include <stdint.h>

#include "bench.h"
#include "server.h"

/* What came of one while. */
struct passing {
    double median_ms, p90_ms; /* from one's release to the next one's having it */
    double fewest, most;      /* turns of a process */
};

/* role: "turns" (ours) or "poll" (by hand, each 100 ms). With a server, what a hand-over costs it
 * is added to costs. */
struct passing turns_measure(const struct bench *bench, const char *role, int workers, int64_t ms,
                             struct server *server, struct costs *costs);

#endif
