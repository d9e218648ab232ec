/* SPDX-License-Identifier: Apache-2.0 */
/* reading.c: keeps the listener's cursor and connection, and who wants it to wake up; see
 * reading.h. */
#include "store/mongo/shared/reading.h"
#include "store/mongo/driver/fault.h"
#include "store/mongo/driver/pool.h"
#include "store/mongo/driver/reply.h"
#include "sync/mutex_scope.h"

hf_code mongo_reading_connect(mongo_store *store, mongo_reading *reading, const mongo_call *call,
                              hf_error *err)
{
    bson_error_t error;
    if (reading->connection)
        return HF_OK;
    hf_code code = mongo_pool_take(store, &store->listens, call, &reading->connection, err);
    if (code)
        return code;
    reading->session = mongoc_client_start_session(reading->connection->client, NULL, &error);
    return reading->session ? HF_OK : mongo_fault(store, call, &error, NULL, err);
}

void mongo_reading_disconnect(mongo_store *store, mongo_reading *reading, bool has_failed)
{
    static const mongo_call call = {.what = "listening"};
    mongo_reading_set_cursor(store, reading, 0);
    if (reading->session)
        mongoc_client_session_destroy(reading->session);
    if (reading->connection)
        mongo_pool_give(store, &store->listens, &call, reading->connection, has_failed);
    reading->session = NULL;
    reading->connection = NULL;
}

static hf_code run(mongo_store *store, mongo_reading *reading, const mongo_call *call,
                   const bson_t *command, mongo_reply *reply, hf_error *err)
{
    bson_t opts = BSON_INITIALIZER;
    bson_error_t error;
    *reply = (mongo_reply){.server_code = 0};
    mongoc_client_session_append(reading->session, &opts, NULL);
    bool ok = mongoc_client_command_with_opts(reading->connection->client, store->uri.database,
                                              command, NULL, &opts, &reply->doc, &error);
    bson_destroy(&opts);
    if (ok)
        return HF_OK;
    mongo_connection_explain(reading->connection, &error);
    reply->server_code = (int32_t)mongo_int_at(&reply->doc, "code", 0);
    return mongo_fault(store, call, &error, &reply->doc, err);
}

hf_code mongo_reading_run(mongo_store *store, mongo_reading *reading, const mongo_call *call,
                          const bson_t *command, mongo_reply *reply, hf_error *err)
{
    mongo_connection_begin(reading->connection, MONGO_QUIET_MS);
    return run(store, reading, call, command, reply, err);
}

static void end_reading(mongo_store *store, mongo_reading *reading)
{
    MUTEX_SCOPE(&store->mutex);
    reading->is_reading = false;
}

hf_code mongo_reading_more(mongo_store *store, mongo_reading *reading, const mongo_call *call,
                           const char *collection, int64_t wait_ms, mongo_reply *reply,
                           hf_error *err)
{
    bson_t command = BSON_INITIALIZER;
    BSON_APPEND_INT64(&command, "getMore", reading->cursor);
    BSON_APPEND_UTF8(&command, "collection", collection);
    BSON_APPEND_INT64(&command, "maxTimeMS", wait_ms > 0 ? wait_ms : 1);
    mongo_connection_begin(reading->connection, wait_ms + MONGO_QUIET_MS);
    hf_code code = run(store, reading, call, &command, reply, err);
    end_reading(store, reading);
    bson_destroy(&command);
    return code;
}

void mongo_reading_set_cursor(mongo_store *store, mongo_reading *reading, int64_t cursor)
{
    MUTEX_SCOPE(&store->mutex);
    reading->cursor = cursor;
}

bool mongo_reading_begin(mongo_store *store, mongo_reading *reading)
{
    MUTEX_SCOPE(&store->mutex);
    return reading->is_reading = !reading->woken;
}

bool mongo_reading_wake(mongo_store *store, mongo_reading *reading, int64_t *cursor)
{
    MUTEX_SCOPE(&store->mutex);
    reading->woken = true;
    *cursor = reading->cursor;
    return reading->is_reading;
}

bool mongo_reading_is_woken(mongo_store *store, mongo_reading *reading)
{
    MUTEX_SCOPE(&store->mutex);
    return reading->woken;
}

static bool take_wake(mongo_store *store, mongo_reading *reading)
{
    MUTEX_SCOPE(&store->mutex);
    bool woken = reading->woken;
    reading->woken = false;
    return woken;
}

hf_code mongo_reading_await(mongo_store *store, mongo_reading *reading, int64_t timeout_ms,
                            mongo_reading_fn once, void *ctx, hf_error *err)
{
    int64_t left_ms = timeout_ms;
    bool has_given = false;
    hf_code code = HF_OK;
    do {
        if (take_wake(store, reading))
            return HF_OK;
        code = once(ctx, left_ms < MONGO_AWAIT_MS ? left_ms : MONGO_AWAIT_MS, &has_given, err);
        left_ms -= MONGO_AWAIT_MS;
    } while (!code && !has_given && left_ms > 0);
    take_wake(store, reading);
    return code;
}
