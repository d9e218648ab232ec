/* SPDX-License-Identifier: Apache-2.0 */
/* connection.c: makes connections to the primary, and says when one is to be given up; pool.c keeps
 * them, stream.c carries their bytes.
 *
 * These are single-threaded clients, not a pool of the driver. The driver's pool takes three times
 * as long to connect, and half a second to close (its monitors check every 500 ms whether to end);
 * each `holdfast run` would pay for that. A single-threaded client asks all members, and waits
 * until each has answered or timed out; our streams end that as soon as the primary has answered.
 * It also refuses a lost server for 5 s. So a client that met an error is thrown away, and the next
 * call starts with a new one (R7). */
#include "store/mongo/driver/connection.h"
#include "core/alloc.h"
#include "store/kernel_time.h"
#include "store/mongo/driver/builder.h"
#include "store/mongo/driver/pool.h"
#include "store/mongo/driver/server.h"
#include "store/mongo/driver/set.h"
#include "store/mongo/driver/store.h"
#include "store/mongo/driver/stream.h"

/* A connection that met no error leads to the primary, so no call has to visit all members again,
 * one of which may be slow to answer. */
#define REVISIT_MS INT32_MAX
/* The driver would ask whether a connection that was idle for 5 s still works, and pay a round trip
 * for that. A call that meets a broken one is repeated by its caller. */
#define CHECK_MS INT32_MAX
#define HINT_MS 1000    /* for how long the last primary is asked alone, at least */
#define CLOSING_MS 2000 /* for how long a call may take that begins while the store is closed */
#define DOUBT_MS 1000   /* between two questions who the primary is, while a call is unanswered */

static int64_t now_ms(void)
{
    return kernel_ms(CLOCK_MONOTONIC);
}

/* ---- Settings ---- */

static void set_number(mongoc_uri_t *uri, const char *key, int64_t value)
{
    mongoc_uri_set_option_as_int32(uri, key, (int32_t)value);
}

void mongo_connection_set_limits(mongoc_uri_t *uri, const mongo_limits *limits)
{
    mongoc_uri_set_option_as_bool(uri, MONGOC_URI_RETRYWRITES, false);
    mongoc_uri_set_option_as_bool(uri, MONGOC_URI_RETRYREADS, false);
    mongoc_uri_set_option_as_bool(uri, MONGOC_URI_SERVERSELECTIONTRYONCE, true);
    set_number(uri, MONGOC_URI_SERVERSELECTIONTIMEOUTMS, limits->connect_ms);
    set_number(uri, MONGOC_URI_CONNECTTIMEOUTMS, limits->connect_ms);
    set_number(uri, MONGOC_URI_SOCKETTIMEOUTMS, limits->socket_ms);
    set_number(uri, MONGOC_URI_HEARTBEATFREQUENCYMS, REVISIT_MS);
    set_number(uri, MONGOC_URI_SOCKETCHECKINTERVALMS, CHECK_MS);
    mongoc_uri_set_compressors(uri, NULL); /* checked.c looks into each reply */
    if (!mongoc_uri_get_appname(uri))
        mongoc_uri_set_appname(uri, "holdfast");
}

/* ---- What the driver reports ---- */

/* Commands when they are over, those of cursors included. */
static void count(void *ctx)
{
    mongo_connection *connection = ctx;
    __atomic_fetch_add(&connection->store->base.round_trips, 1, __ATOMIC_RELAXED);
}

static void on_answer(const mongoc_apm_command_succeeded_t *event)
{
    count(mongoc_apm_command_succeeded_get_context(event));
}

static void on_error(const mongoc_apm_command_failed_t *event)
{
    count(mongoc_apm_command_failed_get_context(event));
}

static void on_asked(const mongoc_apm_server_heartbeat_started_t *event)
{
    mongo_connection *connection = mongoc_apm_server_heartbeat_started_get_context(event);
    mongo_scan_asks(&connection->scan,
                    mongoc_apm_server_heartbeat_started_get_host(event)->host_and_port, now_ms());
}

static void on_hello(const mongoc_apm_server_heartbeat_succeeded_t *event)
{
    mongo_connection *connection = mongoc_apm_server_heartbeat_succeeded_get_context(event);
    const bson_t *hello = mongoc_apm_server_heartbeat_succeeded_get_reply(event);
    mongo_scan *scan = &connection->scan;
    int64_t now = now_ms();
    mongo_scan_hears(scan, mongoc_apm_server_heartbeat_succeeded_get_host(event)->host_and_port,
                     hello, now);
    mongo_note_hello(connection->store, hello, now - scan->began_ms);
    mongo_hello_primary(hello, connection->primary);
}

static void on_miss(const mongoc_apm_server_heartbeat_failed_t *event)
{
    mongo_connection *connection = mongoc_apm_server_heartbeat_failed_get_context(event);
    bson_error_t error;
    mongoc_apm_server_heartbeat_failed_get_error(event, &error);
    if (now_ms() < mongo_scan_ends_ms(&connection->scan)) /* otherwise we have hung up */
        mongo_scan_misses(&connection->scan,
                          mongoc_apm_server_heartbeat_failed_get_host(event)->host_and_port,
                          error.message);
}

static void hear_of_answers(mongo_connection *connection)
{
    mongoc_apm_callbacks_t *callbacks = mongoc_apm_callbacks_new();
    mongoc_apm_set_command_succeeded_cb(callbacks, on_answer);
    mongoc_apm_set_command_failed_cb(callbacks, on_error);
    mongoc_apm_set_server_heartbeat_started_cb(callbacks, on_asked);
    mongoc_apm_set_server_heartbeat_succeeded_cb(callbacks, on_hello);
    mongoc_apm_set_server_heartbeat_failed_cb(callbacks, on_miss);
    mongoc_client_set_apm_callbacks(connection->client, callbacks, connection);
    mongoc_apm_callbacks_destroy(callbacks);
}

/* ---- Where one goes ---- */

/* The URI's text with these hosts instead of its own. What is before the last '@' are a name and a
 * password. */
static char *text_to(const char *text, const char *hosts)
{
    const char *from = strstr(text, "://") + 3, *end = from + strcspn(from, "/?");
    for (const char *at = from; at < end; at++)
        if (*at == '@')
            from = at + 1;
    mongo_builder out = builder_begin("");
    builder_add_format(&out, "%.*s%s%s", (int)(from - text), text, hosts, end);
    return out.text;
}

/* The same with other hosts; NULL: there are none, or the text says where the hosts stand, and more
 * (mongodb+srv). */
static mongoc_uri_t *uri_to(const mongoc_uri_t *uri, const char *hosts)
{
    if (!*hosts || mongoc_uri_get_srv_hostname(uri))
        return NULL;
    char *text = text_to(mongoc_uri_get_string(uri), hosts);
    mongoc_uri_t *to = mongoc_uri_new(text);
    free(text);
    return to;
}

/* To the last primary alone. It must still be that: the set is named, so the driver refuses another
 * member. */
static mongoc_uri_t *uri_to_primary(mongo_store *store, const mongoc_uri_t *uri,
                                    const mongo_limits *limits, char primary[MONGO_HOST_SIZE])
{
    mongo_set_seen seen;
    mongo_set_get(store, &seen);
    mongoc_uri_t *to = uri_to(uri, seen.primary);
    mongo_limits hinted = *limits;
    if (!to)
        return NULL;
    strcpy(primary, seen.primary);
    if (hinted.connect_ms > HINT_MS + 2 * seen.took_ms)
        hinted.connect_ms = HINT_MS + 2 * seen.took_ms;
    mongo_connection_set_limits(to, &hinted);
    mongoc_uri_set_option_as_utf8(to, MONGOC_URI_REPLICASET, seen.name);
    return to;
}

/* To all members that the set has named, and to those of the URI, which may be others now. */
static mongoc_uri_t *uri_to_members(mongo_store *store, const mongoc_uri_t *uri,
                                    const mongo_limits *limits)
{
    mongo_set_seen seen;
    mongo_set_get(store, &seen);
    mongoc_uri_t *to = uri_to(uri, seen.members);
    if (to)
        mongo_connection_set_limits(to, limits);
    return to;
}

/* ---- Giving one up ---- */

void mongo_hurry(hf_store *base)
{
    atomic_fetch_add(&((mongo_store *)base)->hurried, 1);
}

/* Asks all members at once, over connections of their own, until another one says that it is the
 * primary, or the call that doubts has its answer; what they say is noted. */
static void ask_all(const mongo_connection *doubted, int64_t most_ms)
{
    mongo_store *store = doubted->store;
    mongo_connection *asking =
        mongo_connection_new(store, store->work.uri, &store->work.limits, false, NULL);
    if (!asking)
        return;
    if (asking->connect_ms > most_ms)
        asking->connect_ms = most_ms;
    mongo_connection_begin(asking, 0);
    asking->hurried = doubted->hurried;
    asking->watched = doubted->unanswered;
    asking->scan.doubted = doubted->primary;
    mongoc_server_description_destroy(
        mongoc_client_select_server(asking->client, true, NULL, NULL));
    mongo_connection_free(asking, false);
}

/* One call asks for all. */
static void doubt(const mongo_connection *connection, int64_t most_ms)
{
    mongo_store *store = connection->store;
    if (atomic_exchange(&store->is_asking, true))
        return;
    if (now_ms() >= atomic_load(&store->asks_ms))
        ask_all(connection, most_ms);
    atomic_store(&store->asks_ms, now_ms() + DOUBT_MS);
    atomic_store(&store->is_asking, false);
}

static bool is_given_up(mongo_connection *connection, int64_t until_ms)
{
    mongo_store *store = connection->store;
    mongo_set_seen seen;
    int64_t now = now_ms();
    if (mongo_is_hurried(store, connection->hurried) ||
        (connection->hurried && now >= connection->began_ms + CLOSING_MS))
        return true;
    mongo_set_get(store, &seen);
    if (!*seen.name || !*connection->primary) /* no set is looked for */
        return false;
    if (!mongo_set_is_former(store, connection->primary) && now >= atomic_load(&store->asks_ms))
        doubt(connection, until_ms - now);
    return mongo_set_is_former(store, connection->primary);
}

/* ---- Making and ending one ---- */

/* Before the first command, hello included. */
static void name_api(mongoc_client_t *client, const mongo_uri *uri)
{
    if (!uri->api)
        return;
    mongoc_server_api_t *api = mongoc_server_api_new(MONGOC_SERVER_API_V1);
    mongoc_client_set_server_api(client, api, NULL);
    mongoc_server_api_destroy(api);
}

mongo_connection *mongo_connection_new(mongo_store *store, const mongoc_uri_t *uri,
                                       const mongo_limits *limits, bool is_hinted,
                                       bson_error_t *error)
{
    char primary[MONGO_HOST_SIZE] = "";
    mongoc_uri_t *own = is_hinted ? uri_to_primary(store, uri, limits, primary) : NULL;
    if (!own)
        own = uri_to_members(store, uri, limits);
    const mongoc_uri_t *to = own ? own : uri;
    mongoc_client_t *client = mongoc_client_new_from_uri_with_error(to, error);
    int64_t connect_ms = mongoc_uri_get_option_as_int32(to, MONGOC_URI_CONNECTTIMEOUTMS, 0);
    mongoc_uri_destroy(own);
    if (!client)
        return NULL;
    mongo_connection *connection = alloc_zeroed(sizeof *connection);
    *connection = (mongo_connection){.store = store,
                                     .client = client,
                                     .is_hinted = *primary,
                                     .connect_ms = connect_ms,
                                     .is_given_up = is_given_up};
    strcpy(connection->primary, primary);
    mongoc_client_set_error_api(client, MONGOC_ERROR_API_VERSION_2);
    name_api(client, &store->uri);
    mongoc_client_set_stream_initiator(client, mongo_stream_open, connection);
    hear_of_answers(connection);
    connection->scan.finds_set = mongo_looks_for_a_set(store->uri.driver);
    connection->scan.set = mongoc_uri_get_replica_set(store->uri.driver);
    return connection;
}

/* Without the reset the driver tells the server, which may not answer. */
void mongo_connection_free(mongo_connection *connection, bool is_polite)
{
    if (!is_polite)
        mongoc_client_reset(connection->client);
    mongoc_client_destroy(connection->client);
    mongo_scan_done(&connection->scan);
    free(connection);
}

/* ---- A call ---- */

/* While the store is being closed, no call waits for long. */
void mongo_connection_begin(mongo_connection *connection, int64_t quiet_ms)
{
    mongo_store *store = connection->store;
    connection->hurried = atomic_load(&store->hurried);
    connection->began_ms = now_ms();
    connection->doubt_ms = connection->began_ms + quiet_ms;
    connection->bound = mongo_bound_now();
    connection->is_odd = false;
    int64_t left_ms = mongo_bound_left_ms(connection->bound, mongo_mono(store));
    int64_t most_ms = left_ms < connection->connect_ms ? left_ms : connection->connect_ms;
    connection->until_ms = left_ms == INT64_MAX ? INT64_MAX : connection->began_ms + left_ms;
    if (connection->hurried && most_ms > CLOSING_MS)
        most_ms = CLOSING_MS;
    mongo_scan_begin(&connection->scan, most_ms);
}

bool mongo_connection_is_cut(const mongo_connection *connection)
{
    return now_ms() >= connection->until_ms || mongo_bound_is_cancelled(connection->bound);
}

bool mongo_connection_is_unsent(const bson_error_t *error)
{
    return error->domain == MONGOC_ERROR_SERVER_SELECTION;
}

bool mongo_connection_is_untrusted(const mongo_connection *connection)
{
    return atomic_load(&connection->store->topology) == MONGO_UNSEEN &&
           mongo_scan_is_untrusted(&connection->scan);
}

void mongo_connection_explain(const mongo_connection *connection, bson_error_t *error)
{
    bool is_common = error->domain == MONGOC_ERROR_SERVER_SELECTION &&
                     error->code == MONGOC_ERROR_SERVER_SELECTION_FAILURE;
    if (is_common && connection->scan.n)
        mongo_scan_tell(&connection->scan, now_ms(), error->message, sizeof error->message);
    if (connection->is_odd)
        bson_strncpy(error->message, "the reply is not that of a MongoDB server",
                     sizeof error->message);
}
