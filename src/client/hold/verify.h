/* SPDX-License-Identifier: Apache-2.0 */
/* verify.h: when to check that the store still shows a held lock (L3); upkeep.c looks. */
#ifndef CLIENT_HOLD_VERIFY_H
#define CLIENT_HOLD_VERIFY_H

#include <holdfast/store.h>

/* Mutex; written by verify.c. */
struct verification {
    hf_mono due;
    bool is_under_way; /* its record is being looked at */
};

void verify_begin_locked(hf_client *client, hf_mono now); /* a session has begun */
void verify_granted_locked(struct hf_lock *lock, hf_mono now);
/* Verify at once the locks with that name (NULL: all). */
void verify_now_locked(hf_client *client, const char *name);
/* For a lock that is passed on among threads, or lingers: a look finds a recall whose notice was
 * lost. */
void verify_soon_locked(struct hf_lock *lock);
/* Whether to look at it now; if so, sets the next look. */
bool verify_take_locked(struct hf_lock *lock, bool has_room, hf_mono now);
/* The look had no answer, so the locks that it was for are looked at again as soon as a beat would
 * be. */
void verify_failed_locked(hf_client *client, hf_mono now);
void verify_drop_locked(struct hf_lock *lock); /* a look that began before is of no use */

#endif
