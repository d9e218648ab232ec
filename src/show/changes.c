/* SPDX-License-Identifier: Apache-2.0 */
/* changes.c: compares two looks at the locks; `holdfast watch --json` and the service call it.
 * Whatever came and went between the two is not seen. A waiter that was served and has left is, if
 * it was the last holder, because the record keeps how that one left. */
#include "show/changes.h"

#include <string.h>

typedef struct comparing {
    const board *was, *now;
    const hf_lock_info *old, *new; /* one lock; NULL: not there in that look */
    change_fn *each;
    void *ctx;
} comparing;

const char *change_name(change_kind kind)
{
    static const char *const names[] = {
        [CHANGE_WAIT] = "wait", [CHANGE_GRANT] = "grant",     [CHANGE_RELEASE] = "release",
        [CHANGE_LOSS] = "loss", [CHANGE_GAVE_UP] = "gave_up", [CHANGE_LEFT] = "left",
    };
    return names[kind];
}

static const hf_lock_info nothing = {.name = ""};

/* An ID lease takes the place of who took the lock for it, with its times and its token. */
static bool is_passed(const hf_entry_info *a, const hf_entry_info *b)
{
    return a->token && a->token == b->token && a->granted_ms == b->granted_ms;
}

/* A ticket has no number here: nobody asks twice in a millisecond, or for the same. */
static bool is_same(const hf_entry_info *a, const hf_entry_info *b)
{
    bool is_by_same = !strcmp(a->session, b->session) && !strcmp(a->actor, b->actor);
    return a->since_ms == b->since_ms && (is_by_same || is_passed(a, b));
}

static bool is_among(const hf_entry_info *entry, const hf_entry_info *entries, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (is_same(entry, &entries[i]))
            return true;
    return false;
}

static bool holds_in(const hf_lock_info *lock, const hf_entry_info *entry)
{
    return is_among(entry, lock->holders, lock->n_holders);
}

static bool waits_in(const hf_lock_info *lock, const hf_entry_info *entry)
{
    return is_among(entry, lock->queue, lock->n_queue);
}

static void tell(const comparing *c, change_kind kind, const hf_entry_info *entry, int64_t at_ms,
                 const hf_last *last)
{
    c->each(c->ctx, &(change){kind, c->new->name[0] ? c->new->name : c->old->name, *entry,
                              at_ms ? at_ms : c->now->at_ms, last, c->was->at_ms == 0});
}

/* Whether the record says how that holder left. Protocols without a queue have no tokens, and one
 * holder at a time; a break tells of it before it takes the lock, so perhaps before the first look.
 */
static bool is_told(const comparing *c, const hf_entry_info *holder)
{
    const hf_last *last = &c->new->last;
    if (holder->token)
        return last->token == holder->token;
    if (last->outcome == HF_OUTCOME_ABANDONED && last->at_ms >= holder->granted_ms)
        return true;
    return last->at_ms > c->old->last.at_ms;
}

/* If the record does not say, a holder that was already gone or overdue has lost the lock. */
static void tell_end(const comparing *c, const hf_entry_info *holder)
{
    const hf_last *last = &c->new->last;
    bool is_known = is_told(c, holder);
    bool is_lost = is_known ? last->outcome == HF_OUTCOME_ABANDONED
                            : holder->lease_left_ms < 0 || !*holder->who;
    tell(c, is_lost ? CHANGE_LOSS : CHANGE_RELEASE, holder, is_known ? last->at_ms : 0,
         is_known ? last : NULL);
}

/* It was served, and an ID lease has its place by now: the grant is told. */
static bool has_become_a_lease(const comparing *c, const hf_entry_info *waiter)
{
    for (size_t i = 0; i < c->new->n_holders; i++) {
        const hf_entry_info *holder = &c->new->holders[i];
        if (holder->since_ms == waiter->since_ms && holder->permits == waiter->permits &&
            !holds_in(c->old, holder))
            return true;
    }
    return false;
}

/* Whether an entry before it still stands: then it cannot have been served. */
static bool is_anyone_ahead(const comparing *c, const hf_entry_info *waiter)
{
    for (size_t i = 0; i < c->old->n_queue; i++)
        if (c->old->queue[i].position < waiter->position && waits_in(c->new, &c->old->queue[i]))
            return true;
    return false;
}

/* It was granted and has left since the last look. Only the time of its end is known. */
static void tell_short_hold(const comparing *c, const hf_entry_info *waiter)
{
    hf_entry_info held = *waiter;
    held.token = c->new->last.token;
    held.granted_ms = c->new->last.at_ms;
    tell(c, CHANGE_GRANT, &held, held.granted_ms, NULL);
    tell_end(c, &held);
}

static void tell_gone(const comparing *c, const hf_entry_info *waiter)
{
    const hf_last *last = &c->new->last;
    bool has_held = last->token > c->old->token && last->who && !strcmp(last->who, waiter->who);
    if (c->new->token == c->old->token || is_anyone_ahead(c, waiter))
        tell(c, CHANGE_GAVE_UP, waiter, 0, NULL);
    else if (has_held)
        tell_short_hold(c, waiter);
    else
        tell(c, CHANGE_LEFT, waiter, 0, NULL);
}

/* Entries that have gone come first, because the lock was granted after they left. */
static void compare_lock(const comparing *c)
{
    const hf_lock_info *old = c->old, *new = c->new;
    for (size_t i = 0; i < old->n_holders; i++)
        if (!holds_in(new, &old->holders[i]))
            tell_end(c, &old->holders[i]);
    for (size_t i = 0; i < old->n_queue; i++)
        if (!waits_in(new, &old->queue[i]) && !holds_in(new, &old->queue[i]) &&
            !has_become_a_lease(c, &old->queue[i]))
            tell_gone(c, &old->queue[i]);
    for (size_t i = 0; i < new->n_holders; i++)
        if (!holds_in(old, &new->holders[i]))
            tell(c, CHANGE_GRANT, &new->holders[i], board_since(&new->holders[i]), NULL);
    for (size_t i = 0; i < new->n_queue; i++)
        if (!waits_in(old, &new->queue[i]))
            tell(c, CHANGE_WAIT, &new->queue[i], new->queue[i].since_ms, NULL);
}

/* Below 0: the first comes before. A list that is at its end comes last. */
static int order(const board *a, size_t i, const board *b, size_t j)
{
    if (i == a->n || j == b->n)
        return (i == a->n) - (j == b->n);
    return strcmp(a->locks[i].name, b->locks[j].name);
}

void changes_tell(const board *was, const board *now, change_fn *each, void *ctx)
{
    for (size_t i = 0, j = 0; i < was->n || j < now->n;) {
        int difference = order(was, i, now, j);
        comparing c = {.was = was, .now = now, .each = each, .ctx = ctx};
        c.old = difference <= 0 ? &was->locks[i++] : &nothing;
        c.new = difference >= 0 ? &now->locks[j++] : &nothing;
        compare_lock(&c);
    }
}
