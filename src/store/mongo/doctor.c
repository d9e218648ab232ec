/* SPDX-License-Identifier: Apache-2.0 */
/* doctor.c: checks what locks in this MongoDB depend on: servers, majority, notices; the client
 * calls it through the store interface for hf_doctor(). doctor_members.c looks at the set. */
#include "store/mongo/doctor.h"
#include "core/error.h"
#include "core/lease.h"
#include "store/document.h"
#include "store/mongo/doctor_internal.h"
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

#define ROUNDS 5
#define ROUNDS_MS 2000 /* then no other one begins: from far away there is more to look at */
#define PINGS 10       /* in a second */

/* Where `doctor` tries writing; NULL: the protocol writes to the locks' documents only. */
static const char *sessions_of(const mongo_store *store)
{
    if (store->base.ops->session_begin == mongo_session_begin)
        return store->uri.names.sessions;
    return store->protocol->pings;
}

/* ---- Reach, version ---- */

static hf_code find_reach(doctor *to, hf_error *err)
{
    mongo_reply reply;
    hf_code code = mongo_ready(to->store, err);
    if (code)
        return code;
    code = doctor_ask_admin(to->store, "{'buildInfo': 1}", &reply, err);
    if (!code) {
        const char *sessions = sessions_of(to->store);
        doctor_tell(to, "reach", false, "%s answers, database %s, collection%s %s%s%s",
                    to->store->uri.hosts, to->store->uri.database, sessions ? "s" : "",
                    to->store->uri.collection, sessions ? " and " : "", sessions ? sessions : "");
        doctor_tell(to, "server", false, "MongoDB %s",
                    mongo_text_at(&reply.doc, "version", "(unknown)"));
    }
    bson_destroy(&reply.doc);
    return code;
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
    hf_code code = HF_OK;
    for (int i = 0; i < PINGS && !error_is_no_answer(code); i++) {
        mongo_reply reply;
        code = mongo_run(store, &call, command, &reply, NULL);
        if (!code && (uint32_t)reply.stamp.value > most)
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
        doctor_tell(to, "notices", false,
                    "looks each half second: %lld writes a second or more reach this server, and a "
                    "process with a change stream would read them all (hfStreamWrites=%lld)",
                    (long long)writes, (long long)most);
    else
        doctor_tell(to, "notices", false, "change streams: waiters are told at once");
}

static void find_streams(doctor *to)
{
    hf_error error;
    mongo_reply reply;
    if (mongo_topology_of(to->store) == MONGO_ALONE) {
        doctor_tell(
            to, "notices", false,
            "polling: a standalone server has no change streams; a replica set of one member has");
        return;
    }
    hf_code code = try_stream(to->store, &reply, &error);
    if (error_is_no_answer(code)) {
        doctor_tell_unknown(to, "notices", &error);
    } else if (code) {
        doctor_tell(to, "notices", false, "polling: %s", error.text);
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
        doctor_tell(
            to, "notices", false,
            "without bells, each waiter costs the server more, the more others write: let the user "
            "create capped collections %.130s.1 to .%d (%s)",
            to->store->uri.names.bells, MONGO_BELLS, error.text);
    if (!(to->store->protocol->can & HF_CAN_NOTIFY))
        doctor_tell(
            to, "notices", false,
            "looks each %lld ms (hfPollMS): a change stream does not say which element changed",
            (long long)to->store->uri.poll_ms);
    else if (code == HF_UNSUPPORTED)
        find_streams(to);
    else if (code)
        doctor_tell_unknown(to, "notices", &error);
    else
        doctor_tell(to, "notices", false, "bells: waiters are told at once");
}

/* ---- History ---- */

static void find_history(doctor *to)
{
    hf_error error;
    const char *name = to->store->uri.names.history;
    if (!mongo_history_is_kept(&to->store->uri)) {
        doctor_tell(to, "history", false,
                    "none is kept, as the URI says (hfHistory=0, or database config)");
        return;
    }
    hf_code code = to->stopped ? HF_OK : mongo_history_try(to->store, &error);
    if (code == HF_DENIED)
        doctor_tell(
            to, "history", false,
            "this user keeps none: that takes find, insert, createCollection, convertToCapped and "
            "createIndex on %.130s; or put hfHistory=0 into the URI",
            name);
    else if (error_is_no_answer(code))
        doctor_tell_unknown(to, "history", &error);
    else if (code)
        doctor_tell(to, "history", false, "none is kept: %s", error.text);
    else
        doctor_tell(to, "history", false, "%s keeps the turns that have ended", name);
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

static hf_code write_trial(mongo_store *store, const mongo_call *call, const bson_t *query,
                           hf_error *err)
{
    bson_t command = BSON_INITIALIZER;
    mongo_reply reply;
    mongo_begin(&command, "findAndModify", sessions_of(store));
    BSON_APPEND_DOCUMENT(&command, "query", query);
    append_trial(store, &command);
    mongo_append_write_concern(store, &command, false);
    hf_code code = mongo_run(store, call, &command, &reply, err);
    bson_destroy(&reply.doc);
    bson_destroy(&command);
    return code;
}

/* Writes a mark for a session that never existed, and waits for the majority. The delete after it,
 * or the TTL index, removes the mark. */
static hf_code write_once(mongo_store *store, const bson_oid_t *id, bool removes, hf_error *err)
{
    static const mongo_call call = {.what = "a majority write", .writes = true};
    bson_t query = BSON_INITIALIZER;
    append_trial_id(store, &query, id);
    hf_code code = removes ? doctor_delete(store, &call, sessions_of(store), &query, err)
                           : write_trial(store, &call, &query, err);
    bson_destroy(&query);
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

/* Whether the i-th write is made: two pairs at least, and each whole. */
static bool wants_write(int i, double since_ms)
{
    return i < 4 || i % 2 || (i < 2 * ROUNDS && since_ms < ROUNDS_MS);
}

static hf_code time_writes(doctor *to, double *best_ms, double *worst_ms, hf_error *err)
{
    bson_oid_t id;
    hf_code code = HF_OK;
    double began = doctor_mono_ms(to);
    bson_oid_init(&id, NULL);
    for (int i = 0; !code && wants_write(i, doctor_mono_ms(to) - began); i++) {
        double start = doctor_mono_ms(to);
        code = sessions_of(to->store) ? write_once(to->store, &id, i % 2, err)
                                      : write_nothing(to->store, &id, err);
        double took = doctor_mono_ms(to) - start;
        if (i > 1 && (i == 2 || took < *best_ms)) /* the first pair may make the collection */
            *best_ms = took;
        if (i > 1 && (i == 2 || took > *worst_ms))
            *worst_ms = took;
    }
    return code;
}

static bool time_ping(doctor *to, mongo_connection *connection, double *took_ms,
                      bson_error_t *error)
{
    bson_t *command = pipeline_json("{'ping': 1}"), reply;
    double start = doctor_mono_ms(to);
    mongo_connection_begin(connection, MONGO_QUIET_MS);
    bool ok =
        mongoc_client_command_simple(connection->client, "admin", command, NULL, &reply, error);
    if (!ok)
        mongo_connection_explain(connection, error);
    bson_destroy(&reply);
    bson_destroy(command);
    *took_ms = doctor_mono_ms(to) - start;
    return ok;
}

/* A connection as a beat makes it: what a first command takes longer than a second one. False: it
 * could not be made. */
static bool time_connection(doctor *to, double *took_ms, bson_error_t *error)
{
    mongo_store *store = to->store;
    double first_ms, second_ms;
    mongo_connection *connection =
        mongo_connection_new(store, store->beats.uri, &store->beats.limits, true, error);
    if (!connection)
        return false;
    bool ok =
        time_ping(to, connection, &first_ms, error) && time_ping(to, connection, &second_ms, error);
    mongo_connection_free(connection, false);
    if (ok)
        *took_ms = first_ms > second_ms ? first_ms - second_ms : 0;
    return ok;
}

/* A beat whose connection breaks is sent once more over a new one. Both fit into what is left when
 * the first is sent: a third of the ttl has passed, and `run` needs three tenths to stop. */
static int64_t least_ttl_ms(double connecting_ms, double write_ms)
{
    int64_t least_ms = (int64_t)((2 * write_ms + connecting_ms) * 30 / 11);
    return least_ms < LEASE_TTL_MIN_MS ? LEASE_TTL_MIN_MS : (least_ms + 999) / 1000 * 1000;
}

static const char *what_writes_are(const doctor *to)
{
    return sessions_of(to->store) ? "a majority write" : "a majority's word, without a write,";
}

static void tell_no_connection(doctor *to, double best_ms, double worst_ms, const char *why)
{
    doctor_advise(to, "latency",
                  "%s takes %.1f to %.1f ms; a new connection could not be made, so which ttl is "
                  "safe is not known: %.300s",
                  what_writes_are(to), best_ms, worst_ms, why);
}

static void tell_latency(doctor *to, double best_ms, double worst_ms, double connecting_ms)
{
    int64_t least_ms = least_ttl_ms(connecting_ms, worst_ms);
    bool is_short = to->store->config.ttl_ms < least_ms;
    doctor_tell(to, "latency", is_short,
                "%s takes %.1f to %.1f ms, a new connection %.1f ms: from here, and with "
                "the network as it is now, a ttl of %lld s or longer is safe%s",
                what_writes_are(to), best_ms, worst_ms, connecting_ms, (long long)least_ms / 1000,
                is_short ? "; with a shorter one, a connection that breaks costs the lock" : "");
}

static void find_writes(doctor *to)
{
    hf_error error;
    bson_error_t unconnected;
    double best_ms = 0, worst_ms = 0, connecting_ms = 0;
    if (to->store->uri.weak)
        doctor_tell(to, "write concern", true,
                    "hfWeakWrites=yes: a failover can give one lock to two holders; take it out");
    bool is_connected = time_connection(to, &connecting_ms, &unconnected);
    hf_code code = time_writes(to, &best_ms, &worst_ms, &error);
    if (code == HF_DENIED)
        doctor_advise(
            to, "write concern",
            "not checked: this user may not write, so it can list locks and take none: %s",
            error.text);
    else if (error_is_no_answer(code) && !doctor_has_time(to, NULL))
        doctor_tell_unknown(to, "write concern", &error);
    else if (code)
        doctor_tell(to, "write concern", true, "a majority write fails: %s", error.text);
    to->cannot_write = code != HF_OK;
    if (code)
        return;
    if (!to->store->uri.weak)
        doctor_tell(to, "write concern", false, "majority, journaled");
    if (is_connected)
        tell_latency(to, best_ms, worst_ms, connecting_ms);
    else
        tell_no_connection(to, best_ms, worst_ms, unconnected.message);
}

/* ---- Names ---- */

static void find_names_of_locks(doctor *to)
{
    char id[HF_NAME_MAX + 1];
    if (to->store->protocol != &mongo_ttl || to->stopped || !mongo_ttl_find_odd_id(to->store, id))
        return;
    doctor_advise(
        to, "names",
        "%.120s has a document whose _id is not a string: %.200s; a program that locks by it and "
        "one that gives the same name to Holdfast do not exclude each other: write _id as a "
        "string",
        to->store->uri.collection, id);
}

static void find_place(doctor *to)
{
    doctor_find_place(to, sessions_of(to->store));
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
        doctor_advise(to, "clock", SHARDING_NO_CLOCK);
    bson_destroy(&reply.doc);
    bson_destroy(&command);
}

/* What is looked at, in the order in which it is told. From far away, the time may be over before
 * all are: what is most wanted comes first. */
static const struct look {
    const char
        *topic; /* NULL: of what concerns one protocol only, nothing is said without a find */
    void (*find)(doctor *to);
} looks[] = {
    {"write concern", find_writes}, {"members", doctor_find_members},
    {"notices", find_notices},      {"history", find_history},
    {"collection", find_place},     {"trial lock", doctor_find_trial},
    {NULL, find_names_of_locks},    {"clock", doctor_find_clocks},
    {NULL, find_judging_clock},
};

hf_code mongo_doctor(hf_store *base, hf_finding_fn each, void *ctx, hf_error *err)
{
    doctor to = {.store = (mongo_store *)base, .each = each, .ctx = ctx};
    hf_code code = find_reach(&to, err);
    for (size_t i = 0; i < sizeof looks / sizeof *looks && !code; i++)
        if (doctor_has_time(&to, looks[i].topic))
            looks[i].find(&to);
    return code;
}
