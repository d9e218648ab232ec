/* SPDX-License-Identifier: Apache-2.0 */
/* plugin.c: loads a store that is not the library's: a shared object with a function
 * holdfast_store(), which calls hf_store_register(). This program's own library answers that call,
 * whatever the shared object was linked with. */
#include "conformance/bed.h"

#include <dlfcn.h>

#define LOADED "HOLDFAST_CONFORMANCE_STORE" /* for child processes: the same file */

typedef hf_code register_fn(hf_error *err);

static void give_up(const char *path, const char *why)
{
    fprintf(stderr, "conformance: %s: %s\n", path, why);
    exit(64);
}

/* ISO C has no conversion from an object's address to a function's. */
static register_fn *find(void *file, const char *path)
{
    register_fn *found = NULL;
    void *symbol = dlsym(file, "holdfast_store");
    if (!symbol)
        give_up(path, "has no function holdfast_store(): see docs/stores.md");
    memcpy(&found, &symbol, sizeof found);
    return found;
}

void plugin_load(const char *path)
{
    hf_error err;
    void *file = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!file)
        give_up(path, dlerror());
    if (find(file, path)(&err))
        give_up(path, err.text);
    bed.is_loaded = true;
    setenv(LOADED, path, 1);
}

void plugin_load_again(void)
{
    const char *path = getenv(LOADED);
    if (path)
        plugin_load(path);
}
