/* SPDX-License-Identifier: Apache-2.0 */
/* turns.c: decides which thread of this client has a lock next, and when the lock is given up to
 * other sessions; called by attempts, releases, the listener and upkeep. See turns.h.
 *
 * Once the line's leader holds, each release passes the lock on in line, with the next token of the
 * grant's block. After a recall (another session waits), only a few more turns follow. Then the
 * ticket is given up, and the next in line enters anew, behind the others. A thread that already
 * holds something takes a ticket of its own, so that the store shows what waits for what. */
#include "client/hold/turns.h"

#include "client/hold/hold.h"

#include "core/id.h"

#include <stdio.h>

#define BOUND_MS 100 /* a local turn begins at most this long after a recall */

void turns_init(struct turns *turns, int32_t bound)
{
    *turns = (struct turns){.bound = bound ? bound : TURNS_DEFAULT};
}

void turns_done(struct turns *turns)
{
    table_done(&turns->by_name);
    schedule_done(&turns->due);
}

/* ---- What is due ---- */

/* When the first in line enters for the others without waiting for the leave. */
static hf_mono overdue_at(const struct hf_lock *lock)
{
    const struct line *line = lock->turn.line;
    bool may_be = line && line->is_wanted && !line->is_overdue && lock->turn.has_block;
    return may_be ? mono_add_ms(line->wanted_at, BOUND_MS) : MONO_NEVER;
}

static void plan_locked(struct hf_lock *lock)
{
    schedule_set(&lock->client->hold->turns.due, &lock->turn.due,
                 lock->turn.lingers ? lock->turn.linger_until : overdue_at(lock));
}

/* ---- Joining ---- */

static bool suits(const struct lock_request *request)
{
    const unsigned needed = HF_CAN_QUEUE | HF_CAN_TOKENS | HF_CAN_NOTIFY;
    bool is_exclusive =
        request->enter.limit == HF_LIMIT_RW && request->enter.entry.permits == HF_LIMIT_RW;
    return is_exclusive && !request->claim && !request->options->period_ms &&
           request->client->hold->turns.bound >= 0 &&
           (request->client->store->can & needed) == needed;
}

/* If it waited in line, a search for deadlocks could not see what it holds. What it has inherited
 * is seen: the first in line has inherited the same. */
static bool holds_any_locked(const struct lock_request *request)
{
    const struct hf_lock *lock =
        lock_first_owned_locked(request->client, lock_request_owner(request));
    for (; lock; lock = lock_next_owned_locked(lock))
        if (lock_request_holds_locked(request, lock))
            return true;
    return false;
}

static bool is_asked_locked(const struct hf_lock *lock)
{
    return session_find_ask_locked(lock->client, lock->grant.ticket) != NULL;
}

static bool goes_on_locked(const struct line *line, const struct hf_lock *lock)
{
    return !lock->client->closing.has_begun && !is_asked_locked(lock) &&
           lock->grant.token < line->last_token;
}

static void give_up_lingering_locked(struct hf_lock *kept)
{
    release_begin_locked(kept);
    ticker_poke(kept->client, TICK_UPKEEP);
    lock_discard_locked(kept);
}

/* Gives the lock to the request; the handle before has been released. */
static struct hf_lock *hand_over_locked(struct lock_request *request, const struct hf_lock *before,
                                        hf_mono now)
{
    struct hf_lock *lock = lock_succeed_locked(before, now);
    lock_fill_locked(lock, request, now);
    belief_begin_locked(lock, request, now);
    loss_tell_locked(lock, request->options->on_lost, request->options->lost_ctx);
    plan_locked(lock);
    request->lock = lock;
    return lock;
}

/* A lingering lock that cannot be taken again is given up, unless a lost session has already ended
 * it. */
static bool take_lingering_locked(struct lock_request *request, hf_mono now)
{
    struct line *line = line_find_locked(request->client, request->name);
    struct hf_lock *kept = line ? line->user : NULL;
    if (!kept || !kept->turn.lingers)
        return false;
    if (!belief_in_session_locked(request->client, kept->grant.session, now) ||
        kept->state != LOCK_HELD || !goes_on_locked(line, kept)) {
        if (kept->turn.line)
            give_up_lingering_locked(kept);
        return false;
    }
    previous_set_locked(hand_over_locked(request, kept, now), &kept->previous.mark);
    lock_discard_locked(kept);
    return true;
}

/* line NULL: it leads, or is alone, and sees for itself. */
static void hear_holder_locked(struct lock_request *request, const struct line *line)
{
    if (line)
        snprintf(request->told, sizeof request->told, "%s", line->holder);
    else
        request->told[0] = '\0';
}

turns_place turns_join_locked(struct lock_request *request, hf_mono now)
{
    struct place *place = &request->place;
    if (place->leads)
        return PLACE_LEADS;
    if (!suits(request))
        return PLACE_ALONE;
    if (take_lingering_locked(request, now))
        return PLACE_TAKEN;
    struct line *line = line_find_or_make_locked(request->client, request->name);
    request->is_shut_out = line->user;
    if (request->enter.try_only && (line->leader || line->user)) {
        hear_holder_locked(request, line);
        return PLACE_HELD;
    }
    if ((line->user || line->leader) && holds_any_locked(request))
        return PLACE_ALONE;
    line_append_locked(line, request);
    line_see_to_leader_locked(line);
    if (place->in_line)
        return PLACE_IN_LINE;
    place->news = NEWS_NONE;
    return PLACE_LEADS;
}

void turns_request_block_locked(const struct lock_request *request, hf_entry *entry)
{
    const struct line *line = request->place.leads;
    bool passes = line && (line->first || line->user || request->options->linger_ms > 0);
    entry->yields = passes;
    entry->block = passes ? HF_BLOCK_MAX : 0;
}

/* ---- Going on in line ---- */

static void take_ticket_locked(struct lock_request *request)
{
    const hf_entry *ticket = &request->place.ticket;
    hf_entry *entry = &request->enter.entry;
    entry->ticket = ticket->ticket;
    entry->session = ticket->session;
    entry->block = ticket->block;
    entry->yields = ticket->yields;
    request->is_unanswered = request->place.may_land;
    request->is_in_flight = true;
}

line_news turns_hear_locked(struct lock_request *request)
{
    struct place *place = &request->place;
    line_news news = place->news;
    place->news = NEWS_NONE;
    request->is_shut_out = place->in_line && place->in_line->user;
    hear_holder_locked(request, place->in_line);
    if (news == NEWS_TICKET)
        take_ticket_locked(request);
    return news;
}

/* Notices for the ticket go to its new owner from now on. */
static void transfer_waiter_locked(struct lock_request *from, struct lock_request *to)
{
    waiters_remove(&from->waiter);
    to->waiter = from->waiter;
    to->waiter.is_told = to->waiter.judges_now = false; /* it looks in any case */
    waiters_add(&to->client->hold->waiters, &to->waiter);
}

bool turns_transfer_locked(struct lock_request *request)
{
    struct line *line = request->place.leads;
    struct lock_request *heir = line ? line_next_locked(line) : NULL;
    if (!heir)
        return false;
    heir->place.ticket = request->enter.entry;
    heir->place.may_land = request->is_unanswered;
    heir->place.leads = line;
    heir->place.news = NEWS_TICKET;
    line->leader = heir;
    transfer_waiter_locked(request, heir);
    request->place.leads = NULL;
    lock_request_wake_locked(heir);
    return true;
}

/* ---- Holding ---- */

static bool is_wanted(const struct line *line, const hf_client *client)
{
    return line->is_wanted || client->hold->listener.is_polling;
}

static void want_locked(hf_client *client, struct line *line, hf_mono now)
{
    if (line->is_wanted)
        return;
    line->is_wanted = true;
    line->wanted_at = now;
    line->turns = 0;
    if (line->user)
        plan_locked(line->user);
    line_see_to_leader_locked(line);
    ticker_poke(client, TICK_UPKEEP);
}

/* The record was dropped, or the leader would not have been granted: the holder will find out. */
static void forget_user_locked(hf_client *client, struct line *line)
{
    if (!line->user)
        return;
    client->hold->turns.yielding -= line->user->turn.has_block;
    line->user->turn.line = NULL;
}

static void use_line_locked(struct line *line, struct hf_lock *lock, const hf_entry *entry)
{
    lock->turn.line = line;
    lock->turn.has_block = entry->block > 1;
    line->leader = NULL;
    line->holder[0] = '\0';
    line->user = lock;
    line->last_token = entry->token + (lock->turn.has_block ? entry->block - 1 : 0);
    line->is_overdue = false;
    line->is_wanted &= line->recalled.value >= lock->grant.stamp.value; /* older: for another */
    line->wanted_at = lock->belief.born;
    plan_locked(lock);
}

void turns_granted_locked(struct lock_request *request, struct hf_lock *lock, const hf_entry *entry,
                          const hf_record *record)
{
    hf_client *client = request->client;
    struct line *line = request->place.leads;
    if (!line)
        return;
    forget_user_locked(client, line);
    request->place.leads = NULL;
    use_line_locked(line, lock, entry);
    if (lock->previous.is_known && record->queued)
        want_locked(client, line, lock->belief.born);
    line_see_to_leader_locked(line);
    if (!lock->turn.has_block)
        return;
    client->hold->turns.yielding++;
    verify_soon_locked(lock);
    if (!listener_want_locked(client, lock->grant.stamp))
        verify_now_locked(client, lock->name); /* its recall may have been missed */
}

/* While another session waits, a few may still have their turn. */
static bool may_have_turn(struct line *line, hf_client *client, hf_mono now)
{
    if (!is_wanted(line, client))
        return true;
    want_locked(client, line, now);
    bool in_time = !mono_reached(mono_add_ms(line->wanted_at, BOUND_MS), now);
    return line->turns++ < client->hold->turns.bound && in_time;
}

static void linger_locked(struct hf_lock *before, hf_mono now)
{
    hf_client *client = before->client;
    struct hf_lock *kept = lock_succeed_locked(before, now);
    lock_keep_locked(kept, before);
    kept->turn.lingers = true;
    kept->turn.linger_until = mono_add_ms(now, before->grant.linger_ms);
    plan_locked(kept);
    if (schedule_first(&client->hold->turns.due) == &kept->turn.due)
        ticker_poke(client, TICK_UPKEEP);
}

static bool may_linger(const struct line *line, const struct hf_lock *lock)
{
    return !line->first && !line->leader && lock->grant.linger_ms > 0 &&
           !is_wanted(line, lock->client);
}

/* The caller wakes it, once the mutex is free. */
static void pass_to_locked(struct lock_request *next, struct hf_lock *lock, hf_mono now,
                           struct waker **to_wake)
{
    lock_end_locked(lock, LOCK_RELEASED);
    hand_over_locked(next, lock, now);
    next->place.news = NEWS_LOCK;
    lock_request_note_woken_locked(next);
    *to_wake = next->waker;
}

bool turns_pass_locked(struct hf_lock *lock, hf_mono now, struct waker **to_wake)
{
    *to_wake = NULL;
    struct line *line = lock->turn.line;
    if (!line || line->user != lock || !goes_on_locked(line, lock))
        return false;
    bool goes_on = line->first && may_have_turn(line, lock->client, now);
    struct lock_request *next = goes_on ? line_next_locked(line) : NULL;
    if (!next && !may_linger(line, lock))
        return false;
    diary_note_locked(lock, HF_TURN_RELEASED);
    if (next) {
        pass_to_locked(next, lock, now, to_wake);
    } else {
        lock_end_locked(lock, LOCK_RELEASED);
        linger_locked(lock, now);
    }
    lock->turn.line = NULL;
    return true;
}

void turns_end_block_locked(struct hf_lock *lock)
{
    lock->turn.has_block = false;
}

/* ---- Recalls, and the end of lingering ---- */

static void recall_line_locked(hf_client *client, struct line *line, hf_stamp stamp)
{
    line->recalled = stamp;
    if (line->user && line->user->turn.lingers)
        give_up_lingering_locked(line->user);
    else
        want_locked(client, line, client_now(client));
}

void turns_recall_locked(hf_client *client, const char *name, hf_stamp stamp)
{
    struct line *one = name ? line_find_locked(client, name) : NULL;
    if (name)
        release_first_locked(client, name);
    if (one)
        recall_line_locked(client, one, stamp);
    for (struct line *line = name ? NULL : client->hold->turns.lines, *next; line; line = next) {
        next = line->next;
        recall_line_locked(client, line, stamp);
    }
}

bool turns_may_be_recalled_locked(const hf_client *client)
{
    const struct hold *hold = client->hold;
    const struct hf_lock *lock = hold->turns.yielding ? hold->locks : NULL;
    while (lock && !(lock->turn.line && lock->turn.has_block && !lock->turn.line->is_wanted))
        lock = lock->next;
    return lock != NULL;
}

/* Nobody has a handle to close a lost lock that lingered. */
static bool is_over(const struct hf_lock *lock)
{
    return lock->state == LOCK_LOST &&
           (lock->loss.is_left || !session_is_present_locked(lock->client, lock->grant.session));
}

/* If a turn takes long, the next in line enters for the others without waiting for the leave. */
static void see_to_overdue_locked(struct hf_lock *lock, hf_mono now)
{
    if (!mono_reached(overdue_at(lock), now))
        return;
    lock->turn.line->is_overdue = true;
    line_see_to_leader_locked(lock->turn.line);
}

static void see_to_locked(struct hf_lock *lock, hf_mono now)
{
    if (!lock->turn.lingers)
        see_to_overdue_locked(lock, now);
    else if (is_over(lock))
        lock_discard_locked(lock);
    else if (lock->state == LOCK_HELD)
        give_up_lingering_locked(lock);
}

hf_mono turns_tick_locked(hf_client *client, hf_mono now)
{
    struct schedule *due = &client->hold->turns.due;
    struct slot *slot;
    while ((slot = schedule_next_due(due, now))) {
        schedule_remove(due, slot);
        see_to_locked(SCHEDULE_OWNER(slot, struct hf_lock, turn.due), now);
    }
    return schedule_due(due);
}

void turns_free(hf_client *client)
{
    for (struct hf_lock *lock = client->hold->locks, *next; lock; lock = next) {
        next = lock->next;
        lock->turn.line = NULL;
        if (lock->turn.lingers)
            lock_discard_locked(lock);
    }
    while (client->hold->turns.lines)
        line_free_locked(client->hold->turns.lines);
}
