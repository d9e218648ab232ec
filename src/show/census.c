/* SPDX-License-Identifier: Apache-2.0 */
/* census.c: counts what a look at the locks found; /metrics shows it. */
#include "show/census.h"

static int64_t longest(const hf_entry_info *entries, size_t n, int64_t at_ms, int64_t so_far_ms)
{
    for (size_t i = 0; i < n; i++) {
        int64_t since_ms = board_since(&entries[i]);
        if (since_ms && at_ms - since_ms > so_far_ms)
            so_far_ms = at_ms - since_ms;
    }
    return so_far_ms;
}

static int64_t most_overdue(const hf_lock_info *lock, int64_t so_far_ms)
{
    for (size_t i = 0; i < lock->n_holders; i++)
        if (-lock->holders[i].lease_left_ms > so_far_ms)
            so_far_ms = -lock->holders[i].lease_left_ms;
    return so_far_ms;
}

census census_of(const board *b)
{
    census out = {.took_ms = b->took_ms};
    for (size_t i = 0; i < b->n; i++) {
        const hf_lock_info *lock = &b->locks[i];
        board_count(&out.totals, lock);
        out.longest_overdue_ms = most_overdue(lock, out.longest_overdue_ms);
        out.oldest_hold_ms = longest(lock->holders, lock->n_holders, b->at_ms, out.oldest_hold_ms);
        out.longest_wait_ms = longest(lock->queue, lock->n_queue, b->at_ms, out.longest_wait_ms);
    }
    return out;
}
