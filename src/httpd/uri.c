/* SPDX-License-Identifier: Apache-2.0 */
/* uri.c: decodes percent-encoding in a URI. microhttpd's own function takes %00 for the end, and
 * leaves invalid encodings unchanged. */
#include "httpd/uri.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "show/text.h"

static int digit(char c)
{
    return isdigit((unsigned char)c) ? c - '0' : tolower((unsigned char)c) - 'a' + 10;
}

/* The character that %XX stands for; 0: none. */
static char decode(const char *text)
{
    if (!isxdigit((unsigned char)text[1]) || !isxdigit((unsigned char)text[2]))
        return '\0';
    return (char)(digit(text[1]) << 4 | digit(text[2]));
}

char *uri_decode(const char *text)
{
    char *out = text_alloc(strlen(text) + 1), *end = out;
    while (*text) {
        bool is_encoded = *text == '%';
        char c = is_encoded ? decode(text) : *text;
        if (!c) {
            free(out);
            return NULL;
        }
        *end++ = c;
        text += is_encoded ? 3 : 1;
    }
    return out;
}
