/* SPDX-License-Identifier: Apache-2.0 */
/* mongo.c: opens and closes the mongo store, keeps its connections, and sends one command to the
 * primary; called by store/open.c, and by the calls in the other files of this folder. */
#include "store/mongo/mongo.h"

#include "core/alloc.h"
#include "core/error.h"
#include "store/document.h"
#include "store/mongo/parts.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define WIRE_4_2 8      /* the first server with update pipelines and $$NOW */
#define BEHIND 72       /* afterClusterTime is greater than the server's cluster time */
#define REPEATS 6       /* while it is behind: 1.3 s in all */
#define DUPLICATE 11000 /* two upserts at once: the other one won */
#define RACES 8         /* lost in a row, at most */
#define WIRE_5_1 14     /* the first server with $tsSecond and $tsIncrement */

/* ---- Open and close ---- */

static void start_driver(void)
{
    /* The driver writes its warnings to stderr, also while it starts, and the library prints
     * nothing. Its handler is global and cannot be asked for, so it is set to none, once, instead
     * of to one store's log; a program that wants the driver's log sets its own after hf_open(). */
    mongoc_log_set_handler(NULL, NULL);
    mongoc_init();
}

void mongo_log(mongo_store *store, hf_log_level level, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    store->config.log(store->config.log_ctx, level, text);
}

/* The time-outs of a beat together stay within a sixth of the lease (R7): the members are visited
 * once, which is also the connecting, then the command is sent. */
static void prepare_lanes(mongo_store *store)
{
    int64_t sixth = store->config.ttl_ms / 6;
    mongo_limits work = {.connect_ms = 1000, .socket_ms = 5000, .wait_ms = 4000};
    mongo_limits beats = {.connect_ms = sixth / 3, .socket_ms = sixth / 2, .wait_ms = sixth / 2};
    mongo_lane_init(&store->work, store->uri.driver, work);
    mongo_lane_init(&store->beats, store->uri.driver, beats);
}

static void warn_if_weak(mongo_store *store)
{
    if (store->uri.weak)
        mongo_log(
            store, HF_LOG_WARNING,
            "hfWeakWrites=yes: writes are not confirmed by a majority, so that a failover can "
            "give one lock to two holders; use it in tests only");
}

hf_code mongo_open(const char *uri, const hf_store_config *config, hf_store **out,
                   int64_t *patience_ms, hf_error *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, start_driver);
    mongo_uri read;
    hf_code code = mongo_uri_read(uri, &read, err);
    if (code)
        return code;
    if (read.protocol->check && (code = read.protocol->check(&read, config->ttl_ms, err))) {
        mongo_uri_done(&read);
        return code;
    }
    mongo_store *store = alloc_zeroed(sizeof *store);
    store->protocol = read.protocol;
    store->base = (hf_store){.ops = read.protocol->ops,
                             .is_remote = true,
                             .can = read.protocol->can | (read.token_field ? HF_CAN_TOKENS : 0),
                             .wait_ms = read.protocol->wait_ms,
                             .protocol = read.protocol->name};
    store->config = *config;
    store->owner = getpid();
    store->uri = read;
    mongo_find_boot(store->boot);
    pipeline_init(&store->texts);
    pthread_mutex_init(&store->mutex, NULL);
    prepare_lanes(store);
    mongo_group_init(&store->group);
    warn_if_weak(store);
    *patience_ms = mongoc_uri_get_option_as_int32(read.driver, MONGOC_URI_SERVERSELECTIONTIMEOUTMS,
                                                  (int32_t)*patience_ms);
    if (read.protocol->open)
        read.protocol->open(store);
    *out = &store->base;
    return HF_OK;
}

/* In a forked child the connections are the parent's, and are left as they are (R11). */
void mongo_close(hf_store *base)
{
    mongo_store *store = (mongo_store *)base;
    if (store->owner == getpid()) {
        mongo_watch_done(store);
        mongo_lane_done(&store->beats);
        mongo_lane_done(&store->work);
        mongo_group_done(&store->group);
        pthread_mutex_destroy(&store->mutex);
        pipeline_done(&store->texts);
    }
    mongo_held_clear(store);
    mongo_sweep_done(store);
    mongo_uri_done(&store->uri);
    free(store);
}

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

hf_code mongo_ready(mongo_store *store, hf_error *err)
{
    static const mongo_call call = {.what = "connecting"};
    bson_error_t error;
    if (atomic_load(&store->topology) != MONGO_UNSEEN)
        return HF_OK;
    mongoc_client_t *client;
    hf_code code = mongo_take(store, &store->work, &call, &client, err);
    if (code)
        return code;
    mongoc_server_description_t *server = mongoc_client_select_server(client, true, NULL, &error);
    code = server ? note_server(store, server, err) : mongo_fault(store, &call, &error, NULL, err);
    mongoc_server_description_destroy(server);
    mongo_give(&store->work, client, code != HF_OK);
    return code;
}

mongo_topology mongo_topology_of(mongo_store *store)
{
    return (mongo_topology)atomic_load(&store->topology);
}

pipeline_clock mongo_clock_of(mongo_store *store)
{
    if (mongo_topology_of(store) == MONGO_ALONE)
        return PIPELINE_WALL;
    return atomic_load(&store->wire) < WIRE_5_1 ? PIPELINE_SECONDS : PIPELINE_CLUSTER;
}

/* ---- One command ---- */

void mongo_begin(bson_t *command, const char *verb, const char *collection)
{
    bson_append_utf8(command, verb, -1, collection, -1);
}

void mongo_append_by_id(bson_t *command, const char *field, hf_id id)
{
    bson_t query;
    bson_append_document_begin(command, field, -1, &query);
    document_append_id(&query, "_id", id);
    bson_append_document_end(command, &query);
}

const char *mongo_key(size_t i, char buffer[16])
{
    const char *key;
    bson_uint32_to_string((uint32_t)i, &key, buffer, 16);
    return key;
}

void mongo_append_write_concern(const mongo_store *store, bson_t *command, bool is_beat)
{
    bson_t concern;
    BSON_APPEND_DOCUMENT_BEGIN(command, "writeConcern", &concern);
    if (store->uri.weak) {
        BSON_APPEND_INT32(&concern, "w", 1);
    } else {
        BSON_APPEND_UTF8(&concern, "w", "majority");
        BSON_APPEND_BOOL(&concern, "j", true);
        BSON_APPEND_INT64(&concern, "wtimeout",
                          is_beat ? store->beats.wait_ms : store->work.wait_ms);
    }
    bson_append_document_end(command, &concern);
}

void mongo_append_read_concern(mongo_store *store, bson_t *command, hf_stamp after)
{
    bson_t concern;
    bool alone = mongo_topology_of(store) == MONGO_ALONE;
    BSON_APPEND_DOCUMENT_BEGIN(command, "readConcern", &concern);
    BSON_APPEND_UTF8(&concern, "level", alone ? "local" : "majority");
    if (after.value && !alone)
        BSON_APPEND_TIMESTAMP(&concern, "afterClusterTime", (uint32_t)(after.value >> 32),
                              (uint32_t)after.value);
    bson_append_document_end(command, &concern);
    BSON_APPEND_INT32(command, "maxTimeMS", MONGO_READ_MS);
}

/* Remembers the latest stamp, for looks at sessions (R1). */
static void note_stamp(mongo_store *store, mongo_reply *reply)
{
    reply->stamp = mongo_stamp_at(&reply->doc, "operationTime");
    uint64_t seen = atomic_load(&store->latest);
    while (reply->stamp.value > seen &&
           !atomic_compare_exchange_weak(&store->latest, &seen, reply->stamp.value))
        ;
}

hf_code mongo_run(mongo_store *store, const mongo_call *call, const bson_t *command,
                  mongo_reply *reply, hf_error *err)
{
    bson_error_t error;
    mongo_lane *lane = call->is_beat ? &store->beats : &store->work;
    const char *database = call->database ? call->database : store->uri.database;
    mongoc_client_t *client;
    hf_code code = mongo_take(store, lane, call, &client, err);
    *reply = (mongo_reply){.server_code = 0};
    if (code) {
        bson_init(&reply->doc);
        return code;
    }
    bool ok = mongoc_client_command_simple(client, database, command, NULL, &reply->doc, &error);
    note_stamp(store, reply);
    if (!ok) {
        reply->server_code = (int32_t)mongo_int_at(&reply->doc, "code", 0);
        code = mongo_fault(store, call, &error, &reply->doc, err);
    }
    mongo_give(lane, client, code == HF_UNREACHABLE || code == HF_UNKNOWN);
    return ok && call->writes ? mongo_write_fault(store, call, reply, err) : code;
}

/* A repeat finds the document that the other upsert made. */
hf_code mongo_run_repeated(mongo_store *store, const mongo_call *call, const bson_t *command,
                           mongo_reply *reply, hf_error *err)
{
    hf_code code = mongo_run(store, call, command, reply, err);
    for (int i = 0; code && reply->server_code == DUPLICATE && i < RACES; i++) {
        bson_destroy(&reply->doc);
        code = mongo_run(store, call, command, reply, err);
    }
    return code;
}

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

hf_code mongo_run_behind(mongo_store *store, const mongo_call *call, const bson_t *command,
                         mongo_reply *reply, hf_error *err)
{
    hf_code code = mongo_run(store, call, command, reply, err);
    for (int i = 0; code && reply->server_code == BEHIND && i < REPEATS; i++) {
        bson_destroy(&reply->doc);
        pause_ms(20L << i);
        code = mongo_run(store, call, command, reply, err);
    }
    if (code && reply->server_code == BEHIND)
        return error_set(err, HF_UNREACHABLE,
                         "mongodb at %s: the primary is behind what was seen before; try again",
                         store->uri.hosts);
    return code;
}
