/* SPDX-License-Identifier: Apache-2.0 */
/* listener.h: whether notices are wanted, and from which stamp on; wait/listen.c receives them. */
#ifndef CLIENT_HOLD_LISTENER_H
#define CLIENT_HOLD_LISTENER_H

#include <holdfast/store.h>

/* Mutex; written by listener.c. */
struct listener {
    bool is_polling;              /* there are no notices */
    hf_stamp from;                /* no later than where a wait began that is listened for */
    bool has_waited, has_awaited; /* since it is listened in this session: a waiter; the listener */
    hf_mono until, heard_at;
    unsigned failures;
};

/* Notices are wanted from this stamp on. False: some may have been missed, because a wait that
 * began later was reported first: look. */
bool listener_want_locked(hf_client *client, hf_stamp from);
void listener_begin_locked(hf_client *client); /* a session has begun */

bool listener_is_wanted_locked(hf_client *client, hf_mono now);
void listener_listens_locked(hf_client *client, bool is_wanted, bool listens);
void listener_heard(hf_client *client, hf_mono now);
hf_mono listener_failed_locked(hf_client *client); /* when to try again */
void listener_poll_locked(hf_client *client);      /* there are no notices */

#endif
