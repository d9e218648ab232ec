/* SPDX-License-Identifier: Apache-2.0 */
/* election.c: a candidate: waits for a lock, watches and keeps it, with one handle for term after
 * term. Called by programs, and built on the public interface alone. */
#include <holdfast/holdfast.h>

#include "core/alloc.h"
#include "core/error.h"
#include "core/text.h"
#include "sync/mutex_scope.h"

#include <pthread.h>
#include <sys/types.h>
#include <unistd.h>

struct hf_election {
    hf_client *client;
    pid_t owner;
    char *name, *value;
    hf_lost_fn on_lost;
    void *lost_ctx;
    pthread_mutex_t
        mutex;     /* guards the members below; not held while a call waits, or may run on_lost */
    hf_lock *lock; /* the lock of the present term, or of one that was lost; else NULL */
    int64_t token;
    bool is_campaigning;
};

/* A forked child may find the mutex locked for ever. */
static hf_code usable(const hf_election *e, hf_error *err)
{
    error_clear(err);
    if (getpid() == e->owner)
        return HF_OK;
    return error_set(err, HF_FORKED,
                     "the election %.128s belongs to process %lld: a forked child must open its"
                     " own",
                     e->name, (long long)e->owner);
}

static hf_lock *take_lock_locked(hf_election *e)
{
    hf_lock *lock = e->lock;
    e->lock = NULL;
    return lock;
}

hf_code hf_election_open(hf_client *client, const char *name, const hf_election_options *options,
                         hf_election **out, hf_error *err)
{
    static const hf_election_options defaults = {0};
    const hf_election_options *given = options ? options : &defaults;
    hf_code code = text_check_name(name, err);
    if (!code)
        code = text_check("the value", given->value, HF_TEXT_MAX, err);
    if (code)
        return code;
    hf_election *e = alloc_zeroed(sizeof *e);
    e->client = client;
    e->owner = getpid();
    e->name = alloc_text(name);
    e->value = given->value ? alloc_text(given->value) : NULL;
    e->on_lost = given->on_lost;
    e->lost_ctx = given->lost_ctx;
    pthread_mutex_init(&e->mutex, NULL);
    *out = e;
    return HF_OK;
}

/* ---- Campaigning ---- */

/* The lock of a term that was lost goes to the caller, to be closed. */
static hf_code begin_locked(hf_election *e, bool *leads, hf_lock **lost, hf_error *err)
{
    if (e->is_campaigning)
        return error_set(err, HF_INVALID,
                         "%.128s: another thread campaigns with this handle: each candidate needs"
                         " one of its own",
                         e->name);
    *leads = e->lock && !hf_lock_check(e->lock, NULL, NULL);
    if (*leads)
        return HF_OK;
    *lost = take_lock_locked(e);
    e->is_campaigning = true;
    return HF_OK;
}

static void end(hf_election *e, hf_lock *won)
{
    pthread_mutex_lock(&e->mutex);
    e->is_campaigning = false;
    e->lock = won;
    if (won)
        e->token = hf_lock_token(won);
    pthread_mutex_unlock(&e->mutex);
}

static hf_code campaign(hf_election *e, const hf_campaign_options *given, hf_error *err)
{
    hf_lock *won = NULL;
    hf_lock_options options = {
        .struct_size = sizeof options,
        .wait_ms = given->wait_ms == HF_WAIT_DEFAULT ? HF_WAIT_FOREVER : given->wait_ms,
        .why = e->value,
        .cancel = given->cancel,
        .on_wait = given->on_wait,
        .wait_ctx = given->wait_ctx,
        .on_lost = e->on_lost,
        .lost_ctx = e->lost_ctx,
    };
    hf_code code = hf_lock_acquire(e->client, e->name, &options, &won, err);
    end(e, won);
    return code;
}

hf_code hf_election_campaign(hf_election *election, const hf_campaign_options *options,
                             hf_error *err)
{
    static const hf_campaign_options defaults = {0};
    bool leads = false;
    hf_lock *lost = NULL;
    hf_code code = usable(election, err);
    if (code)
        return code;
    pthread_mutex_lock(&election->mutex);
    code = begin_locked(election, &leads, &lost, err);
    pthread_mutex_unlock(&election->mutex);
    hf_lock_close(lost);
    return code || leads ? code : campaign(election, options ? options : &defaults, err);
}

/* ---- Leading ---- */

bool hf_election_is_leader(hf_election *election, int64_t *left_ms, hf_error *err)
{
    if (left_ms)
        *left_ms = 0;
    if (usable(election, err))
        return false;
    pthread_mutex_lock(&election->mutex);
    hf_code code = election->lock ? hf_lock_check(election->lock, left_ms, err)
                                  : error_set(err, HF_LOST,
                                              "%.128s: not the leader: no campaign was won, or it"
                                              " has resigned",
                                              election->name);
    pthread_mutex_unlock(&election->mutex);
    return code == HF_OK;
}

int64_t hf_election_token(hf_election *election)
{
    if (usable(election, NULL))
        return 0;
    MUTEX_SCOPE(&election->mutex);
    return election->token;
}

hf_lock *hf_election_lock(hf_election *election)
{
    if (usable(election, NULL))
        return NULL;
    MUTEX_SCOPE(&election->mutex);
    return election->lock;
}

/* ---- Ending ---- */

hf_code hf_election_resign(hf_election *election, hf_error *err)
{
    hf_code code = usable(election, err);
    if (code)
        return code;
    pthread_mutex_lock(&election->mutex);
    hf_lock *lock = take_lock_locked(election);
    pthread_mutex_unlock(&election->mutex);
    if (!lock)
        return HF_OK;
    code = hf_lock_release(lock, err);
    hf_lock_close(lock);
    return code;
}

void hf_election_close(hf_election *election)
{
    if (!election)
        return;
    hf_lock_close(election->lock);
    pthread_mutex_destroy(&election->mutex);
    free(election->value);
    free(election->name);
    free(election);
}
