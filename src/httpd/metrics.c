/* SPDX-License-Identifier: Apache-2.0 */
/* metrics.c: counts what the service does; prometheus.c prints the counts. */
#include "httpd/metrics.h"

const int64_t metrics_bounds_ms[METRICS_BUCKETS] = {1,   2,   5,    10,   25,    50,
                                                    100, 250, 1000, 5000, 15000, 60000};

static void count(histogram *h, int64_t us)
{
    size_t i = 0;
    while (i < METRICS_BUCKETS && us > metrics_bounds_ms[i] * 1000)
        i++;
    atomic_fetch_add(&h->buckets[i], 1);
    atomic_fetch_add(&h->sum_us, (uint_fast64_t)us);
}

void metrics_answer(metrics *m, size_t number, unsigned status, int64_t us)
{
    count(&m->requests[number], us);
    atomic_fetch_add(&m->answers[number][status], 1);
}

void metrics_refused(metrics *m, place_kind kind, admission why)
{
    atomic_fetch_add(&m->refused[kind][why], 1);
}

void metrics_wait(metrics *m, bool is_granted, int64_t us)
{
    count(&m->waits[is_granted], us);
}

void metrics_hold(metrics *m, int64_t us)
{
    if (us >= 0)
        count(&m->holds, us);
}

void metrics_margin(metrics *m, int64_t us)
{
    if (us >= 0)
        count(&m->margins, us);
}

void metrics_error(metrics *m, hf_code code)
{
    atomic_fetch_add(&m->errors[code], 1);
}

void metrics_news(metrics *m, news kind)
{
    atomic_fetch_add(&m->seen[kind], 1);
}

void metrics_look(metrics *m)
{
    atomic_fetch_add(&m->looks, 1);
}
