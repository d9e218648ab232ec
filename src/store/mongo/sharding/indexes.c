/* SPDX-License-Identifier: Apache-2.0 */
/* indexes.c: makes the indexes of protocol `sharding`: before the acquire returns that has made a
 * lock's document, and when a client sweeps. */
#include "store/mongo/sharding/indexes.h"
#include "store/mongo/driver/builder.h"
#include "store/mongo/driver/command.h"
#include "store/mongo/driver/log.h"
#include "store/mongo/driver/text.h"
#include "store/mongo/sharding/calls.h"
#include "store/mongo/sharding/sharding.h"

#include <string.h>

/* As a config server has them; there they are MongoDB's own business. */
static const char *const indexes[][2] = {
    {"locks", "[{'key': {'ts': 1}, 'name': 'ts_1'},"
              " {'key': {'state': 1, 'process': 1}, 'name': 'state_1_process_1'}]"},
    {SHARDING_PINGS, "[{'key': {'ping': 1}, 'name': 'ping_1'}]"},
};

/* An acquire waits for it, and where they are there already nothing is to be waited for. No lock
 * rests on an index. */
static void append_one_server(bson_t *command)
{
    bson_t concern;
    BSON_APPEND_DOCUMENT_BEGIN(command, "writeConcern", &concern);
    BSON_APPEND_INT32(&concern, "w", 1);
    bson_append_document_end(command, &concern);
}

static hf_code make_index(mongo_store *store, const char *collection, const char *text,
                          hf_error *err)
{
    static const mongo_call call = {.what = "making the indexes", .writes = true};
    bson_t command = BSON_INITIALIZER;
    mongo_reply reply;
    mongo_builder wrapped = builder_begin("");
    builder_add_format(&wrapped, "{'indexes': %s}", text);
    bson_t *rest = pipeline_json(wrapped.text);
    mongo_begin(&command, "createIndexes", collection);
    bson_concat(&command, rest);
    append_one_server(&command);
    hf_code code = mongo_run(store, &call, &command, &reply, err);
    bson_destroy(&reply.doc);
    bson_destroy(&command);
    bson_destroy(rest);
    builder_done(&wrapped);
    return code;
}

void sharding_settle_indexes(mongo_store *store)
{
    hf_error error;
    if (atomic_load(&store->sharding->has_indexes) || strcmp(store->uri.database, "config") == 0)
        return;
    hf_code code = make_index(store, store->uri.collection, indexes[0][1], &error);
    if (!code)
        code = make_index(store, SHARDING_PINGS, indexes[1][1], &error);
    if (code && !error.retryable)
        mongo_log(store, HF_LOG_WARNING,
                  "%.300s. Looking after many locks is slow without; an administrator can run, in "
                  "database %s: db.%s.createIndex({state: 1, process: 1})",
                  error.text, store->uri.database, store->uri.collection);
    atomic_store(&store->sharding->has_indexes, !code || !error.retryable);
}
