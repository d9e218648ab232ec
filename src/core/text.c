/* SPDX-License-Identifier: Apache-2.0 */
/* text.c: decides what may be a name or a text; called by the client before anything is sent. */
#include "core/text.h"

#include "core/error.h"

#include <string.h>

/* How many bytes follow a first byte, or -1; RFC 3629. */
static int followers(unsigned char c)
{
    if (c < 0x80)
        return 0;
    if (c >= 0xC2 && c <= 0xDF)
        return 1;
    if (c >= 0xE0 && c <= 0xEF)
        return 2;
    return c >= 0xF0 && c <= 0xF4 ? 3 : -1;
}

/* Overlong forms, surrogates and what lies beyond U+10FFFF show in the second byte. */
static bool is_second_byte(unsigned char first, unsigned char second)
{
    unsigned char low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
    unsigned char high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
    return second >= low && second <= high;
}

size_t text_character(const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    int n = followers(at[0]);
    if (n < 0 || (n > 0 && !is_second_byte(at[0], at[1])))
        return 0;
    for (int i = 2; i <= n; i++)
        if ((at[i] & 0xC0) != 0x80)
            return 0;
    return (size_t)n + 1;
}

bool text_is_utf8(const char *text)
{
    while (*text) {
        size_t length = text_character(text);
        if (length == 0)
            return false;
        text += length;
    }
    return true;
}

hf_code text_check_name(const char *name, hf_error *err)
{
    if (!name || !name[0])
        return error_set(err, HF_INVALID, "the lock's name is empty: give 1 to %d bytes",
                         HF_NAME_MAX);
    return text_check("the lock's name", name, HF_NAME_MAX, err);
}

hf_code text_check(const char *what, const char *text, size_t max, hf_error *err)
{
    if (!text)
        return HF_OK;
    if (strlen(text) > max)
        return error_set(err, HF_INVALID,
                         "%s is %zu bytes long: at most %zu are allowed (%.40s...)", what,
                         strlen(text), max, text_is_utf8(text) ? text : "");
    if (!text_is_utf8(text))
        return error_set(err, HF_INVALID, "%s is not valid UTF-8", what);
    return HF_OK;
}
