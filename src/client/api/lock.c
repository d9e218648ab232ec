/* SPDX-License-Identifier: Apache-2.0 */
/* lock.c: the calls that take a lock, and those on its handle. */
#include "client/hold/handle.h"
#include "client/hold/hold.h"
#include "client/wait/acquire.h"
#include "client/wait/upgrade.h"

#include "core/error.h"
#include "core/period.h"

hf_code hf_lock_acquire(hf_client *client, const char *name, const hf_lock_options *options,
                        hf_lock **out, hf_error *err)
{
    char known_as[HF_NAME_MAX + 1];
    hf_code code = client_usable(client, err);
    if (!code)
        code = client_name(client, name, known_as, err);
    return code
               ? code
               : acquire_run(client, known_as, NULL, options, acquire_caller_now(client), out, err);
}

/* ---- What the holder asks ---- */

static hf_code check(struct hf_lock *lock, int64_t *left_ms, hf_error *err)
{
    MUTEX_SCOPE(&lock->client->mutex);
    return belief_check_locked(lock, left_ms, client_now(lock->client), err);
}

hf_code hf_lock_check(hf_lock *lock, int64_t *left_ms, hf_error *err)
{
    int64_t left = 0;
    hf_code code = client_usable(lock->client, err);
    if (code == HF_OK)
        code = check(lock, &left, err);
    if (left_ms)
        *left_ms = left;
    return code;
}

int hf_lock_fd(hf_lock *lock)
{
    if (client_usable(lock->client, NULL))
        return lock->loss.fd;
    MUTEX_SCOPE(&lock->client->mutex);
    return loss_fd_locked(lock);
}

int64_t hf_lock_token(const hf_lock *lock)
{
    return lock->grant.token;
}

const char *hf_lock_name(const hf_lock *lock)
{
    return lock->shown_name;
}

int64_t hf_lock_waited_ms(const hf_lock *lock)
{
    return lock->grant.waited_ms;
}

const char *hf_lock_document(const hf_lock *lock)
{
    return lock->grant.document;
}

hf_mode hf_lock_mode(const hf_lock *lock)
{
    return lock_mode(lock);
}

hf_code hf_lock_previous(hf_lock *lock, hf_last *out, hf_error *err)
{
    hf_code code = previous_learn(lock, err);
    *out = code ? (hf_last){.who = ""} : previous_text(&lock->previous.mark);
    return code;
}

bool hf_lock_has_run(const hf_lock *lock)
{
    return period_is_done(lock->grant.period, &lock->previous.mark);
}

/* ---- While it is held ---- */

hf_code hf_lock_feed(hf_lock *lock, hf_error *err)
{
    hf_client *client = lock->client;
    int64_t left_ms;
    hf_code code = client_usable(client, err);
    if (code)
        return code;
    MUTEX_SCOPE(&client->mutex);
    hf_mono now = client_now(client);
    code = belief_check_locked(lock, &left_ms, now, err);
    if (!code)
        watchdog_feed(&lock->belief.watchdog, now);
    return code;
}

hf_code hf_lock_downgrade(hf_lock *lock, hf_error *err)
{
    return change_perform(lock, change_downgrade, err);
}

hf_code hf_lock_upgrade(hf_lock *lock, hf_error *err)
{
    return change_perform(lock, upgrade_lock, err);
}

/* ---- When it is done with ---- */

/* A lost lock may be on its way out in the background. */
void hf_lock_set_exit_status(hf_lock *lock, int exit_status)
{
    if (client_usable(lock->client, NULL))
        return;
    MUTEX_SCOPE(&lock->client->mutex);
    lock_set_exit_status_locked(lock, exit_status);
}

hf_code hf_lock_release(hf_lock *lock, hf_error *err)
{
    hf_code code = client_usable(lock->client, err);
    return code ? code : handle_release(lock, err);
}

void hf_lock_close(hf_lock *lock)
{
    if (lock)
        handle_close(lock);
}
