/* SPDX-License-Identifier: Apache-2.0 */
/* text.h: text for people: what may be shown, how wide it is, and times in words. */
#ifndef SHOW_TEXT_H
#define SHOW_TEXT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Sets the character type, so that width and printability of UTF-8 are known in any locale. */
void text_init(void);

/* printf into new memory; the caller frees it. Ends the program when memory is out. */
char *text_print(const char *format, ...) __attribute__((format(printf, 1, 2)));
char *text_vprint(const char *format, va_list args) __attribute__((format(printf, 1, 0)));
char *text_copy(const char *text);
void *text_alloc(size_t size);
void text_no_memory(void) __attribute__((noreturn)); /* says so, and ends the program */
/* Room for one more than the n of a size that it has, each added by itself; takes the array. */
void *text_wider(void *array, size_t n, size_t size);

/* Of n names in byte order, the number of the first that does not come before the prefix. */
size_t text_begin(size_t n, const char *(*name)(const void *of, size_t i), const void *of,
                  const char *prefix);

bool text_is_utf8(const char *text);

/* A copy in which characters that do not print, or that reverse the line, are written as \x07 or
 * \u{202e}, and bytes that are not UTF-8 as \xff. */
char *text_escape(const char *text);

/* Of JSON, whose memory it takes: what can hide or reorder text is written as \u202e, which means
 * the same. */
char *text_escape_json(char *json);

/* A copy in which bytes that are not UTF-8 are U+FFFD. */
char *text_repair(const char *text);

/* A copy for the value of a key in a URI: %20 for a blank. */
char *text_escape_uri(const char *text);

/* The columns that escaped text takes on a terminal. */
size_t text_columns(const char *text);

/* How many bytes of escaped text fit into that many columns. */
size_t text_fit(const char *text, size_t columns);

/* A copy of escaped text that takes at most that many columns: "..." in one character stands for
 * its end, or for its middle, if that does not fit. */
char *text_shorten(const char *text, size_t columns);
char *text_shorten_middle(const char *text, size_t columns);

/* "cron@web1:4711/worker-3": who, and the actor behind it, unless who begins with that name, as the
 * holder of an ID lease does. */
char *text_holder(const char *who, const char *actor);

char *text_duration(int64_t ms);  /* "850ms", "12s", "2m10s", "3h05m", "4d02h" */
char *text_lease(int64_t ms);     /* what is left of one: "8s", "over by 3s", "-" for 0: unknown */
char *text_token(int64_t token);  /* ", token 17"; "" where the protocol has none */
char *text_when(int64_t unix_ms); /* here: "14:03:12", or with its date if that is another day */
char *text_iso(int64_t unix_ms);  /* "2026-01-02T03:04:05.678Z" */
int64_t text_now_ms(void);        /* Unix time */

#endif
