/* SPDX-License-Identifier: Apache-2.0 */
/* table.c: prints a table in columns for people; called by the listings. */
#include "table.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "show/text.h"

void table_init(table *t, const char *const *heads)
{
    *t = (table){0};
    while (t->n_columns < TABLE_COLUMNS_MOST && heads[t->n_columns])
        t->n_columns++;
    for (size_t i = 0; i < t->n_columns; i++)
        table_add(t, text_copy(heads[i]));
}

/* The space doubles when the number of cells is a power of two. */
void table_add(table *t, char *text)
{
    if ((t->n_cells & (t->n_cells - 1)) == 0) {
        char **wider = text_alloc((t->n_cells ? t->n_cells * 2 : 1) * sizeof *wider);
        for (size_t i = 0; i < t->n_cells; i++)
            wider[i] = t->cells[i];
        free(t->cells);
        t->cells = wider;
    }
    t->cells[t->n_cells++] = text_escape(text);
    free(text);
}

static void forget_cells(table *t)
{
    for (size_t i = 0; i < t->n_cells; i++)
        free(t->cells[i]);
    free(t->cells);
    t->cells = NULL;
    t->n_cells = 0;
}

static void widen(table *t)
{
    for (size_t i = 0; i < t->n_cells; i++) {
        size_t *width = &t->widths[i % t->n_columns], columns = text_columns(t->cells[i]);
        *width = columns > *width ? columns : *width;
    }
}

void table_print(table *t)
{
    widen(t);
    for (size_t i = 0; i < t->n_cells; i++) {
        size_t column = i % t->n_columns;
        bool is_last = column + 1 == t->n_columns;
        size_t pad = is_last ? 0 : t->widths[column] - text_columns(t->cells[i]) + 2;
        printf("%s%*s%s", t->cells[i], (int)pad, "", is_last ? "\n" : "");
    }
    forget_cells(t);
}

void table_done(table *t)
{
    forget_cells(t);
}
