/* SPDX-License-Identifier: Apache-2.0 */
/* listen.h: receives notices and wakes waiters. */
#ifndef CLIENT_WAIT_LISTEN_H
#define CLIENT_WAIT_LISTEN_H

#include <holdfast/store.h>

hf_mono listen_tick(hf_client *client, hf_mono now);
/* Makes this client's waiters for that name, or for any document, look at nothing older than the
 * stamp.
 */
void listen_tell_locked(hf_client *client, const char *name, hf_stamp stamp);

#endif
