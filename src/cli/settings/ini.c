/* SPDX-License-Identifier: Apache-2.0 */
/* ini.c: reads a file of settings, line by line; config.c calls it. */
#include "ini.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "show/text.h"
#include "value.h"

#define BLANKS " \t\r\n"

void ini_refuse(const ini_line *line, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = text_vprint(format, args);
    va_end(args);
    value_refuse("%s:%d: %s", line->path, line->number, text);
}

/* Without the blanks around it, in place. */
static char *trim(char *text)
{
    text += strspn(text, BLANKS);
    size_t n = strlen(text);
    while (n && strchr(BLANKS, text[n - 1]))
        n--;
    text[n] = '\0';
    return text;
}

/* The name between the brackets, in new memory. */
static char *section_of(const ini_line *line, char *text)
{
    char *end = strchr(text, ']');
    if (!end || end[1])
        ini_refuse(line, "this is no section: write [NAME]");
    *end = '\0';
    return text_copy(trim(text + 1));
}

static void read_pair(ini_line *line, char *text, ini_fn *each, void *ctx)
{
    char *sign = strchr(text, '=');
    if (!sign || sign == text)
        ini_refuse(line, "this is no setting: write KEY = VALUE");
    *sign = '\0';
    line->key = trim(text);
    line->value = trim(sign + 1);
    each(ctx, line);
}

void ini_read(FILE *file, const char *path, ini_fn *each, void *ctx)
{
    ini_line line = {.path = path};
    char *section = text_copy(""), *raw = NULL;
    size_t size = 0;
    while (getline(&raw, &size, file) >= 0) {
        char *text = trim(raw);
        line.number++;
        line.section = section;
        if (*text == '[') {
            free(section);
            section = section_of(&line, text);
        } else if (*text && *text != '#' && *text != ';') {
            read_pair(&line, text, each, ctx);
        }
    }
    if (ferror(file))
        value_refuse("%s cannot be read to its end: %s", path, strerror(errno));
    free(section);
    free(raw);
}
