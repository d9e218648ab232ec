/* SPDX-License-Identifier: Apache-2.0 */
/* plot.h: a plot of latency against the number of waiters, as SVG. */
#ifndef BENCH_PLOT_H
#define BENCH_PLOT_H

#include "series.h"

#define PLOT_POINTS 6

typedef struct plot_line {
    const char *label;
    series at[PLOT_POINTS]; /* ms */
} plot_line;

void plot_write(const char *path, const char *title, const int waiters[PLOT_POINTS],
                const plot_line *lines, size_t n);

#endif
