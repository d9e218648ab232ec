/* SPDX-License-Identifier: Apache-2.0 */
/* error.h: how every layer fills the caller's hf_error. */
#ifndef CORE_ERROR_H
#define CORE_ERROR_H

#include <holdfast/holdfast.h>

/* Fills err (may be NULL) and returns code, so that a caller can `return error_set(...)`. The text
 * names the thing, what is wrong with it and what to do; it is always UTF-8. */
hf_code error_set(hf_error *err, hf_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The store could not be reached, or did not answer: worth another try until patience ends. */
bool error_is_no_answer(hf_code code);

/* Clears err; for the start of a call. */
void error_clear(hf_error *err);

#endif
