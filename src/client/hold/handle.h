/* SPDX-License-Identifier: Apache-2.0 */
/* handle.h: what happens to a lock when its holder is done with it. */
#ifndef CLIENT_HOLD_HANDLE_H
#define CLIENT_HOLD_HANDLE_H

#include <holdfast/store.h>

/* Belief ends; the lock goes to the next in line, lingers, or is released in the store. Errors are
 * those of hf_lock_release(). */
hf_code handle_release(struct hf_lock *lock, hf_error *err);
/* An ID lease has its place now: nothing is left to release. */
void handle_goes_over(struct hf_lock *lock);
void handle_close(struct hf_lock *lock); /* frees it; what is still held is released */
void handle_abandon_all(
    hf_client *client); /* the client is closed: the handles stay, without one */

#endif
