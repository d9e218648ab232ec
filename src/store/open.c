/* SPDX-License-Identifier: Apache-2.0 */
/* open.c: decides which store a URI means; the only place that names those that are built in. The
 * client calls it. */
#include "core/error.h"
#include "store/memory/memory.h"
#include "store/mongo/mongo.h"
#include "store/schemes.h"
#include "store/sqlite/sqlite.h"

#include <stdio.h>
#include <string.h>

#define SCHEMES "sqlite:PATH, memory:, memory:NAME, mongodb://... and mongodb+srv://..."

/* The part after the scheme, or NULL if the URI has another scheme. */
static const char *after(const char *uri, const char *scheme)
{
    size_t length = strlen(scheme);
    return strncmp(uri, scheme, length) == 0 ? uri + length : NULL;
}

/* Refuses a URI. The message shows it without user, password and options. */
static hf_code refuse(hf_error *err, const char *uri, const char *wrong)
{
    int scheme = (int)strcspn(uri, ":");
    scheme += (int)strspn(uri + scheme, ":/");
    const char *secret_end = strrchr(uri, '@');
    const char *rest = secret_end ? secret_end + 1 : uri + scheme;
    return error_set(err, HF_INVALID, "store \"%.*s%.*s\": %s; known are " SCHEMES,
                     secret_end && secret_end < uri + scheme ? 0 : scheme, uri,
                     (int)strcspn(rest, "?"), rest, wrong);
}

hf_code hf_store_open(const char *uri, const hf_store_config *config, hf_store **out,
                      int64_t *patience_ms, hf_error *err)
{
    const char *rest;
    if (!uri)
        return error_set(err, HF_INVALID, "no store given; known are " SCHEMES);
    if ((rest = after(uri, "memory:")))
        return memory_open(rest, config, out, err);
    if ((rest = after(uri, "sqlite:")))
        return *rest ? sqlite_open(rest, config, out, err) : refuse(err, uri, "no path given");
    if (after(uri, "mongodb://") || after(uri, "mongodb+srv://"))
        return mongo_open(uri, config, out, patience_ms, err);
    hf_store_open_fn open = schemes_find(uri, &rest);
    if (open)
        return open(rest, config, out, err);
    return refuse(err, uri, "no such scheme");
}
