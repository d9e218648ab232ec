/* SPDX-License-Identifier: Apache-2.0 */
/* private.h: files with secrets in them: tokens, the key of a certificate. */
#ifndef HTTPD_PRIVATE_H
#define HTTPD_PRIVATE_H

#include <holdfast/holdfast.h>
#include <stdio.h>

/* Opens for reading what this option names. HF_INVALID: it cannot be, or others can read or change
 * it. */
hf_code private_open(const char *option, const char *path, FILE **out, hf_error *err);

#endif
