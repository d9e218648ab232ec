/* SPDX-License-Identifier: Apache-2.0 */
/* tally.c: counts texts in a hash table; see tally.h. */
#include "httpd/tally.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "show/text.h"

#define ROWS_FIRST 64

struct tally_row {
    tally_row *next;
    size_t n;
    char text[];
};

/* FNV-1a. */
static uint64_t hash(const char *text)
{
    uint64_t out = UINT64_C(14695981039346656037);
    for (; *text; text++)
        out = (out ^ (unsigned char)*text) * UINT64_C(1099511628211);
    return out;
}

/* Where the row of this text is, or would be appended. */
static tally_row **place_of(const tally *t, const char *text)
{
    tally_row **at = &t->rows[hash(text) % t->n_rows];
    while (*at && strcmp((*at)->text, text) != 0)
        at = &(*at)->next;
    return at;
}

static void move_rows(tally *to, tally_row *row)
{
    while (row) {
        tally_row *next = row->next, **at = &to->rows[hash(row->text) % to->n_rows];
        row->next = *at;
        *at = row;
        row = next;
    }
}

/* Keeps the lists short. */
static void grow(tally *t)
{
    tally wider = {.n_rows = t->n_rows ? 2 * t->n_rows : ROWS_FIRST, .n = t->n};
    wider.rows = text_alloc(wider.n_rows * sizeof *wider.rows);
    for (size_t i = 0; i < t->n_rows; i++)
        move_rows(&wider, t->rows[i]);
    free(t->rows);
    *t = wider;
}

void tally_add(tally *t, const char *text)
{
    if (t->n == t->n_rows)
        grow(t);
    tally_row **at = place_of(t, text);
    if (!*at) {
        *at = text_alloc(sizeof **at + strlen(text) + 1);
        strcpy((*at)->text, text);
        t->n++;
    }
    (*at)->n++;
}

void tally_remove(tally *t, const char *text)
{
    tally_row **at = place_of(t, text), *row = *at;
    if (--row->n)
        return;
    *at = row->next;
    free(row);
    t->n--;
}

size_t tally_of(const tally *t, const char *text)
{
    const tally_row *row = t->n_rows ? *place_of(t, text) : NULL;
    return row ? row->n : 0;
}

void tally_done(tally *t)
{
    for (size_t i = 0; i < t->n_rows; i++)
        while (t->rows[i])
            tally_remove(t, t->rows[i]->text);
    free(t->rows);
    *t = (tally){.n = 0};
}
