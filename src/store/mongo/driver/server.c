/* SPDX-License-Identifier: Apache-2.0 */
/* server.c: finds out, once, what kind of server there is, and whether it belongs to the set that
 * the URI names. Also reads the server's status for protocol `sharding`, whose rules depend on
 * which server is primary and what its clock says. */
#include "store/mongo/driver/server.h"
#include "core/error.h"
#include "store/mongo/driver/command.h"
#include "store/mongo/driver/fault.h"
#include "store/mongo/driver/pool.h"
#include "store/mongo/driver/reply.h"
#include "store/mongo/driver/set.h"

#define WIRE_4_2 8 /* the first server with update pipelines and $$NOW */

/* ---- What kind of server ---- */

static hf_code refuse_old(const mongo_store *store, hf_error *err)
{
    return error_set(err, HF_UNUSABLE,
                     "mongodb at %s is too old: Holdfast needs MongoDB 4.2 or later",
                     store->uri.hosts);
}

static hf_code note_server(mongo_store *store, const mongoc_server_description_t *server,
                           hf_error *err)
{
    const char *type = mongoc_server_description_type(server);
    int64_t wire =
        mongo_int_at(mongoc_server_description_hello_response(server), "maxWireVersion", 0);
    mongo_topology topology = strcmp(type, "Standalone") == 0 ? MONGO_ALONE
                              : strncmp(type, "RS", 2) == 0   ? MONGO_SET
                                                              : MONGO_ROUTER;
    if (wire && wire < WIRE_4_2)
        return refuse_old(store, err);
    atomic_store(&store->wire, (int)wire);
    atomic_store(&store->topology, topology);
    return HF_OK;
}

/* Nobody is there, or is trusted, or they belong to another set than the URI names. */
static hf_code refuse_found(mongo_store *store, const mongo_call *call,
                            const mongo_connection *connection, const bson_error_t *error,
                            hf_error *err)
{
    hf_code code = mongo_other_set(store, err);
    if (code)
        return code;
    return mongo_connection_is_untrusted(connection) ? mongo_untrusted(store, call, error, err)
                                                     : mongo_fault(store, call, error, NULL, err);
}

hf_code mongo_ready(mongo_store *store, hf_error *err)
{
    static const mongo_call call = {.what = "connecting"};
    bson_error_t error;
    if (atomic_load(&store->topology) != MONGO_UNSEEN)
        return HF_OK;
    mongo_connection *connection;
    hf_code code = mongo_pool_take(store, &store->work, &call, &connection, err);
    if (code)
        return code;
    mongoc_server_description_t *server =
        mongoc_client_select_server(connection->client, true, NULL, &error);
    if (!server)
        mongo_connection_explain(connection, &error);
    code = server ? note_server(store, server, err)
                  : refuse_found(store, &call, connection, &error, err);
    mongoc_server_description_destroy(server);
    mongo_pool_give(store, &store->work, &call, connection, code != HF_OK);
    return code;
}

hf_code mongo_connect(hf_store *base, hf_error *err)
{
    return mongo_ready((mongo_store *)base, err);
}

mongo_topology mongo_topology_of(mongo_store *store)
{
    return (mongo_topology)atomic_load(&store->topology);
}

/* ---- Its status ---- */

static const char *const dear_sections[] = {
    "asserts",
    "catalogStats",
    "connections",
    "defaultRWConcern",
    "electionMetrics",
    "extra_info",
    "flowControl",
    "freeMonitoring",
    "globalLock",
    "indexBulkBuilder",
    "indexStats",
    "locks",
    "logicalSessionRecordCache",
    "mem",
    "metrics",
    "mirroredReads",
    "network",
    "opLatencies",
    "opReadConcernCounters",
    "opcounters",
    "opcountersRepl",
    "oplogTruncation",
    "readConcernCounters",
    "readPreferenceCounters",
    "repl.replicationProgress",
    "scramCache",
    "security",
    "shardedIndexConsistency",
    "sharding",
    "storageEngine",
    "tcmalloc",
    "tenantMigrations",
    "trafficRecording",
    "transactions",
    "transportSecurity",
    "twoPhaseCommitCoordinator",
    "watchdog",
    "wiredTiger",
};

void mongo_append_server_status(bson_t *command)
{
    BSON_APPEND_INT32(command, "serverStatus", 1);
    for (size_t i = 0; i < sizeof dear_sections / sizeof dear_sections[0]; i++)
        BSON_APPEND_INT32(command, dear_sections[i], 0);
}
