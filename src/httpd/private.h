/* SPDX-License-Identifier: Apache-2.0 */
/* private.h: files that options name: those with secrets in them (tokens, the key of a
 * certificate), and others. */
#ifndef HTTPD_PRIVATE_H
#define HTTPD_PRIVATE_H

#include <holdfast/holdfast.h>
#include <stdio.h>

/* Opens for reading what this option names; never waits. HF_INVALID: it cannot be opened, is no
 * regular file, or others can read or change it. */
hf_code private_open(const char *option, const char *path, FILE **out, hf_error *err);

/* The same, for what others may read. */
hf_code public_open(const char *option, const char *path, FILE **out, hf_error *err);

#endif
