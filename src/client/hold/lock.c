/* SPDX-License-Identifier: Apache-2.0 */
/* lock.c: makes, finds and frees locks, and says how a lock is left; see lock.h. */
#include "client/hold/hold.h"

#include "core/alloc.h"
#include "core/caller.h"
#include "core/id.h"
#include "core/period.h"
#include "core/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Made, and freed ---- */

static void set_held_locked(hf_client *client, size_t n_held)
{
    client->hold->n_held = n_held;
    session_holds_locked(client, n_held > 0);
}

static void link_locked(hf_client *client, struct hf_lock *lock)
{
    lock->next = client->hold->locks;
    lock->link = &client->hold->locks;
    if (lock->next)
        lock->next->link = &lock->next;
    client->hold->locks = lock;
    set_held_locked(client, client->hold->n_held + 1);
    table_add(&client->hold->by_name, &lock->lookup.by_name, table_hash_text(lock->name));
}

/* Nothing of it is due any more, and nobody finds it. */
static void forget_locked(struct hf_lock *lock)
{
    struct hold *hold = lock->client->hold;
    table_remove(&hold->by_name, &lock->lookup.by_name);
    table_remove(&hold->by_owner, &lock->lookup.by_owner);
    for (unsigned kind = 0; kind < LOCK_TICKETS; kind++)
        table_remove(&hold->by_ticket, &lock->lookup.tickets[kind].node);
    schedule_remove(&hold->verifying, &lock->verification.due);
    schedule_remove(&hold->lowering, &lock->change.due);
    schedule_remove(&hold->stopping, &lock->loss.leaves);
    schedule_remove(&hold->telling, &lock->loss.tells);
    schedule_remove(&hold->leases, &lock->belief.lease);
    schedule_remove(&hold->dogs, &lock->belief.dog);
    schedule_remove(&hold->turns.due, &lock->turn.due);
}

void lock_unlink_locked(struct hf_lock *lock)
{
    if (!lock->link)
        return;
    forget_locked(lock);
    if (lock->state == LOCK_HELD)
        set_held_locked(lock->client, lock->client->hold->n_held - 1);
    *lock->link = lock->next;
    if (lock->next)
        lock->next->link = lock->link;
    lock->link = NULL;
}

/* Whether it is known how the holder before left: the record shows the grant, and says it, or it
 * was asked for. */
static bool knows_previous(const struct lock_request *request, const hf_record *record,
                           hf_id ticket)
{
    const hf_entry *entry = record_find(record, ticket);
    bool is_said = !request->client->store->ops->previous || request->options->period_ms;
    return is_said && entry && record_position(record, entry) == 0;
}

static struct hf_lock *make_locked(hf_client *client, const char *name)
{
    struct hf_lock *lock = alloc_zeroed(sizeof *lock);
    lock->client = client;
    lock->name = alloc_text(name);
    lock->shown_name = client_shown_name(client, lock->name);
    lock->belief.lease_end = MONO_NEVER;
    watchdog_begin(&lock->belief.watchdog, NULL, MONO_NEVER);
    lock->loss.fd = -1;
    link_locked(client, lock);
    return lock;
}

void lock_fill_locked(struct hf_lock *lock, const struct lock_request *request, hf_mono now)
{
    struct grant *grant = &lock->grant;
    grant->enter = request->enter;
    grant->enter.entry.session = grant->session; /* one that stood in line had none to enter with */
    grant->permits = request->enter.entry.permits;
    grant->linger_ms = request->options->linger_ms;
    grant->waited_ms = lock_request_waited_ms(request, now);
    grant->thread = request->thread;
    snprintf(grant->actor, sizeof grant->actor, "%s", request->enter.entry.actor);
    table_add(&lock->client->hold->by_owner, &lock->lookup.by_owner,
              caller_owner(grant->actor, grant->thread));
}

struct hf_lock *lock_new_locked(const struct lock_request *request, const hf_entry *entry,
                                const hf_record *record, hf_mono now)
{
    struct hf_lock *lock =
        make_locked(request->client, request->claim ? record->name : request->name);
    lock_replace_ticket_locked(lock, entry->ticket);
    lock->grant.session = entry->session;
    lock->grant.token = entry->token;
    lock->grant.stamp = request->waiter.stamp;
    lock->grant.granted_at = entry->granted_at;
    lock->grant.period = period_at(entry->granted_at, request->options->period_ms);
    lock->grant.document = record->document ? alloc_text(record->document) : NULL;
    lock->previous.mark = record->last;
    lock->previous.is_known = knows_previous(request, record, entry->ticket);
    lock_fill_locked(lock, request, now);
    return lock;
}

/* How it was left, for the next local holder. */
static void mark(const struct hf_lock *lock, hf_last_mark *out, hf_wall at)
{
    *out = (hf_last_mark){.outcome = HF_OUTCOME_RELEASED,
                          .session = lock->grant.session,
                          .token = lock->grant.token,
                          .has_exit_status = lock->leaving.has_exit_status,
                          .exit_status = lock->leaving.exit_status,
                          .at = {at.ms}};
    client_who(lock->client, out->who);
}

struct hf_lock *lock_succeed_locked(const struct hf_lock *before, hf_mono now)
{
    hf_client *client = before->client;
    struct hf_lock *lock = make_locked(client, before->name);
    lock_replace_ticket_locked(lock, before->grant.ticket);
    lock->grant.session = before->grant.session;
    lock->grant.token = before->grant.token + 1;
    lock->grant.stamp = before->grant.stamp;
    lock->belief.born = now;
    schedule_set(&client->hold->verifying, &lock->verification.due, before->verification.due.due);
    verification_succeed_locked(&lock->verification, &before->verification);
    lock->turn.has_block = before->turn.has_block;
    lock->turn.line = before->turn.line;
    lock->turn.line->user = lock;
    mark(before, &lock->previous.mark, client_wall(client));
    lock->previous.is_known = lock->previous.is_local = true;
    return lock;
}

void lock_free(struct hf_lock *lock)
{
    if (lock->loss.fd >= 0)
        close(lock->loss.fd);
    free(lock->grant.document);
    free(lock->name);
    free(lock);
}

void lock_discard_locked(struct hf_lock *lock)
{
    lock_unlink_locked(lock);
    lock_free(lock);
}

/* ---- Found ---- */

static struct lock_ticket *ticket_of(struct table_node *node)
{
    return TABLE_OWNER(node, struct lock_ticket, node);
}

/* is_former: by one that was replaced. */
static struct hf_lock *find_locked(const hf_client *client, hf_id ticket, bool is_former)
{
    struct table_node *node = table_first(&client->hold->by_ticket, table_hash_id(ticket));
    for (; node; node = table_next(node)) {
        const struct lock_ticket *found = ticket_of(node);
        bool was = found == &found->lock->lookup.tickets[LOCK_FORMER];
        if (id_equal(found->id, ticket) && was == is_former && found->lock->state != LOCK_RELEASED)
            return found->lock;
    }
    return NULL;
}

static struct hf_lock *named(struct table_node *node, const char *name)
{
    for (; node; node = table_next(node)) {
        struct hf_lock *lock = TABLE_OWNER(node, struct hf_lock, lookup.by_name);
        if (strcmp(lock->name, name) == 0)
            return lock;
    }
    return NULL;
}

struct hf_lock *lock_first_named_locked(const hf_client *client, const char *name)
{
    return named(table_first(&client->hold->by_name, table_hash_text(name)), name);
}

struct hf_lock *lock_next_named_locked(const struct hf_lock *lock)
{
    return named(table_next(&lock->lookup.by_name), lock->name);
}

static struct hf_lock *owned(struct table_node *node)
{
    return node ? TABLE_OWNER(node, struct hf_lock, lookup.by_owner) : NULL;
}

struct hf_lock *lock_first_owned_locked(const hf_client *client, uint64_t owner)
{
    return owned(table_first(&client->hold->by_owner, owner));
}

struct hf_lock *lock_next_owned_locked(const struct hf_lock *lock)
{
    return owned(table_next(&lock->lookup.by_owner));
}

bool lock_is_used_locked(const struct hf_lock *lock)
{
    return lock->state == LOCK_HELD && !lock->turn.lingers && !lock->leaving.is_passing;
}

struct hf_lock *lock_find_locked(hf_client *client, hf_id ticket)
{
    return find_locked(client, ticket, false);
}

struct hf_lock *lock_find_asked_locked(hf_client *client, hf_id ticket)
{
    struct hf_lock *lock = find_locked(client, ticket, true);
    return lock ? lock : lock_find_locked(client, ticket);
}

hf_mode lock_mode(const struct hf_lock *lock)
{
    return lock->grant.permits == lock->grant.enter.limit ? HF_EXCLUSIVE : HF_SHARED;
}

/* ---- What is granted, and for how long ---- */

void lock_end_locked(struct hf_lock *lock, lock_state how)
{
    if (lock->state == LOCK_HELD)
        set_held_locked(lock->client, lock->client->hold->n_held - 1);
    lock->state = how;
}

void lock_know_ticket_locked(struct hf_lock *lock, unsigned kind, hf_id ticket)
{
    struct table *tickets = &lock->client->hold->by_ticket;
    struct lock_ticket *known = &lock->lookup.tickets[kind];
    table_remove(tickets, &known->node);
    known->id = ticket;
    known->lock = lock;
    if (!id_is_zero(ticket))
        table_add(tickets, &known->node, table_hash_id(ticket));
}

void lock_replace_ticket_locked(struct hf_lock *lock, hf_id ticket)
{
    lock->grant.ticket = ticket;
    lock_know_ticket_locked(lock, LOCK_TICKET, ticket);
}

void lock_regrant_locked(struct hf_lock *lock, const hf_entry *entry, hf_stamp stamp)
{
    lock->grant.permits = entry->permits;
    lock->grant.token = entry->token;
    lock->grant.stamp = stamp;
}

void lock_share_locked(struct hf_lock *lock)
{
    lock->grant.permits = 1;
}

void lock_keep_locked(struct hf_lock *kept, const struct hf_lock *before)
{
    kept->grant.token = before->grant.token;
    kept->leaving.has_exit_status = before->leaving.has_exit_status;
    kept->leaving.exit_status = before->leaving.exit_status;
}

/* ---- How it is left ---- */

/* Once per period: the work counts as done if the holder gave an exit status. A holder without one
 * gives the lock back. */
bool lock_gives_back(const struct hf_lock *lock)
{
    bool is_skipped = period_is_any(lock->grant.period) && !lock->leaving.has_exit_status;
    return (is_skipped || lock->leaving.is_returned) && lock->state != LOCK_LOST;
}

/* The holder did not use the lock, but others have held it under the same ticket before. The record
 * does not know yet how the last of them left it (P13). */
hf_leave lock_leave_before(const struct hf_lock *lock)
{
    const hf_last_mark *mark = &lock->previous.mark;
    hf_leave leave = {.ticket = lock->grant.ticket,
                      .outcome = mark->outcome,
                      .told = true,
                      .has_exit_status = mark->has_exit_status,
                      .exit_status = mark->exit_status,
                      .used_token = mark->token};
    client_who(lock->client, leave.who);
    return leave;
}

/* Why it was lost, if its watchdog or somebody else's break did it. */
static void say_why(const struct hf_lock *lock, char reason[HF_TEXT_MAX + 1])
{
    const session_ask *asked = session_find_ask_locked(lock->client, lock->grant.ticket);
    if (lock->belief.watchdog.has_bitten)
        watchdog_reason(&lock->belief.watchdog, reason);
    else if (asked && lock->state == LOCK_LOST)
        text_broken(reason, &asked->ask);
}

hf_leave lock_leave(const struct hf_lock *lock)
{
    const struct leaving *leaving = &lock->leaving;
    if (lock_gives_back(lock) && lock->previous.is_local)
        return lock_leave_before(lock);
    hf_leave leave = {.ticket = lock->grant.ticket,
                      .outcome = HF_OUTCOME_RELEASED,
                      .told = !lock_gives_back(lock),
                      .has_exit_status = leaving->has_exit_status,
                      .exit_status = leaving->exit_status};
    if (leaving->has_exit_status && lock->state != LOCK_LOST)
        leave.period = lock->grant.period;
    if (lock->turn.has_block)
        leave.used_token = lock->grant.token;
    say_why(lock, leave.reason);
    client_who(lock->client, leave.who);
    return leave;
}

void lock_set_exit_status_locked(struct hf_lock *lock, int exit_status)
{
    lock->leaving.has_exit_status = true;
    lock->leaving.exit_status = exit_status;
}

void lock_begin_pass_locked(struct hf_lock *lock)
{
    lock->leaving.is_passing = true;
}

void lock_end_pass_locked(struct hf_lock *lock)
{
    lock->leaving.is_passing = false;
}

void lock_return(struct hf_lock *lock)
{
    MUTEX_SCOPE(&lock->client->mutex);
    lock->leaving.is_returned = true;
}
