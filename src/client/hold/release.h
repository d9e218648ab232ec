/* SPDX-License-Identifier: Apache-2.0 */
/* release.h: tickets that are to be taken out of records: sent by the thread that released, in the
 * background (send.c), or with the next enter of the same name. */
#ifndef CLIENT_HOLD_RELEASE_H
#define CLIENT_HOLD_RELEASE_H

#include "core/history.h"
#include "core/record.h"
#include "core/schedule.h"
#include "core/table.h"

/* Mutex, except for what its sender reads while it is in flight; written by release.c and send.c.
 */
struct release {
    struct release *next, **link; /* of the client's, the oldest first */
    struct release *carried_next; /* in a step that takes several of one lock out */
    struct table_node by_name, by_ticket, by_upgrade;
    struct slot due;   /* while it is not in flight */
    char *name;        /* constant */
    hf_id session;     /* of its ticket; constant */
    hf_leave leave;    /* constant once in flight */
    hf_id upgrade;     /* leaves in the same step; only one of the two tickets stands; 0: none */
    int64_t token;     /* of the lock's grant; constant */
    hf_mono lease_end; /* of that lock alone, where it has a lease of its own; constant */
    bool is_held;      /* it was believed, and its absence is a loss */
    bool in_flight;    /* somebody is sending it */
    bool was_sent;     /* an earlier try had no answer */
    struct history_turn *turn; /* that its acknowledgement ends; NULL: none; mutex */
    unsigned failures;
    /* Its sender's own, of a try that changed nothing: what a look showed. in_doubt: others may
     * have taken the ticket out before an earlier try arrived. */
    bool is_there, was_lost, has_left, in_doubt;
};

/* The client's, of its session and of those before; mutex. Written by release.c and send.c. */
struct releases {
    struct release *first, **end;
    struct table by_name, by_ticket, by_upgrade;
    struct schedule due;
    bool is_answered;    /* the last one that was sent got an answer */
    bool is_awaited;     /* an enter waits for one of its name that is in flight */
    bool is_upkeep_busy; /* another ticker sends what comes meanwhile */
};

void releases_init(struct releases *releases);
void releases_done(struct releases *releases); /* its list is empty */

enum {
    RELEASE_LEAVES = 2,
    RELEASE_TOGETHER = 32, /* releases of one lock in one step */
};
/* The leaves of a release; returns how many. */
size_t release_leaves(const struct release *release, hf_leave out[RELEASE_LEAVES]);

/* Puts a ticket of that session on the list, where it stays until the store has answered, also if
 * the session ends meanwhile: a leave names its ticket, so a late one takes nothing from anybody
 * else. is_held: it was believed, so its absence is a loss. Upkeep, if it is idle, is to be poked
 * by the caller, unless that marks it in_flight and sends it itself. */
struct release *release_push_locked(hf_client *client, const char *name, hf_id session,
                                    const hf_leave *leave, bool is_held);
/* The same for the ticket of a lock, and that of an upgrade of it. */
struct release *release_push_lock_locked(struct hf_lock *lock, const hf_leave *leave, bool is_held);
/* Ends belief, lets the next in line lead, and puts the leave on the list (R4). */
struct release *release_begin_locked(struct hf_lock *lock);

/* Marks the releases of this name as in flight, for a step that carries them; they are linked by
 * carried_next. *is_busy: one is in flight already: wait for it. */
struct release *release_take_locked(hf_client *client, const char *name, bool *is_busy);
void release_put_back_locked(hf_client *client, struct release *carried, bool was_sent);
void release_done_locked(hf_client *client, struct release *carried); /* acknowledged: frees them */

/* Marks the one that is due first as in flight, with others of its name, linked by carried_next;
 * NULL: none is due. */
struct release *release_take_due_locked(hf_client *client, hf_mono now);
void release_later_locked(hf_client *client, struct release *release, int64_t delay_ns);
void release_hurry_locked(hf_client *client);       /* what was put off is tried now */
void release_send_beside_locked(hf_client *client); /* what is due, by another ticker than upkeep */
/* Somebody waits for it: it is sent before all others. */
void release_first_locked(hf_client *client, const char *name);

void release_free(struct release *release); /* one that nobody sends */
void release_free_all(hf_client *client);   /* at the end, when nobody sends any */
bool release_is_pending_locked(hf_client *client, hf_id ticket);
bool release_is_any_of_locked(const hf_client *client, hf_id session);
/* At the end, when all threads have ended: what is still to be sent is logged, and goes to the
 * guardian. */
void release_bequeath(hf_client *client);

void release_tell_guardian(hf_client *client, const struct release *release);
/* The ticket is certainly out, or it is not to be tried again: frees it. */
void release_over_locked(hf_client *client, struct release *release);
/* It was tried, and somebody sends it again after so many milliseconds. */
void release_hand_over_locked(hf_client *client, struct release *release, int64_t pause_ms);
/* The turn that its holder has ended, for the history: others took the ticket out. */
void release_note_lost_locked(hf_client *client, struct release *release);
bool release_takes_out(const struct release *release, hf_id ticket);

/* ---- send.c ---- */

/* Sends one that is in flight until its outcome is known, or until stop_by. Afterwards it is done,
 * or back in the list. HF_LOST: somebody else had taken it out. */
hf_code release_send(hf_client *client, struct release *release, hf_mono stop_by, hf_error *err);
hf_mono release_due_locked(const hf_client *client, hf_mono now); /* when to send the next */
/* Sends what is due, the oldest first, of not many more locks than one call of the store takes;
 * when to send the next. */
hf_mono release_tick(hf_client *client, hf_mono now);
/* The ticker that sends while upkeep is busy: all that is due. */
hf_mono release_tick_beside(hf_client *client, hf_mono now);
/* Whether so many wait to be sent that a thread which closes more is to help. */
bool release_is_crowded_locked(const hf_client *client);

/* ---- carried.c ---- */

/* What an enter carries along. */
struct carried {
    struct release *releases;
    hf_leave *leaves;
    size_t n;
};

/* False: one of that name is in flight already: unload, and come back. */
bool carried_load_locked(hf_client *client, const char *name, struct carried *carried);
void carried_unload_locked(hf_client *client, struct carried *carried, hf_code code,
                           bool confirmed);

#endif
