/* SPDX-License-Identifier: Apache-2.0 */
/* ignored.c: finds the options of a URI that the driver ignores: it tells only its own log of them,
 * which the library turns off. Called by uri.c. */
#include "store/mongo/driver/ignored.h"
#include "core/alloc.h"
#include "store/mongo/driver/builder.h"

#include <strings.h>

/* Options that have a type of their own in the driver. */
static bool is_special(const char *name)
{
    static const char *const all[] = {
        MONGOC_URI_AUTHMECHANISM,  MONGOC_URI_AUTHMECHANISMPROPERTIES, MONGOC_URI_AUTHSOURCE,
        MONGOC_URI_COMPRESSORS,    MONGOC_URI_GSSAPISERVICENAME,       MONGOC_URI_READCONCERNLEVEL,
        MONGOC_URI_READPREFERENCE, MONGOC_URI_READPREFERENCETAGS,      MONGOC_URI_W};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcasecmp(name, all[i]) == 0)
            return true;
    return false;
}

static bool is_known(const char *name)
{
    return mongoc_uri_option_is_int32(name) || mongoc_uri_option_is_int64(name) ||
           mongoc_uri_option_is_bool(name) || mongoc_uri_option_is_utf8(name) || is_special(name);
}

static void add(mongo_builder *out, const char *what, const char *value, size_t length)
{
    builder_add_format(out, "%s%.80s", out->length ? ", " : "", what);
    if (value)
        builder_add_format(out, "=%.*s", length < 80 ? (int)length : 80, value);
}

static void add_compressors(mongo_builder *out, const char *value, const mongoc_uri_t *uri)
{
    const bson_t *used = mongoc_uri_get_compressors(uri);
    for (size_t length; (length = strcspn(value, ",")) || *value;
         value += length + !!value[length]) {
        bson_iter_t it;
        if (length && !bson_iter_init_find_w_len(&it, used, value, (int)length))
            add(out, MONGOC_URI_COMPRESSORS, value, length);
    }
}

/* item: "name=value". */
static void add_if_ignored(mongo_builder *out, char *item, const mongoc_uri_t *uri)
{
    char *value = strchr(item, '=');
    if (value)
        *value++ = '\0';
    if (!is_known(item))
        add(out, item, NULL, 0);
    else if (value && strcasecmp(item, MONGOC_URI_COMPRESSORS) == 0)
        add_compressors(out, value, uri);
}

/* What stands before the last @ may be a password. */
char *mongo_ignored_options(const char *text, const mongoc_uri_t *uri)
{
    mongo_builder out = builder_begin("");
    const char *at = strrchr(text, '@');
    const char *shown = at ? at : text;
    char *options = alloc_text(shown + strcspn(shown, "?")), *rest = NULL;
    for (char *item = strtok_r(options, "?&", &rest); item; item = strtok_r(NULL, "?&", &rest))
        add_if_ignored(&out, item, uri);
    free(options);
    if (out.length)
        return out.text;
    builder_done(&out);
    return NULL;
}
