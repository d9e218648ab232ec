/* SPDX-License-Identifier: Apache-2.0 */
/* utf8.c: decides what is UTF-8; called wherever a text comes from outside. */
#include "core/utf8.h"

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

size_t utf8_character(const char *text)
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

void utf8_end_whole(char *text)
{
    while (*text) {
        size_t length = utf8_character(text);
        if (!length)
            *text = '\0';
        text += length;
    }
}

bool utf8_is_valid(const char *text)
{
    while (*text) {
        size_t length = utf8_character(text);
        if (length == 0)
            return false;
        text += length;
    }
    return true;
}
