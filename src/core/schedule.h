/* SPDX-License-Identifier: Apache-2.0 */
/* schedule.h: many things that are due at some time; tells which is due first. A binary heap: to
 * put one in or take it out costs the logarithm of how many there are. The slots stand in the
 * things themselves. */
#ifndef CORE_SCHEDULE_H
#define CORE_SCHEDULE_H

#include <holdfast/store.h>
#include <stddef.h>

/* In one schedule at most; all zero: in none. */
struct slot {
    hf_mono due;
    size_t at;      /* its place, from 1 on; 0: in none */
    uint64_t order; /* of those that are due at one time, the one that was set first is first */
};

/* All zero: empty. */
struct schedule {
    struct slot **of;
    size_t n, room;
    uint64_t last_order;
};

/* Puts it in, or moves it. MONO_NEVER takes it out. */
void schedule_set(struct schedule *schedule, struct slot *slot, hf_mono due);
void schedule_remove(struct schedule *schedule, struct slot *slot); /* also one that is in none */
struct slot *schedule_first(const struct schedule *schedule);       /* NULL: it is empty */
struct slot *schedule_next_due(const struct schedule *schedule, hf_mono now); /* NULL: none is */
hf_mono schedule_due(const struct schedule *schedule); /* of the first; MONO_NEVER: it is empty */
void schedule_done(struct schedule *schedule);         /* the slots are the caller's */

/* What a slot stands in. */
#define SCHEDULE_OWNER(slot, type, member) ((type *)(void *)((char *)(slot)-offsetof(type, member)))

#endif
