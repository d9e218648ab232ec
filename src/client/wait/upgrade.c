/* SPDX-License-Identifier: Apache-2.0 */
/* upgrade.c: from shared to exclusive on one handle. The holder believes in exclusive only after
 * the answer (R4). Called by the program. */
#include "client/wait/upgrade.h"

#include "client/hold/hold.h"
#include "client/wait/judging.h"

#include "core/error.h"
#include "core/id.h"

#include <string.h>

/* An upgrade under way: its enter, and the sessions in its way. */
struct upgrade {
    struct hf_lock *lock;
    struct lock_request request;
    struct ahead ahead;
    hf_stamp stamp;
    bool may_stand; /* its ticket may be in the record, or its enter may still arrive */
};

/* Uses a new ticket, so that a late downgrade of the old one finds nobody. A ticket whose enter may
 * still arrive is used again, so that at most two tickets can stand for a lock. */
static void start(struct upgrade *up)
{
    struct hf_lock *lock = up->lock;
    hf_client *client = lock->client;
    hf_enter *enter = &up->request.enter;
    pthread_mutex_lock(&client->mutex);
    *enter = lock->grant.enter;
    up->may_stand = change_offer_locked(lock, &enter->entry.ticket);
    enter->entry.permits = enter->limit;
    enter->entry.yields = false;
    enter->entry.block = 0;
    enter->replaces = lock->grant.ticket;
    enter->try_only = true;
    pthread_mutex_unlock(&client->mutex);
}

static bool load(struct upgrade *up, struct carried *carried)
{
    hf_client *client = up->lock->client;
    MUTEX_SCOPE(&client->mutex);
    return carried_load_locked(client, up->lock->name, carried);
}

static void sent(struct upgrade *up, struct carried *carried, hf_code code, bool confirmed)
{
    hf_client *client = up->lock->client;
    pthread_mutex_lock(&client->mutex);
    carried_unload_locked(client, carried, code, confirmed);
    if (code == HF_UNKNOWN) {
        session_suspect_locked(client, up->lock->name);
        up->may_stand = true;
    }
    pthread_mutex_unlock(&client->mutex);
}

static hf_code send(struct upgrade *up, hf_error *err)
{
    hf_store *store = up->lock->client->store;
    struct carried carried;
    hf_record record;
    hf_step_reply reply = {.confirmed = false};
    if (!load(up, &carried))
        return error_set(err, HF_UNREACHABLE,
                         "%.128s: an earlier release of it is still being sent", up->lock->name);
    hf_step step = {.leaves = carried.leaves, .n_leaves = carried.n, .enter = &up->request.enter};
    guardian_ticket(up->lock->client, up->lock->grant.session, up->request.enter.entry.ticket,
                    up->lock->name);
    hf_code code = store->ops->step(store, up->lock->name, &step, &record, &reply, err);
    sent(up, &carried, code, reply.confirmed);
    if (code)
        return code;
    record_done(&up->ahead.record);
    up->ahead.record = record;
    up->stamp = reply.stamp;
    return HF_OK;
}

/* Only from an acknowledged answer, and only if the lease still runs and nobody has asked for the
 * lock (R4, R9). */
static hf_code believe(struct upgrade *up, const hf_entry *own, hf_error *err)
{
    struct hf_lock *lock = up->lock;
    MUTEX_SCOPE(&lock->client->mutex);
    hf_code code = change_check_locked(lock, err);
    up->may_stand |= code != HF_OK; /* the code that ended belief takes the ticket out */
    if (code)
        return code;
    change_upgraded_locked(lock);
    turns_end_block_locked(lock);
    lock_regrant_locked(lock, own, up->stamp);
    previous_set_locked(lock, &up->ahead.record.last);
    return HF_OK;
}

/* Takes a holder out of the record: the entries that are left stand in the way. */
static void leave_out(hf_record *record, hf_id ticket)
{
    for (size_t i = 0; i < record->holders; i++) {
        if (!id_equal(record->entries[i].ticket, ticket))
            continue;
        record->holders--;
        memmove(&record->entries[i], &record->entries[i + 1],
                (record->holders + record->queued - i) * sizeof *record->entries);
        return;
    }
}

static hf_code describe(const struct upgrade *up, hf_error *err)
{
    const hf_record *record = &up->ahead.record;
    const char *name = up->lock->name;
    if (!record->holders)
        return error_set(
            err, HF_HELD,
            "%.128s was not upgraded, and is held as before: %zu wait for it and would be passed",
            name, record->queued);
    const char *why = record->entries[0].why;
    return error_set(err, HF_HELD,
                     "%.128s was not upgraded, and is held as before: it is shared with "
                     "%.100s%s%.100s%s",
                     name, judging_holder(&up->request, &up->ahead), why[0] ? " (" : "", why,
                     why[0] ? ")" : "");
}

/* Like a refused try, it looks once at the sessions in its way (R6). */
static hf_code refused(struct upgrade *up, judging *found, hf_error *err)
{
    hf_mono now = client_now(up->lock->client);
    leave_out(&up->ahead.record, up->request.enter.replaces);
    hf_code code = judging_tick(&up->request, &up->ahead, now, true, found, err);
    return code || *found == JUDGING_CHANGED ? code : describe(up, err);
}

/* An answer that changed nothing shows neither ticket: a look tells whether that is true. */
static hf_code vanished(struct upgrade *up, hf_error *err)
{
    hf_client *client = up->lock->client;
    pthread_mutex_lock(&client->mutex);
    verify_now_locked(client, up->lock->name);
    pthread_mutex_unlock(&client->mutex);
    return error_set(err, HF_UNKNOWN, "%.128s was not upgraded: its ticket was not found",
                     up->lock->name);
}

/* HF_OK after tickets of dead sessions were taken out: try once more. */
static hf_code judge(struct upgrade *up, judging *found, hf_error *err)
{
    const hf_enter *enter = &up->request.enter;
    const hf_entry *own = record_find(&up->ahead.record, enter->entry.ticket);
    if (own && own->permits == enter->entry.permits)
        return believe(up, own, err);
    if (record_find(&up->ahead.record, enter->replaces))
        return refused(up, found, err);
    return vanished(up, err);
}

static hf_code try_once(void *ctx, hf_error *err)
{
    struct upgrade *up = ctx;
    judging found;
    hf_code code;
    do {
        found = JUDGING_NONE;
        code = send(up, err);
        if (!code)
            code = judge(up, &found, err);
    } while (!code && found == JUDGING_CHANGED);
    return code;
}

/* A ticket that may still arrive is remembered: verification finds it (change_found_locked()). */
static void finish(struct upgrade *up)
{
    struct hf_lock *lock = up->lock;
    pthread_mutex_lock(&lock->client->mutex);
    if (!up->may_stand)
        change_withdraw_locked(lock);
    pthread_mutex_unlock(&lock->client->mutex);
    ahead_done(&up->ahead);
}

hf_code upgrade_lock(struct hf_lock *lock, hf_error *err)
{
    struct upgrade up = {.lock = lock, .request = {.client = lock->client, .name = lock->name}};
    if (lock_mode(lock) == HF_EXCLUSIVE)
        return HF_OK;
    start(&up);
    hf_code code = change_repeat(lock, try_once, &up, err);
    finish(&up);
    return code;
}
