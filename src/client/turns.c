/* SPDX-License-Identifier: Apache-2.0 */
/* turns.c: decides which thread of this client has a lock next, and when the lock is given up to
 * other sessions; called by attempts, releases, the listener and upkeep. See turns.h.
 *
 * The line's first becomes its leader: it enters and waits for all. Once it holds, each release
 * passes the lock on in line, with the next token of the block that the ticket's grant has kept.
 * When another session waits, which a recall tells, that goes on for a small bound only; then the
 * ticket is left and the next in line enters anew, behind the others. Whoever holds something
 * already takes a ticket of its own, so that the store sees what waits for what. */
#include "client/attempt.h"

#include "core/alloc.h"
#include "core/id.h"

#include <string.h>

#define BOUND_MS 100 /* so long after a recall a local turn may begin, at most */

struct line {
    struct line *next, **link; /* in its bucket */
    char *name;
    struct attempt *leader;
    struct hf_lock *user; /* who holds it now; or it lingers */
    struct attempt *first, **end;
    int64_t last_token; /* of the ticket's block */
    bool is_overdue;    /* another ticket waits, and this one should have been left by now */
    bool is_wanted;     /* another ticket waits, as a recall says: */
    hf_stamp recalled;
    hf_mono wanted_at;
    int32_t turns; /* since then */
};

void turns_init(struct turns *turns, int32_t bound)
{
    *turns = (struct turns){.bound = bound ? bound : TURNS_DEFAULT, .linger_due = MONO_NEVER};
}

/* ---- Lines ---- */

static struct line **bucket_of(hf_client *client, const char *name)
{
    return &client->turns.lines[id_hash(ID_HASH, name, strlen(name)) % TURNS_BUCKETS];
}

static struct line *find_locked(hf_client *client, const char *name)
{
    struct line *line = *bucket_of(client, name);
    while (line && strcmp(line->name, name) != 0)
        line = line->next;
    return line;
}

static struct line *make_locked(hf_client *client, const char *name)
{
    struct line *line = alloc_zeroed(sizeof *line);
    line->name = alloc_text(name);
    line->end = &line->first;
    line->link = bucket_of(client, name);
    line->next = *line->link;
    if (line->next)
        line->next->link = &line->next;
    *line->link = line;
    return line;
}

static struct line *find_or_make_locked(hf_client *client, const char *name)
{
    struct line *line = find_locked(client, name);
    return line ? line : make_locked(client, name);
}

static void free_if_empty_locked(struct line *line)
{
    if (line->leader || line->user || line->first)
        return;
    *line->link = line->next;
    if (line->next)
        line->next->link = line->link;
    free(line->name);
    free(line);
}

static void append_locked(struct line *line, struct attempt *attempt)
{
    attempt->in_line = line;
    attempt->next_in_line = NULL;
    *line->end = attempt;
    line->end = &attempt->next_in_line;
}

static void take_out_locked(struct line *line, struct attempt *attempt)
{
    struct attempt **at = &line->first;
    while (*at != attempt)
        at = &(*at)->next_in_line;
    *at = attempt->next_in_line;
    if (!*at)
        line->end = at;
    attempt->in_line = NULL;
}

static struct attempt *next_locked(struct line *line)
{
    struct attempt *next = line->first;
    if (next)
        take_out_locked(line, next);
    return next;
}

/* Whoever is first enters for all, unless the lock will come to the line without that, or will soon
 * be left: then its enter takes the leave along, and a hand-over is one write. */
static void see_to_leader_locked(struct line *line)
{
    bool is_served = line->user && line->user->has_block && !line->is_overdue;
    struct attempt *next = line->leader || is_served ? NULL : next_locked(line);
    if (!next)
        return;
    line->leader = next;
    next->leads = line;
    next->news = NEWS_LEADS;
    attempt_wake_locked(next);
}

/* ---- Joining ---- */

static bool suits(const struct attempt *attempt)
{
    const unsigned needed = HF_CAN_QUEUE | HF_CAN_TOKENS | HF_CAN_NOTIFY;
    const hf_lock_options *options = attempt->options;
    bool is_exclusive =
        attempt->enter.limit == HF_LIMIT_RW && attempt->enter.entry.permits == HF_LIMIT_RW;
    return is_exclusive && !attempt->claim && !options->period_ms &&
           attempt->client->turns.bound >= 0 && (attempt->client->store->can & needed) == needed;
}

static bool is_actor(const struct hf_lock *lock, const struct attempt *attempt)
{
    const char *actor = attempt->enter.entry.actor;
    if (*actor || *lock->actor)
        return strcmp(actor, lock->actor) == 0;
    return lock->thread == attempt->thread;
}

bool turns_is_held_by_locked(const struct hf_lock *lock, const struct attempt *attempt)
{
    return lock->state == LOCK_HELD && !lock->lingers && !lock->is_passing &&
           is_actor(lock, attempt);
}

/* Waiting in line it would not be seen to hold something, by whoever looks for deadlocks. */
static bool holds_any_locked(const struct attempt *attempt)
{
    for (const struct hf_lock *lock = attempt->client->locks; lock; lock = lock->next)
        if (turns_is_held_by_locked(lock, attempt))
            return true;
    return false;
}

static bool is_asked_locked(const struct hf_lock *lock)
{
    return session_find_ask_locked(lock->client, lock->ticket) != NULL;
}

static bool goes_on_locked(const struct line *line, const struct hf_lock *lock)
{
    return !lock->client->is_closing && !is_asked_locked(lock) && lock->token < line->last_token;
}

/* The same ticket with the next token. The one before has been released: its belief is over. */
static struct hf_lock *succeed_locked(struct hf_lock *before, hf_mono now)
{
    hf_client *client = before->client;
    hf_entry entry = {
        .ticket = before->ticket, .session = before->session, .token = before->token + 1};
    hf_record record = {.limit = 0};
    struct hf_lock *lock = lock_new_locked(client, before->name, &entry, &record, 0);
    lock->enter = before->enter;
    lock->permits = before->permits;
    lock_mark(before, &lock->previous, client->env.wall(client->env.ctx));
    lock->knows_previous = true;
    lock->stamp = before->stamp;
    lock->born = now;
    lock->verify_due = before->verify_due;
    lock->has_block = before->has_block;
    lock->line = before->line;
    lock->line->user = lock;
    return lock;
}

static void give_up_lingering_locked(struct hf_lock *kept)
{
    lock_start_release_locked(kept);
    ticker_poke(kept->client, TICK_UPKEEP);
    lock_discard_locked(kept);
}

/* One that cannot be taken again is given up, if a lost session has not ended it already. */
static bool take_lingering_locked(struct attempt *attempt, hf_mono now)
{
    struct line *line = find_locked(attempt->client, attempt->name);
    struct hf_lock *kept = line ? line->user : NULL;
    if (!kept || !kept->lingers)
        return false;
    if (!session_is_believed_locked(attempt->client, kept->session, now) ||
        kept->state != LOCK_HELD || !goes_on_locked(line, kept)) {
        if (kept->line)
            give_up_lingering_locked(kept);
        return false;
    }
    kept->state = LOCK_RELEASED;
    attempt->lock = succeed_locked(kept, now);
    attempt_fill_lock(attempt, attempt->lock, now);
    attempt->lock->previous = kept->previous;
    lock_discard_locked(kept);
    return true;
}

turns_place turns_join_locked(struct attempt *attempt, hf_mono now)
{
    hf_client *client = attempt->client;
    if (attempt->leads)
        return PLACE_LEADS;
    if (!suits(attempt))
        return PLACE_ALONE;
    if (take_lingering_locked(attempt, now))
        return PLACE_TAKEN;
    struct line *line = find_or_make_locked(client, attempt->name);
    if (attempt->enter.try_only && (line->leader || line->user))
        return PLACE_HELD;
    if ((line->user || line->leader) && holds_any_locked(attempt))
        return PLACE_ALONE;
    append_locked(line, attempt);
    see_to_leader_locked(line);
    if (attempt->in_line)
        return PLACE_IN_LINE;
    attempt->news = NEWS_NONE;
    return PLACE_LEADS;
}

void turns_dress_locked(const struct attempt *attempt, hf_entry *entry)
{
    const struct line *line = attempt->leads;
    bool passes = line && (line->first || line->user || attempt->options->linger_ms > 0);
    entry->yields = passes;
    entry->block = passes ? HF_BLOCK_MAX : 0;
}

size_t turns_position(const struct attempt *attempt)
{
    size_t position = 1;
    const struct attempt *at = attempt->in_line ? attempt->in_line->first : attempt;
    for (; at && at != attempt; at = at->next_in_line)
        position++;
    return position;
}

/* ---- Going on in line ---- */

turns_news turns_hear_locked(struct attempt *attempt)
{
    turns_news news = attempt->news;
    attempt->news = NEWS_NONE;
    attempt->is_shut_out = attempt->in_line && attempt->in_line->user;
    return news;
}

bool turns_bequeath_locked(struct attempt *attempt)
{
    struct line *line = attempt->leads;
    struct attempt *heir = line ? next_locked(line) : NULL;
    if (!heir)
        return false;
    heir->enter.entry.ticket = attempt->enter.entry.ticket;
    heir->enter.entry.session = attempt->enter.entry.session;
    heir->enter.entry.block = attempt->enter.entry.block;
    heir->enter.entry.yields = attempt->enter.entry.yields;
    heir->is_unanswered = attempt->is_unanswered;
    heir->is_in_flight = true;
    waiters_remove(&attempt->waiter);
    heir->waiter = attempt->waiter;
    heir->waiter.is_told = heir->waiter.judges_now = false; /* it looks in any case */
    waiters_add(&attempt->client->waiters, &heir->waiter);
    line->leader = heir;
    heir->leads = line;
    heir->news = NEWS_TICKET;
    attempt->leads = NULL;
    attempt_wake_locked(heir);
    return true;
}

void turns_quit_locked(struct attempt *attempt)
{
    struct line *line = attempt->in_line ? attempt->in_line : attempt->leads;
    if (!line)
        return;
    if (attempt->in_line)
        take_out_locked(line, attempt);
    if (line->leader == attempt)
        line->leader = NULL;
    attempt->leads = NULL;
    see_to_leader_locked(line);
    free_if_empty_locked(line);
}

/* ---- Holding ---- */

static bool is_wanted(const struct line *line, const hf_client *client)
{
    return line->is_wanted || client->is_polling;
}

static void want_locked(hf_client *client, struct line *line, hf_mono now)
{
    if (line->is_wanted)
        return;
    line->is_wanted = true;
    line->wanted_at = now;
    line->turns = 0;
    see_to_leader_locked(line);
    ticker_poke(client, TICK_UPKEEP);
}

/* Its record was dropped under it, else the leader had not been granted: it will find out. */
static void forget_user_locked(hf_client *client, struct line *line)
{
    if (!line->user)
        return;
    client->turns.yielding -= line->user->has_block;
    line->user->line = NULL;
}

void turns_granted_locked(struct attempt *attempt, struct hf_lock *lock, const hf_entry *entry,
                          const hf_record *record)
{
    struct line *line = attempt->leads;
    if (!line)
        return;
    forget_user_locked(attempt->client, line);
    line->leader = NULL;
    line->user = lock;
    attempt->leads = NULL;
    lock->line = line;
    lock->has_block = entry->block > 1;
    line->last_token = entry->token + (lock->has_block ? entry->block - 1 : 0);
    line->is_overdue = false;
    line->is_wanted &= line->recalled.value >= lock->stamp.value; /* older ones were for another */
    line->wanted_at = lock->born;
    if (lock->knows_previous && record->queued)
        want_locked(attempt->client, line, lock->born);
    see_to_leader_locked(line);
    if (!lock->has_block)
        return;
    attempt->client->turns.yielding++;
    upkeep_look_after_locked(attempt->client, lock);
    if (!listen_want_locked(attempt->client, lock->stamp))
        upkeep_verify_locked(attempt->client,
                             lock->name); /* its recall may have been passed over */
}

/* While another session waits, a few may still have their turn. */
static bool may_have_turn(struct line *line, hf_client *client, hf_mono now)
{
    if (!is_wanted(line, client))
        return true;
    want_locked(client, line, now);
    bool in_time = !mono_reached(mono_add_ms(line->wanted_at, BOUND_MS), now);
    return line->turns++ < client->turns.bound && in_time;
}

static void hand_to_locked(struct attempt *next, struct hf_lock *before, hf_mono now)
{
    next->lock = succeed_locked(before, now);
    attempt_fill_lock(next, next->lock, now);
    next->news = NEWS_LOCK;
    next->is_woken = true;
}

static void linger_locked(struct hf_lock *before, hf_mono now)
{
    hf_client *client = before->client;
    struct hf_lock *kept = succeed_locked(before, now);
    kept->token = before->token; /* nobody has the next one yet */
    kept->lingers = true;
    kept->linger_until = mono_add_ms(now, before->linger_ms);
    kept->has_exit_status = before->has_exit_status;
    kept->exit_status = before->exit_status;
    if (mono_reached(kept->linger_until, client->turns.linger_due))
        ticker_poke(client, TICK_UPKEEP);
}

bool turns_pass_locked(struct hf_lock *lock, hf_mono now, struct waker **to_wake)
{
    *to_wake = NULL;
    struct line *line = lock->line;
    if (!line || line->user != lock || !goes_on_locked(line, lock))
        return false;
    bool goes_on = line->first && may_have_turn(line, lock->client, now);
    struct attempt *next = goes_on ? next_locked(line) : NULL;
    if (next) {
        lock->state = LOCK_RELEASED;
        hand_to_locked(next, lock, now);
        *to_wake = next->waker;
    } else if (!line->first && !line->leader && lock->linger_ms > 0 &&
               !is_wanted(line, lock->client)) {
        lock->state = LOCK_RELEASED;
        linger_locked(lock, now);
    } else {
        return false;
    }
    lock->line = NULL;
    return true;
}

void turns_left_locked(struct hf_lock *lock)
{
    struct line *line = lock->line;
    if (!line)
        return;
    lock->line = NULL;
    line->user = NULL;
    lock->client->turns.yielding -= lock->has_block;
    line->is_wanted = line->is_overdue = false;
    see_to_leader_locked(line);
    free_if_empty_locked(line);
}

/* ---- Recalls, and the end of lingering ---- */

static void recall_line_locked(hf_client *client, struct line *line, hf_stamp stamp)
{
    line->recalled = stamp;
    if (line->user && line->user->lingers)
        give_up_lingering_locked(line->user);
    else
        want_locked(client, line, client_now(client));
}

void turns_recall_locked(hf_client *client, const char *name, hf_stamp stamp)
{
    struct line *one = name ? find_locked(client, name) : NULL;
    if (one)
        recall_line_locked(client, one, stamp);
    for (size_t i = 0; !name && i < TURNS_BUCKETS; i++)
        for (struct line *line = client->turns.lines[i], *next; line; line = next) {
            next = line->next;
            recall_line_locked(client, line, stamp);
        }
}

bool turns_may_be_recalled_locked(const hf_client *client)
{
    const struct hf_lock *lock = client->turns.yielding ? client->locks : NULL;
    while (lock && !(lock->line && lock->has_block && !lock->line->is_wanted))
        lock = lock->next;
    return lock != NULL;
}

/* A lost one that lingered has no handle that anybody would close. */
static bool is_over(const struct hf_lock *lock)
{
    return lock->state == LOCK_LOST &&
           (lock->is_left || !session_is_present_locked(lock->client, lock->session));
}

/* A turn that takes long: the others in line have their ticket taken without the leave. */
static hf_mono see_to_overdue_locked(struct line *line, hf_mono now)
{
    if (!line->is_wanted || line->is_overdue || !line->user->has_block)
        return MONO_NEVER;
    hf_mono due = mono_add_ms(line->wanted_at, BOUND_MS);
    if (!mono_reached(due, now))
        return due;
    line->is_overdue = true;
    see_to_leader_locked(line);
    return MONO_NEVER;
}

hf_mono turns_tick_locked(hf_client *client, hf_mono now)
{
    hf_mono due = MONO_NEVER;
    for (struct hf_lock *lock = client->locks, *next; lock; lock = next) {
        next = lock->next;
        if (lock->line)
            due = mono_min(due, see_to_overdue_locked(lock->line, now));
        if (!lock->lingers)
            continue;
        if (is_over(lock))
            lock_discard_locked(lock);
        else if (lock->state == LOCK_HELD && mono_reached(lock->linger_until, now))
            give_up_lingering_locked(lock);
        else if (lock->state == LOCK_HELD)
            due = mono_min(due, lock->linger_until);
    }
    client->turns.linger_due = due;
    return due;
}

static void free_line(struct line *line)
{
    line->leader = NULL;
    line->user = NULL;
    line->first = NULL;
    free_if_empty_locked(line);
}

void turns_free(hf_client *client)
{
    for (struct hf_lock *lock = client->locks, *next; lock; lock = next) {
        next = lock->next;
        lock->line = NULL;
        if (lock->lingers)
            lock_discard_locked(lock);
    }
    for (size_t i = 0; i < TURNS_BUCKETS; i++)
        while (client->turns.lines[i])
            free_line(client->turns.lines[i]);
}
