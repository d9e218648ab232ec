/* SPDX-License-Identifier: Apache-2.0 */
/* text.c: text for people: what may be shown, how wide it is, and times in words; called by the
 * whole command and the service. */
#include "show/text.h"

#include <inttypes.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <wchar.h>
#include <wctype.h>

void text_init(void)
{
    setlocale(LC_CTYPE, "C.UTF-8");
}

void text_no_memory(void)
{
    fputs("holdfast: out of memory\n", stderr);
    exit(70);
}

static void *need(void *memory)
{
    if (!memory)
        text_no_memory();
    return memory;
}

void *text_alloc(size_t size)
{
    return need(calloc(1, size ? size : 1));
}

void *text_wider(void *array, size_t n, size_t size)
{
    bool is_full = (n & (n - 1)) == 0; /* each time it has doubled */
    return is_full ? need(reallocarray(array, n ? 2 * n : 1, size)) : array;
}

size_t text_begin(size_t n, const char *(*name)(const void *of, size_t i), const void *of,
                  const char *prefix)
{
    size_t from = 0, to = n;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        if (strcmp(name(of, middle), prefix) < 0)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

char *text_copy(const char *text)
{
    return need(strdup(text));
}

char *text_vprint(const char *format, va_list args)
{
    char *out = NULL;
    if (vasprintf(&out, format, args) < 0)
        out = NULL;
    return need(out);
}

char *text_print(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *out = text_vprint(format, args);
    va_end(args);
    return out;
}

/* The bytes of the character that begins here and its code point; 0 if it is not UTF-8. */
static size_t decode(const char *text, wint_t *point)
{
    const unsigned char *p = (const unsigned char *)text;
    static const unsigned least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t n = p[0] < 0x80 ? 1 : p[0] < 0xc0 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
    unsigned value = n == 1 ? p[0] : p[0] & (0xffU >> (n + 1));
    if (n == 0 || p[0] > 0xf4)
        return 0;
    for (size_t i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        value = value << 6 | (p[i] & 0x3fU);
    }
    if (value < least[n] || value > 0x10ffff || (value >= 0xd800 && value < 0xe000))
        return 0;
    *point = value;
    return n;
}

bool text_is_utf8(const char *text)
{
    wint_t point;
    while (*text) {
        size_t n = decode(text, &point);
        if (n == 0)
            return false;
        text += n;
    }
    return true;
}

/* Marks that change the direction, break the line or cannot be seen. */
static bool is_trick(wint_t point)
{
    return (point >= 0x200b && point <= 0x200f) || (point >= 0x2028 && point <= 0x202e) ||
           (point >= 0x2060 && point <= 0x206f) || point == 0x61c || point == 0xfeff;
}

/* The next character of JSON that a terminal may obey; NULL: there is none. Jansson escapes those
 * below a blank. */
static const char *next_trick(const char *json, size_t *size, wint_t *point)
{
    for (; *json; json += *size) {
        *size = 1;
        if ((unsigned char)*json < 0x7f)
            continue;
        *size = decode(json, point);
        if (!*size)
            *size = 1;
        else if (is_trick(*point) || (*point >= 0x7f && *point < 0xa0))
            return json;
    }
    return NULL;
}

char *text_escape_json(char *json)
{
    size_t size;
    wint_t point;
    const char *from = json, *at = next_trick(json, &size, &point);
    if (!at)
        return json;
    char *out = text_alloc(strlen(json) * 6 + 1), *end = out;
    for (; at; at = next_trick(from, &size, &point)) {
        end += sprintf(end, "%.*s\\u%04x", (int)(at - from), from, (unsigned)point);
        from = at + size;
    }
    strcpy(end, from);
    free(json);
    return out;
}

static size_t escape_one(const char *text, char *out, size_t size)
{
    wint_t point = 0;
    size_t n = decode(text, &point);
    if (n == 0 || (n == 1 && !iswprint(point)))
        snprintf(out, size, "\\x%02x", (unsigned)(unsigned char)*text);
    else if (is_trick(point) || !iswprint(point))
        snprintf(out, size, "\\u{%x}", (unsigned)point);
    else
        snprintf(out, size, "%.*s", (int)n, text);
    return n ? n : 1;
}

char *text_escape(const char *text)
{
    char *out = text_alloc(strlen(text) * 8 + 1);
    char *end = out;
    while (*text) {
        text += escape_one(text, end, 16);
        end += strlen(end);
    }
    return out;
}

char *text_repair(const char *text)
{
    char *out = text_alloc(strlen(text) * 3 + 1);
    char *end = out;
    while (*text) {
        wint_t point;
        size_t n = decode(text, &point);
        memcpy(end, n ? text : "\xef\xbf\xbd", n ? n : 3);
        end += n ? n : 3;
        text += n ? n : 1;
    }
    return out;
}

/* The bytes of the first character; adds its columns. */
static size_t measure(const char *text, size_t *columns)
{
    wint_t point = 0;
    size_t n = decode(text, &point);
    int width = wcwidth((wchar_t)point);
    *columns += width > 0 ? (size_t)width : 0;
    return n ? n : 1;
}

size_t text_fit(const char *text, size_t columns)
{
    const char *p = text;
    size_t used = 0;
    while (*p) {
        size_t n = measure(p, &used);
        if (used > columns)
            break;
        p += n;
    }
    return (size_t)(p - text);
}

#define ELLIPSIS "\u2026"

/* The first `head` and the last `tail` columns of it, of which it has more. */
static char *keep_ends(const char *text, size_t head, size_t tail)
{
    size_t all = text_columns(text), passed = 0;
    const char *rest = text;
    while (all - passed > tail)
        rest += measure(rest, &passed);
    return text_print("%.*s" ELLIPSIS "%s", (int)text_fit(text, head), text, rest);
}

char *text_shorten(const char *text, size_t columns)
{
    if (text_columns(text) <= columns)
        return text_copy(text);
    return columns ? keep_ends(text, columns - 1, 0) : text_copy("");
}

char *text_shorten_middle(const char *text, size_t columns)
{
    if (text_columns(text) <= columns)
        return text_copy(text);
    return columns ? keep_ends(text, columns / 2, (columns - 1) / 2) : text_copy("");
}

char *text_escape_uri(const char *text)
{
    char *out = text_alloc(strlen(text) * 3 + 1), *end = out;
    for (const char *c = text; *c; c++)
        if (strchr("%&+,;=?#/ ", *c))
            end += sprintf(end, "%%%02X", (unsigned char)*c);
        else
            *end++ = *c;
    return out;
}

size_t text_columns(const char *text)
{
    size_t used = 0;
    while (*text)
        text += measure(text, &used);
    return used;
}

char *text_holder(const char *who, const char *actor)
{
    size_t length = strlen(actor);
    bool is_said = length == 0 || (strncmp(who, actor, length) == 0 && who[length] == '@');
    return text_print("%s%s%s", who, is_said ? "" : "/", is_said ? "" : actor);
}

char *text_duration(int64_t ms)
{
    const char *sign = ms < 0 ? "-" : "";
    uint64_t all = ms < 0 ? 0 - (uint64_t)ms : (uint64_t)ms;
    unsigned long long s = all / 1000, m = s / 60, h = m / 60, d = h / 24;
    if (s == 0)
        return text_print("%s%llums", sign, (unsigned long long)all);
    if (m == 0)
        return text_print("%s%llus", sign, s);
    if (h == 0)
        return text_print("%s%llum%02llus", sign, m, s % 60);
    if (d == 0)
        return text_print("%s%lluh%02llum", sign, h, m % 60);
    return text_print("%s%llud%02lluh", sign, d, h % 24);
}

/* The second that holds this moment, also before 1970, and what is left of it. */
static time_t second_of(int64_t unix_ms, int *rest_ms)
{
    int64_t rest = ((unix_ms % 1000) + 1000) % 1000;
    *rest_ms = (int)rest;
    return (time_t)((unix_ms - rest) / 1000);
}

char *text_lease(int64_t ms)
{
    if (!ms)
        return text_copy("-");
    char *left = text_duration(ms < 0 ? -ms : ms);
    char *out = text_print("%s%s", ms < 0 ? "over by " : "", left);
    free(left);
    return out;
}

char *text_token(int64_t token)
{
    return token ? text_print(", token %" PRId64, token) : text_copy("");
}

char *text_when(int64_t unix_ms)
{
    int rest;
    time_t now = time(NULL), then = second_of(unix_ms, &rest);
    struct tm here = {0}, today = {0};
    char out[64];
    localtime_r(&now, &today);
    localtime_r(&then, &here);
    bool is_today = here.tm_year == today.tm_year && here.tm_yday == today.tm_yday;
    if (!strftime(out, sizeof out, is_today ? "%H:%M:%S" : "%Y-%m-%d %H:%M:%S", &here))
        out[0] = '\0';
    return text_copy(out);
}

char *text_iso(int64_t unix_ms)
{
    int rest;
    time_t then = second_of(unix_ms, &rest);
    struct tm utc = {0};
    char out[64];
    gmtime_r(&then, &utc);
    if (!strftime(out, sizeof out, "%Y-%m-%dT%H:%M:%S", &utc))
        out[0] = '\0';
    return text_print("%s.%03dZ", out, rest);
}

int64_t text_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}
