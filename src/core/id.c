/* SPDX-License-Identifier: Apache-2.0 */
/* id.c: ids of sessions and tickets as bytes and as hexadecimal text. */
#include "core/id.h"

#include <string.h>

bool id_equal(hf_id a, hf_id b)
{
    return memcmp(a.bytes, b.bytes, sizeof a.bytes) == 0;
}

bool id_is_zero(hf_id id)
{
    return id_equal(id, (hf_id){{0}});
}

char *id_write_byte(char *to, uint8_t byte)
{
    static const char digits[] = "0123456789abcdef";
    *to++ = digits[byte >> 4];
    *to++ = digits[byte & 15];
    return to;
}

void id_write(hf_id id, char text[ID_TEXT_SIZE])
{
    for (size_t i = 0; i < sizeof id.bytes; i++)
        text = id_write_byte(text, id.bytes[i]);
    *text = '\0';
}

static int digit_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int id_read_byte(const char *from)
{
    int high = digit_value(from[0]), low = high < 0 ? -1 : digit_value(from[1]);
    return low < 0 ? -1 : high << 4 | low;
}

bool id_read(const char *text, hf_id *out)
{
    for (size_t i = 0; i < sizeof out->bytes; i++) {
        int byte = id_read_byte(text + 2 * i);
        if (byte < 0)
            return false;
        out->bytes[i] = (uint8_t)byte;
    }
    return true;
}

bool id_read_whole(const char *text, hf_id *out)
{
    return strlen(text) == ID_TEXT_SIZE - 1 && id_read(text, out) && !id_is_zero(*out);
}

uint64_t id_hash(uint64_t hash, const void *bytes, size_t n)
{
    const uint8_t *at = bytes;
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
    return hash;
}

hf_id id_of_hash(uint64_t hash)
{
    hf_id id = {{0}};
    for (size_t i = 0; i < sizeof hash; i++)
        id.bytes[4 + i] = (uint8_t)(hash >> 8 * i);
    return id;
}
