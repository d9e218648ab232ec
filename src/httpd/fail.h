/* SPDX-License-Identifier: Apache-2.0 */
/* fail.h: fills an hf_error with an error of the service itself. */
#ifndef HTTPD_FAIL_H
#define HTTPD_FAIL_H

#include <holdfast/holdfast.h>

/* Returns code. The text names the thing, what is wrong with it and what to do. */
hf_code fail(hf_error *err, hf_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
