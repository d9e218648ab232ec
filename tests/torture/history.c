/* SPDX-License-Identifier: Apache-2.0 */
/* history.c: writes the history of one client; a line that a SIGKILL cuts short is the last one. */
#include "history.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static int fd = -1;

int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_BOOTTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

bool history_open(const char *path)
{
    fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    return fd >= 0;
}

static void put(event *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(event *out, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(out->text + out->n, sizeof out->text - out->n, format, args);
    va_end(args);
    if (n < 0 || (size_t)n >= sizeof out->text - out->n)
        abort();
    out->n += (size_t)n;
}

event history_event(const char *kind)
{
    event out = {.n = 0};
    put(&out, "{\"event\":\"%s\"", kind);
    history_number(&out, "at", now_ns());
    return out;
}

void history_number(event *out, const char *key, int64_t number)
{
    put(out, ",\"%s\":%" PRId64, key, number);
}

void history_text(event *out, const char *key, const char *text)
{
    put(out, ",\"%s\":\"", key);
    for (; *text; text++) {
        if ((unsigned char)*text < ' ')
            put(out, "\\u%04x", (unsigned)*text);
        else
            put(out, *text == '"' || *text == '\\' ? "\\%c" : "%c", *text);
    }
    put(out, "\"");
}

void history_code(event *out, hf_code code, const hf_error *err)
{
    history_text(out, "code", hf_code_name(code));
    if (code)
        history_text(out, "text", err->text);
}

/* What cannot be said did not happen: the checker would take silence for good behaviour. */
void history_say(event *out)
{
    put(out, "}\n");
    if (write(fd, out->text, out->n) != (ssize_t)out->n)
        abort();
}
