/* SPDX-License-Identifier: Apache-2.0 */
/* change.h: changes to a lock while it is held: downgrades, and what they share with upgrades
 * (wait/upgrade.c). */
#ifndef CLIENT_HOLD_CHANGE_H
#define CLIENT_HOLD_CHANGE_H

#include "core/record.h"
#include "core/schedule.h"

/* Mutex; written by change.c. */
struct change {
    hf_id upgrade;    /* a ticket that may have taken the place of the lock's, or may still do so:
                       * its answer is not known; 0: none */
    hf_id former;     /* the ticket before the last upgrade */
    bool is_changing; /* a thread is at a downgrade or an upgrade */
    bool is_lowering; /* a downgrade is not acknowledged yet */
    unsigned failures;
    struct slot due; /* the next try to lower it, while no thread is at it */
};

typedef hf_code (*change_fn)(struct hf_lock *lock, hf_error *err);

/* Begin and end a change by a public call. The lock must be held, be of a kind that can be changed,
 * and not be under change by another thread. */
hf_code change_perform(struct hf_lock *lock, change_fn change, hf_error *err);

/* Repeats a change without an answer while patience lasts. If the lock is lost or released
 * meanwhile, that is the outcome. */
hf_code change_repeat(struct hf_lock *lock, hf_code (*once)(void *ctx, hf_error *err), void *ctx,
                      hf_error *err);

hf_code change_check_locked(struct hf_lock *lock, hf_error *err); /* HF_OK: it is held now */

/* The ticket for an upgrade. A ticket whose enter may still arrive is used again (then true), so
 * that at most two tickets can stand for a lock. */
bool change_offer_locked(struct hf_lock *lock, hf_id *ticket);
void change_upgraded_locked(struct hf_lock *lock); /* by an answer that is believed */
void change_withdraw_locked(struct hf_lock *lock); /* no upgrade of it stands, or can land */

/* Whether the record shows the ticket of an upgrade that got no answer. If so, the lock goes on
 * under that ticket and is to be downgraded. */
bool change_found_locked(struct hf_lock *lock, const hf_record *record);

hf_code change_downgrade(struct hf_lock *lock, hf_error *err);
hf_mono change_tick(hf_client *client, hf_mono now); /* sends the downgrades that are due */

#endif
