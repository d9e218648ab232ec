/* SPDX-License-Identifier: Apache-2.0 */
/* metrics.h: what the service counts, since its start. Any thread may count. */
#ifndef HTTPD_METRICS_H
#define HTTPD_METRICS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <holdfast/holdfast.h>

#include "httpd/news.h"
#include "httpd/places.h"

#define METRICS_ROUTES 32
#define METRICS_BUCKETS 12
#define METRICS_CODES 32
#define METRICS_STATUSES 600

/* The upper bound of each bucket, in ms. */
extern const int64_t metrics_bounds_ms[METRICS_BUCKETS];

/* Durations: a count for each bucket, and their sum. */
typedef struct histogram {
    atomic_uint_fast64_t buckets[METRICS_BUCKETS + 1]; /* the last: longer */
    atomic_uint_fast64_t sum_us;
} histogram;

typedef struct metrics {
    histogram requests[METRICS_ROUTES];                             /* by the number of the route */
    atomic_uint_fast64_t answers[METRICS_ROUTES][METRICS_STATUSES]; /* and by status */
    atomic_uint_fast64_t errors[METRICS_CODES];                     /* by hf_code */
    atomic_uint_fast64_t seen[N_NEWS];
    atomic_uint_fast64_t looks;
    atomic_uint_fast64_t refused[N_PLACE_KINDS][N_REFUSALS]; /* by admission */
    histogram waits[2];                                      /* for a lock: refused, granted */
    histogram holds;                                         /* from a grant to its release */
    histogram margins; /* what was left of a lease when it was renewed */
} metrics;

void metrics_answer(metrics *m, size_t number, unsigned status, int64_t us);
void metrics_error(metrics *m, hf_code code);
void metrics_news(metrics *m, news kind);
void metrics_refused(metrics *m, place_kind kind, admission why); /* one of the two too many */
void metrics_wait(metrics *m, bool is_granted, int64_t us);
void metrics_hold(metrics *m, int64_t us);   /* negative: not known, not counted */
void metrics_margin(metrics *m, int64_t us); /* the same */
void metrics_look(metrics *m);               /* the watcher has listed the locks */

#endif
