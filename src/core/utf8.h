/* SPDX-License-Identifier: Apache-2.0 */
/* utf8.h: what is UTF-8. */
#ifndef CORE_UTF8_H
#define CORE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

bool utf8_is_valid(const char *text);

/* How many bytes the first character of a text takes, which is not empty; 0: it is not UTF-8. */
size_t utf8_character(const char *text);

/* Ends a text before its first byte that is not UTF-8: a character may have been cut in two. */
void utf8_end_whole(char *text);

#endif
