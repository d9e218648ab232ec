/* SPDX-License-Identifier: Apache-2.0 */
/* value.c: reads the value of a flag, a variable or a setting in a file, and refuses an invalid
 * one; called wherever words are read. */
#include "value.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli/terminal/terminal.h"
#include "duration.h"
#include "show/text.h"
#include "status.h"

void value_refuse(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = text_vprint(format, args);
    va_end(args);
    terminal_error("%s", text);
    exit(STATUS_VALUE);
}

int64_t value_duration(const char *option, const char *text)
{
    int64_t ms = 0;
    const char *wrong = duration_parse(text, &ms);
    if (wrong)
        value_refuse("%s: \"%s\" %s", option, text, wrong);
    return ms;
}

int64_t value_number(const char *option, const char *text, int64_t least, int64_t most)
{
    char *end = NULL;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    bool is_number = strchr("-0123456789", *text) && *text && !*end && end != text;
    if (!is_number)
        value_refuse("%s: \"%s\" is not a number", option, text);
    if (errno || value < least || value > most)
        value_refuse("%s: %s is out of range: %lld to %lld", option, text, (long long)least,
                     (long long)most);
    return value;
}
