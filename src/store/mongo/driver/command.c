/* SPDX-License-Identifier: Apache-2.0 */
/* command.c: builds one command and sends it to the primary. Everything that talks to the servers
 * calls it, except the readers of cursors. */
#include "store/mongo/driver/command.h"
#include "core/error.h"
#include "store/document.h"
#include "store/mongo/driver/fault.h"
#include "store/mongo/driver/pool.h"
#include "store/mongo/driver/reply.h"
#include "store/mongo/driver/server.h"

#define BEHIND 72 /* afterClusterTime is greater than the server's cluster time */
#define REPEATS 6 /* while the server is behind: 1.3 s in all */
#define RACES 8   /* races lost in a row, at most */

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

/* {$nor: [{field: {$type: "array"}} ...]} */
void mongo_append_no_array(bson_t *query, const char *const *fields)
{
    bson_t any, each, type;
    char key[16];
    BSON_APPEND_ARRAY_BEGIN(query, "$nor", &any);
    for (size_t i = 0; fields[i]; i++) {
        const char *at = mongo_key(i, key);
        BSON_APPEND_DOCUMENT_BEGIN(&any, at, &each);
        bson_append_document_begin(&each, fields[i], -1, &type);
        BSON_APPEND_UTF8(&type, "$type", "array");
        bson_append_document_end(&each, &type);
        bson_append_document_end(&any, &each);
    }
    bson_append_array_end(query, &any);
}

const char *mongo_key(size_t i, char buffer[16])
{
    const char *key;
    bson_uint32_to_string((uint32_t)i, &key, buffer, 16);
    return key;
}

void mongo_append_quick_write_concern(bson_t *command)
{
    bson_t concern;
    BSON_APPEND_DOCUMENT_BEGIN(command, "writeConcern", &concern);
    BSON_APPEND_INT32(&concern, "w", 1);
    bson_append_document_end(command, &concern);
}

void mongo_append_first(mongo_store *store, bson_t *command)
{
    BSON_APPEND_INT32(command, "limit", 1);
    BSON_APPEND_BOOL(command, "singleBatch", true);
    mongo_append_read_concern(store, command, (hf_stamp){0});
}

void mongo_append_delete(bson_t *deletes, size_t i, const bson_t *query)
{
    bson_t each;
    char key[16];
    bson_append_document_begin(deletes, mongo_key(i, key), -1, &each);
    BSON_APPEND_DOCUMENT(&each, "q", query);
    BSON_APPEND_INT32(&each, "limit", 1);
    bson_append_document_end(deletes, &each);
}

void mongo_append_write_concern(const mongo_store *store, bson_t *command, bool is_beat)
{
    bson_t concern;
    if (store->uri.weak) {
        mongo_append_quick_write_concern(command);
        return;
    }
    BSON_APPEND_DOCUMENT_BEGIN(command, "writeConcern", &concern);
    BSON_APPEND_UTF8(&concern, "w", "majority");
    BSON_APPEND_BOOL(&concern, "j", true);
    BSON_APPEND_INT64(&concern, "wtimeout",
                      is_beat ? store->beats.limits.wait_ms : store->work.limits.wait_ms);
    bson_append_document_end(command, &concern);
}

void mongo_append_stamp(bson_t *to, const char *field, hf_stamp stamp)
{
    bson_append_timestamp(to, field, -1, (uint32_t)(stamp.value >> 32), (uint32_t)stamp.value);
}

void mongo_append_read_concern(mongo_store *store, bson_t *command, hf_stamp after)
{
    bson_t concern;
    bool alone = mongo_topology_of(store) == MONGO_ALONE;
    BSON_APPEND_DOCUMENT_BEGIN(command, "readConcern", &concern);
    BSON_APPEND_UTF8(&concern, "level", alone ? "local" : "majority");
    if (after.value && !alone)
        mongo_append_stamp(&concern, "afterClusterTime", after);
    bson_append_document_end(command, &concern);
    BSON_APPEND_INT32(command, "maxTimeMS", (int32_t)store->work.limits.wait_ms);
}

/* A linearizable read is by _id and outside a session; it does not allow afterClusterTime (R8). */
void mongo_append_linearizable(mongo_store *store, bson_t *command)
{
    bson_t concern;
    if (mongo_topology_of(store) == MONGO_ALONE) {
        mongo_append_read_concern(store, command, (hf_stamp){0});
        return;
    }
    BSON_APPEND_DOCUMENT_BEGIN(command, "readConcern", &concern);
    BSON_APPEND_UTF8(&concern, "level", "linearizable");
    bson_append_document_end(command, &concern);
    BSON_APPEND_INT32(command, "maxTimeMS", (int32_t)store->work.limits.wait_ms);
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

/* Once. *again: the member that was the primary last is so no longer; nothing was sent. */
static hf_code run(mongo_store *store, const mongo_call *call, const bson_t *command,
                   mongo_reply *reply, bool *again, hf_error *err)
{
    bson_error_t error;
    mongo_pool *pool = call->is_beat && !call->can_wait ? &store->beats : &store->work;
    const char *database = call->database ? call->database : store->uri.database;
    mongo_connection *connection;
    hf_code code = mongo_pool_take(store, pool, call, &connection, err);
    *again = false;
    *reply = (mongo_reply){.server_code = 0};
    if (code) {
        bson_init(&reply->doc);
        return code;
    }
    bool ok = mongoc_client_command_simple(connection->client, database, command, NULL, &reply->doc,
                                           &error);
    note_stamp(store, reply);
    if (ok)
        mongo_refusal_forget(&store->refusal);
    else {
        *again = connection->is_hinted && mongo_connection_is_unsent(&error);
        mongo_connection_explain(connection, &error);
        reply->server_code = (int32_t)mongo_int_at(&reply->doc, "code", 0);
        code = mongo_connection_is_untrusted(connection)
                   ? mongo_untrusted(store, call, &error, err)
                   : mongo_fault(store, call, &error, &reply->doc, err);
    }
    mongo_pool_give(store, pool, call, connection, code == HF_UNREACHABLE || code == HF_UNKNOWN);
    if (ok && call->writes)
        code = mongo_write_fault(store, call, reply, err);
    return mongo_index_fault(store, call, code, reply, err);
}

hf_code mongo_run(mongo_store *store, const mongo_call *call, const bson_t *command,
                  mongo_reply *reply, hf_error *err)
{
    bool again;
    hf_code code = run(store, call, command, reply, &again, err);
    if (!again || mongo_is_hurried(store, 0))
        return code;
    bson_destroy(&reply->doc);
    return run(store, call, command, reply, &again, err);
}

/* MONGO_DUPLICATE: of two upserts at once, the other one won. A repeat finds its document. */
hf_code mongo_run_repeated(mongo_store *store, const mongo_call *call, const bson_t *command,
                           mongo_reply *reply, hf_error *err)
{
    hf_code code = mongo_run(store, call, command, reply, err);
    for (int i = 0; code && reply->server_code == MONGO_DUPLICATE && i < RACES; i++) {
        bson_destroy(&reply->doc);
        code = mongo_run(store, call, command, reply, err);
    }
    return code;
}

hf_code mongo_run_behind(mongo_store *store, const mongo_call *call, const bson_t *command,
                         mongo_reply *reply, hf_error *err)
{
    hf_code code = mongo_run(store, call, command, reply, err);
    for (int i = 0; code && reply->server_code == BEHIND && i < REPEATS; i++) {
        bson_destroy(&reply->doc);
        mongo_pause(store, 20L << i);
        code = mongo_run(store, call, command, reply, err);
    }
    if (code && reply->server_code == BEHIND)
        return error_set(err, HF_UNREACHABLE,
                         "mongodb at %s: the primary is behind what was seen before; try again",
                         store->uri.hosts);
    return code;
}

hf_code mongo_cursor_fault(mongo_store *store, const mongo_call *call,
                           const mongo_connection *connection, mongoc_cursor_t *cursor,
                           hf_error *err)
{
    const bson_t *reply;
    bson_error_t error;
    if (!mongoc_cursor_error_document(cursor, &error, &reply))
        return HF_OK;
    mongo_connection_explain(connection, &error);
    return mongo_fault(store, call, &error, reply, err);
}

void mongo_kill_cursor(mongo_store *store, const mongo_call *call, const char *collection,
                       int64_t cursor)
{
    bson_t command = BSON_INITIALIZER, cursors;
    mongo_reply reply;
    mongo_begin(&command, "killCursors", collection);
    BSON_APPEND_ARRAY_BEGIN(&command, "cursors", &cursors);
    BSON_APPEND_INT64(&cursors, "0", cursor);
    bson_append_array_end(&command, &cursors);
    mongo_run(store, call, &command, &reply, NULL);
    bson_destroy(&reply.doc);
    bson_destroy(&command);
}

void mongo_append_stage(bson_t *stages, size_t *n, const char *verb, const bson_t *what)
{
    bson_t stage;
    char key[16];
    bson_append_document_begin(stages, mongo_key((*n)++, key), -1, &stage);
    bson_append_document(&stage, verb, -1, what);
    bson_append_document_end(stages, &stage);
}
