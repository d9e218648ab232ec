/* SPDX-License-Identifier: Apache-2.0 */
/* loss.h: how a lock is lost: its holder is warned and has time to stop its work; then the ticket
 * is given up. Locks taken together are lost together. */
#ifndef CLIENT_HOLD_LOSS_H
#define CLIENT_HOLD_LOSS_H

#include "core/schedule.h"

/* Mutex; written by loss.c. */
struct loss {
    hf_error why;         /* constant once it is lost */
    hf_mono stop_by;      /* once lost: how long its work may take to stop */
    int fd;               /* readable once lost; -1 until asked for */
    hf_lost_fn on_lost;   /* NULL: none */
    void *ctx;            /* of on_lost */
    bool is_told;         /* on_lost was called, or is being called */
    struct slot tells;    /* until on_lost is called */
    struct slot leaves;   /* until its ticket is given up, */
    bool is_left;         /* as it was */
    bool is_held_back;    /* it is taken with others that are not there yet: nobody uses it */
    struct hf_lock *peer; /* the next of those taken together, in a ring; NULL: none */
};

/* Makes it lost, together with the locks that were taken with it. */
void loss_begin_locked(struct hf_lock *lock, const hf_error *why, hf_mono stop_by);
/* It was about to become an ID lease, which has not been made. If it is lost, its turn is noted
 * now. */
void loss_of_no_lease_locked(struct hf_lock *lock);
/* Whom to tell. */
void loss_tell_locked(struct hf_lock *lock, hf_lost_fn on_lost, void *ctx);
int loss_fd_locked(struct hf_lock *lock);
/* Those that are taken together: held back until all are there, and can be tied to each other. */
void loss_hold_back_locked(struct hf_lock *lock);
void loss_tie_locked(struct hf_lock *lock, struct hf_lock *peer);
void loss_untie_locked(struct hf_lock *lock);
/* If it is lost, its holder says that the work has stopped: the ticket is given up now. */
void loss_stopped_locked(struct hf_lock *lock, hf_mono now);
int64_t loss_time_left(const struct hf_lock *lock, hf_mono now); /* to stop in, in ms */
/* The client is being closed: held locks are lost and released, without a warning. */
void loss_close_all_locked(hf_client *client);
/* Waits until the lock's callback has ended, unless that callback is the caller.
 */
void loss_await_callback_locked(struct hf_lock *lock);

/* Gives up the tickets of lost locks whose time to stop is over; returns when the next is due. */
hf_mono loss_leave_locked(hf_client *client, hf_mono now);
/* Until when work under a lost lock may still be stopping; `now` when there is none. */
hf_mono loss_stops_by_locked(hf_client *client, hf_mono now);

hf_mono loss_notify_tick(hf_client *client, hf_mono now); /* calls on_lost */

#endif
