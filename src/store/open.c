/* SPDX-License-Identifier: Apache-2.0 */
/* open.c: decides which store a URI means: one that is built in, which only this file names, or one
 * that the program has registered. The client calls it. */
#include "core/alloc.h"
#include "core/error.h"
#include "core/lease.h"
#include "store/memory/memory.h"
#include "store/mongo/mongo.h"
#include "store/sqlite/sqlite.h"
#include "sync/mutex_scope.h"

#include <stdio.h>
#include <string.h>

#define SCHEMES "sqlite:PATH, memory:, memory:NAME, mongodb://... and mongodb+srv://..."

/* ---- Stores that were registered ---- */

#define LETTERS "abcdefghijklmnopqrstuvwxyz"
#define LENGTH_MOST 32

typedef struct registered {
    struct registered *next;
    char *name;
    hf_store_open_fn open;
} registered;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static registered *stores; /* under the mutex */

static bool is_scheme(const char *name)
{
    size_t length = strspn(name, LETTERS "0123456789+-.");
    return strchr(LETTERS, name[0]) && length && length <= LENGTH_MOST && !name[length];
}

static bool is_built_in(const char *name)
{
    static const char *const names[] = {"memory", "sqlite", "mongodb", "mongodb+srv"};
    bool is = false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        is |= strcmp(name, names[i]) == 0;
    return is;
}

static const registered *find_locked(const char *name, size_t length)
{
    const registered *s = stores;
    while (s && (strlen(s->name) != length || strncmp(s->name, name, length) != 0))
        s = s->next;
    return s;
}

static hf_code check(const char *name, int version, hf_error *err)
{
    if (version != HF_STORE_VERSION)
        return error_set(
            err, HF_INVALID,
            "store scheme \"%.32s\": compiled with version %d of holdfast/store.h, this "
            "library has version %d: compile it anew",
            name, version, HF_STORE_VERSION);
    if (!is_scheme(name))
        return error_set(err, HF_INVALID,
                         "\"%.40s\" is no scheme for a store: 1 to 32 small letters, digits, '+', "
                         "'-' and '.', of which the first is a letter",
                         name);
    return HF_OK;
}

hf_code hf_store_register(const char *name, int version, hf_store_open_fn open, hf_error *err)
{
    hf_code code = check(name, version, err);
    if (code)
        return code;
    MUTEX_SCOPE(&mutex);
    if (is_built_in(name) || find_locked(name, strlen(name)))
        return error_set(err, HF_INVALID, "store scheme \"%.32s\" is known already", name);
    registered *new = alloc_zeroed(sizeof *new);
    *new = (registered){.next = stores, .name = alloc_text(name), .open = open};
    stores = new;
    return HF_OK;
}

/* How to open it, and the URI behind its scheme; NULL: nobody has registered that. */
static hf_store_open_fn find_registered(const char *uri, const char **rest)
{
    size_t length = strcspn(uri, ":");
    if (uri[length] != ':')
        return NULL;
    *rest = uri + length + 1;
    MUTEX_SCOPE(&mutex);
    const registered *found = find_locked(uri, length);
    return found ? found->open : NULL;
}

/* ---- Opening ---- */

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

static bool is_mongo(const char *uri)
{
    return after(uri, "mongodb://") || after(uri, "mongodb+srv://");
}

int64_t hf_default_ttl_ms(const char *uri)
{
    return uri && is_mongo(uri) ? mongo_default_ttl_ms(uri) : LEASE_TTL_DEFAULT_MS;
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
    if (is_mongo(uri))
        return mongo_open(uri, config, out, patience_ms, err);
    hf_store_open_fn open = find_registered(uri, &rest);
    if (open)
        return open(rest, config, out, err);
    return refuse(err, uri, "no such scheme");
}
