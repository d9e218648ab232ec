/* SPDX-License-Identifier: Apache-2.0 */
/* indexes.c: makes the indexes of protocol `sharding`: before the acquire returns that has made a
 * lock's document, and when a client sweeps. */
#include "store/mongo/sharding/indexes.h"
#include "store/mongo/driver/command.h"
#include "store/mongo/driver/log.h"
#include "store/mongo/driver/text.h"
#include "store/mongo/sharding/calls.h"
#include "store/mongo/sharding/sharding.h"

#include <string.h>

/* As a config server has them; there they are MongoDB's own business. */
static const char of_locks[] =
    "{'indexes': [{'key': {'ts': 1}, 'name': 'ts_1'},"
    " {'key': {'state': 1, 'process': 1}, 'name': 'state_1_process_1'}]}";
static const char of_pings[] = "{'indexes': [{'key': {'ping': 1}, 'name': 'ping_1'}]}";

/* An acquire waits for it, and there is nothing to wait for where they are there already: hence the
 * primary alone. No lock depends on an index. */
static hf_code make(mongo_store *store, const char *collection, const char *text, hf_error *err)
{
    static const mongo_call call = {.what = "making the indexes", .writes = true};
    bson_t command = BSON_INITIALIZER, *indexes = pipeline_json(text);
    mongo_reply reply;
    mongo_begin(&command, "createIndexes", collection);
    bson_concat(&command, indexes);
    mongo_append_quick_write_concern(&command);
    hf_code code = mongo_run(store, &call, &command, &reply, err);
    bson_destroy(&reply.doc);
    bson_destroy(&command);
    bson_destroy(indexes);
    return code;
}

void sharding_settle_indexes(mongo_store *store)
{
    hf_error error;
    if (atomic_load(&store->sharding->has_indexes) || strcmp(store->uri.database, "config") == 0)
        return;
    hf_code code = make(store, store->uri.collection, of_locks, &error);
    if (!code)
        code = make(store, SHARDING_PINGS, of_pings, &error);
    if (code && !error.retryable)
        mongo_log(store, HF_LOG_WARNING,
                  "%.300s. Looking after many locks is slow without; an administrator can run, in "
                  "database %s: db.%s.createIndex({state: 1, process: 1})",
                  error.text, store->uri.database, store->uri.collection);
    atomic_store(&store->sharding->has_indexes, !code || !error.retryable);
}
