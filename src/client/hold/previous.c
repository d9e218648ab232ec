/* SPDX-License-Identifier: Apache-2.0 */
/* previous.c: how the holder before this one left. The answer to the enter says it, or the look
 * that showed the grant. After a grant by notice, it is looked up when the caller first asks; and
 * so it is in protocols without a queue, unless the work is done once per period. */
#include "client/hold/hold.h"

#include "core/error.h"

/* In records that earlier programs wrote, only `last` has it. */
static hf_done done_of(const hf_last_mark *mark)
{
    const hf_done_mark *done = &mark->done;
    if (done->is_known)
        return (hf_done){.who = done->who,
                         .token = done->token,
                         .exit_status = done->exit_status,
                         .at_ms = done->at.ms,
                         .period_start_ms = done->period.start.ms,
                         .period_end_ms = done->period.end.ms};
    if (!mark->has_exit_status || mark->outcome != HF_OUTCOME_RELEASED)
        return (hf_done){.who = NULL};
    return (hf_done){.who = mark->who,
                     .token = mark->token,
                     .exit_status = mark->exit_status,
                     .at_ms = mark->at.ms,
                     .period_start_ms = mark->period.start.ms,
                     .period_end_ms = mark->period.end.ms};
}

hf_last previous_text(const hf_last_mark *mark)
{
    return (hf_last){.outcome = mark->outcome,
                     .who = mark->who,
                     .token = mark->token,
                     .has_exit_status = mark->has_exit_status,
                     .exit_status = mark->exit_status,
                     .at_ms = mark->at.ms,
                     .period_start_ms = mark->period.start.ms,
                     .period_end_ms = mark->period.end.ms,
                     .reason = mark->reason,
                     .done = done_of(mark)};
}

void previous_set_locked(struct hf_lock *lock, const hf_last_mark *mark)
{
    lock->previous.mark = *mark;
    lock->previous.is_known = true;
}

typedef struct lookup {
    hf_id ticket, upgrade; /* one of the two stands */
    hf_stamp stamp;
    bool is_found;
    hf_last_mark last;
} lookup;

/* As long as the ticket holds, `last` dates from before its grant, or is about another holder
 * beside it. */
static bool find(void *ctx, const hf_record *record)
{
    lookup *it = ctx;
    const hf_entry *entry = record_find(record, it->ticket);
    if (!entry)
        entry = record_find(record, it->upgrade);
    it->is_found = entry && record_position(record, entry) == 0;
    it->last = record->last;
    return false;
}

static lookup lookup_of(hf_client *client, const hf_lock *lock)
{
    MUTEX_SCOPE(&client->mutex);
    return (lookup){
        .ticket = lock->grant.ticket, .upgrade = lock->change.upgrade, .stamp = lock->grant.stamp};
}

static hf_code look(hf_client *client, hf_lock *lock, hf_error *err)
{
    lookup it = lookup_of(client, lock);
    const char *names[] = {lock->name};
    hf_code code =
        client->store->ops->look(client->store, names, 1, it.stamp, false, find, &it, err);
    if (code)
        return code;
    if (!it.is_found)
        return error_set(err, HF_LOST,
                         "%.128s: who held it before is not known, and it is not held any more",
                         lock->name);
    pthread_mutex_lock(&client->mutex);
    if (!lock->previous.is_known)
        previous_set_locked(lock, &it.last);
    pthread_mutex_unlock(&client->mutex);
    return HF_OK;
}

/* ---- Without a queue ---- */

hf_code previous_ask(hf_client *client, const char *name, const hf_successor *asks,
                     hf_last_mark *out, hf_dbtime *now, hf_error *err)
{
    char who[HF_TEXT_MAX + 1];
    hf_successor named = *asks;
    client_who(client, who);
    named.who = who;
    return client->store->ops->previous(client->store, name, &named, out, now, err);
}

static hf_code holder_of(struct hf_lock *lock, hf_entry *holder, hf_mono *until, hf_error *err)
{
    hf_client *client = lock->client;
    int64_t left_ms;
    MUTEX_SCOPE(&client->mutex);
    hf_mono now = client_now(client);
    *holder = lock->grant.enter.entry;
    holder->ticket = lock->grant.ticket;
    holder->session = lock->grant.session;
    holder->token = lock->grant.token;
    hf_code code = belief_check_locked(lock, &left_ms, now, err);
    *until = mono_add_ms(now, left_ms);
    return code;
}

static hf_code ask(struct hf_lock *lock, hf_error *err)
{
    hf_client *client = lock->client;
    hf_entry holder;
    hf_last_mark last;
    hf_dbtime now;
    hf_successor asks = {.holder = &holder};
    hf_code code = holder_of(lock, &holder, &asks.until, err);
    if (!code)
        code = previous_ask(client, lock->name, &asks, &last, &now, err);
    if (code)
        return code;
    MUTEX_SCOPE(&client->mutex);
    previous_set_locked(lock, &last);
    return HF_OK;
}

/* ---- Asked by the holder ---- */

static bool is_known(struct hf_lock *lock)
{
    if (!lock->client)
        return lock->previous.is_known;
    MUTEX_SCOPE(&lock->client->mutex);
    return lock->previous.is_known;
}

hf_code previous_learn(struct hf_lock *lock, hf_error *err)
{
    error_clear(err);
    if (is_known(lock))
        return HF_OK;
    hf_client *client = lock->client;
    hf_code code = client_begin(client, err);
    if (code)
        return code;
    code = client->store->ops->previous ? ask(lock, err) : look(client, lock, err);
    client_end(client);
    return code;
}
