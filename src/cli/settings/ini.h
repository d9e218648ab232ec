/* SPDX-License-Identifier: Apache-2.0 */
/* ini.h: a file of settings: sections, keys and values. */
#ifndef HOLDFAST_CLI_INI_H
#define HOLDFAST_CLI_INI_H

#include <stdio.h>

typedef struct ini_line {
    const char *path;
    int number;
    const char *section; /* "" before the first one */
    const char *key, *value;
} ini_line;

/* Called for each line with a key; its strings are valid during the call. */
typedef void ini_fn(void *ctx, const ini_line *line);

/* Reads "[section]" and "key = value"; a comment, # or ;, has a line of its own, so that a value
 * may hold both. Any other line ends the program with a message, as ini_refuse() does. */
void ini_read(FILE *file, const char *path, ini_fn *each, void *ctx);

/* Ends the program with "PATH:LINE: " and the message, and STATUS_VALUE. */
void ini_refuse(const ini_line *line, const char *format, ...)
    __attribute__((format(printf, 2, 3), noreturn));

#endif
