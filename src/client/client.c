/* SPDX-License-Identifier: Apache-2.0 */
/* client.c: opens and closes a client, and the few things that all its files ask. */
#include "client/client.h"

#include "core/alloc.h"
#include "core/backoff.h"
#include "core/error.h"
#include "core/text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_MS 30000
#define CLOCK_TRUST_MS 300000
#define DEADLOCK_MS 1000
#define DEADLOCK_LEAST_MS 10
#define CLOSE_MS 4000 /* for the releases that are still to be sent */

/* ---- What all files ask ------------------------------------------------------------------------
 */

hf_code client_usable(hf_client *client, hf_error *err)
{
    error_clear(err);
    if (!client)
        return error_set(err, HF_LOST, "the client that held this lock was closed");
    if (getpid() != client->owner)
        return error_set(err, HF_FORKED,
                         "this client belongs to process %lld: a forked child must open its own",
                         (long long)client->owner);
    return HF_OK;
}

hf_code client_begin(hf_client *client, hf_error *err)
{
    hf_code code = client_usable(client, err);
    if (code)
        return code;
    pthread_mutex_lock(&client->mutex);
    if (client->is_closing)
        code = error_set(err, HF_CLOSED, "the client is being closed");
    else
        client->calls++;
    pthread_mutex_unlock(&client->mutex);
    return code;
}

void client_end(hf_client *client)
{
    pthread_mutex_lock(&client->mutex);
    client->calls--;
    pthread_cond_broadcast(&client->changed);
    pthread_mutex_unlock(&client->mutex);
}

bool client_is_closing(hf_client *client)
{
    pthread_mutex_lock(&client->mutex);
    bool closing = client->is_closing;
    pthread_mutex_unlock(&client->mutex);
    return closing;
}

hf_mono client_now(hf_client *client)
{
    return client->env.mono(client->env.ctx);
}

uint64_t client_chance(hf_client *client)
{
    uint64_t chance;
    client->env.random(client->env.ctx, &chance, sizeof chance);
    return chance;
}

bool client_may_retry(hf_client *client, const hf_cancel *cancel, hf_code code, unsigned *failures,
                      hf_mono since)
{
    hf_mono end = mono_add_ms(since, client->patience_ms);
    if ((code != HF_UNREACHABLE && code != HF_UNKNOWN) || mono_reached(end, client_now(client)))
        return false;
    int64_t ms = backoff_ms(++*failures, 10, 1000, client_chance(client));
    return !cancel_pause(client, cancel, ms) && !client_is_closing(client);
}

uint64_t client_new_thread(void)
{
    static atomic_uint_fast64_t last;
    return atomic_fetch_add(&last, 1) + 1;
}

uint64_t client_thread(void)
{
    static _Thread_local uint64_t own;
    if (!own)
        own = client_new_thread();
    return own;
}

/* Seconds first, as in an ObjectId, then chance: 64 bits of it. */
hf_id client_new_id(hf_client *client)
{
    hf_id id;
    uint64_t seconds = (uint64_t)client->env.wall(client->env.ctx).ms / 1000;
    for (int i = 0; i < 4; i++)
        id.bytes[i] = (uint8_t)(seconds >> (24 - 8 * i));
    client->env.random(client->env.ctx, id.bytes + 4, 8);
    return id;
}

void client_log(hf_client *client, hf_log_level level, const char *format, ...)
{
    char text[1024];
    if (!client->log)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    pthread_mutex_lock(&client->log_mutex);
    client->log(client->log_ctx, level, text);
    pthread_mutex_unlock(&client->log_mutex);
}

void client_who(const hf_client *client, char who[HF_TEXT_MAX + 1])
{
    memcpy(who, client->who, sizeof client->who);
}

static void set_who(hf_client *client)
{
    hf_session self = {.pid = client->owner};
    snprintf(self.app, sizeof self.app, "%s", client->app);
    snprintf(self.host, sizeof self.host, "%s", client->host);
    session_who(&self, client->who);
}

void client_wake_attempts_locked(hf_client *client)
{
    for (struct attempt *attempt = client->attempts; attempt; attempt = attempt->next)
        attempt_wake_locked(attempt);
}

hf_code client_name(hf_client *client, const char *given, char name[HF_NAME_MAX + 1], hf_error *err)
{
    hf_code code = text_check_name(given, err);
    if (code)
        return code;
    if (client->store->ops->canonical)
        return client->store->ops->canonical(client->store, given, name, err);
    memcpy(name, given, strlen(given) + 1);
    return HF_OK;
}

/* ---- Opening
 * ------------------------------------------------------------------------------------- */

static hf_code check_options(const hf_options *options, hf_error *err)
{
    int64_t ttl_ms = options->ttl_ms ? options->ttl_ms : LEASE_TTL_DEFAULT_MS;
    if (ttl_ms < LEASE_TTL_MIN_MS || ttl_ms > LEASE_TTL_MAX_MS)
        return error_set(err, HF_INVALID, "a ttl of %lld ms: it must be between 1 s and 1 h",
                         (long long)ttl_ms);
    if (options->notice_ms < 0 || options->notice_ms > ttl_ms / 2)
        return error_set(err, HF_INVALID,
                         "a notice of %lld ms does not fit a ttl of %lld ms: at most half of it",
                         (long long)options->notice_ms, (long long)ttl_ms);
    if (options->patience_ms < 0)
        return error_set(err, HF_INVALID, "a patience of %lld ms is negative",
                         (long long)options->patience_ms);
    if (options->deadlock_ms > 0 && options->deadlock_ms < DEADLOCK_LEAST_MS)
        return error_set(err, HF_INVALID,
                         "looking for deadlocks after %lld ms: at least %d, or "
                         "negative: never",
                         (long long)options->deadlock_ms, DEADLOCK_LEAST_MS);
    return text_check("the app's name", options->app, 100, err);
}

static void init_threading(hf_client *client)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&client->changed, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutexattr_t
        adaptive; /* it is held for microseconds: spinning is cheaper than sleeping */
    pthread_mutexattr_init(&adaptive);
    pthread_mutexattr_settype(&adaptive, PTHREAD_MUTEX_ADAPTIVE_NP);
    pthread_mutex_init(&client->mutex, &adaptive);
    pthread_mutexattr_destroy(&adaptive);
    pthread_mutex_init(&client->log_mutex, NULL);
    client->is_threaded = true;
}

static void set_options(hf_client *client, const hf_options *options)
{
    client->owner = getpid();
    client->env = options->env ? *options->env : env_linux;
    client->ttl_ms = options->ttl_ms ? options->ttl_ms : LEASE_TTL_DEFAULT_MS;
    client->notice_ms = options->notice_ms;
    client->patience_ms = options->patience_ms ? options->patience_ms : PATIENCE_MS;
    client->clock_trust_ms = options->clock_trust_ms ? options->clock_trust_ms : CLOCK_TRUST_MS;
    client->deadlock_ms = options->deadlock_ms ? options->deadlock_ms : DEADLOCK_MS;
    client->log = options->log;
    client->log_ctx = options->log_ctx;
    snprintf(client->app, sizeof client->app, "%s",
             options->app ? options->app : program_invocation_short_name);
    if (gethostname(client->host, sizeof client->host - 1))
        snprintf(client->host, sizeof client->host, "localhost");
    set_who(client);
}

static hf_client *client_new(const hf_options *options)
{
    hf_client *client = alloc_zeroed(sizeof *client);
    set_options(client, options);
    init_threading(client);
    agenda_init(&client->agenda);
    client->sweep_due = MONO_NEVER;
    turns_init(&client->turns, options->local_turns);
    return client;
}

static void client_free(hf_client *client)
{
    session_forget(&client->session);
    waker_free_all(client);
    judge_done(&client->overdue_judge);
    free(client->overdue);
    free(client->ended);
    free(client);
}

static void log_for_store(void *ctx, hf_log_level level, const char *text)
{
    client_log(ctx, level, "%s", text);
}

static const hf_options default_options;

hf_code hf_open(const char *uri, const hf_options *options, hf_client **out, hf_error *err)
{
    options = options ? options : &default_options;
    error_clear(err);
    hf_code code = check_options(options, err);
    if (code)
        return code;
    hf_client *client = client_new(options);
    hf_store_config config = {
        .ttl_ms = client->ttl_ms, .env = &client->env, .log = log_for_store, .log_ctx = client};
    int64_t patience_ms = 0;
    code = hf_store_open(uri, &config, &client->store, &patience_ms, err);
    if (code) {
        client_free(client);
        return code;
    }
    if (patience_ms > 0 && !options->patience_ms)
        client->patience_ms = patience_ms;
    *out = client;
    return HF_OK;
}

hf_code hf_open_on(hf_store *store, const hf_options *options, hf_client **out, hf_error *err)
{
    options = options ? options : &default_options;
    error_clear(err);
    hf_code code = check_options(options, err);
    if (code)
        return code;
    *out = client_new(options);
    (*out)->store = store;
    return HF_OK;
}

const char *hf_client_protocol(const hf_client *client)
{
    return client->store->protocol;
}

int hf_client_keep_fd(hf_client *client)
{
    if (client_usable(client, NULL) || !client->store->ops->keep_fd)
        return -1;
    pthread_mutex_lock(&client->mutex);
    bool alive = client->session.state == SESSION_ALIVE;
    hf_id id = client->session.self.id;
    pthread_mutex_unlock(&client->mutex);
    return alive ? client->store->ops->keep_fd(client->store, id) : -1;
}

/* ---- Closing
 * --------------------------------------------------------------------------------------- */

/* Waits end; what is still held is released in the background. */
static void give_up_all_locked(hf_client *client)
{
    hf_error why;
    error_set(&why, HF_LOST, "the client was closed");
    for (struct hf_lock *lock = client->locks; lock; lock = lock->next) {
        if (lock->state != LOCK_HELD)
            continue;
        hf_leave leave = lock_leave(lock);
        lock->is_told = lock->is_left = true; /* the caller of hf_close() knows */
        lock_lose_locked(lock, &why, client_now(client));
        lock_push_leave_locked(lock, &leave, true);
    }
}

/* What was put off is tried once more, now: a release that the store refused can wait for long. */
static void hurry_releases_locked(hf_client *client)
{
    for (struct release *release = client->releases; release; release = release->next)
        release->due = client_now(client);
}

struct timespec client_deadline(int64_t ms)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    int64_t ns = t.tv_nsec + ms % 1000 * 1000000;
    return (struct timespec){t.tv_sec + ms / 1000 + ns / 1000000000, ns % 1000000000};
}

/* Returns whether the store answers. */
static bool await_the_end_locked(hf_client *client)
{
    struct timespec until = client_deadline(CLOSE_MS);
    bool in_time = true;
    while (client->attempts || client->calls)
        pthread_cond_wait(&client->changed, &client->mutex);
    while (client->releases && in_time)
        in_time = pthread_cond_timedwait(&client->changed, &client->mutex, &until) == 0;
    return !client->releases || client->is_answered;
}

static void free_releases(hf_client *client)
{
    release_drop_locked(client);
    session_forget(&client->session);
}

/* The clean end is the same mark that others set on the dead (R5): no need to wait for it where the
 * store does not answer, the lease ends anyway. */
static void end_session(hf_client *client, bool store_answers)
{
    pthread_mutex_lock(&client->mutex);
    if (client->session.state == SESSION_ALIVE)
        session_end_locked(client);
    size_t n = store_answers ? client->n_ended : 0;
    pthread_mutex_unlock(&client->mutex);
    for (const struct ended *at = client->ended; at < client->ended + n; at++)
        if (client->store->ops->session_end(client->store, at->id, at->leaves_any, NULL))
            break;
}

static void abandon_locks(hf_client *client)
{
    for (struct hf_lock *lock = client->locks, *next; lock; lock = next) {
        next = lock->next;
        lock->client = NULL;
        lock->link = NULL;
    }
}

void hf_close(hf_client *client)
{
    if (!client)
        return;
    if (getpid() != client->owner) {
        turns_free(client);
        abandon_locks(client);
        client->store->ops->close(client->store); /* its connections are the parent's: it knows */
        client_free(client);
        return;
    }
    pthread_mutex_lock(&client->mutex);
    client->is_closing = true;
    client->close_by = mono_add_ms(client_now(client), CLOSE_MS);
    give_up_all_locked(client);
    hurry_releases_locked(client);
    client_wake_attempts_locked(client);
    ticker_poke(client, TICK_UPKEEP);
    bool store_answers = await_the_end_locked(client);
    pthread_mutex_unlock(&client->mutex);
    lease_pool_stop(client);
    ticker_stop_all(client);
    end_session(client, store_answers);
    client->store->ops->close(client->store);
    turns_free(client);
    abandon_locks(client);
    free_releases(client);
    client_free(client);
}
