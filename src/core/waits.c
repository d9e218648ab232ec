/* SPDX-License-Identifier: Apache-2.0 */
/* waits.c: writes and reads what a session says about its long waits; see waits.h. */
#include "core/waits.h"

#include "core/alloc.h"
#include "core/id.h"

#include <stdio.h>

#define NUMBER_MOST (UINT64_C(1) << 53)
#define ITEM_SIZE (ID_TEXT_SIZE + HF_NAME_MAX + 8)

/* ---- Writing ---- */

static size_t write_item(char *out, size_t size, const waits_item *item)
{
    char ticket[ID_TEXT_SIZE];
    id_write(item->ticket, ticket);
    return (size_t)snprintf(out, size, "%s %zu:%s", ticket, strlen(item->name), item->name);
}

static size_t write_place(char *out, size_t size, const waits_entry *entry)
{
    if (!entry->number)
        return 0;
    return (size_t)snprintf(out, size, "+%lld %d ", (long long)entry->number, (int)entry->permits);
}

bool waits_write(char **text, const waits_entry *entry)
{
    size_t used = *text ? strlen(*text) : 0, most = (entry->n_holds + 1) * ITEM_SIZE + 64;
    char *line = alloc_array(NULL, most, 1);
    size_t n = write_place(line, most, entry);
    n += write_item(line + n, most - n, &entry->on);
    n += (size_t)snprintf(line + n, most - n, " %zu", entry->n_holds);
    for (size_t i = 0; i < entry->n_holds; i++) {
        line[n++] = ' ';
        n += write_item(line + n, most - n, &entry->holds[i]);
    }
    line[n++] = '\n';
    bool fits = used + n <= WAITS_TEXT_MAX;
    if (fits) {
        *text = alloc_array(*text, used + n + 1, 1);
        memcpy(*text + used, line, n);
        (*text)[used + n] = '\0';
    }
    free(line);
    return fits;
}

char *waits_items_write(const waits_items *items)
{
    size_t most = items->n * (ITEM_SIZE + 1) + 1, n = 0;
    char *out = alloc_array(NULL, most, 1);
    out[0] = '\0';
    for (size_t i = 0; i < items->n; i++) {
        if (i)
            out[n++] = ' ';
        n += write_item(out + n, most - n, &items->of[i]);
    }
    return out;
}

/* ---- Reading ---- */

static bool read_number(const char **at, char end, uint64_t most, uint64_t *out)
{
    uint64_t n = 0;
    const char *from = *at;
    for (; **at >= '0' && **at <= '9' && n <= most; ++*at)
        n = 10 * n + (uint64_t)(**at - '0');
    *out = n;
    return *at > from && n <= most && *(*at)++ == end;
}

static bool read_name(const char **at, char name[HF_NAME_MAX + 1])
{
    uint64_t n;
    if (!read_number(at, ':', HF_NAME_MAX, &n) || strnlen(*at, (size_t)n) < n)
        return false;
    memcpy(name, *at, (size_t)n);
    name[n] = '\0';
    *at += n;
    return true;
}

static bool read_item(const char **at, waits_item *out)
{
    if (!id_read(*at, &out->ticket) || (*at)[ID_TEXT_SIZE - 1] != ' ')
        return false;
    *at += ID_TEXT_SIZE;
    return read_name(at, out->name);
}

static bool read_holds(const char **at, waits_entry *out)
{
    for (size_t i = 0; i < out->n_holds; i++)
        if (*(*at)++ != ' ' || !read_item(at, &out->holds[i]))
            return false;
    return *(*at)++ == '\n';
}

static bool read_place(const char **at, waits_entry *out)
{
    uint64_t number, permits;
    if (**at != '+')
        return true;
    ++*at;
    if (!read_number(at, ' ', NUMBER_MOST, &number) || !read_number(at, ' ', HF_LIMIT_RW, &permits))
        return false;
    out->number = (int64_t)number;
    out->permits = (int32_t)permits;
    return true;
}

static bool read_entry(const char **at, waits_entry *out)
{
    *out = (waits_entry){.n_holds = 0};
    if (!read_place(at, out) || !read_item(at, &out->on) || *(*at)++ != ' ')
        return false;
    const char *count = *at;
    uint64_t n;
    while (**at >= '0' && **at <= '9')
        ++*at;
    if (!read_number(&count, **at, WAITS_HOLDS_MAX, &n))
        return false;
    out->n_holds = (size_t)n;
    out->holds = alloc_array(NULL, out->n_holds, sizeof *out->holds);
    if (read_holds(at, out))
        return true;
    free(out->holds);
    return false;
}

size_t waits_read(const char *text, waits_entry **out)
{
    waits_entry entry;
    size_t n = 0;
    *out = NULL;
    while (*text && read_entry(&text, &entry)) {
        *out = alloc_array(*out, n + 1, sizeof **out);
        (*out)[n++] = entry;
    }
    return n;
}

void waits_free(waits_entry *entries, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(entries[i].holds);
    free(entries);
}

waits_items waits_items_read(const char *text)
{
    waits_items out = {NULL, 0};
    bool goes_on = *text;
    while (goes_on && out.n < WAITS_HOLDS_MAX) {
        out.of = alloc_array(out.of, out.n + 1, sizeof *out.of);
        goes_on = read_item(&text, &out.of[out.n]);
        out.n += goes_on;
        goes_on = goes_on && *text++ == ' ';
    }
    return out;
}
