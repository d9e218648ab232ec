/* SPDX-License-Identifier: Apache-2.0 */
/* pool.c: keeps the connections of a store, one for each call under way; command.c and the calls
 * that read cursors use them. */
#include "store/mongo/driver/pool.h"
#include "core/lease.h"
#include "store/kernel_time.h"
#include "store/mongo/driver/builder.h"
#include "store/mongo/driver/command.h"
#include "store/mongo/driver/fault.h"
#include "store/mongo/driver/set.h"
#include "sync/mutex_scope.h"

#define IDLE_MS                                                                                    \
    10000 /* a connection beside another one that was not needed for so long is closed */
#define POLITE_NS                                                                                  \
    250000000 /* if saying good-bye takes longer than this, later clients do not say it */

void mongo_pool_init(mongo_pool *pool, const mongoc_uri_t *uri, mongo_limits limits)
{
    *pool = (mongo_pool){.uri = mongoc_uri_copy(uri), .limits = limits};
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->given, NULL);
    mongo_connection_set_limits(pool->uri, &limits);
}

void mongo_pool_done(mongo_store *store, mongo_pool *pool)
{
    bool is_polite = true;
    while (pool->n_idle) {
        int64_t start_ns = mongo_mono(store).ns;
        mongo_connection_free(pool->idle[--pool->n_idle], is_polite);
        is_polite &= mongo_mono(store).ns - start_ns < POLITE_NS;
    }
    mongoc_uri_destroy(pool->uri);
    pthread_cond_destroy(&pool->given);
    pthread_mutex_destroy(&pool->mutex);
}

/* Those that can wait go one after the other, and open no connection beside others. But none waits
 * for long: a server may not answer. */
static void await_turn_locked(mongo_pool *pool, int64_t turn_ms)
{
    struct timespec until = kernel_time_in(turn_ms);
    while ((pool->n_patient || (!pool->n_idle && pool->n_taken)) &&
           !pthread_cond_clockwait(&pool->given, &pool->mutex, CLOCK_MONOTONIC, &until))
        ;
}

/* left_ms: for how long the caller waits. NULL: none is idle. */
static mongo_connection *take_idle(mongo_pool *pool, const mongo_call *call, int64_t left_ms)
{
    MUTEX_SCOPE(&pool->mutex);
    if (call->can_wait)
        await_turn_locked(pool, left_ms < pool->limits.turn_ms ? left_ms : pool->limits.turn_ms);
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
                        mongo_connection **out, hf_error *err)
{
    bson_error_t error;
    *out = take_idle(pool, call, mongo_bound_left_ms(mongo_bound_now(), mongo_mono(store)));
    if (!*out)
        *out = mongo_connection_new(store, pool->uri, &pool->limits, true, &error);
    if (!*out) {
        note_gone(pool, call);
        return mongo_fault(store, call, &error, NULL, err);
    }
    mongo_connection_begin(*out, MONGO_QUIET_MS);
    return HF_OK;
}

/* Takes the idle ones that lead where `failed` leads. */
static size_t take_like(mongo_pool *pool, const mongo_connection *failed,
                        mongo_connection *out[MONGO_IDLE_MAX])
{
    MUTEX_SCOPE(&pool->mutex);
    size_t n = 0, kept = 0;
    for (size_t i = 0; i < pool->n_idle; i++) {
        mongo_connection *idle = pool->idle[i];
        if (strcmp(idle->primary, failed->primary) == 0) {
            out[n++] = idle;
            continue;
        }
        pool->idle_since[kept] = pool->idle_since[i];
        pool->idle[kept++] = idle;
    }
    pool->n_idle = kept;
    return n;
}

/* The others are as good as they were, if it is only the caller who had no more time. */
static void throw_away(mongo_store *store, mongo_pool *pool, mongo_connection *failed)
{
    mongo_connection *idle[MONGO_IDLE_MAX];
    bool is_cut = mongo_connection_is_cut(failed);
    size_t n = is_cut ? 0 : take_like(pool, failed, idle);
    if (!is_cut)
        mongo_forget_primary(store, failed->primary);
    mongo_connection_free(failed, false);
    for (size_t i = 0; i < n; i++)
        mongo_connection_free(idle[i], false);
}

/* The one that was idle for the longest time; NULL: all were needed lately, or it is the only one.
 */
static mongo_connection *take_unneeded_locked(mongo_pool *pool, hf_mono now)
{
    if (pool->n_idle < 2 || !mono_reached(mono_add_ms(pool->idle_since[0], IDLE_MS), now))
        return NULL;
    mongo_connection *connection = pool->idle[0];
    pool->n_idle--;
    memmove(pool->idle, pool->idle + 1, pool->n_idle * sizeof *pool->idle);
    memmove(pool->idle_since, pool->idle_since + 1, pool->n_idle * sizeof *pool->idle_since);
    return connection;
}

void mongo_pool_give(mongo_store *store, mongo_pool *pool, const mongo_call *call,
                     mongo_connection *connection, bool has_failed)
{
    if (has_failed) {
        throw_away(store, pool, connection);
        note_gone(pool, call);
        return;
    }
    hf_mono now = mongo_mono(store);
    mongo_bound_put_off(now);
    pthread_mutex_lock(&pool->mutex);
    bool has_room = pool->n_idle < MONGO_IDLE_MAX;
    if (has_room) {
        pool->idle_since[pool->n_idle] = now;
        pool->idle[pool->n_idle++] = connection;
    }
    mongo_connection *unneeded = take_unneeded_locked(pool, now);
    note_given_locked(pool, call);
    pthread_mutex_unlock(&pool->mutex);
    if (!has_room)
        mongo_connection_free(connection, true);
    if (unneeded)
        mongo_connection_free(unneeded, false);
}
