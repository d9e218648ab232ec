/* SPDX-License-Identifier: Apache-2.0 */
/* attempt.h: one acquire, as steps that are told the time. */
#ifndef CLIENT_WAIT_ATTEMPT_H
#define CLIENT_WAIT_ATTEMPT_H

#include "client/wait/deadlock.h"
#include "client/wait/judging.h"

typedef enum attempt_state {
    ATTEMPT_ENTERS,  /* to send its enter when enter_due comes */
    ATTEMPT_WAITS,   /* its ticket is in the queue */
    ATTEMPT_OUTSIDE, /* the queue is full: it has a number, and looks when look_due comes */
    ATTEMPT_BUSY,    /* without a queue: comes back when enter_due comes */
    ATTEMPT_IN_LINE, /* in line behind other threads of this client */
    ATTEMPT_REFUSED, /* the limits disagree: watches whether those ahead live */
    ATTEMPT_ENDED,
} attempt_state;

/* Calls that failed since one succeeded; written by attempt_end.c. */
struct trouble {
    hf_mono since; /* when the first of them began, or what it was part of */
    unsigned failures;
};

/* A wait outside the queue, with the number in request.enter; written by attempt_outside.c. */
struct outside {
    int64_t head, reached; /* the number at the head of the queue when it last looked; 0: never */
    hf_mono seen;          /* when that was */
    int64_t turn_ns;       /* how long a turn took until then; 0: nothing has moved */
    bool has_places;       /* there were some, */
    hf_mono free_since;    /* and since then nobody has come in */
};

/* Own thread, except for the request, which has its own rules. Written by attempt.c and
 * attempt_*.c. */
struct attempt {
    struct lock_request request;
    struct ahead ahead;
    struct deadlock_watch deadlock;
    struct trouble trouble;
    struct outside outside;
    attempt_state state;
    hf_mono asked;   /* when its caller began to wait: the patience of a try counts from there */
    hf_mono stepped; /* when its present step began */
    hf_mono deadline, enter_due, look_due;
    hf_mono called_from; /* a claim: a notice lets it come back no sooner */
    unsigned polls;      /* looks and tries so far, for how far apart they are */
    unsigned cleared;    /* a try: how often it has taken tickets of the dead out of its way */
    int64_t again_ms;    /* without a queue: when the store wants to be asked again */
    bool is_last;        /* its time is over: this is its last try, or look */
    bool is_rung;        /* a notice has told of its grant, and no look */
    unsigned awaited;    /* life_begin(): which beginning of a session it awaits; 0: none */
    hf_code code;        /* how it ended */
    hf_error err;
};

void attempt_init(struct attempt *attempt, hf_client *client, const char *name,
                  const hf_lock_options *options);
void attempt_init_claim(struct attempt *attempt, hf_client *client, const hf_claim *claim,
                        const hf_lock_options *options);
/* Without sessions: its enter makes an ID lease, with this ticket and session. is_common: other
 * calls may make the same, so that the ticket is not given back. *session stays in place. */
void attempt_make_lease(struct attempt *attempt, hf_id ticket, const hf_session *session,
                        bool is_common);
void attempt_done(struct attempt *attempt);
/* Does what is due and says when it wants to be called again; state ENDED: code, err and
 * request.lock say how. */
hf_mono attempt_step(struct attempt *attempt, hf_mono now);
hf_mono attempt_cancel(struct attempt *attempt, hf_mono now);
void attempt_info(const struct attempt *attempt, hf_wait_info *info, hf_mono now);

/* ---- attempt_join.c: waits for leases that other calls may make ---- */

void attempt_join(struct attempt *attempt, hf_id lease); /* that lease's ticket */
/* Ends the waits of this client whose lease stands in the record. */
void attempt_tell_joined(hf_client *client, const hf_record *record);
/* Whether requests of this client wait for leases of this lock; then one look serves them all. */
bool attempt_is_joined_for_locked(const struct attempt *attempt);

#endif
