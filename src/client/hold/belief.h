/* SPDX-License-Identifier: Apache-2.0 */
/* belief.h: until when a holder may believe that it holds: while the session's lease runs, and the
 * lock's own lease if it has one, and the watchdog has not fired (R3, R4, R7). */
#ifndef CLIENT_HOLD_BELIEF_H
#define CLIENT_HOLD_BELIEF_H

#include "client/hold/watchdog.h"

#include "core/schedule.h"

struct lock_request;

/* Mutex; written by belief.c, the watchdog by watchdog.c. */
struct belief {
    hf_mono born;      /* when it was believed */
    hf_mono lease_end; /* of this lock alone, where it has a lease of its own; else MONO_NEVER */
    bool is_by_hand;   /* its holder renews it */
    struct watchdog watchdog;
    /* When to look after its own lease and its watchdog: no later than they are due. */
    struct slot lease, dog;
};

/* The request's lock is believed from now on. */
void belief_begin_locked(struct hf_lock *lock, const struct lock_request *request, hf_mono now);

/* Its own lease or its watchdog has another end now. */
void belief_watch_locked(struct hf_lock *lock);

/* Until when the request could believe a grant of the enter that it sent last; a time that is over:
 * its session has ended. */
hf_mono belief_end_of_grant_locked(const struct lock_request *request);

/* HF_OK: it is held now, for *left_ms milliseconds more. HF_LOST: *left_ms is the time left for
 * stopping the work. */
hf_code belief_check_locked(struct hf_lock *lock, int64_t *left_ms, hf_mono now, hf_error *err);

/* Whether the lease leaves enough time to try the next beats before a lock that begins now would
 * have to be given up. */
bool belief_has_time_locked(const hf_client *client, hf_mono now);

/* Whether that session's lease still runs. If not, the session becomes lost. */
bool belief_in_session_locked(hf_client *client, hf_id session, hf_mono now);
void belief_lose_session_locked(hf_client *client, const hf_error *why, hf_mono stop_by);
/* The same where another process has the session, too: it stays as it is in the store. */
void belief_abandon_session_locked(hf_client *client, const hf_error *why, hf_mono stop_by);

/* A beat that was sent at that time was acknowledged. */
void belief_renewed_locked(hf_client *client, hf_mono sent);
/* Its holder renewed it by hand, with a call that was sent at that time. */
void belief_refreshed_locked(struct hf_lock *lock, hf_mono sent);

hf_mono belief_tick(hf_client *client, hf_mono now); /* ends belief in time, calls no store */

#endif
