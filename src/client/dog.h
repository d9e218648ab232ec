/* SPDX-License-Identifier: Apache-2.0 */
/* dog.h: a lock that is lost when nobody feeds it, or when it is held for too long. */
#ifndef CLIENT_DOG_H
#define CLIENT_DOG_H

#include "core/lease.h"

struct dog {
    int64_t feed_ms, max_hold_ms; /* 0: none */
    hf_mono feed_by, hold_until;  /* MONO_NEVER: none */
    bool has_bitten;              /* the lock was lost for it */
};

void dog_begin(struct dog *dog, const hf_lock_options *options, hf_mono now);

/* When the lock is lost, if it is not fed before. */
hf_mono dog_due(const struct dog *dog);

/* Why, when that time has come: for `last`, and as the end of a sentence. */
void dog_reason(const struct dog *dog, char reason[HF_TEXT_MAX + 1]);

#endif
