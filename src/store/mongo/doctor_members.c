/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_members.c: checks the set: its members and how it elects, who is silent, and what the
 * members' clocks say; doctor.c calls it. */
#include "core/error.h"
#include "core/lease.h"
#include "store/mongo/doctor_internal.h"
#include "store/mongo/driver/builder.h"
#include "store/mongo/driver/pool.h"
#include "store/mongo/driver/reply.h"
#include "store/mongo/driver/server.h"
#include "store/mongo/driver/text.h"
#include "store/mongo/sharding/sharding.h"

#define NEAR_MS 1000      /* where the server's clock judges */
#define ELECTION_MS 10000 /* MongoDB's default of electionTimeoutMillis */
#define ELECTION_TAKES_MS                                                                          \
    3000 /* after that time-out, until a majority acknowledges writes again                        \
          */

/* ---- Members ---- */

typedef struct members {
    mongo_builder shown;    /* all, and what they are */
    mongo_builder down;     /* those that do not answer */
    int n_data, n_arbiters; /* those that answer */
    int64_t majority;       /* so many with data acknowledge a write; 0: not known */
} members;

static void add_name(mongo_builder *to, const char *name, const char *behind)
{
    builder_add_format(to, "%s%s%s", to->length ? ", " : "", name, behind);
}

static void count_member(members *all, const bson_t *member)
{
    const char *name = mongo_text_at(member, "name", "?");
    const char *state = mongo_text_at(member, "stateStr", "?");
    add_name(&all->shown, name, " ");
    builder_add(&all->shown, state);
    if (mongo_int_at(member, "health", 0) != 1)
        add_name(&all->down, name, "");
    else if (strcmp(state, "ARBITER") == 0)
        all->n_arbiters++;
    else if (strcmp(state, "PRIMARY") == 0 || strcmp(state, "SECONDARY") == 0)
        all->n_data++;
}

static void count_members(const bson_t *status, members *all)
{
    bson_t list, member;
    bson_iter_t it;
    all->majority = mongo_int_at(status, "writeMajorityCount", 0);
    if (!mongo_view(status, "members", &list) || !bson_iter_init(&it, &list))
        return;
    while (mongo_next(&it, &member))
        count_member(all, &member);
}

/* An arbiter votes, so that there is a primary, and acknowledges nothing. */
static void judge_members(doctor *to, const members *all)
{
    const char *shown = all->shown.text;
    if (all->n_arbiters && all->n_data < all->majority)
        doctor_tell(to, "members", true,
                    "%s: with data and answering: %d, and a majority is %lld; an arbiter has no "
                    "data, so no write is acknowledged and no lock is taken: start %s, or put a "
                    "member with data in the arbiter's place",
                    shown, all->n_data, (long long)all->majority,
                    all->down.length ? all->down.text : "the others");
    else if (all->down.length)
        doctor_advise(to, "members", "%s: one does not answer, the next failure may stop writes",
                      shown);
    else if (all->n_arbiters && all->n_data <= all->majority)
        doctor_advise(to, "members",
                      "%s: when one with data is down, no write is acknowledged and no lock is "
                      "taken, as an arbiter has no data: put a member with data in its place",
                      shown);
    else
        doctor_tell(to, "members", false, "%s", shown);
}

/* With such a URI, no other member is found when this one is gone or not primary. */
static void find_names(doctor *to)
{
    const mongoc_uri_t *uri = to->store->uri.driver;
    const mongoc_host_list_t *hosts = mongoc_uri_get_hosts(uri);
    if (hosts && !hosts->next && !mongoc_uri_get_replica_set(uri))
        doctor_advise(
            to, "members",
            "the URI names one member and no replicaSet: after a failover nothing is reached; "
            "name all members, and add replicaSet=NAME");
}

static void tell_members(doctor *to, const bson_t *status)
{
    members all = {.shown = builder_begin(""), .down = builder_begin("")};
    count_members(status, &all);
    judge_members(to, &all);
    builder_done(&all.shown);
    builder_done(&all.down);
}

static void find_set(doctor *to)
{
    hf_error error;
    mongo_reply reply;
    hf_code code = doctor_ask_admin(to->store, "{'replSetGetStatus': 1}", &reply, &error);
    if (code == HF_DENIED)
        doctor_tell(
            to, "members", false,
            "a replica set; this user may not see its members (role clusterMonitor on admin)");
    else if (error_is_no_answer(code))
        doctor_tell_unknown(to, "members", &error);
    else if (code)
        doctor_tell(to, "members", false, "a replica set; its members are not shown: %s",
                    error.text);
    else
        tell_members(to, &reply.doc);
    bson_destroy(&reply.doc);
}

/* What a crash of the primary costs those who hold locks: its set elects another one after a
 * time-out. A beat may be due just then. */
static void tell_election(doctor *to, int64_t election_ms)
{
    int64_t ttl_ms = to->store->config.ttl_ms, outage_ms = election_ms + ELECTION_TAKES_MS;
    double outlives_s = (double)lease_outlives_ms(ttl_ms) / 1000;
    if (outage_ms > lease_outlives_ms(ttl_ms))
        doctor_advise(to, "election",
                      "after a crash of the primary nothing is written for about %.0f s "
                      "(electionTimeoutMillis is %lld); locks with a ttl of %lld ms outlive only "
                      "%.1f s: give a ttl of %lld s",
                      (double)outage_ms / 1000, (long long)election_ms, (long long)ttl_ms,
                      outlives_s, (long long)lease_that_outlives_ms(outage_ms) / 1000);
    else
        doctor_tell(to, "election", false,
                    "after a crash of the primary nothing is written for about %.0f s; locks with "
                    "a ttl of %lld ms outlive %.1f s",
                    (double)outage_ms / 1000, (long long)ttl_ms, outlives_s);
}

/* Without the right to read the set's configuration nothing is said. */
static void find_election(doctor *to)
{
    hf_error error;
    mongo_reply reply;
    hf_code code = doctor_ask_admin(to->store, "{'replSetGetConfig': 1}", &reply, &error);
    if (!code)
        tell_election(
            to, mongo_int_at(&reply.doc, "config.settings.electionTimeoutMillis", ELECTION_MS));
    else if (error_is_no_answer(code))
        doctor_tell_unknown(to, "election", &error);
    bson_destroy(&reply.doc);
}

void doctor_find_members(doctor *to)
{
    mongo_topology topology = mongo_topology_of(to->store);
    if (topology == MONGO_SET) {
        find_set(to);
        find_names(to);
        find_election(to);
    } else if (topology == MONGO_ROUTER)
        doctor_tell(to, "members", false,
                    "a sharded cluster, through mongos: not tested with one, only with a stand-in");
    else
        doctor_tell(to, "members", false,
                    "a standalone server: locks are safe, but there is no failover");
}

/* ---- Clocks ---- */

typedef struct offsets {
    double low_ms, high_ms;
    size_t n;
} offsets;

/* The server's clock minus ours, halfway through the round trip. */
static bool measure(doctor *to, mongoc_client_t *client, uint32_t server, double *offset_ms)
{
    bson_t *command = pipeline_json("{'hello': 1}");
    bson_t reply;
    bson_iter_t it;
    bson_error_t error;
    double start = doctor_mono_ms(to);
    int64_t wall_ms = mongo_wall(to->store).ms;
    bool ok = mongoc_client_command_simple_with_server_id(client, "admin", command, NULL, server,
                                                          &reply, &error) &&
              bson_iter_init_find(&it, &reply, "localTime") && BSON_ITER_HOLDS_DATE_TIME(&it);
    if (ok)
        *offset_ms =
            (double)(bson_iter_date_time(&it) - wall_ms) - (doctor_mono_ms(to) - start) / 2;
    bson_destroy(&reply);
    bson_destroy(command);
    return ok;
}

static void find_offset(doctor *to, mongo_connection *connection,
                        const mongoc_server_description_t *server, offsets *all)
{
    double offset_ms;
    const char *host = mongoc_server_description_host(server)->host_and_port;
    if (mongo_scan_is_silent(&connection->scan, host))
        return;
    if (!measure(to, connection->client, mongoc_server_description_id(server), &offset_ms)) {
        doctor_advise(to, "clock", "%s does not answer", host);
        return;
    }
    if (!all->n || offset_ms < all->low_ms)
        all->low_ms = offset_ms;
    if (!all->n || offset_ms > all->high_ms)
        all->high_ms = offset_ms;
    all->n++;
    doctor_tell(to, "clock", false, "%s is %.0f ms %s this machine's clock", host,
                offset_ms < 0 ? -offset_ms : offset_ms, offset_ms < 0 ? "behind" : "ahead of");
}

/* Whether one primary's time is compared with another's. Protocol sharding does not: it begins anew
 * with each primary (core/sharding_expiry.c). */
static bool depends_on_skew(const mongo_store *store)
{
    return !(store->base.can & HF_CAN_SKEW) && store->protocol != &mongo_sharding_protocol;
}

static void judge_offsets(doctor *to, const offsets *all)
{
    double apart = all->high_ms - all->low_ms;
    if (all->n < 2)
        return;
    if (depends_on_skew(to->store)) {
        doctor_tell(
            to, "clock", apart > NEAR_MS,
            "the members' clocks are %.0f ms apart: with protocol %s the primary's clock says when "
            "a lease is over, so a failover can end one so much early",
            apart, to->store->base.protocol);
        return;
    }
    if (apart > (double)to->store->config.ttl_ms)
        doctor_tell(
            to, "clock", false,
            "the members' clocks are %.0f ms apart, more than the ttl of %lld ms: after a failover "
            "listings show wrong lease times; no lock is endangered",
            apart, (long long)to->store->config.ttl_ms);
    else
        doctor_tell(to, "clock", false, "the members' clocks are %.0f ms apart", apart);
}

/* Those that do not answer are asked by every new connection, and delay none. */
static void find_silent(doctor *to, const mongo_scan *scan)
{
    for (size_t i = 0; i < scan->n; i++) {
        const mongo_asked *asked = &scan->of[i];
        if (asked->said == MONGO_SILENT)
            doctor_advise(
                to, "members",
                "%s has not answered for %.1f s: it delays no call, but cannot take over, and "
                "a majority is nearer to being lost; is it running, and can this host reach it?",
                asked->host, (double)mongo_scan_took_ms(scan) / 1000);
        else if (asked->said != MONGO_ANSWERED)
            doctor_advise(to, "members", "%s cannot be asked: %s", asked->host, asked->what);
    }
}

/* Asks all members, where other calls ask until the primary has answered. */
static void ask_members(doctor *to, mongo_connection *connection)
{
    bson_t *command = pipeline_json("{'ping': 1}");
    bson_t reply;
    bson_error_t error;
    size_t n = 0;
    offsets all = {.n = 0};
    mongo_connection_begin(connection, MONGO_QUIET_MS);
    connection->scan.wants_all = true;
    mongoc_client_command_simple(connection->client, "admin", command, NULL, &reply, &error);
    bson_destroy(&reply);
    bson_destroy(command);
    find_silent(to, &connection->scan);
    mongoc_server_description_t **servers =
        mongoc_client_get_server_descriptions(connection->client, &n);
    for (size_t i = 0; i < n; i++)
        find_offset(to, connection, servers[i], &all);
    mongoc_server_descriptions_destroy_all(servers, n);
    judge_offsets(to, &all);
}

void doctor_find_clocks(doctor *to)
{
    bson_error_t error;
    mongo_store *store = to->store;
    mongo_connection *connection =
        mongo_connection_new(store, store->work.uri, &store->work.limits, false, &error);
    if (!connection)
        return;
    ask_members(to, connection);
    mongo_connection_free(connection, false);
}
