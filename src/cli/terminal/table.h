/* SPDX-License-Identifier: Apache-2.0 */
/* table.h: a table in columns, for people. */
#ifndef HOLDFAST_CLI_TABLE_H
#define HOLDFAST_CLI_TABLE_H

#include <stddef.h>

#define TABLE_COLUMNS_MOST 16

typedef struct table {
    size_t n_columns;
    size_t widths[TABLE_COLUMNS_MOST]; /* of what was printed */
    size_t n_cells;
    char **cells; /* row by row, escaped */
} table;

/* Begins with its heads, a list that ends with NULL. */
void table_init(table *t, const char *const *heads);

/* Adds a cell; it takes over text, which was allocated and is not escaped yet. */
void table_add(table *t, char *text);

/* Prints on stdout what was added since it last printed, the columns as wide as their widest cell
 * so far. */
void table_print(table *t);

void table_done(table *t);

#endif
