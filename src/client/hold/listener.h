/* SPDX-License-Identifier: Apache-2.0 */
/* listener.h: whether notices are wanted, and from which stamp on; wait/listen.c receives them. */
#ifndef CLIENT_HOLD_LISTENER_H
#define CLIENT_HOLD_LISTENER_H

#include <holdfast/store.h>

/* Mutex; written by listener.c. */
struct listener {
    bool is_polling;              /* there are no notices */
    hf_stamp from;                /* no later than where a wait began that is listened for */
    bool has_waited, has_awaited; /* since it is listened to this session: a waiter; the listener */
    hf_mono until, heard_at;
    unsigned failures;
    struct lock_request *heeds; /* without a session: it wants to know when its line moves, */
    hf_id head;                 /* which this session's notices show */
};

/* Notices are wanted from this stamp on. False: some may have been missed, because a wait that
 * began later was reported first: look. */
bool listener_want_locked(hf_client *client, hf_stamp from);
void listener_begin_locked(hf_client *client); /* a session has begun */

/* A request that waits outside a queue, of a client without a session, is told by waiter_tell()
 * when the head of that queue gets a notice, once. False: it is not. */
bool listener_heed_locked(struct lock_request *request, hf_id head);
void listener_unheed_locked(const struct lock_request *request);

void listener_tell_heeding_locked(hf_client *client); /* that notice has come */

/* Whose notices are received: the client's own, or those that it heeds; 0: nobody's. */
hf_id listener_session_locked(const hf_client *client);

bool listener_is_wanted_locked(hf_client *client, hf_mono now);
void listener_listens_locked(hf_client *client, bool is_wanted, bool listens);
void listener_heard(hf_client *client, hf_mono now);
hf_mono listener_failed_locked(hf_client *client); /* when to try again */
void listener_poll_locked(hf_client *client);      /* there are no notices */

#endif
