/* SPDX-License-Identifier: Apache-2.0 */
/* board.c: a board on which those outside a lock's queue see how far their line has been called,
 * without asking the database. It is what the alive file contains: a slot for each of the hashes of
 * names. Steps write it, and any process that may open the database could write anything there. So
 * it is a hint: who is called looks at the record, and who is not looks now and then. */
#include "core/record.h"
#include "core/table.h"
#include "store/sqlite/sqlite_internal.h"
#include "sync/mutex_scope.h"

#include <unistd.h>

#define SLOTS 1024

typedef struct slot {
    uint64_t hash; /* of the name that the number belongs to */
    int64_t called;
} slot;

static off_t place_of(uint64_t hash)
{
    return (off_t)(hash % SLOTS * sizeof(slot));
}

/* Through the descriptor of a session, which stays open: closing one that may write tells all
 * waiters that a session may have ended. */
void board_tell(sqlite_store *store, const hf_record *record)
{
    if (record->given == record->reached)
        return;
    slot it = {.hash = table_hash_text(record->name),
               .called = record_called(record, HF_QUEUE_MAX)};
    MUTEX_SCOPE(&store->mutex);
    if (!store->own)
        return;
    ssize_t n = pwrite(store->own->hold.fd, &it, sizeof it, place_of(it.hash));
    (void)n; /* they look now and then */
}

int64_t sqlite_called(hf_store *base, const char *name)
{
    slot it;
    uint64_t hash = table_hash_text(name);
    ssize_t n = pread(store_of(base)->tester, &it, sizeof it, place_of(hash));
    return n == (ssize_t)sizeof it && it.hash == hash ? it.called : 0;
}
