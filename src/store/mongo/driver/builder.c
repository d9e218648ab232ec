/* SPDX-License-Identifier: Apache-2.0 */
/* builder.c: puts a text together from pieces; called by the files that write templates. libbson's
 * own, bson_string_t, is deprecated in 1.29 and gone in 2.0. */
#include "store/mongo/driver/builder.h"
#include "core/alloc.h"

#include <stdarg.h>
#include <stdio.h>

#define FIRST_ROOM 64

void builder_done(mongo_builder *builder)
{
    free(builder->text);
    builder->text = NULL;
}

/* For n more bytes and the NUL. */
static void make_room(mongo_builder *builder, size_t n)
{
    size_t wanted = builder->length + n + 1;
    if (wanted <= builder->room)
        return;
    builder->room = 2 * wanted + FIRST_ROOM;
    builder->text = alloc_array(builder->text, builder->room, 1);
}

void builder_add_bytes(mongo_builder *builder, const char *bytes, size_t n)
{
    make_room(builder, n);
    memcpy(builder->text + builder->length, bytes, n);
    builder->length += n;
    builder->text[builder->length] = '\0';
}

void builder_add(mongo_builder *builder, const char *piece)
{
    builder_add_bytes(builder, piece, strlen(piece));
}

void builder_add_char(mongo_builder *builder, char piece)
{
    builder_add_bytes(builder, &piece, 1);
}

mongo_builder builder_begin(const char *first)
{
    mongo_builder builder = {.text = NULL};
    builder_add(&builder, first);
    return builder;
}

void builder_add_format(mongo_builder *builder, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    if (n < 0)
        abort();
    make_room(builder, (size_t)n);
    builder->length +=
        (size_t)vsnprintf(builder->text + builder->length, (size_t)n + 1, format, again);
    va_end(again);
    va_end(args);
}
