/* SPDX-License-Identifier: Apache-2.0 */
/* table.h: a table in columns, for people. */
#ifndef HOLDFAST_CLI_TABLE_H
#define HOLDFAST_CLI_TABLE_H

#include <stddef.h>

typedef struct table {
    size_t n_columns;
    size_t n_cells;
    char **cells; /* row by row, escaped */
} table;

/* Begins with its heads, a list that ends with NULL. */
void table_init(table *t, const char *const *heads);

/* Adds a cell; it takes over text, which was allocated and is not escaped yet. */
void table_add(table *t, char *text);

/* Prints on stdout, the columns as wide as their widest cell. */
void table_print(const table *t);

void table_done(table *t);

#endif
