/* SPDX-License-Identifier: Apache-2.0 */
/* mongo.h: what the benchmarks beside a replica set share: the raw writes that we are measured
 * against, and what the primary has counted. */
#ifndef BENCH_MONGO_H
#define BENCH_MONGO_H

#include "bench.h"

#include <mongoc/mongoc.h>

static inline const char *bench_uri(void)
{
    const char *uri = getenv("HOLDFAST_TEST_URI");
    if (!uri)
        fail("HOLDFAST_TEST_URI", "is not set: run this with tests/bed/with-set.py");
    return uri;
}

/* A collection whose writes are acknowledged as ours are. */
static inline mongoc_collection_t *raw_open(mongoc_client_t *client)
{
    mongoc_collection_t *raw = mongoc_client_get_collection(client, "raw", "raw");
    mongoc_write_concern_t *concern = mongoc_write_concern_new();
    mongoc_write_concern_set_wmajority(concern, 0);
    mongoc_write_concern_set_journal(concern, true);
    mongoc_collection_set_write_concern(raw, concern);
    mongoc_write_concern_destroy(concern);
    return raw;
}

static inline void raw_put(mongoc_collection_t *raw, int id)
{
    bson_error_t error;
    bson_t *filter = BCON_NEW("_id", BCON_INT32(id));
    bson_t *update = BCON_NEW("$set", "{", "at", BCON_INT64(now_ns()), "}");
    bson_t *options = BCON_NEW("upsert", BCON_BOOL(true));
    if (!mongoc_collection_update_one(raw, filter, update, options, NULL, &error))
        fail("raw upsert", error.message);
    bson_destroy(options);
    bson_destroy(update);
    bson_destroy(filter);
}

static inline void raw_remove(mongoc_collection_t *raw, int id)
{
    bson_error_t error;
    bson_t *filter = BCON_NEW("_id", BCON_INT32(id));
    if (!mongoc_collection_delete_one(raw, filter, NULL, NULL, &error))
        fail("raw delete", error.message);
    bson_destroy(filter);
}

/* What the primary has counted so far. Writes: its commands findAndModify, update, insert, delete
 * (metrics.commands.X.total); reads: its commands find and aggregate. */
typedef struct counts {
    int64_t ns, writes, reads;
    uint32_t seconds, increment; /* operationTime */
} counts;

static inline int64_t number_at(const bson_t *doc, const char *path)
{
    bson_iter_t it, found;
    if (!bson_iter_init(&it, doc) || !bson_iter_find_descendant(&it, path, &found))
        return 0;
    return bson_iter_as_int64(&found);
}

static inline int64_t commands_in(const bson_t *status, const char *const *names)
{
    int64_t sum = 0;
    char path[80];
    for (; *names; names++) {
        snprintf(path, sizeof path, "metrics.commands.%s.total", *names);
        sum += number_at(status, path);
    }
    return sum;
}

static inline counts counts_now(mongoc_client_t *client)
{
    static const char *const writes[] = {"findAndModify", "update", "insert", "delete", NULL};
    static const char *const reads[] = {"find", "aggregate", NULL};
    bson_t reply, *command = BCON_NEW("serverStatus", BCON_INT32(1));
    bson_error_t error;
    bson_iter_t time;
    counts now = {.ns = now_ns()};
    if (!mongoc_client_command_simple(client, "admin", command, NULL, &reply, &error))
        fail("serverStatus", error.message);
    now.writes = commands_in(&reply, writes);
    now.reads = commands_in(&reply, reads);
    if (bson_iter_init_find(&time, &reply, "operationTime"))
        bson_iter_timestamp(&time, &now.seconds, &now.increment);
    bson_destroy(&reply);
    bson_destroy(command);
    return now;
}

/* How many changes of Holdfast's database are in the oplog between two counts. */
static inline int64_t oplog_between(mongoc_client_t *client, const counts *from, const counts *to)
{
    bson_error_t error;
    mongoc_collection_t *oplog = mongoc_client_get_collection(client, "local", "oplog.rs");
    bson_t *filter =
        BCON_NEW("ts", "{", "$gt", BCON_TIMESTAMP((int32_t)from->seconds, (int32_t)from->increment),
                 "$lte", BCON_TIMESTAMP((int32_t)to->seconds, (int32_t)to->increment), "}", "ns",
                 BCON_REGEX("^holdfast[.]", ""));
    int64_t n = mongoc_collection_count_documents(oplog, filter, NULL, NULL, NULL, &error);
    if (n < 0)
        fail("counting the oplog", error.message);
    bson_destroy(filter);
    mongoc_collection_destroy(oplog);
    return n;
}

#endif
