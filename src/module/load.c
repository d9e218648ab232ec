/* SPDX-License-Identifier: Apache-2.0 */
/* load.c: takes the place of the MongoDB store in the command, and loads the store from its module
 * when the first mongodb:// URI is opened. Loading libmongoc and its libraries takes longer than
 * taking a lock in SQLite. */
#include "module/file.h"
#include "module/module.h"
#include "store/mongo/mongo.h"

#include "core/error.h"
#include "core/lease.h"

#include <pthread.h>
#include <stdlib.h>

static const module_file wanted = {MODULE_FILE, MODULE_SYMBOL, "the command's part for MongoDB",
                                   "libmongoc"};
static pthread_once_t once = PTHREAD_ONCE_INIT;
static const module *loaded;
static hf_error failure; /* why there is none */

/* libmongoc sets itself up while it is loaded, or in mongo_start(); this keeps it from leaving a
 * file in /dev/shm for each process that is killed, and from warning on stderr about such files. */
static void load(void)
{
    bool is_set = getenv("MONGOC_DISABLE_SHM");
    setenv("MONGOC_DISABLE_SHM", "1", 0);
    loaded = module_load(&wanted, failure.text, sizeof failure.text);
    if (loaded)
        loaded->start();
    if (!is_set)
        unsetenv("MONGOC_DISABLE_SHM");
}

hf_code mongo_open(const char *uri, const hf_store_config *config, hf_store **out,
                   int64_t *patience_ms, hf_error *err)
{
    pthread_once(&once, load);
    if (loaded)
        return loaded->open(uri, config, out, patience_ms, err);
    return error_set(err, HF_UNUSABLE, "%s", failure.text);
}

int64_t mongo_default_ttl_ms(const char *uri)
{
    pthread_once(&once, load);
    return loaded ? loaded->default_ttl_ms(uri) : LEASE_TTL_DEFAULT_MS; /* opening it fails, too */
}
