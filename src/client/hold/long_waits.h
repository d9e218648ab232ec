/* SPDX-License-Identifier: Apache-2.0 */
/* long_waits.h: what this client says of its long waits, for the search for deadlocks
 * (wait/deadlock.c). */
#ifndef CLIENT_HOLD_LONG_WAITS_H
#define CLIENT_HOLD_LONG_WAITS_H

#include "client/hold/lock_request.h"

#include "core/waits.h"

bool long_waits_are_off(const hf_client *client);
/* What the next beat says (core/waits.h): the caller's to free; NULL: nothing. */
char *long_waits_say_locked(hf_client *client, hf_mono now);
/* What the request's thread, or actor, holds. */
size_t long_waits_holds_locked(const struct lock_request *request, waits_item out[WAITS_HOLDS_MAX]);

#endif
