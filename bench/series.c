/* SPDX-License-Identifier: Apache-2.0 */
/* series.c: medians and ranges; see series.h. */
#include "series.h"

#include <stdlib.h>

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

spread spread_of(double *values, size_t n)
{
    if (!n)
        return (spread){0};
    qsort(values, n, sizeof *values, compare);
    return (spread){values[0], (values[(n - 1) / 2] + values[n / 2]) / 2, values[n * 9 / 10],
                    values[n - 1]};
}

void series_add(series *to, double value)
{
    if (to->n < MOST_RUNS)
        to->values[to->n++] = value;
}

spread series_spread(const series *from)
{
    series sorted = *from;
    return spread_of(sorted.values, sorted.n);
}

series series_ratio(const series *ours, const series *other)
{
    series ratio = {.n = 0};
    for (size_t i = 0; i < ours->n && i < other->n; i++)
        if (other->values[i] > 0)
            series_add(&ratio, ours->values[i] / other->values[i]);
    return ratio;
}
