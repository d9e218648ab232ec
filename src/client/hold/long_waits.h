/* SPDX-License-Identifier: Apache-2.0 */
/* long_waits.h: the wait report: what this client says about its long waits, for the search for
 * deadlocks (wait/deadlock.c). */
#ifndef CLIENT_HOLD_LONG_WAITS_H
#define CLIENT_HOLD_LONG_WAITS_H

#include "client/hold/lock_request.h"

#include "core/waits.h"

bool long_waits_are_off(const hf_client *client);
/* The wait report for the next beat (core/waits.h), which the caller frees; NULL: nothing to
 * report. */
char *long_waits_say_locked(hf_client *client, hf_mono now);
/* What the request's thread, or actor, holds, and what it has inherited. */
size_t long_waits_holds_locked(const struct lock_request *request, waits_item out[WAITS_HOLDS_MAX]);
bool long_waits_is_nested_locked(const struct lock_request *request); /* whether that is anything */
/* The same for all threads together. */
size_t long_waits_all_holds_locked(const hf_client *client, waits_item out[WAITS_HOLDS_MAX]);

#endif
