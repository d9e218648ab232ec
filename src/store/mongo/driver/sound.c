/* SPDX-License-Identifier: Apache-2.0 */
/* sound.c: looks at a reply before the driver does; checked.c calls it for each. */
#include "store/mongo/driver/sound.h"
#include "store/bson.h"

#include <string.h>

/* Where in a message, without its length: the opcode, the flags, the kind of its first part, that
 * part; and the document of an older message. */
enum { OPCODE = 8, FLAGS = 12, KIND = 16, BODY = 17, OLD_BODY = 32 };

#define OP_REPLY 1
#define MUST_KNOW 0xffffu /* flags that change what follows */

uint32_t mongo_number_in(const uint8_t at[4])
{
    uint32_t number;
    memcpy(&number, at, sizeof number);
    return BSON_UINT32_FROM_LE(number);
}

static bool is_container(const bson_iter_t *it)
{
    return BSON_ITER_HOLDS_DOCUMENT(it) || BSON_ITER_HOLDS_ARRAY(it);
}

/* Whether each element can be read, and each document in it be viewed. */
static bool are_whole(const bson_t *doc)
{
    bson_iter_t it;
    bson_t inner;
    if (!bson_iter_init(&it, doc))
        return false;
    while (bson_iter_next(&it))
        if (is_container(&it) && !bson_view_at(&it, &inner))
            return false;
    return !it.err_off;
}

/* The driver reads the name of the cursor's collection as text, and each document of a batch. */
static bool is_cursor_sound(const bson_t *cursor)
{
    bson_iter_t it;
    bson_t batch;
    if (!are_whole(cursor))
        return false;
    if (bson_iter_init_find(&it, cursor, "ns") && !BSON_ITER_HOLDS_UTF8(&it))
        return false;
    bson_iter_init(&it, cursor);
    while (bson_iter_next(&it))
        if (BSON_ITER_HOLDS_ARRAY(&it) && bson_view_at(&it, &batch) && !are_whole(&batch))
            return false;
    return true;
}

/* The driver asserts that the number of an error is not 0 when cut to 32 bits. */
static bool is_error_number(const bson_iter_t *it)
{
    if (!BSON_ITER_HOLDS_DOUBLE(it))
        return !BSON_ITER_HOLDS_NUMBER(it) || (uint32_t)bson_iter_as_int64(it);
    double number = bson_iter_double(it);
    return number > INT32_MIN && number < INT32_MAX && (int32_t)number;
}

/* Until 1.26 the driver asserts that it is no plain value. */
static bool is_concern_sound(const bson_iter_t *it)
{
    bson_iter_t code;
    bson_t error;
    if (!bson_view_at(it, &error))
        return false;
    return !bson_iter_init_find(&code, &error, "code") || is_error_number(&code);
}

/* What a server says that it can do. */
static bool are_names(const bson_iter_t *it)
{
    bson_iter_t each;
    bson_t all;
    if (!BSON_ITER_HOLDS_ARRAY(it))
        return true;
    if (!bson_view_at(it, &all) || !bson_iter_init(&each, &all))
        return false;
    while (bson_iter_next(&each))
        if (!BSON_ITER_HOLDS_UTF8(&each))
            return false;
    return true;
}

static bool is_field_sound(const bson_iter_t *it)
{
    const char *key = bson_iter_key(it);
    bson_t cursor;
    if (strcmp(key, "code") == 0)
        return is_error_number(it);
    if (strcmp(key, "writeConcernError") == 0)
        return is_concern_sound(it);
    if (strcmp(key, "compression") == 0)
        return are_names(it);
    if (strcmp(key, "speculativeAuthenticate") == 0)
        return BSON_ITER_HOLDS_DOCUMENT(it);
    if (strcmp(key, "cursor") == 0 && BSON_ITER_HOLDS_DOCUMENT(it))
        return bson_view_at(it, &cursor) && is_cursor_sound(&cursor);
    return true;
}

static bool is_body_sound(const uint8_t *data, size_t size)
{
    bson_iter_t it;
    bson_t body;
    if (!bson_init_static(&body, data, size) || !are_whole(&body))
        return false;
    bson_iter_init(&it, &body);
    while (bson_iter_next(&it))
        if (!is_field_sound(&it))
            return false;
    return true;
}

bool mongo_reply_is_sound(const uint8_t *rest, size_t size, bool is_command)
{
    if (!is_command && size > OLD_BODY && mongo_number_in(rest + OPCODE) == OP_REPLY)
        return is_body_sound(rest + OLD_BODY, size - OLD_BODY);
    return size > BODY && mongo_number_in(rest + OPCODE) == MONGO_OP_MSG &&
           !(mongo_number_in(rest + FLAGS) & MUST_KNOW) && rest[KIND] == 0 &&
           is_body_sound(rest + BODY, size - BODY);
}
