/* SPDX-License-Identifier: Apache-2.0 */
/* pool.c: keeps the connections of a store, one for each call under way; command.c and the calls
 * that read cursors use them.
 *
 * These are single-threaded clients, not a pool of the driver. The driver's pool takes three times
 * as long to connect, and half a second to close (its monitors check every 500 ms whether to end);
 * each `holdfast run` would pay for that. The drawback of a single-threaded client is that it
 * refuses a lost server for 5 s. So a client that met an error is thrown away, and the next call
 * starts with a new one (R7). */
#include "store/mongo/driver/pool.h"
#include "core/lease.h"
#include "store/kernel_time.h"
#include "store/mongo/driver/builder.h"
#include "store/mongo/driver/command.h"
#include "store/mongo/driver/fault.h"
#include "store/mongo/driver/set.h"
#include "sync/mutex_scope.h"

/* We use only the primary, and throw clients away after errors. So no call has to visit all
 * members, one of which may be slow to answer. */
#define REVISIT_MS 600000
#define IDLE_MS                                                                                    \
    10000 /* a connection beside another one that was not needed for so long is closed */
#define POLITE_NS                                                                                  \
    250000000 /* if saying good-bye takes longer than this, later clients do not say it */

static void set_number(mongoc_uri_t *uri, const char *key, int64_t value)
{
    mongoc_uri_set_option_as_int32(uri, key, (int32_t)value);
}

static void set_limits(mongoc_uri_t *uri, const mongo_limits *limits)
{
    mongoc_uri_set_option_as_bool(uri, MONGOC_URI_RETRYWRITES, false);
    mongoc_uri_set_option_as_bool(uri, MONGOC_URI_RETRYREADS, false);
    mongoc_uri_set_option_as_bool(uri, MONGOC_URI_SERVERSELECTIONTRYONCE, true);
    set_number(uri, MONGOC_URI_SERVERSELECTIONTIMEOUTMS, limits->connect_ms);
    set_number(uri, MONGOC_URI_CONNECTTIMEOUTMS, limits->connect_ms);
    set_number(uri, MONGOC_URI_SOCKETTIMEOUTMS, limits->socket_ms);
    set_number(uri, MONGOC_URI_HEARTBEATFREQUENCYMS, REVISIT_MS);
    if (!mongoc_uri_get_appname(uri))
        mongoc_uri_set_appname(uri, "holdfast");
}

void mongo_pool_init(mongo_pool *pool, const mongoc_uri_t *uri, mongo_limits limits)
{
    *pool = (mongo_pool){.uri = mongoc_uri_copy(uri), .limits = limits};
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->given, NULL);
    set_limits(pool->uri, &limits);
}

/* Sends nothing to the server, which may not answer. */
static void throw_away(mongoc_client_t *client)
{
    mongoc_client_reset(client);
    mongoc_client_destroy(client);
}

void mongo_pool_done(mongo_store *store, mongo_pool *pool)
{
    bool is_polite = true;
    while (pool->n_idle) {
        mongoc_client_t *client = pool->idle[--pool->n_idle];
        int64_t start_ns = mongo_mono(store).ns;
        if (is_polite)
            mongoc_client_destroy(client);
        else
            throw_away(client);
        is_polite &= mongo_mono(store).ns - start_ns < POLITE_NS;
    }
    mongoc_uri_destroy(pool->uri);
    pthread_cond_destroy(&pool->given);
    pthread_mutex_destroy(&pool->mutex);
}

/* The driver reports each command when it is over, those of cursors included. */
static void count(void *ctx)
{
    mongo_store *store = ctx;
    __atomic_fetch_add(&store->base.round_trips, 1, __ATOMIC_RELAXED);
}

static void on_answer(const mongoc_apm_command_succeeded_t *event)
{
    count(mongoc_apm_command_succeeded_get_context(event));
}

static void on_error(const mongoc_apm_command_failed_t *event)
{
    count(mongoc_apm_command_failed_get_context(event));
}

static void on_hello(const mongoc_apm_server_heartbeat_succeeded_t *event)
{
    mongo_note_hello(mongoc_apm_server_heartbeat_succeeded_get_context(event),
                     mongoc_apm_server_heartbeat_succeeded_get_reply(event));
}

static void hear_of_answers(mongo_store *store, mongoc_client_t *client)
{
    mongoc_apm_callbacks_t *callbacks = mongoc_apm_callbacks_new();
    mongoc_apm_set_command_succeeded_cb(callbacks, on_answer);
    mongoc_apm_set_command_failed_cb(callbacks, on_error);
    mongoc_apm_set_server_heartbeat_succeeded_cb(callbacks, on_hello);
    mongoc_client_set_apm_callbacks(client, callbacks, store);
    mongoc_apm_callbacks_destroy(callbacks);
}

/* The URI's text with this host instead of its own. What is before the last '@' are a name and a
 * password. */
static char *text_to(const char *text, const char *host)
{
    const char *from = strstr(text, "://") + 3, *end = from + strcspn(from, "/?");
    for (const char *at = from; at < end; at++)
        if (*at == '@')
            from = at + 1;
    mongo_builder out = builder_begin("");
    builder_add_format(&out, "%.*s%s%s", (int)(from - text), text, host, end);
    return out.text;
}

/* To the primary alone; NULL: it is not known. */
static mongoc_uri_t *uri_to_primary(mongo_store *store, const mongo_pool *pool)
{
    char primary[MONGO_HOST_SIZE];
    if (!pool->limits.is_direct || !mongo_primary_of(store, primary))
        return NULL;
    char *text = text_to(mongoc_uri_get_string(pool->uri), primary);
    mongoc_uri_t *uri = mongoc_uri_new(text);
    free(text);
    if (!uri)
        return NULL;
    set_limits(uri, &pool->limits);
    mongoc_uri_set_option_as_bool(uri, MONGOC_URI_DIRECTCONNECTION, true);
    return uri;
}

static mongoc_client_t *new_client(mongo_store *store, mongo_pool *pool, bson_error_t *error)
{
    mongoc_uri_t *uri = uri_to_primary(store, pool);
    mongoc_client_t *client = mongoc_client_new_from_uri_with_error(uri ? uri : pool->uri, error);
    if (uri)
        mongoc_uri_destroy(uri);
    return client;
}

/* Those that can wait go one after the other, and open no connection beside others. But none waits
 * for long: a server may not answer. */
static void await_turn_locked(mongo_pool *pool)
{
    struct timespec until = kernel_time_in(pool->limits.turn_ms);
    while ((pool->n_patient || (!pool->n_idle && pool->n_taken)) &&
           !pthread_cond_clockwait(&pool->given, &pool->mutex, CLOCK_MONOTONIC, &until))
        ;
}

/* NULL: none is idle. */
static mongoc_client_t *take_idle(mongo_pool *pool, const mongo_call *call)
{
    MUTEX_SCOPE(&pool->mutex);
    if (call->can_wait)
        await_turn_locked(pool);
    pool->n_taken++;
    pool->n_patient += call->can_wait;
    return pool->n_idle ? pool->idle[--pool->n_idle] : NULL;
}

static void note_given_locked(mongo_pool *pool, const mongo_call *call)
{
    pool->n_taken--;
    pool->n_patient -= call->can_wait;
    pthread_cond_broadcast(&pool->given);
}

/* None came, or it was thrown away. */
static void note_gone(mongo_pool *pool, const mongo_call *call)
{
    MUTEX_SCOPE(&pool->mutex);
    note_given_locked(pool, call);
}

hf_code mongo_pool_take(mongo_store *store, mongo_pool *pool, const mongo_call *call,
                        mongoc_client_t **out, hf_error *err)
{
    bson_error_t error;
    *out = take_idle(pool, call);
    if (*out)
        return HF_OK;
    *out = new_client(store, pool, &error);
    if (!*out) {
        note_gone(pool, call);
        return mongo_fault(store, call, &error, NULL, err);
    }
    mongoc_client_set_error_api(*out, MONGOC_ERROR_API_VERSION_2);
    hear_of_answers(store, *out);
    return HF_OK;
}

static void throw_idle_away(mongo_pool *pool)
{
    mongoc_client_t *idle[MONGO_IDLE_MAX];
    pthread_mutex_lock(&pool->mutex);
    size_t n = pool->n_idle;
    for (size_t i = 0; i < n; i++)
        idle[i] = pool->idle[i];
    pool->n_idle = 0;
    pthread_mutex_unlock(&pool->mutex);
    for (size_t i = 0; i < n; i++)
        throw_away(idle[i]);
}

/* The one that was idle for the longest time; NULL: all were needed lately, or it is the only one.
 */
static mongoc_client_t *take_unneeded_locked(mongo_pool *pool, hf_mono now)
{
    if (pool->n_idle < 2 || !mono_reached(mono_add_ms(pool->idle_since[0], IDLE_MS), now))
        return NULL;
    mongoc_client_t *client = pool->idle[0];
    pool->n_idle--;
    memmove(pool->idle, pool->idle + 1, pool->n_idle * sizeof *pool->idle);
    memmove(pool->idle_since, pool->idle_since + 1, pool->n_idle * sizeof *pool->idle_since);
    return client;
}

void mongo_pool_give(mongo_store *store, mongo_pool *pool, const mongo_call *call,
                     mongoc_client_t *client, bool has_failed)
{
    if (has_failed) {
        mongo_forget_primary(store);
        throw_away(client);
        throw_idle_away(pool);
        note_gone(pool, call);
        return;
    }
    hf_mono now = mongo_mono(store);
    pthread_mutex_lock(&pool->mutex);
    bool has_room = pool->n_idle < MONGO_IDLE_MAX;
    if (has_room) {
        pool->idle_since[pool->n_idle] = now;
        pool->idle[pool->n_idle++] = client;
    }
    mongoc_client_t *unneeded = take_unneeded_locked(pool, now);
    note_given_locked(pool, call);
    pthread_mutex_unlock(&pool->mutex);
    if (!has_room)
        mongoc_client_destroy(client);
    if (unneeded)
        throw_away(unneeded);
}
