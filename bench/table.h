/* SPDX-License-Identifier: Apache-2.0 */
/* table.h: the one table of figures, for people; with table_begin(true) on standard error, while
 * standard output gets the same rows as JSON. */
#ifndef BENCH_TABLE_H
#define BENCH_TABLE_H

#include <stdbool.h>

#include "series.h"

typedef struct goal {
    enum { NONE, LEAST, LEAST_EACH, MOST } kind; /* of the median, or in each run */
    double value;
} goal;

#define NO_GOAL ((goal){NONE, 0})
#define AT_LEAST(value) ((goal){LEAST, value})
#define AT_MOST(value) ((goal){MOST, value})

void table_begin(bool is_json);
void table_part(const char *name); /* the rows that follow are of this part */
void table_end(void);

/* The figure's text as printf has it. The goal is for ours. */
void table_row(const series *ours, goal aim, const char *figure, ...)
    __attribute__((format(printf, 3, 4)));
/* `other` was measured beside ours, run by run; the goal is for the ratio ours / other. */
void table_ratio(const series *ours, const series *other, goal aim, const char *figure, ...)
    __attribute__((format(printf, 4, 5)));
/* One that cannot be had here, and why. */
void table_note(const char *why, const char *figure, ...) __attribute__((format(printf, 2, 3)));

#endif
