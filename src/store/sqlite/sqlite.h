/* SPDX-License-Identifier: Apache-2.0 */
/* sqlite.h: opening the embedded store; called by store/open.c and by tests. */
#ifndef SQLITE_SQLITE_H
#define SQLITE_SQLITE_H

#include "store/host.h"
#include <holdfast/store.h>

/* Opens the database at path, and makes it when there is none; its folder must exist. Beside it
 * stand PATH-wal and PATH-shm, which are SQLite's, and PATH-alive, which must never be removed. A
 * read-only database is opened for listing; calls that write then return HF_READONLY. Errors:
 * HF_UNUSABLE (no database, another program's, a newer schema, another alive file), HF_READONLY,
 * HF_DENIED, HF_FULL, HF_UNREACHABLE (busy); nothing was changed then. */
hf_code sqlite_open(const char *path, const hf_store_config *config, hf_store **out, hf_error *err);

/* Where a store believes that it runs. */
typedef struct sqlite_place {
    char boot[64];    /* /proc/sys/kernel/random/boot_id: the same boot is the same machine */
    char machine[80]; /* /etc/machine-id; SQLITE_MACHINE_LOCAL where there is none */
    char clock[HOST_CLOCK_SIZE]; /* whose CLOCK_BOOTTIME is comparable; "": nobody's */
} sqlite_place;

#define SQLITE_MACHINE_LOCAL "local"

hf_code sqlite_place_here(sqlite_place *out, hf_error *err);

/* Like sqlite_open(), but as if on another boot or machine; for tests. */
hf_code sqlite_open_at(const char *path, const hf_store_config *config, const sqlite_place *place,
                       hf_store **out, hf_error *err);

#endif
