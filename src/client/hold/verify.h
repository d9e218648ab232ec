/* SPDX-License-Identifier: Apache-2.0 */
/* verify.h: when to check that the store still shows a held lock (L3); upkeep.c looks. */
#ifndef CLIENT_HOLD_VERIFY_H
#define CLIENT_HOLD_VERIFY_H

#include "core/schedule.h"

/* Mutex; written by verify.c, and here. */
struct verification {
    struct slot due;
    bool is_under_way; /* its record is being looked at, */
    bool is_there;     /* and shows its ticket */
    bool is_rung;      /* only a ring has told of the grant so far */
};

void verify_begin_locked(hf_client *client, hf_mono now); /* a session has begun */
void verify_granted_locked(struct hf_lock *lock, hf_mono now);
/* Only a ring said so, and a user who may write to nothing but the bells can forge one. */
void verify_rung_locked(struct hf_lock *lock, hf_mono now);
/* It is of a lock with the ticket of the one before, which may be looked at just now. */
static inline void verification_succeed_locked(struct verification *of,
                                               const struct verification *before)
{
    of->is_under_way = before->is_under_way;
    of->is_rung = before->is_rung;
}
/* The look of those that are due now has begun. */
void verify_again_locked(hf_client *client, hf_mono now);
/* Verify at once the locks with that name (NULL: all). */
void verify_now_locked(hf_client *client, const char *name);
/* For a lock that is passed on among threads, or lingers: a look finds a recall whose notice was
 * lost. */
void verify_soon_locked(struct hf_lock *lock);
/* The next lock that is to be looked at now, with those of its name that are due soon; sets their
 * next look. *n grows by how many locks have that name. NULL: none is due. */
struct hf_lock *verify_take_locked(hf_client *client, hf_mono now, hf_stamp *after, size_t *n);
/* The look is over. Without an answer, the locks that it was for are due. */
void verify_end_locked(hf_client *client, const char *name, bool has_answer);
/* What is due after a look without an answer is looked at as soon as a beat would be. */
void verify_failed_locked(hf_client *client, hf_mono now);
/* It stands in the record, in line or not. */
void verify_found_locked(struct hf_lock *lock, bool holds);
void verify_drop_locked(struct hf_lock *lock); /* a look that began before is of no use */

#endif
