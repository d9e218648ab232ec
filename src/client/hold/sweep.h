/* SPDX-License-Identifier: Apache-2.0 */
/* sweep.h: the search for dead clients and idle records (R5). */
#ifndef CLIENT_HOLD_SWEEP_H
#define CLIENT_HOLD_SWEEP_H

#include "core/judge.h"

/* Written by sweep.c. */
struct sweep {
    hf_mono due;               /* mutex */
    unsigned in_vain;          /* own thread: how often another client had the turn, in a row */
    hf_session_state *overdue; /* own thread: sessions that it found, being watched */
    struct judge judge;        /* own thread: of these */
    hf_mono until;             /* own thread: they are watched no longer */
};

void sweep_begin_locked(hf_client *client, hf_mono now); /* a session has begun */
hf_mono sweep_tick(hf_client *client, hf_mono now);
void sweep_free(struct sweep *sweep);

#endif
