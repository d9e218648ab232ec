/* SPDX-License-Identifier: Apache-2.0 */
/* builder.h: a text that is put together from pieces. */
#ifndef STORE_MONGO_DRIVER_BUILDER_H
#define STORE_MONGO_DRIVER_BUILDER_H

#include <stddef.h>

/* The caller's, and of one thread at a time. When memory is out, the process ends. */
typedef struct mongo_builder {
    char *text;    /* ends with a NUL, and moves as it grows */
    size_t length; /* without that NUL */
    size_t room;
} mongo_builder;

mongo_builder builder_begin(const char *first);
/* Or keep `text`, and free() that. */
void builder_done(mongo_builder *builder);

void builder_add(mongo_builder *builder, const char *piece);
void builder_add_char(mongo_builder *builder, char piece);
void builder_add_bytes(mongo_builder *builder, const char *bytes, size_t n);
void builder_add_format(mongo_builder *builder, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
