/* SPDX-License-Identifier: Apache-2.0 */
/* schemes.c: remembers the stores that a program has registered (hf_store_register()); open.c opens
 * them. */
#include "store/schemes.h"

#include "core/alloc.h"
#include "core/error.h"
#include "sync/mutex_scope.h"

#include <string.h>

#define LETTERS "abcdefghijklmnopqrstuvwxyz"
#define LENGTH_MOST 32

typedef struct scheme {
    struct scheme *next;
    char *name;
    hf_store_open_fn open;
} scheme;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static scheme *schemes; /* under the mutex */

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

static const scheme *find_locked(const char *name, size_t length)
{
    const scheme *s = schemes;
    while (s && (strlen(s->name) != length || strncmp(s->name, name, length) != 0))
        s = s->next;
    return s;
}

hf_store_open_fn schemes_find(const char *uri, const char **rest)
{
    size_t length = strcspn(uri, ":");
    if (uri[length] != ':')
        return NULL;
    *rest = uri + length + 1;
    MUTEX_SCOPE(&mutex);
    const scheme *found = find_locked(uri, length);
    return found ? found->open : NULL;
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
    scheme *new = alloc_zeroed(sizeof *new);
    *new = (scheme){.next = schemes, .name = alloc_text(name), .open = open};
    schemes = new;
    return HF_OK;
}
