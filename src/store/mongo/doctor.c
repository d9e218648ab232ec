/* SPDX-License-Identifier: Apache-2.0 */
/* doctor.c: checks what locks in this MongoDB depend on: servers, majority, notices, clocks; the
 * client calls it through the store interface for hf_doctor(). */
#include "store/mongo/doctor.h"
#include "core/error.h"
#include "store/document.h"
#include "store/mongo/driver/builder.h"
#include "store/mongo/driver/command.h"
#include "store/mongo/driver/fault.h"
#include "store/mongo/driver/pool.h"
#include "store/mongo/driver/reply.h"
#include "store/mongo/driver/server.h"
#include "store/mongo/driver/text.h"
#include "store/mongo/queue/bell.h"
#include "store/mongo/queue/bell_listen.h"
#include "store/mongo/queue/session.h"
#include "store/mongo/sharding/sharding.h"
#include "store/mongo/shared/history.h"
#include "store/mongo/ttl/ttl.h"

#include <stdarg.h>
#include <stdio.h>

#define ROUNDS 5
#define PINGS 10     /* in a second */
#define NEAR_MS 1000 /* where the server's clock judges */

typedef struct doctor {
    mongo_store *store;
    hf_finding_fn each;
    void *ctx;
    bool stopped;
} doctor;

static void tell_all(doctor *to, hf_finding finding, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));

static void tell_all(doctor *to, hf_finding finding, const char *format, va_list args)
{
    char text[700];
    vsnprintf(text, sizeof text, format, args);
    finding.text = text;
    if (!to->stopped)
        to->stopped = !to->each(to->ctx, &finding);
}

static void tell(doctor *to, const char *topic, bool is_danger, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static void tell(doctor *to, const char *topic, bool is_danger, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    tell_all(to, (hf_finding){.topic = topic, .is_danger = is_danger}, format, args);
    va_end(args);
}

/* What is no danger, and somebody should look at. */
static void advise(doctor *to, const char *topic, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void advise(doctor *to, const char *topic, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    tell_all(to, (hf_finding){.topic = topic, .wants_care = true}, format, args);
    va_end(args);
}

static double mono_ms(const doctor *to)
{
    return (double)mongo_mono(to->store).ns / 1e6;
}

static hf_code ask_admin(mongo_store *store, const char *text, mongo_reply *reply, hf_error *err)
{
    static const mongo_call call = {.what = "asking about the server", .database = "admin"};
    bson_t *command = pipeline_json(text);
    hf_code code = mongo_run(store, &call, command, reply, err);
    bson_destroy(command);
    return code;
}

/* Where `doctor` tries writing; NULL: the protocol writes to the locks' documents only. */
static const char *sessions_of(const mongo_store *store)
{
    if (store->base.ops->session_begin == mongo_session_begin)
        return MONGO_SESSIONS;
    return store->protocol->pings;
}

/* ---- Reach, version, topology ---- */

static hf_code find_reach(doctor *to, hf_error *err)
{
    mongo_reply reply;
    hf_code code = mongo_ready(to->store, err);
    if (code)
        return code;
    code = ask_admin(to->store, "{'buildInfo': 1}", &reply, err);
    if (!code) {
        const char *sessions = sessions_of(to->store);
        tell(to, "reach", false, "%s answers, database %s, collection%s %s%s%s",
             to->store->uri.hosts, to->store->uri.database, sessions ? "s" : "",
             to->store->uri.collection, sessions ? " and " : "", sessions ? sessions : "");
        tell(to, "server", false, "MongoDB %s", mongo_text_at(&reply.doc, "version", "(unknown)"));
    }
    bson_destroy(&reply.doc);
    return code;
}

static bool list_members(const bson_t *status, mongo_builder *out)
{
    bson_t members, member;
    bson_iter_t it;
    bool all_well = true;
    if (!mongo_view(status, "members", &members) || !bson_iter_init(&it, &members))
        return true;
    while (mongo_next(&it, &member)) {
        all_well &= mongo_int_at(&member, "health", 0) == 1;
        builder_add_format(out, "%s%s %s", out->length ? ", " : "",
                           mongo_text_at(&member, "name", "?"),
                           mongo_text_at(&member, "stateStr", "?"));
    }
    return all_well;
}

/* With such a URI, no other member is found when this one is gone or not primary. */
static void find_names(doctor *to)
{
    const mongoc_uri_t *uri = to->store->uri.driver;
    const mongoc_host_list_t *hosts = mongoc_uri_get_hosts(uri);
    if (hosts && !hosts->next && !mongoc_uri_get_replica_set(uri))
        advise(to, "members",
               "the URI names one member and no replicaSet: after a failover nothing is reached; "
               "name all members, and add replicaSet=NAME");
}

static void find_set(doctor *to)
{
    hf_error error;
    mongo_reply reply;
    mongo_builder members = builder_begin("");
    hf_code code = ask_admin(to->store, "{'replSetGetStatus': 1}", &reply, &error);
    if (code == HF_DENIED)
        tell(to, "members", false,
             "a replica set; this user may not see its members (role clusterMonitor on admin)");
    else if (code)
        tell(to, "members", false, "a replica set; its members are not shown: %s", error.text);
    else if (list_members(&reply.doc, &members))
        tell(to, "members", false, "%s", members.text);
    else
        advise(to, "members", "%s: one does not answer, the next failure may stop writes",
               members.text);
    builder_done(&members);
    bson_destroy(&reply.doc);
}

static void find_members(doctor *to)
{
    mongo_topology topology = mongo_topology_of(to->store);
    if (topology == MONGO_SET) {
        find_set(to);
        find_names(to);
    } else if (topology == MONGO_ROUTER)
        tell(to, "members", false,
             "a sharded cluster, through mongos: not tested with one, only with a stand-in");
    else
        tell(to, "members", false, "a standalone server: locks are safe, but there is no failover");
}

/* ---- Notices ---- */

static hf_code try_stream(mongo_store *store, mongo_reply *reply, hf_error *err)
{
    static const mongo_call call = {.what = "opening a change stream"};
    bson_t *command = pipeline_json("{'pipeline': [{'$changeStream': {}}], 'cursor': {}}");
    bson_t whole = BSON_INITIALIZER;
    mongo_begin(&whole, "aggregate", store->uri.collection);
    bson_concat(&whole, command);
    hf_code code = mongo_run(store, &call, &whole, reply, err);
    bson_destroy(command);
    bson_destroy(&whole);
    return code;
}

static void close_stream(mongo_store *store, int64_t cursor)
{
    static const mongo_call call = {.what = "closing a change stream"};
    mongo_kill_cursor(store, &call, store->uri.collection, cursor);
}

/* The highest ordinal of a second, see pace.h: at least so many. */
static int64_t count_writes(mongo_store *store)
{
    static const mongo_call call = {.what = "asking for the cluster's time", .database = "admin"};
    bson_t *command = pipeline_json("{'ping': 1}");
    uint32_t most = 0;
    for (int i = 0; i < PINGS; i++) {
        mongo_reply reply;
        if (!mongo_run(store, &call, command, &reply, NULL) && (uint32_t)reply.stamp.value > most)
            most = (uint32_t)reply.stamp.value;
        bson_destroy(&reply.doc);
        mongo_pause(store, 1000 / PINGS);
    }
    bson_destroy(command);
    return most;
}

static void tell_streams(doctor *to)
{
    int64_t writes = count_writes(to->store), most = to->store->uri.stream_writes;
    if (writes > most)
        tell(to, "notices", false,
             "looks each half second: %lld writes a second or more reach this server, and a "
             "process with a change stream would read them all (hfStreamWrites=%lld)",
             (long long)writes, (long long)most);
    else
        tell(to, "notices", false, "change streams: waiters are told at once");
}

static void find_streams(doctor *to)
{
    hf_error error;
    mongo_reply reply;
    if (mongo_topology_of(to->store) == MONGO_ALONE) {
        tell(to, "notices", false,
             "polling: a standalone server has no change streams; a replica set of one member has");
        return;
    }
    if (try_stream(to->store, &reply, &error)) {
        tell(to, "notices", false, "polling: %s", error.text);
    } else {
        tell_streams(to);
        close_stream(to->store, mongo_int_at(&reply.doc, "cursor.id", 0));
    }
    bson_destroy(&reply.doc);
}

static void find_notices(doctor *to)
{
    hf_error error;
    hf_code code = to->store->queue ? mongo_bell_try(to->store, &error) : HF_UNSUPPORTED;
    if (code == HF_UNSUPPORTED && to->store->queue)
        tell(
            to, "notices", false,
            "without bells, each waiter costs the server more, the more others write: let the user "
            "create capped collections %.100s.bells.1 to .%d (%s)",
            to->store->uri.collection, MONGO_BELLS, error.text);
    if (!(to->store->protocol->can & HF_CAN_NOTIFY))
        tell(to, "notices", false,
             "looks each %lld ms (hfPollMS): a change stream does not say which element changed",
             (long long)to->store->uri.poll_ms);
    else if (code == HF_UNSUPPORTED)
        find_streams(to);
    else if (code)
        tell(to, "notices", false, "not known: %s", error.text);
    else
        tell(to, "notices", false, "bells: waiters are told at once");
}

/* ---- History ---- */

static void find_history(doctor *to)
{
    hf_error error;
    char name[MONGO_HISTORY_SIZE];
    mongo_history_name(to->store, name);
    if (!mongo_history_is_kept(&to->store->uri)) {
        tell(to, "history", false,
             "none is kept, as the URI says (hfHistory=0, or database config)");
        return;
    }
    hf_code code = to->stopped ? HF_OK : mongo_history_try(to->store, &error);
    if (code == HF_DENIED)
        tell(to, "history", false,
             "this user keeps none: that takes find, insert, createCollection, convertToCapped and "
             "createIndex on %.130s; or put hfHistory=0 into the URI",
             name);
    else if (code)
        tell(to, "history", false, "none is kept: %s", error.text);
    else
        tell(to, "history", false, "%s keeps the turns that have ended", name);
}

/* ---- Majority writes ---- */

static void append_trial_id(const mongo_store *store, bson_t *to, const bson_oid_t *id)
{
    char text[64] = "holdfast doctor ";
    bson_oid_to_string(id, text + strlen(text));
    if (store->protocol->pings)
        BSON_APPEND_UTF8(to, "_id", text);
    else
        BSON_APPEND_OID(to, "_id", id);
}

static void append_trial(const mongo_store *store, bson_t *command)
{
    bson_t *change = pipeline_json(
        store->protocol->pings
            ? "{'update': [{'$set': {'ping': '$$NOW'}}], 'new': true, 'upsert': true}"
            : "{'update': [{'$set': {'dead': true, 'dead_at': '$$NOW', 'expires_at': '$$NOW',"
              " 'started_at': '$$NOW', 'ttl_ms': 1000, 'beat': 1, 'asked': [], 'pid': 0,"
              " 'host': '', 'app': 'holdfast doctor'}}], 'new': true, 'upsert': true}");
    bson_concat(command, change);
    bson_destroy(change);
}

/* Writes a mark for a session that never existed, and waits for the majority. The delete after it,
 * or the TTL index, removes the mark. */
static hf_code write_once(mongo_store *store, const bson_oid_t *id, bool removes, hf_error *err)
{
    static const mongo_call call = {.what = "a majority write", .writes = true};
    bson_t command = BSON_INITIALIZER, deletes, one, query;
    mongo_reply reply;
    mongo_begin(&command, removes ? "delete" : "findAndModify", sessions_of(store));
    if (removes) {
        BSON_APPEND_ARRAY_BEGIN(&command, "deletes", &deletes);
        BSON_APPEND_DOCUMENT_BEGIN(&deletes, "0", &one);
        BSON_APPEND_DOCUMENT_BEGIN(&one, "q", &query);
        append_trial_id(store, &query, id);
        bson_append_document_end(&one, &query);
        BSON_APPEND_INT32(&one, "limit", 1);
        bson_append_document_end(&deletes, &one);
        bson_append_array_end(&command, &deletes);
    } else {
        BSON_APPEND_DOCUMENT_BEGIN(&command, "query", &query);
        append_trial_id(store, &query, id);
        bson_append_document_end(&command, &query);
        append_trial(store, &command);
    }
    mongo_append_write_concern(store, &command, false);
    hf_code code = mongo_run(store, &call, &command, &reply, err);
    bson_destroy(&reply.doc);
    bson_destroy(&command);
    return code;
}

/* The same where the doctor may write no document: a write that changes nothing is acknowledged
 * when a majority has everything before it. */
static hf_code write_nothing(mongo_store *store, const bson_oid_t *id, hf_error *err)
{
    static const mongo_call call = {.what = "a majority write", .writes = true};
    bson_t command = BSON_INITIALIZER, updates, one, query;
    bson_t *change = pipeline_json("{'$unset': {'hf_none': 1}}");
    mongo_reply reply;
    mongo_begin(&command, "update", store->uri.collection);
    BSON_APPEND_ARRAY_BEGIN(&command, "updates", &updates);
    BSON_APPEND_DOCUMENT_BEGIN(&updates, "0", &one);
    BSON_APPEND_DOCUMENT_BEGIN(&one, "q", &query);
    BSON_APPEND_OID(&query, "_id", id);
    bson_append_document_end(&one, &query);
    BSON_APPEND_DOCUMENT(&one, "u", change);
    bson_append_document_end(&updates, &one);
    bson_append_array_end(&command, &updates);
    mongo_append_write_concern(store, &command, false);
    hf_code code = mongo_run(store, &call, &command, &reply, err);
    bson_destroy(&reply.doc);
    bson_destroy(change);
    bson_destroy(&command);
    return code;
}

static hf_code time_writes(doctor *to, double *best_ms, double *worst_ms, hf_error *err)
{
    bson_oid_t id;
    hf_code code = HF_OK;
    bson_oid_init(&id, NULL);
    for (int i = 0; i < 2 * ROUNDS && !code; i++) {
        double start = mono_ms(to);
        code = sessions_of(to->store) ? write_once(to->store, &id, i % 2, err)
                                      : write_nothing(to->store, &id, err);
        double took = mono_ms(to) - start;
        if (i > 1 && (i == 2 || took < *best_ms)) /* the first pair may make the collection */
            *best_ms = took;
        if (i > 1 && (i == 2 || took > *worst_ms))
            *worst_ms = took;
    }
    return code;
}

static void find_writes(doctor *to)
{
    hf_error error;
    double best_ms = 0, worst_ms = 0;
    double patience_ms = (double)to->store->beats.limits.wait_ms;
    if (to->store->uri.weak)
        tell(to, "write concern", true,
             "hfWeakWrites=yes: a failover can give one lock to two holders; take it out");
    hf_code code = time_writes(to, &best_ms, &worst_ms, &error);
    if (code == HF_DENIED)
        advise(to, "write concern",
               "not checked: this user may not write, so it can list locks and take none: %s",
               error.text);
    else if (code)
        tell(to, "write concern", true, "a majority write fails: %s", error.text);
    if (code)
        return;
    if (!to->store->uri.weak)
        tell(to, "write concern", false, "majority, journaled");
    tell(to, "latency", worst_ms > patience_ms,
         "%s takes %.1f to %.1f ms; a beat gives up after %.0f ms%s",
         sessions_of(to->store) ? "a majority write" : "a majority's word, without a write,",
         best_ms, worst_ms, patience_ms,
         worst_ms > patience_ms ? ": sessions will be lost, set a longer ttl" : "");
}

/* ---- Names ---- */

static void find_names_of_locks(doctor *to)
{
    char id[HF_NAME_MAX + 1];
    if (to->store->protocol != &mongo_ttl || to->stopped || !mongo_ttl_find_odd_id(to->store, id))
        return;
    advise(
        to, "names",
        "%.120s has a document whose _id is not a string: %.200s; a program that locks by it and "
        "one that gives the same name to Holdfast do not exclude each other: write _id as a "
        "string",
        to->store->uri.collection, id);
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
    double start = mono_ms(to);
    int64_t wall_ms = mongo_wall(to->store).ms;
    bool ok = mongoc_client_command_simple_with_server_id(client, "admin", command, NULL, server,
                                                          &reply, &error) &&
              bson_iter_init_find(&it, &reply, "localTime") && BSON_ITER_HOLDS_DATE_TIME(&it);
    if (ok)
        *offset_ms = (double)(bson_iter_date_time(&it) - wall_ms) - (mono_ms(to) - start) / 2;
    bson_destroy(&reply);
    bson_destroy(command);
    return ok;
}

static void find_offset(doctor *to, mongoc_client_t *client,
                        const mongoc_server_description_t *server, offsets *all)
{
    double offset_ms;
    const char *host = mongoc_server_description_host(server)->host_and_port;
    if (!measure(to, client, mongoc_server_description_id(server), &offset_ms)) {
        tell(to, "clock", false, "%s does not answer", host);
        return;
    }
    if (!all->n || offset_ms < all->low_ms)
        all->low_ms = offset_ms;
    if (!all->n || offset_ms > all->high_ms)
        all->high_ms = offset_ms;
    all->n++;
    tell(to, "clock", false, "%s is %.0f ms %s this machine's clock", host,
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
        tell(
            to, "clock", apart > NEAR_MS,
            "the members' clocks are %.0f ms apart: with protocol %s the primary's clock says when "
            "a lease is over, so a failover can end one so much early",
            apart, to->store->base.protocol);
        return;
    }
    if (apart > (double)to->store->config.ttl_ms)
        tell(
            to, "clock", false,
            "the members' clocks are %.0f ms apart, more than the ttl of %lld ms: after a failover "
            "listings show wrong lease times; no lock is endangered",
            apart, (long long)to->store->config.ttl_ms);
    else
        tell(to, "clock", false, "the members' clocks are %.0f ms apart", apart);
}

static void find_clocks(doctor *to)
{
    static const mongo_call call = {.what = "asking for clocks"};
    size_t n = 0;
    offsets all = {.n = 0};
    mongoc_client_t *client;
    if (mongo_pool_take(to->store, &to->store->work, &call, &client, NULL))
        return;
    mongoc_server_description_t **servers = mongoc_client_get_server_descriptions(client, &n);
    for (size_t i = 0; i < n; i++)
        find_offset(to, client, servers[i], &all);
    mongoc_server_descriptions_destroy_all(servers, n);
    mongo_pool_give(to->store, &to->store->work, &call, client, false);
    judge_offsets(to, &all);
}

/* Whether the server says by which clock it judges the dead: protocol sharding asks it. */
static void find_judging_clock(doctor *to)
{
    static const mongo_call call = {.what = "asking for the server's clock", .database = "admin"};
    bson_t command = BSON_INITIALIZER;
    mongo_reply reply;
    if (to->store->protocol != &mongo_sharding_protocol || to->stopped)
        return;
    mongo_append_server_status(&command);
    mongo_run(to->store, &call, &command, &reply, NULL);
    if (reply.server_code == MONGO_UNAUTHORIZED)
        advise(to, "clock", SHARDING_NO_CLOCK);
    bson_destroy(&reply.doc);
    bson_destroy(&command);
}

hf_code mongo_doctor(hf_store *base, hf_finding_fn each, void *ctx, hf_error *err)
{
    doctor to = {.store = (mongo_store *)base, .each = each, .ctx = ctx};
    hf_code code = find_reach(&to, err);
    if (code)
        return code;
    find_members(&to);
    find_notices(&to);
    find_history(&to);
    find_writes(&to);
    find_names_of_locks(&to);
    find_clocks(&to);
    find_judging_clock(&to);
    return HF_OK;
}
