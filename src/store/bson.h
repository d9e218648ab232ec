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

#endif
