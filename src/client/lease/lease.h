/* SPDX-License-Identifier: Apache-2.0 */
/* lease.h: what the files of leases share. Here a lease is an ID lease: a session that no process
 * keeps, with one ticket. The ids of both are hashes of the lease's id. */
#ifndef CLIENT_LEASE_LEASE_H
#define CLIENT_LEASE_LEASE_H

#include "client/lease/lease_id.h"
#include "client/wait/attempt.h"

/* ---- lease_attend.c: the only place that renews --------------------------------------------- */

/* What a renewal found. */
typedef struct lease_view {
    hf_mono sent;       /* before the beat, or the enter, was: the lease counts from here */
    hf_session session; /* as it was begun */
    bool is_released;   /* nobody can believe in it: its owner has released it, or its session is
                         * marked dead */
    char broken[HF_TEXT_MAX + 1]; /* somebody else has asked for it: by whom and why; else "" */
    bool is_recorded;             /* there is a record of that name */
    bool stands;                  /* the ticket holds; then: */
    hf_entry holder;
    char who[HF_TEXT_MAX + 1]; /* plain leases: as the record names the holder; else "" */
    int32_t limit;
    hf_last_mark last;
} lease_view;

/* Renews the lease, unless there is an ask for it (R9), and looks for its ticket. HF_OK with stands
 * false: it is being made, or its record is gone. HF_LOST: it has ended. HF_NOT_FOUND: it has no
 * session. HF_UNKNOWN also if it stands, but the answers took longer than its ttl (R4). */
hf_code lease_attend(hf_client *client, const lease_ids *ids, lease_view *out, hf_error *err);

/* Fills in what the record shows about the lease. */
void lease_read(lease_view *view, hf_id ticket, const hf_record *record);

/* The same, from a record that it reads now; renews nothing. */
hf_code lease_look(hf_client *client, const lease_ids *ids, bool linearizable, lease_view *out,
                   hf_error *err);

/* HF_LOST: the ticket was there and nobody else has left since, so the lease has ended, though its
 * session may still live. */
hf_code lease_check_left(const lease_view *view, const lease_ids *ids, hf_error *err);

/* HF_UNKNOWN: it stands, but will be over when the caller hears of it (R4). */
hf_code lease_check_time(hf_client *client, const lease_view *view, const char *name,
                         hf_error *err);

/* Fills in what the caller is told about a lease that stands, except id and waited_ms, and lets the
 * diary see it. */
void lease_tell(hf_client *client, const char *name, const lease_view *view, hf_lease *out);

hf_code lease_lost(const char *name, const char *how, hf_error *err);

/* ---- lease_request.c: what one call asks for ------------------------------------------------ */

typedef struct lease_request {
    hf_client *client;
    const hf_lease_options *options;
    hf_lock_options lock_options;  /* to take the lock with */
    char caller[HF_ACTOR_MAX + 1]; /* named by its entry while it waits; "": nobody */
    const char *actor;             /* what the record shows of the lease; NULL: "" */
    lease_ids ids;
    hf_mono since;     /* when the call began */
    unsigned failures; /* of its search for the lease, since one succeeded */
    int64_t ttl_ms;    /* its session's, once that has begun */
    bool has_begun;    /* its session is there; view.sent is of its last beat */
    bool was_passed;   /* the pass was sent: the lease may have the lock's place */
    bool is_gone;      /* the lock was lost before the pass: no further try makes sense */
    lease_view view;
    hf_session session; /* plain leases: whom the record is to name */
    hf_lock *lock;      /* whose place it takes */
    hf_pass pass;
    hf_leave before; /* the pass's, if anybody held under its ticket before */
    hf_lease *out;
} lease_request;

/* Whether the store's protocol has no sessions. */
bool lease_is_plain(const hf_client *client);

/* Checks the options, and gives the lease its id. The caller keeps *options in place. */
hf_code lease_request_prepare(lease_request *r, hf_client *client, const char *name,
                              const hf_lease_options *options, hf_lease *out, hf_error *err);

/* The session of the lease, which no process keeps. */
hf_session lease_request_session(const lease_request *r);

/* Until when calls of it that get no answer are repeated. */
hf_mono lease_request_patience_end(const lease_request *r, hf_mono since);

/* Whether a lease with this reason may be the call's: a call that gives none asks for any. */
bool lease_request_suits_why(const lease_request *r, const char *why);

/* HF_KEY_REUSED: the key was used with another `what`. */
hf_code lease_request_reused(const lease_request *r, const char *what, hf_error *err);

/* lease_find() in protocols with sessions. */
hf_code lease_request_find(lease_request *r, bool *is_found, hf_error *err);

/* Whether the lease's session is there, begun by a call that asked for the same, like the lease if
 * it stands; else HF_KEY_REUSED. Renews nothing. */
hf_code lease_request_compare(lease_request *r, bool *is_there, hf_error *err);

/* Renews the session that another call with the same key has begun, and uses it from now on.
 * HF_KEY_REUSED: that call asked for something else. Other errors: those of lease_attend(). */
hf_code lease_request_attend(lease_request *r, hf_error *err);

/* HF_OK if the lease that stands is what this call asks for; else HF_KEY_REUSED. */
hf_code lease_request_check(const lease_request *r, hf_error *err);

/* ---- lease_make.c --------------------------------------------------------------------------- */

/* Makes a lease of r->lock, and closes that lock. If it fails, it gives back its own ticket and
 * nothing else. */
hf_code lease_request_make(lease_request *r, hf_error *err);

/* ---- lease_plain.c: leases in protocols without sessions ------------------------------------- */

void lease_plain_enter(lease_request *r, struct attempt *attempt);
void lease_plain_granted(lease_request *r, const struct attempt *attempt);
/* The same for r->lock as lease_request_make(). */
hf_code lease_plain_make(lease_request *r, hf_error *err);
hf_code lease_plain_find(lease_request *r, bool *is_found, hf_error *err);
hf_code lease_plain_renew(hf_client *client, const lease_ids *ids, hf_lease *out, hf_error *err);

/* ---- lease.c: acquiring one, in the caller's thread or in a few threads that drive many waits */

/* Whether another call with the same key has made it; false without a key. */
hf_code lease_find(lease_request *r, bool *is_found, hf_error *err);

/* Whether lease_find(), which gave that code, is to be called again, in *ms milliseconds: its
 * answer may be that a call of the same key has the lock. */
bool lease_finds_again(lease_request *r, hf_code code, int64_t *ms);

/* Begins the attempt to take the lock. */
void lease_request_enter(lease_request *r, struct attempt *attempt);

/* Finishes an attempt that has ended. If it has the lock, makes the lease of it; if not, another
 * call may have made the lease meanwhile. err: not NULL, here and above. */
hf_code lease_request_conclude(lease_request *r, struct attempt *attempt, hf_error *err);

/* Acquires a lease in the caller's thread. */
hf_code lease_acquire(hf_client *client, const char *name, const hf_lease_options *options,
                      hf_lease *out, hf_error *err);

/* ---- lease_release.c: what anybody does with one who knows its id --------------------------- */

hf_code lease_renew(hf_client *client, const lease_ids *ids, hf_lease *out, hf_error *err);
/* One that got no answer is kept, and sent again. */
hf_code lease_release(hf_client *client, const lease_ids *ids, hf_error *err);

/* A release that was asked for earlier, and is sent again without its caller. */
typedef struct lease_farewell {
    hf_mono since;   /* when it was asked for: its owner stopped believing before that */
    hf_mono over_at; /* MONO_NEVER, or: no answer to a renewal that came after that, at another
                      * client, is believed from then on */
} lease_farewell;

/* One try. HF_HELD: its owner may have renewed it since, so it is to be sent again at of->over_at,
 * which is set. HF_UNKNOWN, HF_UNREACHABLE: no answer. */
hf_code lease_release_again(hf_client *client, const lease_ids *ids, lease_farewell *of,
                            hf_error *err);

/* ---- lease_kept.c: releases without an answer ------------------------------------------------ */

/* Keeps it until the store has answered; what is kept already counts from this `since`. False: the
 * client is being closed, or there are too many. */
bool lease_keep(hf_client *client, const lease_ids *ids, hf_mono since);
void lease_forget(hf_client *client, const lease_ids *ids); /* it was answered */
/* Its caller is back, and sends it from now on. False: it is being sent, so its outcome is not
 * known. */
bool lease_withdraw(hf_client *client, const lease_ids *ids, bool *was_kept);
/* It is not renewed here any more. */
bool lease_is_kept(hf_client *client, const lease_ids *ids);

/* ---- lease_depart.c: sends them -------------------------------------------------------------- */

hf_mono lease_depart_tick(hf_client *client, hf_mono now);
/* When all threads have ended: sends each once more, as long as the store answers. */
void lease_depart_close(hf_client *client, bool store_answers);

/* ---- lease_wait.c: waits that have no thread of their own ----------------------------------- */

hf_code lease_wait_begin(hf_client *client, const char *name, const hf_lease_options *options,
                         hf_lease_fn done, void *ctx, hf_lease_wait **out, hf_error *err);
void lease_wait_cancel(hf_lease_wait *wait);
void lease_pool_stop(hf_client *client); /* ends its threads; no wait is left */

#endif
