/* SPDX-License-Identifier: Apache-2.0 */
/* acquire.h: drives an attempt in the caller's thread. */
#ifndef CLIENT_WAIT_ACQUIRE_H
#define CLIENT_WAIT_ACQUIRE_H

#include "client/wait/attempt.h"

hf_code acquire_check(hf_client *client, const hf_lock_options *options, hf_error *err);
void acquire_drive(struct attempt *attempt); /* to its end */

/* The caller: the thread that will hold the lock, and when it asked. */
typedef struct acquire_caller {
    uint64_t thread;
    hf_mono asked;
} acquire_caller;

acquire_caller acquire_caller_now(hf_client *client); /* the calling thread, from now on */
/* Checks the options, and drives an attempt for the lock or the claim to its end. */
hf_code acquire_run(hf_client *client, const char *name, const hf_claim *claim,
                    const hf_lock_options *options, acquire_caller by, hf_lock **out,
                    hf_error *err);

#endif
