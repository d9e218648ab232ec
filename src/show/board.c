/* SPDX-License-Identifier: Apache-2.0 */
/* board.c: keeps the result of one look at the locks; used by `holdfast watch` and the service. */
#include "show/board.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "show/text.h"

static hf_entry_info *copy_entries(const hf_entry_info *entries, size_t n)
{
    hf_entry_info *out = text_alloc(n * sizeof *out);
    for (size_t i = 0; i < n; i++) {
        out[i] = entries[i];
        out[i].session = text_copy(entries[i].session);
        out[i].who = text_copy(entries[i].who);
        out[i].actor = text_copy(entries[i].actor);
        out[i].why = text_copy(entries[i].why);
    }
    return out;
}

static int64_t mono_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* A look that goes on. */
typedef struct looking {
    board *out;
    board_heard *heard; /* NULL: nobody watches */
} looking;

static bool add_lock(void *ctx, const hf_lock_info *info)
{
    const looking *l = ctx;
    board *b = l->out;
    if (l->heard)
        *l->heard = mono_ms();
    b->locks = text_wider(b->locks, b->n, sizeof *b->locks);
    hf_lock_info *lock = &b->locks[b->n++];
    *lock = *info;
    lock->name = text_copy(info->name);
    lock->holders = copy_entries(info->holders, info->n_holders);
    lock->queue = copy_entries(info->queue, info->n_queue);
    lock->last.who = text_copy(info->last.who ? info->last.who : "");
    lock->last.reason = text_copy(info->last.reason ? info->last.reason : "");
    if (info->last.done.who)
        lock->last.done.who = text_copy(info->last.done.who);
    return true;
}

bool board_is_in_use(const hf_lock_info *lock)
{
    return lock->n_holders || lock->n_queue;
}

bool board_is_overdue(const hf_lock_info *lock)
{
    for (size_t i = 0; i < lock->n_holders; i++)
        if (lock->holders[i].lease_left_ms < 0)
            return true;
    return false;
}

void board_count(totals *to, const hf_lock_info *lock)
{
    to->held += lock->n_holders > 0;
    to->overdue += board_is_overdue(lock);
    to->waiting += lock->n_queue;
}

char *board_totals(const totals *t)
{
    char *more = t->overdue ? text_print(", %zu overdue", t->overdue) : text_copy("");
    char *out = text_print("%zu held, %zu waiting%s", t->held, t->waiting, more);
    free(more);
    return out;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const hf_lock_info *)a)->name, ((const hf_lock_info *)b)->name);
}

/* Among the first n, which are sorted. */
static bool has_lock(const board *b, size_t n, const hf_lock_info *lock)
{
    return n && bsearch(lock, b->locks, n, sizeof *lock, by_name);
}

const hf_lock_info *board_find(const board *b, const char *name)
{
    const hf_lock_info wanted = {.name = name};
    return b->n ? bsearch(&wanted, b->locks, b->n, sizeof wanted, by_name) : NULL;
}

static const char *name_of(const void *of, size_t i)
{
    return ((const board *)of)->locks[i].name;
}

size_t board_begin(const board *b, const char *prefix)
{
    return text_begin(b->n, name_of, b, prefix);
}

/* How they were left; those without a record any more are not there. `n` of the board are sorted.
 */
static hf_code add_left(looking *l, size_t n, const board *was, hf_client *client, hf_error *err)
{
    hf_code code = HF_OK;
    for (size_t i = 0; i < was->n && !code; i++) {
        const hf_lock_info *lock = &was->locks[i];
        if (!board_is_in_use(lock) || has_lock(l->out, n, lock))
            continue;
        code = hf_show(client, lock->name, add_lock, l, err);
        if (code == HF_NOT_FOUND)
            code = HF_OK;
    }
    return code;
}

static hf_code look(board *out, const hf_list_options *part, const board *was, hf_client *client,
                    board_heard *heard, hf_error *err)
{
    int64_t began_ms = mono_ms();
    looking l = {out, heard};
    *out = (board){.at_ms = text_now_ms()};
    hf_code code = hf_list_locks(client, part, add_lock, &l, err);
    size_t n = out->n;
    if (!code && was)
        code = add_left(&l, n, was, client, err);
    if (out->n > n)
        qsort(out->locks, out->n, sizeof *out->locks, by_name);
    out->took_ms = mono_ms() - began_ms;
    return code;
}

hf_code board_look(board *out, hf_client *client, const char *prefix, size_t most,
                   board_heard *heard, hf_error *err)
{
    const hf_list_options part = {
        .struct_size = sizeof part, .prefix = prefix, .limit = most, .asks_once = true};
    return look(out, &part, NULL, client, heard, err);
}

hf_code board_look_in_use(board *out, const board *was, hf_client *client, const char *prefix,
                          board_heard *heard, hf_error *err)
{
    const hf_list_options part = {
        .struct_size = sizeof part, .prefix = prefix, .in_use = true, .asks_once = true};
    return look(out, &part, was, client, heard, err);
}

static bool is_same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

static bool is_same_entry(const hf_entry_info *a, const hf_entry_info *b)
{
    return is_same_text(a->session, b->session) && is_same_text(a->who, b->who) &&
           is_same_text(a->actor, b->actor) && is_same_text(a->why, b->why) &&
           a->token == b->token && a->permits == b->permits && a->since_ms == b->since_ms &&
           a->granted_ms == b->granted_ms && a->position == b->position;
}

static bool are_same(const hf_entry_info *a, size_t n_a, const hf_entry_info *b, size_t n_b)
{
    size_t i = 0;
    while (i < n_a && i < n_b && is_same_entry(&a[i], &b[i]))
        i++;
    return i == n_a && i == n_b;
}

static bool is_same_done(const hf_done *a, const hf_done *b)
{
    return is_same_text(a->who, b->who) && a->token == b->token &&
           a->exit_status == b->exit_status && a->at_ms == b->at_ms &&
           a->period_start_ms == b->period_start_ms && a->period_end_ms == b->period_end_ms;
}

static bool is_same_last(const hf_last *a, const hf_last *b)
{
    return a->outcome == b->outcome && is_same_text(a->who, b->who) && a->token == b->token &&
           a->has_exit_status == b->has_exit_status && a->exit_status == b->exit_status &&
           a->at_ms == b->at_ms && a->period_start_ms == b->period_start_ms &&
           a->period_end_ms == b->period_end_ms && is_same_text(a->reason, b->reason) &&
           is_same_done(&a->done, &b->done);
}

bool board_is_same(const hf_lock_info *a, const hf_lock_info *b)
{
    return is_same_text(a->name, b->name) && a->limit == b->limit && a->token == b->token &&
           a->n_outside == b->n_outside && is_same_last(&a->last, &b->last) &&
           are_same(a->holders, a->n_holders, b->holders, b->n_holders) &&
           are_same(a->queue, a->n_queue, b->queue, b->n_queue);
}

void board_keep_pace(board_pace *p, int64_t took_ms)
{
    p->usual_ms = took_ms < p->last_ms ? took_ms : p->last_ms;
    p->last_ms = took_ms;
}

int64_t board_pause_ms(board_pace *p, const board *seen, int64_t interval_ms)
{
    if (!seen)
        return interval_ms;
    board_keep_pace(p, seen->took_ms);
    int64_t least_ms = (BOARD_SHARE - 1) * p->usual_ms;
    return interval_ms > least_ms ? interval_ms : least_ms;
}

/* What the interface shows as const was allocated here. */
static void let_go(const void *memory)
{
    free((void *)(uintptr_t)memory);
}

static void entries_done(const hf_entry_info *entries, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        let_go(entries[i].session);
        let_go(entries[i].who);
        let_go(entries[i].actor);
        let_go(entries[i].why);
    }
    let_go(entries);
}

void board_done(board *b)
{
    for (size_t i = 0; i < b->n; i++) {
        const hf_lock_info *lock = &b->locks[i];
        entries_done(lock->holders, lock->n_holders);
        entries_done(lock->queue, lock->n_queue);
        let_go(lock->name);
        let_go(lock->last.who);
        let_go(lock->last.reason);
        let_go(lock->last.done.who);
    }
    free(b->locks);
    *b = (board){0};
}

int64_t board_since(const hf_entry_info *entry)
{
    return entry->granted_ms ? entry->granted_ms : entry->since_ms;
}
