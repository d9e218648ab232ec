/* SPDX-License-Identifier: Apache-2.0 */
/* upgrade.c: from shared to exclusive on one handle: tried, and believed only once it was answered
 * (R4); called by the program. */
#include "client/attempt.h"
#include "client/change.h"

#include "core/error.h"
#include "core/id.h"

#include <string.h>

/* One that is under way. The attempt waits for nothing: it is what is entered, what came of it, and
 * who stands in the way. */
struct upgrade {
    struct hf_lock *lock;
    struct attempt attempt;
    hf_stamp stamp;
    bool may_stand; /* its ticket may be in the record, or its enter may still land */
};

/* The ticket is a new one, so that a downgrade of the old one, if it lands late, finds nobody. One
 * that may still land is used again: at most two tickets can stand for a lock. */
static void start(struct upgrade *up)
{
    struct hf_lock *lock = up->lock;
    hf_client *client = lock->client;
    hf_enter *enter = &up->attempt.enter;
    pthread_mutex_lock(&client->mutex);
    up->may_stand = !id_is_zero(lock->upgrade);
    if (!up->may_stand)
        lock->upgrade = client_new_id(client);
    *enter = lock->enter;
    enter->entry.ticket = lock->upgrade;
    enter->entry.permits = enter->limit;
    enter->entry.yields = false;
    enter->entry.block = 0;
    enter->replaces = lock->ticket;
    enter->try_only = true;
    pthread_mutex_unlock(&client->mutex);
}

static bool load(struct upgrade *up, struct cargo *cargo)
{
    hf_client *client = up->lock->client;
    pthread_mutex_lock(&client->mutex);
    bool ready = cargo_load_locked(client, up->lock->name, cargo);
    pthread_mutex_unlock(&client->mutex);
    return ready;
}

static void sent(struct upgrade *up, struct cargo *cargo, hf_code code, bool confirmed)
{
    hf_client *client = up->lock->client;
    pthread_mutex_lock(&client->mutex);
    cargo_unload_locked(client, cargo, code, confirmed);
    if (code == HF_UNKNOWN) {
        session_suspect_locked(client, up->lock->name);
        up->may_stand = true;
    }
    pthread_mutex_unlock(&client->mutex);
}

static hf_code send(struct upgrade *up, hf_error *err)
{
    hf_store *store = up->lock->client->store;
    struct attempt *attempt = &up->attempt;
    struct cargo cargo;
    hf_record record;
    hf_step_reply reply = {.confirmed = false};
    if (!load(up, &cargo))
        return error_set(err, HF_UNREACHABLE,
                         "%.128s: an earlier release of it is still being sent", up->lock->name);
    hf_step step = {.leaves = cargo.leaves, .n_leaves = cargo.n, .enter = &attempt->enter};
    hf_code code = store->ops->step(store, up->lock->name, &step, &record, &reply, err);
    sent(up, &cargo, code, reply.confirmed);
    if (code)
        return code;
    record_done(&attempt->record);
    attempt->record = record;
    up->stamp = reply.stamp;
    return HF_OK;
}

/* Only from an acknowledged answer, and only if the lease still runs and nobody has asked for the
 * lock (R4, R9). */
static hf_code believe(struct upgrade *up, const hf_entry *own, hf_error *err)
{
    struct hf_lock *lock = up->lock;
    pthread_mutex_lock(&lock->client->mutex);
    hf_code code = change_check_locked(lock, err);
    up->may_stand |= code != HF_OK; /* whoever ended belief takes it out */
    if (!code) {
        change_replace_locked(lock);
        lock->is_lowering = false;
        lock->has_block = false;
        lock->permits = own->permits;
        lock->token = own->token;
        lock->stamp = up->stamp;
        lock->previous = up->attempt.record.last;
        lock->knows_previous = true;
    }
    pthread_mutex_unlock(&lock->client->mutex);
    return code;
}

/* What is left of the record is what stands in the way. */
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

static hf_code describe(const struct attempt *attempt, hf_error *err)
{
    const hf_record *record = &attempt->record;
    if (!record->holders)
        return error_set(err, HF_HELD,
                         "%.128s was not upgraded, and is held as before: %zu wait for it, who "
                         "would be passed",
                         attempt->name, record->queued);
    const char *why = record->entries[0].why;
    return error_set(err, HF_HELD,
                     "%.128s was not upgraded, and is held as before: it is shared with "
                     "%.100s%s%.100s%s",
                     attempt->name, attempt_holder_of(attempt), why[0] ? " (" : "", why,
                     why[0] ? ")" : "");
}

/* As a try that was refused, it looks once at who is in its way (R6). */
static hf_code refused(struct upgrade *up, judging *found, hf_error *err)
{
    struct attempt *attempt = &up->attempt;
    leave_out(&attempt->record, attempt->enter.replaces);
    hf_code code = judging_tick(attempt, client_now(up->lock->client), true, found, err);
    return code || *found == JUDGING_CHANGED ? code : describe(attempt, err);
}

/* Neither ticket is there, says an answer that changed nothing: a look says whether that is so. */
static hf_code vanished(struct upgrade *up, hf_error *err)
{
    hf_client *client = up->lock->client;
    pthread_mutex_lock(&client->mutex);
    upkeep_verify_locked(client, up->lock->name);
    pthread_mutex_unlock(&client->mutex);
    return error_set(err, HF_UNKNOWN, "%.128s was not upgraded: its ticket was not found",
                     up->lock->name);
}

/* HF_OK, with tickets of the dead taken out: once more. */
static hf_code judge(struct upgrade *up, judging *found, hf_error *err)
{
    const hf_enter *enter = &up->attempt.enter;
    const hf_entry *own = record_find(&up->attempt.record, enter->entry.ticket);
    if (own && own->permits == enter->entry.permits)
        return believe(up, own, err);
    if (record_find(&up->attempt.record, enter->replaces))
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

/* What may still land stays known: verifying finds it (change_found_locked()). */
static void finish(struct upgrade *up)
{
    struct hf_lock *lock = up->lock;
    pthread_mutex_lock(&lock->client->mutex);
    if (!up->may_stand)
        lock->upgrade = (hf_id){{0}};
    pthread_mutex_unlock(&lock->client->mutex);
    judge_done(&up->attempt.judge);
    record_done(&up->attempt.record);
}

static hf_code upgrade(struct hf_lock *lock, hf_error *err)
{
    struct upgrade up = {.lock = lock, .attempt = {.client = lock->client, .name = lock->name}};
    if (hf_lock_mode(lock) == HF_EXCLUSIVE)
        return HF_OK;
    start(&up);
    hf_code code = change_repeat(lock, try_once, &up, err);
    finish(&up);
    return code;
}

hf_code hf_lock_upgrade(hf_lock *lock, hf_error *err)
{
    return change_perform(lock, upgrade, err);
}
