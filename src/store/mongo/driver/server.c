/* SPDX-License-Identifier: Apache-2.0 */
/* server.c: asks the primary who it is and what its clock says, for protocol `sharding`, whose
 * rules go by that. */
#include "store/mongo/parts.h"

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
