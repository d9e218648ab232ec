/* SPDX-License-Identifier: Apache-2.0 */
/* acquire.h: drives an attempt in the caller's thread. */
#ifndef CLIENT_WAIT_ACQUIRE_H
#define CLIENT_WAIT_ACQUIRE_H

#include "client/wait/attempt.h"

hf_code acquire_check(hf_client *client, const hf_lock_options *options, hf_error *err);
void acquire_drive(struct attempt *attempt); /* to its end */
/* Checks the options, and drives an attempt for the lock or the claim to its end. */
hf_code acquire_run(hf_client *client, const char *name, const hf_claim *claim,
                    const hf_lock_options *options, uint64_t actor, hf_lock **out, hf_error *err);

#endif
