/* SPDX-License-Identifier: Apache-2.0 */
/* lock.h: the handle of a lock that this client holds or has held. Each part of it is defined by
 * the file that writes it; lock.c makes them all. */
#ifndef CLIENT_HOLD_LOCK_H
#define CLIENT_HOLD_LOCK_H

#include "client/base/client.h"
#include "client/hold/belief.h"
#include "client/hold/change.h"
#include "client/hold/loss.h"
#include "client/hold/previous.h"
#include "client/hold/turns.h"
#include "client/hold/verify.h"

#include "core/schedule.h"
#include "core/table.h"

typedef enum lock_state { LOCK_HELD, LOCK_LOST, LOCK_RELEASED } lock_state;

/* What the store has granted, and to whom. Written by lock.c. Constant except ticket, token,
 * permits and stamp, which upgrades, downgrades and lingering change (mutex; token and permits are
 * read without it). */
struct grant {
    hf_enter enter; /* as it entered: an upgrade enters again */
    hf_id ticket, session;
    _Atomic int64_t token;
    _Atomic int32_t permits; /* that are believed: fewer than were granted from a downgrade on */
    hf_stamp stamp;          /* a version of the record that shows the grant */
    hf_dbtime granted_at;    /* by the store's clock; 0: it did not say */
    hf_period period;        /* where its work is done once per period */
    char *document;          /* the user's own, as it was when it was locked; NULL elsewhere */
    int64_t waited_ms;
    int64_t linger_ms; /* how long it stays with the session after its release */
    uint64_t thread;   /* who took it, or: */
    char actor[HF_ACTOR_MAX + 1];
};

/* How it is left; mutex. Written by lock.c. */
struct leaving {
    bool has_exit_status;
    int exit_status;
    bool is_returned; /* given back unused: `last` stays as it is */
    bool is_passing;  /* an ID lease may have its place already */
};

/* A ticket under which it stands, may stand, or stood: it is found by it. */
enum { LOCK_TICKET, LOCK_UPGRADE, LOCK_FORMER, LOCK_TICKETS };

struct lock_ticket {
    struct table_node node;
    hf_id id;
    struct hf_lock *lock;
};

/* How it is found; mutex. Written by lock.c. */
struct lock_lookup {
    struct table_node by_name, by_owner;
    struct lock_ticket tickets[LOCK_TICKETS];
};

struct hf_lock {
    hf_client *client;            /* constant; NULL once that is closed */
    struct hf_lock *next, **link; /* mutex: of the client's */
    char *name;                   /* constant */
    const char *shown_name;       /* constant: within it, without the prefix */
    lock_state state;             /* mutex; written by lock_end_locked() */
    struct lock_lookup lookup;
    struct grant grant;
    struct belief belief;
    struct change change;
    struct turn turn;
    struct verification verification;
    struct previous previous;
    struct loss loss;
    struct leaving leaving;
};

/* The request's entry was granted, as an answer, a look or a notice says. */
struct hf_lock *lock_new_locked(const struct lock_request *request, const hf_entry *entry,
                                const hf_record *record, hf_mono now);
/* What the request asked for. */
void lock_fill_locked(struct hf_lock *lock, const struct lock_request *request, hf_mono now);
/* The same ticket with the next token, for another thread. The handle before it was released: its
 * belief is over. */
struct hf_lock *lock_succeed_locked(const struct hf_lock *before, hf_mono now);
void lock_discard_locked(struct hf_lock *lock); /* frees one that nobody has a handle of */
void lock_unlink_locked(struct hf_lock *lock);
void lock_free(struct hf_lock *lock); /* one that was unlinked */

/* Whether a thread has it: it is neither lost, nor lingers, nor is on its way to an ID lease. */
bool lock_is_used_locked(const struct hf_lock *lock);
struct hf_lock *lock_find_locked(hf_client *client, hf_id ticket);
/* All locks of a name, those that are not held any more among them. */
struct hf_lock *lock_first_named_locked(const hf_client *client, const char *name);
struct hf_lock *lock_next_named_locked(const struct hf_lock *lock);
/* Locks of an owner, see caller_owner(), and perhaps some others; those that linger are of none. */
struct hf_lock *lock_first_owned_locked(const hf_client *client, uint64_t owner);
struct hf_lock *lock_next_owned_locked(const struct hf_lock *lock);
/* Finds the lock that an ask is for. An upgrade may have replaced the ticket since. */
struct hf_lock *lock_find_asked_locked(hf_client *client, hf_id ticket);
hf_mode lock_mode(const struct hf_lock *lock);

/* ---- What is granted, and for how long ---- */

void lock_end_locked(struct hf_lock *lock, lock_state how);

/* From now on it is found by this ticket of that kind; 0: by none. */
void lock_know_ticket_locked(struct hf_lock *lock, unsigned kind, hf_id ticket);
/* From now on the lock stands under another ticket. */
void lock_replace_ticket_locked(struct hf_lock *lock, hf_id ticket);
/* An upgrade of it was granted. */
void lock_regrant_locked(struct hf_lock *lock, const hf_entry *entry, hf_stamp stamp);
void lock_share_locked(struct hf_lock *lock); /* belief in exclusive is over */
/* `kept` lingers: nobody gets the next token yet, and the exit status stays. */
void lock_keep_locked(struct hf_lock *kept, const struct hf_lock *before);

/* ---- How it is left ---- */

hf_leave lock_leave(const struct hf_lock *lock);
/* Whether it is given back unused. */
bool lock_gives_back(const struct hf_lock *lock);
/* How the last one left that held under the same ticket before; only if previous.is_local. */
hf_leave lock_leave_before(const struct hf_lock *lock);
void lock_set_exit_status_locked(struct hf_lock *lock, int exit_status);
void lock_begin_pass_locked(struct hf_lock *lock);
void lock_end_pass_locked(struct hf_lock *lock); /* for sure, no lease has its place */
/* Its holder did not use it: closing it is a give-back. It is passed to nobody in line, because an
 * ID lease may have its place by now. */
void lock_return(struct hf_lock *lock);

#endif
