/* SPDX-License-Identifier: Apache-2.0 */
/* client.c: the few functions that all files of the client call; see client.h. */
#include "client/base/client.h"

#include "core/backoff.h"
#include "core/error.h"
#include "core/id.h"
#include "core/lease.h"
#include "core/text.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define RETRY_FIRST_MS 10
#define RETRY_MOST_MS 500
/* hf_close() waits so long for an answer to a release; with a guardian, and where the store has
 * just been silent: */
#define CLOSE_MS 4000
#define CLOSE_GUARDED_MS 500
#define CLOSE_SILENT_MS 100

hf_code client_usable(hf_client *client, hf_error *err)
{
    error_clear(err);
    if (!client)
        return error_set(err, HF_LOST, "the client that held this lock was closed");
    if (getpid() != client->identity.pid)
        return error_set(err, HF_FORKED,
                         "this client belongs to process %lld: a forked child must open its own",
                         (long long)client->identity.pid);
    return HF_OK;
}

hf_code client_begin(hf_client *client, hf_error *err)
{
    hf_code code = client_usable(client, err);
    if (code)
        return code;
    MUTEX_SCOPE(&client->mutex);
    if (client->closing.has_begun)
        return error_set(err, HF_CLOSED, "the client is being closed");
    client->closing.calls++;
    return HF_OK;
}

void client_begin_locked(hf_client *client)
{
    client->closing.calls++;
}

void client_end(hf_client *client)
{
    pthread_mutex_lock(&client->mutex);
    client->closing.calls--;
    pthread_cond_broadcast(&client->changed);
    pthread_mutex_unlock(&client->mutex);
}

bool client_is_closing(hf_client *client)
{
    MUTEX_SCOPE(&client->mutex);
    return client->closing.has_begun;
}

/* A guardian sends what is left. */
int64_t client_close_ms(const hf_client *client)
{
    bool is_guarded = client->guardian.fd >= 0 && !client->guardian.has_ended;
    if (!is_guarded)
        return CLOSE_MS;
    return client->is_silent ? CLOSE_SILENT_MS : CLOSE_GUARDED_MS;
}

hf_mono client_now(hf_client *client)
{
    return client->env.mono(client->env.ctx);
}

hf_wall client_wall(hf_client *client)
{
    return client->env.wall(client->env.ctx);
}

uint64_t client_chance(hf_client *client)
{
    uint64_t chance;
    client->env.random(client->env.ctx, &chance, sizeof chance);
    return chance;
}

bool client_retries_until(hf_client *client, hf_code code, unsigned *failures, hf_mono end,
                          int64_t *ms)
{
    int64_t left_ms = mono_ms_until(end, client_now(client));
    if (!error_is_no_answer(code) || left_ms <= 0)
        return false;
    *ms = backoff_ms(++*failures, RETRY_FIRST_MS, RETRY_MOST_MS, client_chance(client));
    *ms = *ms < left_ms ? *ms : left_ms; /* the last try is when it ends */
    return true;
}

bool client_may_retry_until(hf_client *client, const hf_cancel *cancel, hf_code code,
                            unsigned *failures, hf_mono end)
{
    int64_t ms;
    return client_retries_until(client, code, failures, end, &ms) &&
           !cancel_pause(&client->env, cancel, ms) && !client_is_closing(client);
}

bool client_may_retry(hf_client *client, const hf_cancel *cancel, hf_code code, unsigned *failures,
                      hf_mono since)
{
    hf_mono end = mono_add_ms(since, client->patience_ms);
    return client_may_retry_until(client, cancel, code, failures, end);
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
    uint64_t seconds = (uint64_t)client_wall(client).ms / 1000;
    for (int i = 0; i < 4; i++)
        id.bytes[i] = (uint8_t)(seconds >> (24 - 8 * i));
    client->env.random(client->env.ctx, id.bytes + 4, 8);
    return id;
}

void client_log(hf_client *client, hf_log_level level, const char *format, ...)
{
    char text[1024];
    if (!client->log.fn)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    pthread_mutex_lock(&client->log.mutex);
    client->log.fn(client->log.ctx, level, text);
    pthread_mutex_unlock(&client->log.mutex);
}

void client_who(const hf_client *client, char who[HF_TEXT_MAX + 1])
{
    memcpy(who, client->identity.who, sizeof client->identity.who);
}

hf_code client_name(hf_client *client, const char *given, char name[HF_NAME_MAX + 1], hf_error *err)
{
    hf_code code = text_check_name(given, err);
    if (code)
        return code;
    if (client->store->ops->canonical)
        return client->store->ops->canonical(client->store, given, name, err);
    size_t prefix = strlen(client->name_prefix), length = strlen(given);
    if (prefix + length > HF_NAME_MAX)
        return error_set(err, HF_INVALID,
                         "the name %.80s... has more than %d bytes with the prefix %.80s", given,
                         HF_NAME_MAX, client->name_prefix);
    memcpy(name, client->name_prefix, prefix);
    memcpy(name + prefix, given, length + 1);
    return HF_OK;
}

hf_code client_lock_session(const hf_client *client, const char *text, hf_id *out, hf_error *err)
{
    *out = (hf_id){{0}};
    if (!text)
        return HF_OK;
    if (!client->store->ops->unlock_session)
        return error_set(err, HF_UNSUPPORTED,
                         "protocol %s has no lock session ids: hfProtocol=sharding has them",
                         client->store->protocol);
    if (id_read_whole(text, out))
        return HF_OK;
    return error_set(err, HF_INVALID,
                     "the lock session id %.40s: it is 24 lower-case hexadecimal digits, not all 0",
                     text);
}

const char *client_shown_name(const hf_client *client, const char *name)
{
    size_t prefix = strlen(client->name_prefix);
    return strncmp(name, client->name_prefix, prefix) == 0 ? name + prefix : name;
}

hf_code client_look_at_sessions(hf_client *client, const hf_id *ids, size_t n, int64_t trust_ms,
                                hf_session_state *states, hf_error *err)
{
    hf_store *store = client->store;
    for (size_t i = 0; i < n; i++) /* what an error leaves as it is must not be taken for dead */
        states[i] = (hf_session_state){.session.id = ids[i], .presence = HF_ODD};
    return store->ops->sessions_look(store, ids, n, trust_ms, states, err);
}

hf_code client_mark(hf_client *client, const hf_session_state *seen, hf_error *err)
{
    hf_store *store = client->store;
    hf_session_state first = {.session = seen->session, .beat = 1};
    if (seen->presence != HF_MISSING)
        return store->ops->session_mark(store, seen, err);
    first.session.started_at = client_wall(client);
    if (first.session.ttl_ms < LEASE_TTL_MIN_MS) /* its caller has seen no ticket that names it */
        first.session.ttl_ms = (int32_t)client->ttl_ms;
    hf_code code = store->ops->session_begin(store, &first.session, err);
    return code ? code : store->ops->session_mark(store, &first, err);
}
