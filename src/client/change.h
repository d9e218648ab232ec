/* SPDX-License-Identifier: Apache-2.0 */
/* change.h: what a downgrade (change.c) and an upgrade (upgrade.c) share. */
#ifndef CLIENT_CHANGE_H
#define CLIENT_CHANGE_H

#include "client/client.h"

typedef hf_code (*change_fn)(struct hf_lock *lock, hf_error *err);

/* Around what a public call does to a lock: it must be held, be one that can be changed, and not be
 * changed by another thread. */
hf_code change_perform(struct hf_lock *lock, change_fn change, hf_error *err);

/* Repeats what got no answer for as long as patience lasts. The lock may be lost or released under
 * way, which is what counts then. */
hf_code change_repeat(struct hf_lock *lock, hf_code (*once)(void *ctx, hf_error *err), void *ctx,
                      hf_error *err);

hf_code change_check_locked(struct hf_lock *lock, hf_error *err); /* HF_OK: it is held now */

/* The upgrade's ticket has taken the place of the lock's. */
void change_replace_locked(struct hf_lock *lock);

#endif
