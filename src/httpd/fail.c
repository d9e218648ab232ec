/* SPDX-License-Identifier: Apache-2.0 */
/* fail.c: fills an hf_error with an error of the service itself. */
#include "httpd/fail.h"

#include <stdarg.h>
#include <stdio.h>

hf_code fail(hf_error *err, hf_code code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    err->code = code;
    err->retryable = hf_code_retryable(code);
    vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    return code;
}
