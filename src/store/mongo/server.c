/* SPDX-License-Identifier: Apache-2.0 */
/* server.c: asks the primary who it is and what its clock says, and judges by it sessions that are
 * long overdue (R6); called by session.c and doctor.c. */
#include "core/error.h"
#include "core/id.h"
#include "core/plant.h"
#include "store/mongo/parts.h"

#define DAY_MS 86400000
#define STEP_MS 5000 /* a server's clock that moved by more was set */
#define UNAUTHORIZED 13

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

static void read_server(const bson_t *status, mongo_server *out)
{
    int64_t uptime = mongo_int_at(status, "uptimeMillis", -1);
    out->is_known = uptime >= 0 && mongo_date_at(status, "localTime", &out->local_ms) &&
                    mongo_id_at(status, "repl.electionId", &out->election);
    out->clock_base_ms = out->local_ms - uptime;
}

void mongo_append_server_status(bson_t *command)
{
    BSON_APPEND_INT32(command, "serverStatus", 1);
    for (size_t i = 0; i < sizeof dear_sections / sizeof dear_sections[0]; i++)
        BSON_APPEND_INT32(command, dear_sections[i], 0);
}

bool mongo_server_ask(mongo_store *store, bool is_beat, mongo_server *out)
{
    mongo_call call = {
        .what = "asking for the server's clock", .database = "admin", .is_beat = is_beat};
    bson_t command = BSON_INITIALIZER;
    mongo_reply reply;
    mongo_append_server_status(&command);
    *out = (mongo_server){.is_known = false};
    out->seen_at = store->config.env->mono(store->config.env->ctx);
    if (mongo_run(store, &call, &command, &reply, NULL) == HF_OK)
        read_server(&reply.doc, out);
    out->is_denied = reply.server_code == UNAUTHORIZED;
    bson_destroy(&reply.doc);
    bson_destroy(&command);
    return out->is_known;
}

/* Same server, and its clock was not set since the session's last beat. */
static bool vouches(const mongo_server *server, const bson_t *session, int64_t trust_ms)
{
    hf_id election;
    int64_t base, expires;
    if (!mongo_id_at(session, "election", &election) ||
        !mongo_date_at(session, "clock_base", &base) ||
        !mongo_date_at(session, "expires_at", &expires))
        return false;
    int64_t moved = server->clock_base_ms - base;
    bool is_same = id_equal(election, server->election);
    bool is_steady = moved <= STEP_MS && moved >= -STEP_MS;
    return ((is_same && is_steady) || PLANTED(ANY_CLOCK_TRUSTED)) &&
           server->local_ms - expires > trust_ms;
}

bool mongo_server_judges_gone(mongo_store *store, const bson_t *session, int64_t overdue_ms,
                              int64_t trust_ms, mongo_server *asked)
{
    if (trust_ms < 0 || overdue_ms <= trust_ms)
        return false;
    if (!asked->seen_at.ns)
        mongo_server_ask(store, false, asked);
    return overdue_ms > DAY_MS || (asked->is_known && vouches(asked, session, trust_ms));
}
