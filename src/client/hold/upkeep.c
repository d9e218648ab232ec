/* SPDX-License-Identifier: Apache-2.0 */
/* upkeep.c: the client's background work: ends lost sessions, sends releases and downgrades, looks
 * at suspects (R8), verifies what is held (L3); called by the upkeep thread. Long work is done in
 * sweep.c instead. */
#include "client/hold/hold.h"

#include "core/alloc.h"
#include "core/error.h"
#include "core/id.h"

#include <stdlib.h>

#define BATCH 500

/* ---- Names of locks, copied out from under the mutex -------------------------------------------
 */

struct names {
    char *of[BATCH];
    size_t n;
    hf_stamp after;
};

static void names_add(struct names *names, const char *name)
{
    if (names->n < BATCH)
        names->of[names->n++] = alloc_text(name);
}

static void names_done(struct names *names)
{
    for (size_t i = 0; i < names->n; i++)
        free(names->of[i]);
}

static hf_code look(hf_client *client, const struct names *names, hf_record_fn each, hf_error *err)
{
    hf_code code = client->store->ops->look(client->store, (const char *const *)names->of, names->n,
                                            names->after, false, each, client, err);
    if (code)
        client_log(client, HF_LOG_INFO, "looking after locks: %s", err->text);
    return code;
}

/* Called with a foreign document and the reason; may be NULL. */
typedef void (*odd_fn)(hf_client *client, const char *name, const hf_error *shape);

static hf_code look_one_by_one(hf_client *client, const struct names *names, hf_record_fn each,
                               odd_fn odd)
{
    hf_code code = HF_OK;
    for (size_t i = 0; i < names->n && (!code || code == HF_SHAPE); i++) {
        const struct names one = {.of = {names->of[i]}, .n = 1, .after = names->after};
        hf_error err;
        code = look(client, &one, each, &err);
        if (code == HF_SHAPE && odd)
            odd(client, names->of[i], &err);
    }
    return code == HF_SHAPE ? HF_OK : code;
}

/* A foreign document ends a look at several records, but must not hide the others. */
static hf_code look_at_all(hf_client *client, const struct names *names, hf_record_fn each,
                           odd_fn odd)
{
    hf_error err;
    hf_code code = names->n ? look(client, names, each, &err) : HF_OK;
    return code == HF_SHAPE ? look_one_by_one(client, names, each, odd) : code;
}

/* ---- Suspects (R8)
 * -------------------------------------------------------------------------------- */

static bool is_unknown_locked(hf_client *client, const hf_entry *entry)
{
    return session_is_present_locked(client, entry->session) &&
           !waiters_find(&client->hold->waiters, entry->ticket) &&
           !lock_find_locked(client, entry->ticket) &&
           !release_is_pending_locked(client, entry->ticket);
}

/* Takes out tickets of this session that nobody here knows. */
static bool leave_unknown(void *ctx, const hf_record *record)
{
    hf_client *client = ctx;
    pthread_mutex_lock(&client->mutex);
    for (size_t i = 0; i < record->holders + record->queued; i++) {
        hf_leave leave = {.ticket = record->entries[i].ticket, .outcome = HF_OUTCOME_RELEASED};
        if (is_unknown_locked(client, &record->entries[i]))
            release_push_locked(client, record->name, record->entries[i].session, &leave, false);
    }
    pthread_mutex_unlock(&client->mutex);
    return true;
}

/* A look without an answer is repeated as soon as a beat would be. */
static void check_suspects(hf_client *client)
{
    hf_code code = HF_OK;
    bool more = true;
    for (size_t from = 0; more; from += BATCH) {
        struct names names = {.n = 0};
        pthread_mutex_lock(&client->mutex);
        for (size_t i = from; i < client->session.n_suspects; i++)
            names_add(&names, client->session.suspects[i]);
        pthread_mutex_unlock(&client->mutex);
        code = look_at_all(client, &names, leave_unknown, NULL);
        more = !code && names.n == BATCH;
        names_done(&names);
    }
    if (!code)
        return;
    pthread_mutex_lock(&client->mutex);
    agenda_advance(&client->hold->agenda, JOB_SUSPECTS,
                   lease_retry_due(client_now(client), client->ttl_ms));
    pthread_mutex_unlock(&client->mutex);
}

/* ---- Verifying what is held (L3)
 * ------------------------------------------------------------------- */

static void lose_locked(struct hf_lock *lock, const hf_record *record)
{
    bool is_queued = record_find(record, lock->grant.ticket);
    hf_error why;
    error_set(&why, HF_LOST, "%.128s is not held any more: its ticket %s", lock->name,
              is_queued ? "stands in line (a forged notice had said that it was granted: who may "
                          "write to the bells?)"
                        : "is gone from the store (was it taken over, or the record dropped, "
                          "restored or changed by hand?)");
    loss_begin_locked(lock, &why, client_now(lock->client));
}

static bool is_verified_locked(const struct hf_lock *lock)
{
    return lock->state == LOCK_HELD && lock->verification.is_under_way;
}

static void note_there_locked(hf_client *client, const hf_record *record)
{
    for (size_t i = 0; i < record->holders + record->queued; i++) {
        struct hf_lock *lock = lock_find_locked(client, record->entries[i].ticket);
        if (lock && id_equal(lock->grant.ticket, record->entries[i].ticket))
            verify_found_locked(lock, i < record->holders);
    }
}

static bool verify(void *ctx, const hf_record *record)
{
    hf_client *client = ctx;
    pthread_mutex_lock(&client->mutex);
    note_there_locked(client, record);
    struct hf_lock *lock = lock_first_named_locked(client, record->name);
    for (; lock; lock = lock_next_named_locked(lock)) {
        bool is_there = lock->verification.is_there || lock->leaving.is_passing;
        lock->verification.is_there = false;
        if (is_verified_locked(lock) && !is_there && !change_found_locked(lock, record))
            lose_locked(lock, record);
    }
    if (record->queued)
        turns_recall_locked(client, record->name,
                            (hf_stamp){UINT64_MAX}); /* it may have been lost */
    pthread_mutex_unlock(&client->mutex);
    return true;
}

/* Of what is due, as much as one look takes. */
static bool choose_locked(hf_client *client, hf_mono now, struct names *names)
{
    const struct hf_lock *lock = NULL;
    size_t n = 0;
    while (n < BATCH && (lock = verify_take_locked(client, now, &names->after, &n)))
        names_add(names, lock->name);
    return lock;
}

/* It does not name our ticket. */
static void lose_odd(hf_client *client, const char *name, const hf_error *shape)
{
    hf_error why;
    error_set(&why, HF_LOST, "%.128s is not held any more: %.300s", name, shape->text);
    pthread_mutex_lock(&client->mutex);
    struct hf_lock *lock = lock_first_named_locked(client, name);
    for (; lock; lock = lock_next_named_locked(lock))
        if (is_verified_locked(lock))
            loss_begin_locked(lock, &why, client_now(client));
    pthread_mutex_unlock(&client->mutex);
}

static void end_locked(hf_client *client, const struct names *names, bool has_answer)
{
    for (size_t i = 0; i < names->n; i++)
        verify_end_locked(client, names->of[i], has_answer);
}

static void verify_held(hf_client *client, hf_mono now)
{
    hf_code code = HF_OK;
    bool more = true;
    while (more && !code) {
        struct names names = {.n = 0};
        pthread_mutex_lock(&client->mutex);
        more = choose_locked(client, now, &names);
        pthread_mutex_unlock(&client->mutex);
        code = look_at_all(client, &names, verify, lose_odd);
        pthread_mutex_lock(&client->mutex);
        end_locked(client, &names, !code);
        pthread_mutex_unlock(&client->mutex);
        names_done(&names);
    }
    if (!code)
        return;
    pthread_mutex_lock(&client->mutex);
    verify_failed_locked(client, client_now(client));
    pthread_mutex_unlock(&client->mutex);
}

/* ---- The tick
 * --------------------------------------------------------------------------------------- */

static bool take_locked(hf_client *client, unsigned job, int64_t again_ms, hf_mono now)
{
    if (!agenda_take(&client->hold->agenda, job, now))
        return false;
    agenda_set(&client->hold->agenda, job, mono_add_ms(now, again_ms));
    return true;
}

hf_mono upkeep_tick(hf_client *client, hf_mono now)
{
    pthread_mutex_lock(&client->mutex);
    client->hold->releases.is_upkeep_busy = true;
    bool works = !client->closing.has_begun;
    bool suspects = works && take_locked(client, JOB_SUSPECTS, client->ttl_ms, now);
    /* what is taken from now on is due a ttl later */
    int64_t verify_ms = client->hold->locks ? lease_beat_ms(client->ttl_ms) : client->ttl_ms;
    bool verifies = works && take_locked(client, JOB_VERIFY, verify_ms, now);
    if (verifies)
        verify_again_locked(client, now);
    if ((suspects || verifies) && client->hold->releases.due.n)
        release_send_beside_locked(client); /* these may take long */
    pthread_mutex_unlock(&client->mutex);
    if (suspects)
        check_suspects(client);
    if (verifies)
        verify_held(client, now);
    pthread_mutex_lock(&client->mutex);
    hf_mono due = loss_leave_locked(client, client_now(client));
    due = mono_min(due, turns_tick_locked(client, client_now(client)));
    pthread_mutex_unlock(&client->mutex);
    release_tick(client, client_now(client));
    due = mono_min(due, life_mark_ended(client, client_now(client)));
    due = mono_min(due, change_tick(client, client_now(client)));
    MUTEX_SCOPE(&client->mutex);
    client->hold->releases.is_upkeep_busy = false;
    due = mono_min(due, release_due_locked(client, client_now(client)));
    return works ? mono_min(due, agenda_due(&client->hold->agenda)) : due;
}
