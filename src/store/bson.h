/* SPDX-License-Identifier: Apache-2.0 */
/* bson.h: libbson, in what versions 1 and 2 have in common. */
#ifndef STORE_BSON_H
#define STORE_BSON_H

#include <bson/bson.h>

/* Version 2 gives another name to what appends elements under whatever keys the caller gives them,
 * and deprecates this one. */
#ifdef BSON_APPEND_ARRAY_UNSAFE_BEGIN
#undef BSON_APPEND_ARRAY_BEGIN
#define BSON_APPEND_ARRAY_BEGIN BSON_APPEND_ARRAY_UNSAFE_BEGIN
#define bson_append_array_begin bson_append_array_unsafe_begin
#endif

/* A view of the document or array that stands there. False: it is neither, or its bytes are none.
 */
static inline bool bson_view_at(const bson_iter_t *it, bson_t *out)
{
    uint32_t size;
    const uint8_t *data;
    if (BSON_ITER_HOLDS_DOCUMENT(it))
        bson_iter_document(it, &size, &data);
    else if (BSON_ITER_HOLDS_ARRAY(it))
        bson_iter_array(it, &size, &data);
    else
        return false;
    return bson_init_static(out, data, size);
}

#endif
