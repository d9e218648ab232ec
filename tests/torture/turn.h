/* SPDX-License-Identifier: Apache-2.0 */
/* turn.h: what a client of the campaign does from an acquire to a release, and what of that is left
 * to chance. */
#ifndef TORTURE_TURN_H
#define TORTURE_TURN_H

#include "data.h"
#include "settings.h"

#define NS_PER_MS ((int64_t)1000000)
#define LEADER "leader-0" /* what elections are about */

typedef struct thread {
    uint64_t chance;
    int64_t number, turn;
    char actor[16];
    counters *data;
} thread;

typedef struct turn {
    const char *name; /* NULL: it is in `work` */
    char work[32];    /* what is to be done once */
    hf_lock_options options;
    int64_t number, hold_ms;
    int64_t group; /* the first turn of those that are taken together; 0: alone */
    bool counts, closes, has_fd, feeds, is_campaign;
    hf_election *election;
    hf_lock *lock;                            /* the election's, if there is one */
    int64_t fed, token, until, said, left_ms; /* until: the last moment at which it was believed */
    bool is_lost;
} turn;

int64_t chance_below(thread *t, int64_t n);
bool chance_is_one_in(thread *t, int64_t n);

/* One turn; the caller numbers it. */
turn turn_choose(thread *t);

/* The read-write locks, in any order, numbered; returns how many. */
size_t turn_choose_all(thread *t, turn all[NAMES_MAX], const char *names[NAMES_MAX]);

const char *turn_name(const turn *it);

#endif
