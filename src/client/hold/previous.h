/* SPDX-License-Identifier: Apache-2.0 */
/* previous.h: how the holder before this one left the lock. */
#ifndef CLIENT_HOLD_PREVIOUS_H
#define CLIENT_HOLD_PREVIOUS_H

#include "core/record.h"

/* Mutex; written by previous.c. */
struct previous {
    hf_last_mark mark; /* if it is known: a grant by notice does not say it */
    bool is_known;
    bool is_local; /* it held under the same ticket, in another thread of this client */
};

void previous_set_locked(struct hf_lock *lock, const hf_last_mark *mark);
/* Asks a store with HF_CAN_LAST; see hf_store_ops. */
hf_code previous_ask(hf_client *client, const char *name, const hf_successor *asks,
                     hf_last_mark *out, hf_dbtime *now, hf_error *err);
/* Looks it up, unless it is known. */
hf_code previous_learn(struct hf_lock *lock, hf_error *err);
hf_last previous_text(const hf_last_mark *mark); /* its strings are the mark's */

#endif
