/* SPDX-License-Identifier: Apache-2.0 */
/* bench.h: what the benchmarks share: time, the spread of a sample, and a row of the table. */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <holdfast/holdfast.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MOST_RUNS 64

static inline _Noreturn void fail(const char *doing, const char *text)
{
    fflush(stdout);
    fprintf(stderr, "%s: %s\n", doing, text);
    exit(1);
}

static inline void must(hf_code code, const hf_error *err)
{
    if (code)
        fail(hf_code_name(code), err->text);
}

static inline int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static inline void pause_ms(int64_t ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

typedef struct spread {
    double min, median, p90, max;
} spread;

static inline int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts the values; for none of them, all is 0. */
static inline spread spread_of(double *values, size_t n)
{
    if (!n)
        return (spread){0};
    qsort(values, n, sizeof *values, compare);
    return (spread){values[0], (values[(n - 1) / 2] + values[n / 2]) / 2, values[n * 9 / 10],
                    values[n - 1]};
}

/* What one figure was in each run. */
typedef struct series {
    double values[MOST_RUNS];
    size_t n;
} series;

static inline void series_add(series *to, double value)
{
    if (to->n < MOST_RUNS)
        to->values[to->n++] = value;
}

static inline void write_number(char *out, size_t size, double value)
{
    snprintf(out, size, value >= 100 ? "%.0f" : value >= 10 ? "%.1f" : "%.2f", value);
}

/* "median (min..max)"; "" for an empty series. */
static inline void write_series(char *out, size_t size, const series *from)
{
    char median[16], min[16], max[16];
    series sorted = *from;
    spread s = spread_of(sorted.values, sorted.n);
    write_number(median, sizeof median, s.median);
    write_number(min, sizeof min, s.min);
    write_number(max, sizeof max, s.max);
    out[0] = '\0';
    if (from->n)
        snprintf(out, size, "%s (%s..%s)", median, min, max);
}

struct goal {
    enum { NONE, LEAST, MOST } kind;
    double value;
};

#define NO_GOAL ((struct goal){NONE, 0})
#define AT_LEAST(value) ((struct goal){LEAST, value})
#define AT_MOST(value) ((struct goal){MOST, value})

static inline void write_goal(char *out, size_t size, struct goal goal, double reached)
{
    bool met = goal.kind == LEAST ? reached >= goal.value : reached <= goal.value;
    out[0] = '\0';
    if (goal.kind != NONE)
        snprintf(out, size, "%s %.2f: %s", goal.kind == LEAST ? ">=" : "<=", goal.value,
                 met ? "met" : "MISSED");
}

/* One row. With `other`, whose n-th run was beside ours, the goal is for the ratio ours / other,
 * else for ours. */
static inline void row(const char *figure, const series *ours, const series *other,
                       struct goal goal)
{
    char of_ours[64], of_other[64] = "", of_ratio[64] = "", verdict[64];
    series ratio = {.n = 0};
    write_series(of_ours, sizeof of_ours, ours);
    if (other) {
        for (size_t i = 0; i < ours->n && i < other->n; i++)
            series_add(&ratio, ours->values[i] / other->values[i]);
        write_series(of_other, sizeof of_other, other);
        write_series(of_ratio, sizeof of_ratio, &ratio);
    }
    series deciding = other ? ratio : *ours;
    write_goal(verdict, sizeof verdict, goal, spread_of(deciding.values, deciding.n).median);
    printf("%-58s %-22s %-22s %-18s %s\n", figure, of_ours, of_other, of_ratio, verdict);
    fflush(stdout);
}

#endif
