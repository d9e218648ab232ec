/* SPDX-License-Identifier: Apache-2.0 */
/* process.c: refuses the store in a forked child whose parent had one open (R11); called when a
 * store is opened and closed.
 *
 * SQLite keeps in memory which locks of a file the process has, for all connections that it opens.
 * A forked child inherits that, but none of the kernel's locks. Its own connection would therefore
 * share a log that another process removes, or would wait for what a thread of the parent's did. */
#include "core/error.h"
#include "store/sqlite/sqlite_internal.h"

#include <pthread.h>
#include <stdatomic.h>

static atomic_int stores_open; /* or being opened or closed */
static atomic_bool is_refused;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void after_fork_in_child(void)
{
    if (atomic_load(&stores_open) > 0)
        atomic_store(&is_refused, true);
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, after_fork_in_child);
}

hf_code process_enter(const char *path, hf_error *err)
{
    pthread_once(&once, watch_forks);
    if (atomic_load(&is_refused))
        return error_set(err, HF_FORKED,
                         "%s: this process was forked while its parent had an SQLite store open, "
                         "whose locks on the file it does not have: fork before the first store is "
                         "opened, or run another program",
                         path);
    atomic_fetch_add(&stores_open, 1);
    return HF_OK;
}

void process_leave(void)
{
    atomic_fetch_sub(&stores_open, 1);
}
