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

void id_write(hf_id id, char text[ID_TEXT_SIZE])
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < sizeof id.bytes; i++) {
        text[2 * i] = digits[id.bytes[i] >> 4];
        text[2 * i + 1] = digits[id.bytes[i] & 15];
    }
    text[ID_TEXT_SIZE - 1] = '\0';
}

static int digit_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool id_read(const char *text, hf_id *out)
{
    for (size_t i = 0; i < sizeof out->bytes; i++) {
        int high = digit_value(text[2 * i]);
        int low = high < 0 ? -1 : digit_value(text[2 * i + 1]);
        if (low < 0)
            return false;
        out->bytes[i] = (uint8_t)(high << 4 | low);
    }
    return true;
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
    memcpy(id.bytes + 4, &hash, sizeof hash);
    return id;
}
