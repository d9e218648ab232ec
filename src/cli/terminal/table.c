/* SPDX-License-Identifier: Apache-2.0 */
/* table.c: prints a table in columns for people; called by the listings. */
#include "table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "show/text.h"

#define GAP 2
#define LEAST_COLUMNS 8 /* of a column that is cut */
#define RED "\033[31m"
#define PLAIN "\033[0m"

void table_init(table *t, const char *const *heads)
{
    *t = (table){0};
    while (t->n_columns < TABLE_COLUMNS_MOST && heads[t->n_columns])
        t->n_columns++;
    for (size_t i = 0; i < t->n_columns; i++)
        table_add(t, text_copy(heads[i]));
}

void table_fit(table *t, size_t columns, const table_cut *cuts)
{
    t->room = columns;
    t->cuts = cuts;
}

void table_add(table *t, char *text)
{
    t->cells = text_wider(t->cells, t->n_cells, sizeof *t->cells);
    t->cells[t->n_cells++] = text_escape(text);
    free(text);
}

void table_mark(table *t)
{
    t->marks = text_wider(t->marks, t->n_marks, sizeof *t->marks);
    t->marks[t->n_marks++] = t->n_cells / t->n_columns - 1;
}

static void forget_cells(table *t)
{
    for (size_t i = 0; i < t->n_cells; i++)
        free(t->cells[i]);
    free(t->cells);
    free(t->marks);
    t->cells = NULL;
    t->marks = NULL;
    t->n_cells = t->n_marks = 0;
}

static void widen(table *t)
{
    for (size_t i = 0; i < t->n_cells; i++) {
        size_t *width = &t->widths[i % t->n_columns], columns = text_columns(t->cells[i]);
        *width = columns > *width ? columns : *width;
    }
}

/* ---- Fitting the screen ---- */

static bool is_shown(const table *t, size_t column)
{
    return !t->is_short || t->cuts[column] != CUT_ALL;
}

static size_t sum(const table *t, const size_t *widths)
{
    size_t all = 0;
    for (size_t i = 0; i < t->n_columns; i++)
        if (is_shown(t, i))
            all += widths[i] + (all ? GAP : 0);
    return all;
}

/* The widest column that may be cut; n_columns: none can be cut any more. */
static size_t find_widest(const table *t, const size_t *widths)
{
    size_t found = t->n_columns, most = LEAST_COLUMNS;
    for (size_t i = 0; i < t->n_columns; i++) {
        bool may_be_cut = t->cuts[i] == CUT_MIDDLE || t->cuts[i] == CUT_END;
        if (may_be_cut && widths[i] > most) {
            most = widths[i];
            found = i;
        }
    }
    return found;
}

/* Columns that were left out of the first rows stay so. */
static void settle_widths(table *t, size_t *widths)
{
    memcpy(widths, t->widths, sizeof t->widths);
    if (!t->room)
        return;
    t->is_short = t->is_short || (!t->has_begun && sum(t, widths) > t->room);
    for (size_t i; sum(t, widths) > t->room && (i = find_widest(t, widths)) < t->n_columns;)
        widths[i]--;
}

/* ---- Printing ---- */

/* In new memory. */
static char *shown_cell(const table *t, size_t column, const char *cell, size_t width)
{
    bool is_cut_in_the_middle = t->room && t->cuts[column] == CUT_MIDDLE;
    return is_cut_in_the_middle ? text_shorten_middle(cell, width) : text_shorten(cell, width);
}

/* Without spaces at its end. */
static char *line_of(const table *t, char *const *cells, const size_t *widths)
{
    char *line = text_copy("");
    size_t pad = 0;
    for (size_t i = 0; i < t->n_columns; i++) {
        if (!is_shown(t, i))
            continue;
        char *cell = shown_cell(t, i, cells[i], widths[i]);
        char *longer = text_print("%s%*s%s", line, *cell ? (int)pad : 0, "", cell);
        pad = (*cell ? 0 : pad) + widths[i] - text_columns(cell) + GAP;
        free(cell);
        free(line);
        line = longer;
    }
    return line;
}

void table_print(table *t)
{
    size_t widths[TABLE_COLUMNS_MOST], mark = 0;
    widen(t);
    settle_widths(t, widths);
    for (size_t i = 0; i < t->n_cells; i += t->n_columns) {
        bool is_marked = mark < t->n_marks && t->marks[mark] == i / t->n_columns;
        char *line = line_of(t, t->cells + i, widths);
        char *fits = t->room ? text_shorten(line, t->room) : text_copy(line);
        printf("%s%s%s\n", is_marked ? RED : "", fits, is_marked ? PLAIN : "");
        free(fits);
        free(line);
        mark += is_marked;
    }
    t->has_begun = true;
    forget_cells(t);
}

void table_done(table *t)
{
    forget_cells(t);
}
