/* SPDX-License-Identifier: Apache-2.0 */
/* change.c: from exclusive to shared on one handle. For the holder, a downgrade is done when it
 * begins (R4). The caller's thread sends it; if there is no answer, the background continues
 * (upkeep.c). Also what downgrades share with upgrades (upgrade.c). */
#include "client/hold/change.h"

#include "client/hold/hold.h"

#include "core/alloc.h"
#include "core/backoff.h"
#include "core/error.h"
#include "core/id.h"
#include "core/period.h"

#include <stdlib.h>

#define RETRY_FIRST_MS 10
#define RETRY_MOST_MS 500

/* ---- Beginning and end ---- */

static hf_code check_kind(const struct hf_lock *lock, hf_error *err)
{
    const hf_store *store = lock->client->store;
    if (!(store->can & HF_CAN_SHARE))
        return error_set(err, HF_UNSUPPORTED,
                         "protocol %s has no shared locks, so none can be upgraded or downgraded: "
                         "hfProtocol=queue has them",
                         store->protocol);
    if (lock->grant.enter.limit != HF_LIMIT_RW)
        return error_set(err, HF_INVALID,
                         "%.128s is a semaphore: only locks that are exclusive or shared can be "
                         "upgraded or downgraded",
                         lock->name);
    if (period_is_any(lock->grant.period))
        return error_set(err, HF_INVALID,
                         "%.128s was taken for work that is done once per period: that is for "
                         "exclusive locks, and it cannot be upgraded or downgraded",
                         lock->name);
    return HF_OK;
}

/* The background is to try to lower it at that time. */
static void plan_locked(struct hf_lock *lock, hf_mono due)
{
    schedule_set(&lock->client->hold->lowering, &lock->change.due, due);
}

hf_code change_check_locked(struct hf_lock *lock, hf_error *err)
{
    int64_t left_ms;
    return belief_check_locked(lock, &left_ms, client_now(lock->client), err);
}

static hf_code begin_locked(struct hf_lock *lock, hf_error *err)
{
    hf_code code = check_kind(lock, err);
    if (!code)
        code = change_check_locked(lock, err);
    if (!code && lock->change.is_changing)
        return error_set(err, HF_INVALID,
                         "%.128s is being upgraded or downgraded by another thread", lock->name);
    lock->change.is_changing |= !code;
    return code;
}

hf_code change_perform(struct hf_lock *lock, change_fn change, hf_error *err)
{
    hf_client *client = lock->client;
    hf_code code = client_begin(client, err);
    if (code)
        return code;
    pthread_mutex_lock(&client->mutex);
    code = begin_locked(lock, err);
    pthread_mutex_unlock(&client->mutex);
    if (!code) {
        code = change(lock, err);
        pthread_mutex_lock(&client->mutex);
        lock->change.is_changing = false;
        if (lock->change.is_lowering) {
            plan_locked(lock, lock->change.due.due);
            ticker_poke(client, TICK_UPKEEP);
        }
        pthread_mutex_unlock(&client->mutex);
    }
    client_end(client);
    return code;
}

static hf_code check(struct hf_lock *lock, hf_error *err)
{
    MUTEX_SCOPE(&lock->client->mutex);
    return change_check_locked(lock, err);
}

hf_code change_repeat(struct hf_lock *lock, hf_code (*once)(void *ctx, hf_error *err), void *ctx,
                      hf_error *err)
{
    hf_mono since = client_now(lock->client);
    unsigned failures = 0;
    hf_error why = {.code = HF_OK}, lost;
    hf_code code;
    BOUND_SCOPE(lock->client->store, mono_add_ms(since, lock->client->patience_ms), NULL);
    do
        code = once(ctx, &why);
    while (client_may_retry(lock->client, NULL, code, &failures, since) && !check(lock, NULL));
    if (check(lock, &lost)) {
        code = HF_LOST;
        why = lost;
    }
    if (code && err)
        *err = why;
    return code;
}

/* ---- Which ticket stands for it ---- */

/* The upgrade's ticket has taken the place of the lock's. */
static void replace_locked(struct hf_lock *lock)
{
    lock->change.former = lock->grant.ticket;
    lock_know_ticket_locked(lock, LOCK_FORMER, lock->change.former);
    guardian_out(lock->client, lock->grant.ticket);
    lock_replace_ticket_locked(lock, lock->change.upgrade);
    lock->change.upgrade = (hf_id){{0}};
    lock_know_ticket_locked(lock, LOCK_UPGRADE, lock->change.upgrade);
    verify_drop_locked(lock); /* a look that began before is of no use */
}

bool change_offer_locked(struct hf_lock *lock, hf_id *ticket)
{
    bool may_stand = !id_is_zero(lock->change.upgrade);
    if (!may_stand)
        lock->change.upgrade = client_new_id(lock->client);
    lock_know_ticket_locked(lock, LOCK_UPGRADE, lock->change.upgrade);
    *ticket = lock->change.upgrade;
    return may_stand;
}

void change_upgraded_locked(struct hf_lock *lock)
{
    replace_locked(lock);
    lock->change.is_lowering = false;
}

void change_withdraw_locked(struct hf_lock *lock)
{
    guardian_out(lock->client, lock->change.upgrade);
    lock->change.upgrade = (hf_id){{0}};
    lock_know_ticket_locked(lock, LOCK_UPGRADE, lock->change.upgrade);
}

static void lower_locked(struct hf_lock *lock)
{
    lock->change.is_lowering = true;
    lock->change.failures = 0;
    plan_locked(lock, client_now(lock->client));
}

/* An upgrade without an answer was granted: the ticket holds exclusively, but the holder believes
 * in shared. */
static bool adopt_locked(struct hf_lock *lock, const hf_record *record)
{
    if (id_is_zero(lock->change.upgrade) || !record_find(record, lock->change.upgrade))
        return false;
    replace_locked(lock);
    lower_locked(lock);
    ticker_poke(lock->client, TICK_UPKEEP);
    return true;
}

bool change_found_locked(struct hf_lock *lock, const hf_record *record)
{
    if (lock->change.is_changing) /* the thread that changes it finds out */
        return record_find(record, lock->change.upgrade);
    return adopt_locked(lock, record);
}

static bool find_upgrade(void *ctx, const hf_record *record)
{
    struct hf_lock *lock = ctx;
    pthread_mutex_lock(&lock->client->mutex);
    adopt_locked(lock, record);
    pthread_mutex_unlock(&lock->client->mutex);
    return false;
}

/* ---- Downgrade ---- */

typedef struct lookup {
    hf_change change;
    bool is_there, is_lowered;
} lookup;

static bool seek(void *ctx, const hf_record *record)
{
    lookup *it = ctx;
    const hf_entry *entry = record_find(record, it->change.ticket);
    it->is_there = entry != NULL;
    it->is_lowered = entry && entry->permits <= it->change.permits;
    return false;
}

/* If a deposed primary may have answered, a change that changed nothing proves nothing. */
static hf_code confirm(hf_client *client, const char *name, hf_change change, hf_error *err)
{
    lookup it = {.change = change};
    hf_code code =
        client->store->ops->look(client->store, &name, 1, (hf_stamp){0}, true, seek, &it, err);
    if (code || it.is_lowered)
        return code;
    if (it.is_there)
        return error_set(err, HF_UNKNOWN, "%.128s: the downgrade has not taken effect", name);
    return error_set(err, HF_LOST,
                     "%.128s is not held any more: its ticket was gone when it was downgraded",
                     name);
}

/* One try. HF_LOST: the ticket is not there. */
static hf_code send_once(hf_client *client, const char *name, hf_id ticket, hf_error *err)
{
    hf_change change = {.ticket = ticket, .permits = 1};
    hf_step step = {.change = &change};
    hf_step_reply reply;
    hf_code code = client->store->ops->step(client->store, name, &step, NULL, &reply, err);
    return code || reply.confirmed ? code : confirm(client, name, change, err);
}

/* Its ticket is gone, and so is the lock, unless an upgrade without an answer took its place. */
static void gone_locked(struct hf_lock *lock, const hf_error *err)
{
    if (id_is_zero(lock->change.upgrade))
        loss_begin_locked(lock, err, client_now(lock->client));
    else
        verify_now_locked(lock->client, lock->name);
}

/* One try was made for that ticket. If the lock has another ticket now, it was upgraded. */
static void settle_locked(hf_client *client, hf_id ticket, hf_code code, const hf_error *err)
{
    struct hf_lock *lock = lock_find_locked(client, ticket);
    if (!lock || !id_equal(lock->grant.ticket, ticket))
        return;
    lock->change.failures++;
    lock->change.is_lowering = code != HF_OK;
    int64_t ms = hf_code_retryable(code) ? backoff_ms(lock->change.failures, RETRY_FIRST_MS,
                                                      RETRY_MOST_MS, client_chance(client))
                                         : lease_beat_ms(client->ttl_ms);
    plan_locked(lock, mono_add_ms(client_now(client), ms));
    if (code == HF_LOST)
        gone_locked(lock, err);
}

static hf_code send_and_settle(hf_client *client, const char *name, hf_id ticket, hf_error *err)
{
    hf_code code = send_once(client, name, ticket, err);
    pthread_mutex_lock(&client->mutex);
    settle_locked(client, ticket, code, err);
    pthread_mutex_unlock(&client->mutex);
    return code;
}

/* Belief in exclusive ends here, before the step is sent (R4). The lock is no longer passed on to
 * other threads, because those in line want it exclusively. */
static void end_belief(struct hf_lock *lock)
{
    pthread_mutex_lock(&lock->client->mutex);
    if (lock_mode(lock) == HF_EXCLUSIVE) {
        line_left_locked(lock);
        lower_locked(lock);
        lock_share_locked(lock);
    }
    pthread_mutex_unlock(&lock->client->mutex);
}

/* In the record, a lock may stand under its ticket, or under that of an upgrade without an answer.
 */
static bool has_doubt(struct hf_lock *lock)
{
    MUTEX_SCOPE(&lock->client->mutex);
    return !id_is_zero(lock->change.upgrade);
}

static bool wants_lowering(struct hf_lock *lock, hf_id *ticket)
{
    MUTEX_SCOPE(&lock->client->mutex);
    *ticket = lock->grant.ticket;
    return lock->change.is_lowering;
}

static hf_code lower_once(void *ctx, hf_error *err)
{
    struct hf_lock *lock = ctx;
    hf_client *client = lock->client;
    const char *names[] = {lock->name};
    hf_id ticket;
    hf_code code = HF_OK;
    if (has_doubt(lock))
        code = client->store->ops->look(client->store, names, 1, (hf_stamp){0}, false, find_upgrade,
                                        lock, err);
    if (!code && wants_lowering(lock, &ticket))
        code = send_and_settle(client, lock->name, ticket, err);
    if (code == HF_LOST && has_doubt(lock))
        return error_set(err, HF_UNKNOWN, "%.128s: an upgrade of it came in between", lock->name);
    return code;
}

hf_code change_downgrade(struct hf_lock *lock, hf_error *err)
{
    end_belief(lock);
    return change_repeat(lock, lower_once, lock, err);
}

/* ---- Downgrades in the background ---- */

/* A thread that changes it plans the next try when it leaves off. */
static struct hf_lock *next_due_locked(hf_client *client, hf_mono now)
{
    struct schedule *lowering = &client->hold->lowering;
    struct slot *slot;
    while ((slot = schedule_next_due(lowering, now))) {
        struct hf_lock *lock = SCHEDULE_OWNER(slot, struct hf_lock, change.due);
        schedule_remove(lowering, slot);
        if (lock->state == LOCK_HELD && lock->change.is_lowering && !lock->change.is_changing)
            return lock;
    }
    return NULL;
}

hf_mono change_tick(hf_client *client, hf_mono now)
{
    for (;;) {
        hf_mono due;
        hf_error err;
        pthread_mutex_lock(&client->mutex);
        struct hf_lock *lock = next_due_locked(client, now);
        due = schedule_due(&client->hold->lowering);
        char *name = lock ? alloc_text(lock->name) : NULL; /* the lock may be closed meanwhile */
        hf_id ticket = lock ? lock->grant.ticket : (hf_id){{0}};
        pthread_mutex_unlock(&client->mutex);
        if (!lock)
            return due;
        send_and_settle(client, name, ticket, &err);
        free(name);
        now = client_now(client);
    }
}
