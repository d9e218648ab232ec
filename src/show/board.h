/* SPDX-License-Identifier: Apache-2.0 */
/* board.h: the locks as one look found them, for comparison with another look. */
#ifndef SHOW_BOARD_H
#define SHOW_BOARD_H

#include <holdfast/holdfast.h>

#include <stdatomic.h>

#define BOARD_SHARE 5 /* looks take at most this part of the time, however many locks there are */

/* When the last lock was read, by CLOCK_MONOTONIC in ms: for a thread that watches over a look. */
typedef _Atomic int64_t board_heard;

typedef struct board {
    int64_t at_ms;   /* Unix time; 0: no look yet */
    int64_t took_ms; /* the look */
    size_t n;
    hf_lock_info *locks; /* in byte order of names; all in them is the board's */
} board;

/* Whether somebody holds it or waits for it. */
bool board_is_in_use(const hf_lock_info *lock);
bool board_is_overdue(const hf_lock_info *lock); /* the lease of a holder is over */

typedef struct totals {
    size_t held;    /* locks */
    size_t overdue; /* of them: the lease of a holder is over */
    size_t waiting; /* places in all queues */
} totals;

void board_count(totals *to, const hf_lock_info *lock);
char *board_totals(const totals *t); /* "3 held, 1 waiting, 1 overdue", in new memory */

/* Looks at the locks whose names begin with prefix: at all, free ones too; or (in use) at those
 * that somebody holds or waits for, and those that were in use at the look before, which say how
 * they were left. most: how many at most, the first by name; 0: any number. was: NULL, or that
 * look. heard: NULL, or written with each lock. Free it with board_done(), also after an error. */
hf_code board_look(board *out, hf_client *client, const char *prefix, size_t most,
                   board_heard *heard, hf_error *err);
hf_code board_look_in_use(board *out, const board *was, hf_client *client, const char *prefix,
                          board_heard *heard, hf_error *err);
void board_done(board *b);

/* The lock of that name; NULL: it is not there. And the number of the first lock whose name does
 * not come before the prefix: those that begin with it follow. */
const hf_lock_info *board_find(const board *b, const char *name);
size_t board_begin(const board *b, const char *prefix);

/* Whether both are the same but for what is left of leases. */
bool board_is_same(const hf_lock_info *a, const hf_lock_info *b);

/* How long looks take that were answered: the shorter of the last two, as one alone may have met a
 * store that stood still. */
typedef struct board_pace {
    int64_t last_ms, usual_ms;
} board_pace;

void board_keep_pace(board_pace *p, int64_t took_ms);

/* How long to pause before the next look, if it is to come each interval. seen: what the last one
 * found, which counts from now on; NULL: it failed, so that the next one comes soon. */
int64_t board_pause_ms(board_pace *p, const board *seen, int64_t interval_ms);

/* When it got the lock, or began to wait. */
int64_t board_since(const hf_entry_info *entry);

#endif
