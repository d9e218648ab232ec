/* SPDX-License-Identifier: Apache-2.0 */
/* sweep.h: the parts of the sweep, and whose turn it is. */
#ifndef SQLITE_SWEEP_H
#define SQLITE_SWEEP_H

#include "store/sqlite/sqlite_internal.h"

/* The parts in their order; the table keeps these numbers. */
enum {
    SWEEP_NONE,
    SWEEP_GONE,    /* sessions that may have to be marked */
    SWEEP_RECORDS, /* idle ones, and tickets of dead sessions */
    SWEEP_MARKS,   /* dead sessions that nobody needs any more */
    SWEEP_FIRST = SWEEP_GONE,
    SWEEP_LAST = SWEEP_MARKS,
};

/* sweep_turn.c. Takes the next part for a moment, if one is due, and fills store->sweep. HF_HELD:
 * another client does it. Takes main.mutex. */
hf_code sweep_take_turn(sqlite_store *store, bool *is_mine, hf_error *err);
/* Keeps store->sweep after a part that took so long, and the turn for the next one. *more: there is
 * one. HF_HELD: another client took over meanwhile. Takes main.mutex. */
hf_code sweep_keep_place(sqlite_store *store, int64_t took_ms, bool *more, hf_error *err);

#endif
