/* SPDX-License-Identifier: Apache-2.0 */
/* table.c: prints a table in columns for people; called by the listings. */
#include "table.h"

#include <stdio.h>
#include <stdlib.h>

#include "show/text.h"

void table_init(table *t, const char *const *heads)
{
    *t = (table){0};
    while (heads[t->n_columns])
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

static size_t width_of(const table *t, size_t column)
{
    size_t width = 0;
    for (size_t i = column; i < t->n_cells; i += t->n_columns) {
        size_t columns = text_columns(t->cells[i]);
        width = columns > width ? columns : width;
    }
    return width;
}

void table_print(const table *t)
{
    size_t *widths = text_alloc(t->n_columns * sizeof *widths);
    for (size_t i = 0; i < t->n_columns; i++)
        widths[i] = width_of(t, i);
    for (size_t i = 0; i < t->n_cells; i++) {
        size_t column = i % t->n_columns;
        bool is_last = column + 1 == t->n_columns;
        size_t pad = is_last ? 0 : widths[column] - text_columns(t->cells[i]) + 2;
        printf("%s%*s%s", t->cells[i], (int)pad, "", is_last ? "\n" : "");
    }
    free(widths);
}

void table_done(table *t)
{
    for (size_t i = 0; i < t->n_cells; i++)
        free(t->cells[i]);
    free(t->cells);
}
