/* SPDX-License-Identifier: Apache-2.0 */
/* json.c: the user's document as JSON, for the worker; shape.c calls it. No server checks that
 * texts are UTF-8, but libbson refuses to write others, so they are mended in a copy. */
#include "core/utf8.h"
#include "store/mongo/document/document.h"
#include "store/mongo/driver/builder.h"

#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

static mongo_builder mend(const char *text, size_t length)
{
    mongo_builder out = builder_begin("");
    for (size_t i = 0; i < length;) {
        size_t n = utf8_character(text + i);
        if (!n)
            builder_add(&out, REPLACEMENT);
        builder_add_bytes(&out, text + i, n);
        i += n ? n : 1;
    }
    return out;
}

static bool is_writable(const bson_iter_t *at)
{
    bson_t doc = BSON_INITIALIZER;
    bson_append_iter(&doc, "", 0, at);
    char *json = bson_as_relaxed_extended_json(&doc, NULL);
    bson_free(json);
    bson_destroy(&doc);
    return json != NULL;
}

static void append_text(bson_t *to, const char *key, const bson_iter_t *at)
{
    uint32_t length;
    const char *text = bson_iter_utf8(at, &length);
    mongo_builder mended = mend(text, length);
    bson_append_utf8(to, key, -1, mended.text, (int)mended.length);
    builder_done(&mended);
}

static bool append_all(bson_t *to, bson_iter_t *from);

static bool append_inner(bson_t *to, const char *key, const bson_iter_t *at)
{
    bson_t inner;
    bson_iter_t from;
    bool is_array = BSON_ITER_HOLDS_ARRAY(at);
    if (!bson_iter_recurse(at, &from))
        return false;
    if (is_array)
        bson_append_array_begin(to, key, -1, &inner);
    else
        bson_append_document_begin(to, key, -1, &inner);
    bool is_read = append_all(&inner, &from);
    if (is_array)
        bson_append_array_end(to, &inner);
    else
        bson_append_document_end(to, &inner);
    return is_read;
}

/* What is neither, such as code or a regular expression, is replaced as a whole. */
static bool append_mended(bson_t *to, const char *key, const bson_iter_t *at)
{
    if (BSON_ITER_HOLDS_DOCUMENT(at) || BSON_ITER_HOLDS_ARRAY(at))
        return append_inner(to, key, at);
    if (BSON_ITER_HOLDS_UTF8(at))
        append_text(to, key, at);
    else if (is_writable(at))
        bson_append_iter(to, key, -1, at);
    else
        BSON_APPEND_UTF8(to, key, REPLACEMENT);
    return true;
}

/* False: it could not be read to its end. */
static bool append_all(bson_t *to, bson_iter_t *from)
{
    bool is_read = true;
    while (is_read && bson_iter_next(from)) {
        const char *key = bson_iter_key(from);
        mongo_builder mended = mend(key, strlen(key));
        is_read = append_mended(to, mended.text, from);
        builder_done(&mended);
    }
    return is_read && !from->err_off;
}

char *mongo_document_json(const bson_t *doc)
{
    bson_iter_t it;
    char *json = bson_as_relaxed_extended_json(doc, NULL);
    if (json)
        return json;
    bson_t mended = BSON_INITIALIZER;
    if (bson_iter_init(&it, doc) && append_all(&mended, &it))
        json = bson_as_relaxed_extended_json(&mended, NULL);
    bson_destroy(&mended);
    return json;
}
