/* SPDX-License-Identifier: Apache-2.0 */
/* indexes.c: makes the indexes of protocol `sharding`: before the acquire returns that has made a
 * lock's document, and when a client sweeps. */
#include "store/mongo/sharding/indexes.h"
#include "store/mongo/driver/log.h"
#include "store/mongo/driver/text.h"
#include "store/mongo/sharding/calls.h"
#include "store/mongo/sharding/sharding.h"
#include "store/mongo/shared/indexes.h"

#include <string.h>

/* As a config server has them; there they are MongoDB's own business. */
static const char of_locks[] =
    "{'indexes': [{'key': {'ts': 1}, 'name': 'ts_1'},"
    " {'key': {'state': 1, 'process': 1}, 'name': 'state_1_process_1'}]}";
static const char of_pings[] = "{'indexes': [{'key': {'ping': 1}, 'name': 'ping_1'}]}";

/* An acquire waits for it, and there is nothing to wait for where they are there already: hence the
 * primary alone. No lock depends on an index. */
static hf_code make(mongo_store *store, hf_error *err)
{
    static const mongo_call call = {.what = "making the indexes", .writes = true};
    const mongo_indexes locks = {.collection = store->uri.collection,
                                 .list = of_locks,
                                 .ours = PIPELINE_IS_NUMBER("state"),
                                 .is_quick = true};
    static const mongo_indexes pings = {.collection = SHARDING_PINGS,
                                        .list = of_pings,
                                        .ours = "{'$eq': [{'$type': '$ping'}, 'date']}",
                                        .is_quick = true};
    hf_code code = mongo_make_indexes(store, &call, &locks, err);
    return code ? code : mongo_make_indexes(store, &call, &pings, err);
}

static void warn_of_none(mongo_store *store, const hf_error *why)
{
    mongo_log(store, HF_LOG_WARNING,
              "%.300s. Looking after many locks is slow without; an administrator can run, in "
              "database %s: db.%s.createIndex({ts: 1}); db.%s.createIndex({state: 1, process: 1}); "
              "db." SHARDING_PINGS ".createIndex({ping: 1}), and give the user listIndexes on both",
              why->text, store->uri.database, store->uri.collection, store->uri.collection);
}

void sharding_settle_indexes(mongo_store *store)
{
    hf_error error;
    if (atomic_load(&store->sharding->has_indexes) || strcmp(store->uri.database, "config") == 0)
        return;
    hf_code code = make(store, &error);
    if (code && !error.retryable)
        warn_of_none(store, &error);
    atomic_store(&store->sharding->has_indexes, !code || !error.retryable);
}
