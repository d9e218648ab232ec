/* SPDX-License-Identifier: Apache-2.0 */
/* series.h: what one figure was in each run, and the spread of a sample. */
#ifndef BENCH_SERIES_H
#define BENCH_SERIES_H

#include <stddef.h>

#define MOST_RUNS 64

typedef struct spread {
    double min, median, p90, max;
} spread;

/* Sorts the values; for none of them, all is 0. */
spread spread_of(double *values, size_t n);

typedef struct series {
    double values[MOST_RUNS];
    size_t n;
} series;

void series_add(series *to, double value);
spread series_spread(const series *from);
/* Ours over other, run by run. */
series series_ratio(const series *ours, const series *other);

#endif
