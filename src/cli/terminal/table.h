/* SPDX-License-Identifier: Apache-2.0 */
/* table.h: a table in columns, for people. */
#ifndef HOLDFAST_CLI_TABLE_H
#define HOLDFAST_CLI_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#define TABLE_COLUMNS_MOST 16

/* What may happen to a column that does not fit the screen. */
typedef enum table_cut {
    CUT_NOTHING, /* it stays as it is */
    CUT_MIDDLE,  /* of its cells, the middle is left out */
    CUT_END,     /* of its cells, the end is left out */
    CUT_ALL,     /* the column is left out, before any other is cut */
} table_cut;

typedef struct table {
    size_t n_columns;
    size_t widths[TABLE_COLUMNS_MOST]; /* of what was printed */
    size_t room;                       /* columns of the screen; 0: any number */
    const table_cut *cuts;             /* of each column; where there is a room */
    bool is_short, has_begun;          /* CUT_ALL was done; some of it was printed */
    size_t n_cells;
    char **cells;  /* row by row, escaped */
    size_t *marks; /* the rows of these that are red, in their order, counted from 0 */
    size_t n_marks;
} table;

/* Begins with its heads, a list that ends with NULL. */
void table_init(table *t, const char *const *heads);

/* Makes it fit so many columns of the screen (0: any number), by cutting columns as `cuts` says,
 * which lives as long as the table. */
void table_fit(table *t, size_t columns, const table_cut *cuts);

/* Adds a cell; it takes over text, which was allocated and is not escaped yet. */
void table_add(table *t, char *text);

/* Makes the row red whose last cell was added last. */
void table_mark(table *t);

/* Prints on stdout what was added since it last printed, the columns as wide as their widest cell
 * so far. */
void table_print(table *t);

void table_done(table *t);

#endif
