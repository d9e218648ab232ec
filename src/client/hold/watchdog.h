/* SPDX-License-Identifier: Apache-2.0 */
/* watchdog.h: a lock that is lost when nobody feeds it, or when it is held for too long. */
#ifndef CLIENT_HOLD_WATCHDOG_H
#define CLIENT_HOLD_WATCHDOG_H

#include "core/lease.h"

/* Mutex; written by watchdog.c. */
struct watchdog {
    int64_t feed_ms, max_hold_ms; /* 0: none */
    hf_mono feed_by, hold_until;  /* MONO_NEVER: none */
    bool has_bitten;              /* the lock was lost for it */
};

/* options NULL: there is none. */
void watchdog_begin(struct watchdog *dog, const hf_lock_options *options, hf_mono now);
void watchdog_feed(struct watchdog *dog, hf_mono now);
void watchdog_bite(struct watchdog *dog);

/* When the lock will be lost, unless it is fed before. */
hf_mono watchdog_due(const struct watchdog *dog);

/* The reason, when that time has come: for `last`, and as the end of a sentence. */
void watchdog_reason(const struct watchdog *dog, char reason[HF_TEXT_MAX + 1]);

#endif
