/* SPDX-License-Identifier: Apache-2.0 */
/* schedule.c: a binary heap of what is due; see schedule.h. Called by the client for its locks and
 * releases. */
#include "core/schedule.h"

#include "core/alloc.h"
#include "core/lease.h"

#include <stdlib.h>

/* Places count from 1, so the two below i are 2i and 2i + 1. */
static void place(struct schedule *schedule, struct slot *slot, size_t at)
{
    schedule->of[at - 1] = slot;
    slot->at = at;
}

static struct slot *in(const struct schedule *schedule, size_t at)
{
    return schedule->of[at - 1];
}

static bool is_before(const struct slot *slot, const struct slot *other)
{
    return slot->due.ns != other->due.ns ? slot->due.ns < other->due.ns
                                         : slot->order < other->order;
}

static void rise(struct schedule *schedule, struct slot *slot)
{
    size_t at = slot->at;
    for (; at > 1 && is_before(slot, in(schedule, at / 2)); at /= 2)
        place(schedule, in(schedule, at / 2), at);
    place(schedule, slot, at);
}

static size_t earlier_below(const struct schedule *schedule, size_t at)
{
    size_t left = 2 * at, right = left + 1;
    bool is_right = right <= schedule->n && is_before(in(schedule, right), in(schedule, left));
    return is_right ? right : left;
}

static void sink(struct schedule *schedule, struct slot *slot)
{
    size_t at = slot->at;
    while (2 * at <= schedule->n) {
        size_t below = earlier_below(schedule, at);
        if (is_before(slot, in(schedule, below)))
            break;
        place(schedule, in(schedule, below), at);
        at = below;
    }
    place(schedule, slot, at);
}

static void append(struct schedule *schedule, struct slot *slot)
{
    if (schedule->n == schedule->room) {
        schedule->room = schedule->room ? 2 * schedule->room : 16;
        schedule->of = alloc_array(schedule->of, schedule->room, sizeof *schedule->of);
    }
    place(schedule, slot, ++schedule->n);
}

void schedule_set(struct schedule *schedule, struct slot *slot, hf_mono due)
{
    if (due.ns == MONO_NEVER.ns) {
        schedule_remove(schedule, slot);
        return;
    }
    slot->due = due;
    slot->order = ++schedule->last_order;
    if (!slot->at)
        append(schedule, slot);
    rise(schedule, slot);
    sink(schedule, slot);
}

void schedule_remove(struct schedule *schedule, struct slot *slot)
{
    if (!slot->at)
        return;
    struct slot *last = in(schedule, schedule->n--);
    if (last != slot) {
        place(schedule, last, slot->at);
        rise(schedule, last);
        sink(schedule, last);
    }
    slot->at = 0;
}

struct slot *schedule_first(const struct schedule *schedule)
{
    return schedule->n ? in(schedule, 1) : NULL;
}

struct slot *schedule_next_due(const struct schedule *schedule, hf_mono now)
{
    struct slot *first = schedule_first(schedule);
    return first && mono_reached(first->due, now) ? first : NULL;
}

hf_mono schedule_due(const struct schedule *schedule)
{
    return schedule->n ? in(schedule, 1)->due : MONO_NEVER;
}

void schedule_done(struct schedule *schedule)
{
    free(schedule->of);
    *schedule = (struct schedule){.n = 0};
}
