/* SPDX-License-Identifier: Apache-2.0 */
/* service.h: a crowd at one `holdfast serve`: connections that wait, leases that are renewed, and
 * followers of the events. */
#ifndef BENCH_SERVICE_H
#define BENCH_SERVICE_H

#include "bench.h"
#include "series.h"

typedef struct service_load {
    int leases;    /* each of a lock of its own, renewed each third of 30 s */
    int waits;     /* connections that wait for these locks */
    int followers; /* of the events */
    int seconds;   /* that are measured once all wait */
} service_load;

/* What it cost, in one run. arriving: while the waits and followers come, all at once. */
typedef struct service_cost {
    spread arriving_ms, renewal_ms, health_ms; /* from when each was due to its answer */
    double arriving_p99_ms, renewal_p99_ms, health_p99_ms;
    double arrived_s;    /* how long it took until all waited */
    double lost, failed; /* leases; renewals that got another answer, or none */
    double ended;        /* waits that ended */
    double kib_per_wait; /* resident memory of the service */
    double cpu_ms_per_s; /* of the service */
} service_cost;

/* Starts a service of its own (bench->command) on the store that is measured. */
void service_measure(const struct bench *bench, const service_load *load, service_cost *out);

#endif
