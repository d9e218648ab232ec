/* SPDX-License-Identifier: Apache-2.0 */
/* error.c: the functions of the error table, and those that fill an hf_error; called from every
 * layer. */
#include "core/error.h"

#include "core/utf8.h"

#include <stdarg.h>
#include <stdio.h>

typedef struct row {
    const char *name, *text;
    int http, exit_status;
    bool retryable;
} row;

static const row rows[] = {
#define X(name, number, text, http, exit_status, retryable)                                        \
    [number] = {#name, text, http, exit_status, retryable},
    HF_CODE_TABLE(X)
#undef X
};

static const row *row_of(hf_code code)
{
    size_t i = (size_t)code;
    return i < sizeof rows / sizeof rows[0] ? &rows[i] : &rows[HF_INTERNAL];
}

const char *hf_version(void)
{
    return HF_VERSION;
}

const char *hf_code_name(hf_code code)
{
    return row_of(code)->name;
}

const char *hf_code_text(hf_code code)
{
    return row_of(code)->text;
}

int hf_code_http(hf_code code)
{
    return row_of(code)->http;
}

int hf_code_exit(hf_code code)
{
    return row_of(code)->exit_status;
}

bool hf_code_retryable(hf_code code)
{
    return row_of(code)->retryable;
}

bool error_is_no_answer(hf_code code)
{
    return code == HF_UNREACHABLE || code == HF_UNKNOWN;
}

/* Leaves out bytes that are not UTF-8: a name may have been cut short, and a database may say
 * anything. */
static void scrub(char *text)
{
    char *to = text;
    while (*text) {
        size_t length = utf8_character(text);
        for (size_t i = 0; i < length; i++)
            *to++ = text[i];
        text += length ? length : 1;
    }
    *to = '\0';
}

hf_code error_set(hf_error *err, hf_code code, const char *format, ...)
{
    if (!err)
        return code;
    va_list args;
    va_start(args, format);
    err->code = code;
    err->retryable = hf_code_retryable(code);
    vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    scrub(err->text);
    return code;
}

void error_clear(hf_error *err)
{
    if (err)
        *err = (hf_error){.code = HF_OK};
}
