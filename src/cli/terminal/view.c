/* SPDX-License-Identifier: Apache-2.0 */
/* view.c: draws the locks as `top` draws processes: a line for each holder or waiter, those that
 * have held or waited longest on top; cmd_watch.c calls it after each look and key. */
#include "view.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "show/text.h"

#define LINES_ABOVE 3
#define LINES_BELOW 1
#define LEAST_COLUMNS 80
#define LEASE_COLUMNS 8
#define OVER_COLUMNS 15 /* "over by 23h59m " */
#define LEAST_NAME 6

enum { LOCK, STATE, FOR, LEASE, WHO, WHY, N_CELLS };

/* A holder or waiter. */
typedef struct row {
    const hf_lock_info *lock;
    const hf_entry_info *entry;
} row;

typedef struct rows {
    const view *view;
    row *all;
    size_t n;
    totals totals; /* of all locks, wanted or not */
} rows;

/* ---- Which, and in which order ---- */

static int64_t age_of(const view *v, const hf_entry_info *entry)
{
    int64_t since_ms = board_since(entry), ms = v->board.at_ms - since_ms;
    return since_ms && ms > 0 ? ms : 0;
}

static bool is_wanted(const view *v, const hf_lock_info *lock, const hf_entry_info *entry)
{
    return strcasestr(lock->name, v->filter) || strcasestr(entry->who, v->filter) ||
           strcasestr(entry->why, v->filter);
}

static int64_t oldest_of(const view *v, const hf_entry_info *entries, size_t n)
{
    int64_t most = 0;
    for (size_t i = 0; i < n; i++)
        most = age_of(v, &entries[i]) > most ? age_of(v, &entries[i]) : most;
    return most;
}

/* The value by which locks are ordered, highest first. */
static int64_t rank_of(const view *v, const hf_lock_info *lock)
{
    int64_t held = oldest_of(v, lock->holders, lock->n_holders);
    int64_t waited = oldest_of(v, lock->queue, lock->n_queue);
    if (v->order == BY_WAITING)
        return waited;
    return v->order == BY_NAME ? 0 : held > waited ? held : waited;
}

static int compare(const void *a, const void *b, void *ctx)
{
    const hf_lock_info *one = *(const hf_lock_info *const *)a;
    const hf_lock_info *other = *(const hf_lock_info *const *)b;
    int64_t difference = rank_of(ctx, other) - rank_of(ctx, one);
    return difference ? (difference > 0) - (difference < 0) : strcmp(one->name, other->name);
}

static void add_entries(rows *r, const hf_lock_info *lock, const hf_entry_info *entries, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!is_wanted(r->view, lock, &entries[i]))
            continue;
        r->all = text_wider(r->all, r->n, sizeof *r->all);
        r->all[r->n++] = (row){lock, &entries[i]};
    }
}

static void add_lock(rows *r, const hf_lock_info *lock)
{
    board_count(&r->totals, lock);
    add_entries(r, lock, lock->holders, lock->n_holders);
    add_entries(r, lock, lock->queue, lock->n_queue);
}

static void fill(rows *r, view *v)
{
    const hf_lock_info **sorted = text_alloc(v->board.n * sizeof *sorted);
    for (size_t i = 0; i < v->board.n; i++)
        sorted[i] = &v->board.locks[i];
    qsort_r(sorted, v->board.n, sizeof *sorted, compare, v);
    for (size_t i = 0; i < v->board.n; i++)
        add_lock(r, sorted[i]);
    free(sorted);
}

/* ---- Lines ---- */

/* Adds text that fits, padded to this many columns. Takes both. */
static char *add_cell(char *line, char *text, size_t columns)
{
    char *out = text_print("%s%s%*s", line, text, (int)(columns - text_columns(text)), "");
    free(text);
    free(line);
    return out;
}

/* What is left goes to the wide ones, LOCK, WHO and WHY, in the proportions of 80 columns. LOCK and
 * WHO give way to leases that are over; on a narrow screen they share what there is. */
static void set_widths(size_t widths[N_CELLS], size_t columns, bool has_overdue)
{
    size_t more = columns > LEAST_COLUMNS ? (columns - LEAST_COLUMNS) / 3 : 0;
    size_t lease = has_overdue ? OVER_COLUMNS : LEASE_COLUMNS, given = (lease - LEASE_COLUMNS) / 2;
    size_t name = 20 + more - given, state = 11, age = 8, others = state + age + lease;
    size_t half = columns > others ? (columns - others) / 2 : 0;
    if (name > half)
        name = half > LEAST_NAME ? half : LEAST_NAME;
    memcpy(widths, (size_t[N_CELLS]){name, state, age, lease, name, columns},
           N_CELLS * sizeof *widths);
}

/* Of a lock's name both ends count, and of a holder's; of anything else, the beginning. */
static char *cut(size_t cell, const char *text, size_t columns)
{
    return cell == LOCK || cell == WHO ? text_shorten_middle(text, columns)
                                       : text_shorten(text, columns);
}

static char *line_of(char *const cells[N_CELLS], const size_t widths[N_CELLS], size_t columns)
{
    size_t left = columns;
    char *line = text_copy("");
    for (size_t i = 0; i < N_CELLS; i++) {
        size_t width = widths[i] < left ? widths[i] : left;
        size_t gap = width && i + 1 < N_CELLS;
        char *shown = text_escape(cells[i]);
        line = add_cell(line, cut(i, shown, width - gap), width);
        left -= width;
        free(shown);
    }
    return line;
}

/* "exclusive", "shared", "2 of 3", "waits, 1." */
static char *state_of(const row *r)
{
    if (r->entry->position)
        return text_print("waits, %zu.", r->entry->position);
    if (r->lock->limit != HF_LIMIT_RW)
        return text_print("%" PRId32 " of %" PRId32, r->entry->permits, r->lock->limit);
    return text_copy(r->entry->permits == HF_LIMIT_RW ? "exclusive" : "shared");
}

static char *shown_age(const view *v, const hf_entry_info *entry)
{
    return board_since(entry) ? text_duration(age_of(v, entry)) : text_copy("-");
}

static char *line_of_row(const view *v, const row *r, const size_t widths[N_CELLS], size_t columns)
{
    char *cells[N_CELLS] = {text_copy(r->lock->name),
                            state_of(r),
                            shown_age(v, r->entry),
                            text_lease(r->entry->lease_left_ms),
                            text_copy(*r->entry->who ? r->entry->who : "(session gone)"),
                            text_copy(r->entry->why)};
    char *line = line_of(cells, widths, columns);
    for (size_t i = 0; i < N_CELLS; i++)
        free(cells[i]);
    return line;
}

static screen_look look_of(const row *r)
{
    if (r->entry->lease_left_ms < 0 || !*r->entry->who)
        return LOOK_ALARM;
    return r->entry->position ? LOOK_WAITS : LOOK_PLAIN;
}

/* ---- The screen ---- */

static void put(const screen *s, int at, screen_look look, char *text, size_t columns)
{
    char *shown = text_escape(text);
    char *line = add_cell(text_copy(""), text_shorten(shown, columns), columns);
    s->put(at, look, line);
    free(line);
    free(shown);
    free(text);
}

/* "14:03:12  3 held, 1 waiting  by age" */
static char *state_of_all(const view *v, const totals *all)
{
    static const char *const orders[] = {"by age", "by name", "by waiting"};
    char *when = v->board.at_ms ? text_when(v->board.at_ms) : text_copy("...");
    char *counts = board_totals(all);
    char *line =
        text_print("%s  %s  %s%s", when, counts, orders[v->order], v->is_paused ? ", PAUSED" : "");
    free(counts);
    free(when);
    return line;
}

static void put_top(const view *v, const screen *s, const rows *r, size_t columns)
{
    static const char title[] = "holdfast watch  ";
    char *line = state_of_all(v, &r->totals);
    bool is_narrow = sizeof title + text_columns(line) > columns;
    put(s, 0, LOOK_TITLE, text_print("%s%s  %s", is_narrow ? "" : title, line, v->store), columns);
    free(line);
    if (v->is_typing || *v->filter)
        put(s, 1, LOOK_PLAIN, text_print("filter: %s%s", v->filter, v->is_typing ? "_" : ""),
            columns);
    if (*v->wrong)
        put(s, 1, LOOK_ALARM, text_copy(v->wrong), columns);
}

static void put_heads(const screen *s, const size_t widths[N_CELLS], size_t columns)
{
    char heads[N_CELLS][6] = {"LOCK", "STATE", "FOR", "LEASE", "WHO", "WHY"};
    char *cells[N_CELLS];
    for (size_t i = 0; i < N_CELLS; i++)
        cells[i] = heads[i];
    char *line = line_of(cells, widths, columns);
    s->put(LINES_ABOVE - 1, LOOK_HEAD, line);
    free(line);
}

static void put_rows(view *v, const screen *s, const rows *r, int lines, size_t columns)
{
    size_t widths[N_CELLS];
    set_widths(widths, columns, r->totals.overdue > 0);
    put_heads(s, widths, columns);
    size_t fit =
        lines > LINES_ABOVE + LINES_BELOW ? (size_t)(lines - LINES_ABOVE - LINES_BELOW) : 0;
    size_t most = r->n > fit ? r->n - fit : 0;
    v->first = v->first < most ? v->first : most;
    for (size_t i = 0; i < fit && v->first + i < r->n; i++) {
        const row *each = &r->all[v->first + i];
        char *line = line_of_row(v, each, widths, columns);
        s->put(LINES_ABOVE + (int)i, look_of(each), line);
        free(line);
    }
}

void view_draw(view *v, const screen *s)
{
    int lines, wide;
    rows r = {.view = v};
    s->size(&lines, &wide);
    size_t columns = wide > 1 ? (size_t)wide - 1 : 0; /* the last one of the last line scrolls */
    fill(&r, v);
    s->clear();
    put_top(v, s, &r, columns);
    put_rows(v, s, &r, lines, columns);
    put(s, lines - 1, LOOK_PLAIN,
        text_copy(v->is_typing ? "type what to look for; Enter keeps it, Esc shows all again"
                               : "q quit  / filter  s sort  p pause  arrows, PgUp, PgDn scroll"),
        columns);
    s->show();
    free(r.all);
}
