/* SPDX-License-Identifier: Apache-2.0 */
/* duration.c: reads a length of time as people write it; called for every option that takes one. */
#include "duration.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define LONGEST_MS (INT64_C(876000) * 3600 * 1000) /* a hundred years: sums of it fit */

static const char shape[] =
    "is not a duration: write 500ms, 10s, 2m, 1h, 7d, or seconds such as 1.5";

/* One unit in ms; 0: no such unit. */
static int64_t unit_of(const char *text)
{
    static const struct {
        const char *name;
        int64_t ms;
    } units[] = {{"", 1000}, {"s", 1000}, {"ms", 1}, {"m", 60000}, {"h", 3600000}, {"d", 86400000}};
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (!strcmp(text, units[i].name))
            return units[i].ms;
    return 0;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Adds digits to *value. Once out of range, it stays so. */
static const char *whole(const char *p, int64_t *value)
{
    for (; is_digit(*p); p++)
        *value = *value > LONGEST_MS ? *value : *value * 10 + (*p - '0');
    return p;
}

/* The digits after the point in billionths; a rest that is not 0 counts as one more. */
static const char *billionths(const char *p, int64_t *value)
{
    int64_t scale = 100000000;
    bool has_rest = false;
    for (; is_digit(*p); p++) {
        *value += (*p - '0') * scale;
        has_rest = has_rest || (scale == 0 && *p != '0');
        scale /= 10;
    }
    *value += has_rest;
    return p;
}

const char *duration_parse(const char *text, int64_t *out_ms)
{
    int64_t count = 0, part = 0;
    if (*text == '-' && is_digit(text[1]))
        return "is negative";
    const char *p = whole(text, &count);
    if (*p == '.' && is_digit(p[1]))
        p = billionths(p + 1, &part);
    int64_t unit = unit_of(p);
    if (p == text || unit == 0)
        return shape;
    if (count > LONGEST_MS / unit)
        return "is too long: at most 876000h";
    *out_ms = count * unit + (part * unit + 999999999) / 1000000000;
    return NULL;
}
