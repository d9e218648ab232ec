/* SPDX-License-Identifier: Apache-2.0 */
/* terminal.c: everything that the command prints on stderr, and the one line that shows a wait. The
 * whole command calls it, and the library's threads, too. */
#include "terminal.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "show/text.h"
#include "wait_line.h"

#define DEFAULT_COLUMNS 80
#define TROUBLE_AFTER_MS 1000 /* a store may be away for so long before it is said */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int level_shown;              /* guarded by lock, as all of these */
static bool has_line;                /* a wait stands on the terminal's last line */
static bool has_noted;               /* the wait was noted, where there is no terminal */
static int64_t trouble_from_ms = -1; /* since when the store is away, as waits count; -1: it is
                                      * not; INT64_MAX: it is, and that was said */
static const char *store_shown = "";

void terminal_init(int verbosity)
{
    pthread_mutex_lock(&lock);
    level_shown = verbosity;
    pthread_mutex_unlock(&lock);
}

static void put(const char *text)
{
    size_t left = strlen(text);
    while (left > 0) {
        ssize_t n = write(STDERR_FILENO, text, left);
        if (n < 0 && errno != EINTR)
            return;
        text += n > 0 ? n : 0;
        left -= n > 0 ? (size_t)n : 0;
    }
}

/* Writes one line, over the line of a wait. */
static void say(int level, const char *format, va_list args)
{
    char *raw = text_vprint(format, args);
    char *shown = text_escape(raw);
    pthread_mutex_lock(&lock);
    char *line = text_print("%sholdfast: %s\n", has_line ? "\r\033[K" : "", shown);
    if (level <= level_shown) {
        has_line = false;
        put(line);
    }
    pthread_mutex_unlock(&lock);
    free(line);
    free(shown);
    free(raw);
}

#define SAY_AT(level)                                                                              \
    va_list args;                                                                                  \
    va_start(args, format);                                                                        \
    say(level, format, args);                                                                      \
    va_end(args)

static void say_at(int level, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say_at(int level, const char *format, ...)
{
    SAY_AT(level);
}

void terminal_error(const char *format, ...)
{
    SAY_AT(-1);
}

void terminal_warn(const char *format, ...)
{
    SAY_AT(0);
}

void terminal_note(const char *format, ...)
{
    SAY_AT(1);
}

void terminal_log(void *ctx, hf_log_level level, const char *text)
{
    (void)ctx;
    say_at(level == HF_LOG_WARNING ? 0 : level == HF_LOG_INFO ? 1 : 2, "%s", text);
}

/* A terminal that understands more than lines. */
static bool is_able(int fd)
{
    const char *term = getenv("TERM");
    return isatty(fd) && term && *term && strcmp(term, "dumb") != 0;
}

bool terminal_has_colours(int fd)
{
    const char *unwanted = getenv("NO_COLOR");
    return is_able(fd) && !(unwanted && *unwanted);
}

/* Whether a line can be rewritten: the terminal can do it, and this job is in the foreground. */
static bool can_refresh(void)
{
    return is_able(STDERR_FILENO) && tcgetpgrp(STDERR_FILENO) == getpgrp();
}

static size_t width_of(int fd)
{
    struct winsize size = {0};
    if (ioctl(fd, TIOCGWINSZ, &size) < 0 || size.ws_col == 0)
        return DEFAULT_COLUMNS;
    return size.ws_col;
}

size_t terminal_columns(int fd)
{
    const char *said = getenv("COLUMNS");
    long n = said ? strtol(said, NULL, 10) : 0;
    if (!isatty(fd))
        return 0;
    return n > 0 ? (size_t)n : width_of(fd);
}

void terminal_name_store(const char *text)
{
    pthread_mutex_lock(&lock);
    store_shown = text;
    pthread_mutex_unlock(&lock);
}

static char *line_of(const hf_wait_info *info, size_t columns)
{
    pthread_mutex_lock(&lock);
    const char *store = store_shown;
    pthread_mutex_unlock(&lock);
    return wait_line(info, store, columns);
}

static bool wait_begins_locked(void)
{
    bool begins = level_shown > 0 && !has_noted;
    has_noted = has_noted || begins;
    return begins;
}

/* Once for each time that the store is away. */
static bool trouble_lasts_locked(const hf_wait_info *info)
{
    if (!*info->trouble)
        trouble_from_ms = -1;
    else if (trouble_from_ms < 0)
        trouble_from_ms = info->waited_ms;
    bool lasts = level_shown >= 0 && trouble_from_ms >= 0 &&
                 info->waited_ms - trouble_from_ms >= TROUBLE_AFTER_MS;
    if (lasts)
        trouble_from_ms = INT64_MAX;
    return lasts;
}

void terminal_wait(const hf_wait_info *info)
{
    bool is_live = can_refresh();
    char *text = line_of(info, is_live ? width_of(STDERR_FILENO) - 1 : 0);
    pthread_mutex_lock(&lock);
    bool is_note = !is_live && (wait_begins_locked() || trouble_lasts_locked(info));
    if (is_live && level_shown >= 0) {
        char *line = text_print("\r\033[K%s", text);
        put(line);
        free(line);
        has_line = true;
    }
    pthread_mutex_unlock(&lock);
    if (is_note)
        terminal_warn("%s", text);
    free(text);
}

bool terminal_shows_waits(void)
{
    pthread_mutex_lock(&lock);
    int level = level_shown;
    pthread_mutex_unlock(&lock);
    return level >= 0;
}

void terminal_wait_end(void)
{
    pthread_mutex_lock(&lock);
    if (has_line)
        put("\r\033[K");
    has_line = false;
    has_noted = false;
    trouble_from_ms = -1;
    pthread_mutex_unlock(&lock);
}
