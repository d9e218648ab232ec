/* SPDX-License-Identifier: Apache-2.0 */
/* table.c: prints the table; see table.h. */
#include "table.h"

#include "bench.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define FIGURE_MAX 128

static FILE *text; /* for people */
static bool has_json;
static size_t rows;
static const char *part = "";

typedef struct row {
    char figure[FIGURE_MAX];
    const series *ours, *other;
    series ratio;
    goal aim;
    const char *why; /* why it could not be had */
} row;

void table_begin(bool is_json)
{
    has_json = is_json;
    text = is_json ? stderr : stdout;
    if (has_json)
        printf("[");
    fprintf(text, "median (least..most) of the runs; ratio: ours / other, run by run\n");
    fprintf(text, "%-62s %-22s %-22s %-20s %s\n", "figure", "ours", "other", "ratio", "goal");
}

void table_part(const char *name)
{
    part = name;
}

void table_end(void)
{
    if (has_json)
        printf("\n]\n");
    if (fflush(stdout) || ferror(stdout))
        fail(EX_IOERR, "standard output", "cannot be written");
}

/* ---- For people ---- */

static void write_number(char out[16], double value)
{
    double size = fabs(value);
    snprintf(out, 16, size >= 100 ? "%.0f" : size >= 10 ? "%.1f" : "%.2f", value);
}

static void write_series(char *out, size_t size, const series *from)
{
    char median[16], min[16], max[16];
    spread s = series_spread(from);
    write_number(median, s.median);
    write_number(min, s.min);
    write_number(max, s.max);
    if (from->n == 1)
        snprintf(out, size, "%s", median);
    else if (from->n)
        snprintf(out, size, "%s (%s..%s)", median, min, max);
}

/* What the goal is for. */
static const series *deciding(const row *r)
{
    return r->other ? &r->ratio : r->ours;
}

static bool is_met(const row *r)
{
    spread reached = series_spread(deciding(r));
    if (r->aim.kind == MOST)
        return reached.median <= r->aim.value;
    return (r->aim.kind == LEAST_EACH ? reached.min : reached.median) >= r->aim.value;
}

static void write_goal(char out[32], const row *r)
{
    snprintf(out, 32, "%s %g%s", r->aim.kind == MOST ? "<=" : ">=", r->aim.value,
             r->aim.kind == LEAST_EACH ? " in each run" : "");
}

static void print_text(const row *r)
{
    char ours[64] = "", other[64] = "", ratio[64] = "", aim[32], verdict[64] = "";
    write_series(ours, sizeof ours, r->ours);
    if (r->other)
        write_series(other, sizeof other, r->other);
    write_series(ratio, sizeof ratio, &r->ratio);
    if (r->aim.kind != NONE) {
        write_goal(aim, r);
        snprintf(verdict, sizeof verdict, "%s: %s", aim, is_met(r) ? "met" : "MISSED");
    }
    fprintf(text, "%-62s %-22s %-22s %-20s %s\n", r->figure, ours, other, ratio, verdict);
}

/* ---- For programs ---- */

static void print_json_text(const char *key, const char *value)
{
    printf("\"%s\": \"", key);
    for (; *value; value++)
        if (*value == '"' || *value == '\\')
            printf("\\%c", *value);
        else
            putchar((unsigned char)*value < ' ' ? ' ' : *value);
    printf("\"");
}

static void print_json_series(const char *key, const series *from)
{
    spread s = series_spread(from);
    if (from->n)
        printf(", \"%s\": {\"median\": %.6g, \"least\": %.6g, \"most\": %.6g, \"runs\": %zu}", key,
               s.median, s.min, s.max, from->n);
}

static void print_json(const row *r)
{
    char aim[32];
    printf("%s\n{", rows++ ? "," : "");
    print_json_text("part", part);
    printf(", ");
    print_json_text("figure", r->figure);
    if (r->why) {
        printf(", ");
        print_json_text("note", r->why);
    } else {
        print_json_series("ours", r->ours);
        if (r->other)
            print_json_series("other", r->other);
        print_json_series("ratio", &r->ratio);
        if (r->aim.kind != NONE) {
            write_goal(aim, r);
            printf(", \"goal\": \"%s\", \"met\": %s", aim, is_met(r) ? "true" : "false");
        }
    }
    printf("}");
}

/* ---- Rows ---- */

static void print(const row *r)
{
    if (r->why)
        fprintf(text, "%-62s %s\n", r->figure, r->why);
    else
        print_text(r);
    if (has_json)
        print_json(r);
    fflush(stdout);
}

#define WRITE_FIGURE(r, figure)                                                                    \
    do {                                                                                           \
        va_list args;                                                                              \
        va_start(args, figure);                                                                    \
        vsnprintf((r).figure, sizeof(r).figure, figure, args);                                     \
        va_end(args);                                                                              \
    } while (0)

void table_row(const series *ours, goal aim, const char *figure, ...)
{
    row r = {.ours = ours, .aim = aim};
    WRITE_FIGURE(r, figure);
    print(&r);
}

void table_ratio(const series *ours, const series *other, goal aim, const char *figure, ...)
{
    row r = {.ours = ours, .other = other, .ratio = series_ratio(ours, other), .aim = aim};
    WRITE_FIGURE(r, figure);
    print(&r);
}

void table_note(const char *why, const char *figure, ...)
{
    row r = {.why = why};
    WRITE_FIGURE(r, figure);
    print(&r);
}
