/* SPDX-License-Identifier: Apache-2.0 */
/* text.h: what names and texts from outside must be like. */
#ifndef CORE_TEXT_H
#define CORE_TEXT_H

#include <holdfast/store.h>

bool text_is_utf8(const char *text);

/* How many bytes the first character of a text takes, which is not empty; 0: it is not UTF-8. */
size_t text_character(const char *text);

/* HF_INVALID with the reason unless it is a name: UTF-8, 1 to HF_NAME_MAX bytes. */
hf_code text_check_name(const char *name, hf_error *err);

/* HF_INVALID unless text is NULL, or UTF-8 of at most max bytes; what: "why", "reason" ... */
hf_code text_check(const char *what, const char *text, size_t max, hf_error *err);

#endif
