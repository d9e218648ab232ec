/* SPDX-License-Identifier: Apache-2.0 */
/* open.c: opens and closes a client. */
#include "client/hold/beat.h"
#include "client/hold/handle.h"
#include "client/hold/hold.h"
#include "client/hold/long_waits.h"
#include "client/lease/lease.h"
#include "client/wait/listen.h"

#include "core/alloc.h"
#include "core/error.h"
#include "core/text.h"
#include "store/kernel_time.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATIENCE_MS 30000
#define CALL_PATIENCE_MS 4000 /* of requests that may not wait */
#define LAST_MS 2000          /* for the ends of sessions and turns when a client is closed */
#define CLOCK_TRUST_MS 300000
#define DEADLOCK_MS 1000
#define DEADLOCK_LEAST_MS 10

/* What the client's threads do. */
static const tick_fn ticks[TICKERS] = {
    [TICK_WATCH] = belief_tick,        [TICK_BEAT] = beat_tick,
    [TICK_UPKEEP] = upkeep_tick,       [TICK_SWEEP] = sweep_tick,
    [TICK_LISTEN] = listen_tick,       [TICK_NOTIFY] = loss_notify_tick,
    [TICK_SEND] = release_tick_beside, [TICK_DEPART] = lease_depart_tick,
};

/* ---- Opening ---- */

static void set_who(hf_client *client)
{
    hf_session self = {.pid = client->identity.pid};
    snprintf(self.app, sizeof self.app, "%s", client->identity.app);
    snprintf(self.host, sizeof self.host, "%s", client->identity.host);
    session_who(&self, client->identity.who);
}

static int64_t ttl_of(const hf_options *options, const char *uri)
{
    return options->ttl_ms ? options->ttl_ms : hf_default_ttl_ms(uri);
}

static hf_code check_options(const hf_options *options, int64_t ttl_ms, hf_error *err)
{
    if (ttl_ms < LEASE_TTL_MIN_MS || ttl_ms > LEASE_TTL_MAX_MS)
        return error_set(err, HF_INVALID, "a ttl of %lld ms: it must be between 1 s and 1 h",
                         (long long)ttl_ms);
    if (options->stop_margin_ms < 0 || options->stop_margin_ms > ttl_ms / 2)
        return error_set(
            err, HF_INVALID,
            "a stop margin of %lld ms does not fit a ttl of %lld ms: at most half of it",
            (long long)options->stop_margin_ms, (long long)ttl_ms);
    if (options->patience_ms < 0 || options->call_patience_ms < 0)
        return error_set(err, HF_INVALID, "a patience of %lld ms is negative",
                         (long long)(options->patience_ms < 0 ? options->patience_ms
                                                              : options->call_patience_ms));
    if (options->deadlock_ms > 0 && options->deadlock_ms < DEADLOCK_LEAST_MS)
        return error_set(err, HF_INVALID,
                         "looking for deadlocks after %lld ms: at least %d, or "
                         "negative: never",
                         (long long)options->deadlock_ms, DEADLOCK_LEAST_MS);
    hf_code code = text_check("the name prefix", options->name_prefix, HF_TEXT_MAX, err);
    return code ? code : text_check("the app's name", options->app, 100, err);
}

/* Of an open store. */
static hf_code set_prefix(hf_client *client, const hf_options *options, hf_error *err)
{
    const hf_store *store = client->store;
    const char *prefix = options->name_prefix ? options->name_prefix : store->name_prefix;
    client->name_prefix = alloc_text(prefix ? prefix : "");
    if (!*client->name_prefix || !store->ops->canonical)
        return HF_OK;
    return error_set(err, HF_INVALID,
                     "the name prefix %.80s: protocol %s locks documents by their _id, and puts "
                     "nothing before it",
                     client->name_prefix, store->protocol);
}

/* What the processes hold that started this one and wait for it. */
static void inherit(hf_client *client)
{
    const char *held = secure_getenv("HOLDFAST_HELD");
    client->inherited = waits_items_read(held ? held : "");
}

static void init_threading(hf_client *client)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&client->changed, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutexattr_t
        adaptive; /* it is held for microseconds: to spin is cheaper than to sleep */
    pthread_mutexattr_init(&adaptive);
    pthread_mutexattr_settype(&adaptive, PTHREAD_MUTEX_ADAPTIVE_NP);
    pthread_mutex_init(&client->mutex, &adaptive);
    pthread_mutexattr_destroy(&adaptive);
    pthread_mutex_init(&client->log.mutex, NULL);
    client->tickers.is_threaded = true;
}

/* of_uri_ms: what the URI says; 0: nothing. */
static void set_patience(hf_client *client, const hf_options *options, int64_t of_uri_ms)
{
    int64_t said_ms = options->patience_ms ? options->patience_ms : of_uri_ms;
    int64_t call_ms = options->call_patience_ms;
    client->patience_ms = said_ms ? said_ms : PATIENCE_MS;
    client->call_patience_ms = call_ms ? call_ms : said_ms ? said_ms : CALL_PATIENCE_MS;
    client->release_patience_ms = call_ms ? call_ms : client->patience_ms;
    client->read_patience_ms = client->release_patience_ms;
}

static void set_options(hf_client *client, const hf_options *options, int64_t ttl_ms)
{
    client->identity.pid = getpid();
    client->env = options->env ? *options->env : env_linux;
    client->ttl_ms = ttl_ms;
    client->stop_margin_ms = options->stop_margin_ms;
    set_patience(client, options, 0);
    client->clock_trust_ms = options->clock_trust_ms ? options->clock_trust_ms : CLOCK_TRUST_MS;
    client->queue_max = HF_QUEUE_MAX;
    client->deadlock_ms = options->deadlock_ms ? options->deadlock_ms : DEADLOCK_MS;
    client->log.fn = options->log;
    client->log.ctx = options->log_ctx;
    client->guardian.fd = client->guardian.life = -1;
    snprintf(client->identity.app, sizeof client->identity.app, "%s",
             options->app ? options->app : program_invocation_short_name);
    if (gethostname(client->identity.host, sizeof client->identity.host - 1))
        snprintf(client->identity.host, sizeof client->identity.host, "localhost");
    set_who(client);
}

static hf_client *client_new(const hf_options *options, int64_t ttl_ms)
{
    hf_client *client = alloc_zeroed(sizeof *client);
    set_options(client, options, ttl_ms);
    inherit(client);
    init_threading(client);
    client->tickers.ticks = ticks;
    client->hold = hold_new(options->local_turns);
    return client;
}

static void client_free(hf_client *client)
{
    guardian_free(client);
    session_forget(&client->session);
    waker_free_all(&client->wakers);
    hold_free(client->hold);
    free(client->name_prefix);
    free(client->inherited.of);
    free(client);
}

static void log_for_store(void *ctx, hf_log_level level, const char *text)
{
    client_log(ctx, level, "%s", text);
}

/* The members that the caller's program was compiled with; the others are 0. */
static hf_options options_of(const hf_options *given)
{
    hf_options options = {0};
    size_t size =
        given && given->struct_size ? given->struct_size : offsetof(hf_options, call_patience_ms);
    if (given)
        memcpy(&options, given, size < sizeof options ? size : sizeof options);
    return options;
}

hf_code hf_open(const char *uri, const hf_options *given, hf_client **out, hf_error *err)
{
    const hf_options all = options_of(given), *options = &all;
    error_clear(err);
    int64_t ttl_ms = ttl_of(options, uri);
    hf_code code = check_options(options, ttl_ms, err);
    if (code)
        return code;
    hf_client *client = client_new(options, ttl_ms);
    hf_store_config config = {.ttl_ms = client->ttl_ms,
                              .env = &client->env,
                              .log = log_for_store,
                              .log_ctx = client,
                              .chooses_ttl = !options->ttl_ms};
    int64_t patience_ms = 0;
    code = hf_store_open(uri, &config, &client->store, &patience_ms, err);
    if (code) {
        client_free(client);
        return code;
    }
    if (patience_ms > 0)
        set_patience(client, options, patience_ms);
    if (client->store->ttl_ms)
        client->ttl_ms = client->store->ttl_ms;
    guardian_init(client, options->guardian, uri);
    code = set_prefix(client, options, err);
    if (code)
        hf_close(client);
    else
        *out = client;
    return code;
}

hf_code hf_open_on(hf_store *store, const hf_options *given, hf_client **out, hf_error *err)
{
    const hf_options all = options_of(given), *options = &all;
    error_clear(err);
    int64_t ttl_ms = ttl_of(options, NULL);
    hf_code code = check_options(options, ttl_ms, err);
    if (code)
        return code;
    hf_client *client = client_new(options, ttl_ms);
    client->store = store;
    code = set_prefix(client, options, err);
    if (code)
        client_free(client);
    else
        *out = client;
    return code;
}

const char *hf_client_protocol(const hf_client *client)
{
    return client->store->protocol;
}

int hf_client_keep_fd(hf_client *client)
{
    if (client_usable(client, NULL))
        return -1;
    pthread_mutex_lock(&client->mutex);
    bool alive = client->session.state == SESSION_ALIVE;
    hf_id id = client->session.self.id;
    pthread_mutex_unlock(&client->mutex);
    if (!alive)
        return -1;
    return client->store->ops->keep_fd ? client->store->ops->keep_fd(client->store, id)
                                       : guardian_keep_fd(client);
}

size_t hf_client_held(hf_client *client, char *out, size_t size)
{
    waits_item *held = alloc_array(NULL, WAITS_HOLDS_MAX, sizeof *held);
    pthread_mutex_lock(&client->mutex);
    size_t n = long_waits_all_holds_locked(client, held);
    pthread_mutex_unlock(&client->mutex);
    char *text = waits_items_write(&(waits_items){held, n});
    int length = snprintf(out, size, "%s", text);
    free(text);
    free(held);
    return (size_t)length;
}

/* ---- Closing ---- */

/* Goes on as long as releases are acknowledged. Returns whether the store answers. */
static bool await_the_end_locked(hf_client *client)
{
    bool in_time = true;
    while (client->hold->requests || client->closing.calls)
        pthread_cond_wait(&client->changed, &client->mutex);
    while (client->hold->releases.first && in_time) {
        struct timespec until = kernel_time_in(client_close_ms(client));
        in_time = pthread_cond_timedwait(&client->changed, &client->mutex, &until) == 0;
    }
    if (client->hold->releases.first)
        return client->hold->releases.is_answered;
    return !client->is_silent;
}

static void say_the_last(hf_client *client, bool store_answers)
{
    BOUND_SCOPE(client->store, mono_add_ms(client_now(client), LAST_MS), NULL);
    lease_depart_close(client, store_answers);
    life_close(client, store_answers);
    diary_close(client, store_answers);
}

void hf_close(hf_client *client)
{
    if (!client)
        return;
    if (getpid() != client->identity.pid) {
        turns_free(client);
        handle_abandon_all(client);
        client->store->ops->close(client->store); /* its connections are the parent's: it knows */
        client_free(client);
        return;
    }
    pthread_mutex_lock(&client->mutex);
    client->closing.has_begun = true;
    client->closing.until = mono_add_ms(client_now(client), client_close_ms(client));
    loss_close_all_locked(client);
    release_hurry_locked(client);
    lock_request_wake_all_locked(client);
    ticker_poke(client, TICK_UPKEEP);
    bool store_answers = await_the_end_locked(client);
    pthread_mutex_unlock(&client->mutex);
    if (client->store->ops->hurry)
        client->store->ops->hurry(client->store);
    lease_pool_stop(client);
    ticker_stop_all(client);
    release_bequeath(client);
    say_the_last(client, store_answers);
    guardian_bye(client);
    client->store->ops->close(client->store);
    turns_free(client);
    handle_abandon_all(client);
    release_free_all(client);
    client_free(client);
}

uint64_t hf_round_trips(const hf_client *client)
{
    return __atomic_load_n(&client->store->round_trips, __ATOMIC_RELAXED);
}
