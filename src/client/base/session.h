/* SPDX-License-Identifier: Apache-2.0 */
/* session.h: what a client knows about its session in the store. Only session.c writes it; the
 * files that begin, beat and end the session are in hold/. The client's mutex guards all of it. */
#ifndef CLIENT_BASE_SESSION_H
#define CLIENT_BASE_SESSION_H

#include "core/lease.h"

#include <holdfast/store.h>

typedef enum session_state {
    SESSION_NONE,      /* the next acquire begins one */
    SESSION_BEGINNING, /* its insert is under way, by one acquiring thread */
    SESSION_ALIVE,
} session_state;

/* A ticket that somebody asked this session to give up (R9). */
typedef struct session_ask {
    hf_ask ask;
    hf_mono deadline; /* the end of belief in that ticket */
    bool is_answered; /* its leave was acknowledged: the next beat takes the ask out */
} session_ask;

struct session {
    session_state state;
    hf_session self;
    hf_mono lease_end; /* belief ends here at the latest; by the last acknowledged beat */
    hf_mono beat_due, beat_sent;
    bool holds;            /* a lock depends on it; else it beats as seldom as it may */
    int64_t seen;          /* the last beat that was acknowledged */
    int64_t beat_most;     /* what all beats that were sent, late ones too, can have raised it to */
    bool is_lasting;       /* a majority has it: one of its beats was acknowledged (R3) */
    hf_error last_failure; /* of a beat, for the message when the lease runs out */
    session_ask *asks;
    size_t n_asks;
    char **suspects; /* names of the suspects: an unanswered enter may still arrive there (R8) */
    size_t n_suspects;
};

/* ---- Its life ---- */

void session_prepare_locked(hf_client *client); /* a new one, whose insert is to be sent */
void session_begun_locked(hf_client *client, hf_mono sent);
void session_gone_locked(hf_client *client);  /* whatever it was: the next acquire begins one */
void session_forget(struct session *session); /* frees what it points to */
bool session_is_present_locked(const hf_client *client, hf_id session); /* and not lost */

/* ---- Beats (R3, R4, R7) ---- */

bool session_beats_locked(hf_client *client, hf_mono now); /* a beat is due, and is sent now */
void session_renewed_locked(hf_client *client, hf_mono sent, const hf_session_state *state);
/* If the store shows a higher beat, others than this client raise it. */
int64_t session_beat_most_locked(const hf_client *client);
void session_not_renewed_locked(hf_client *client, const hf_error *err);
/* The number of a beat, sent now, that begins the session again: one that it never had. */
int64_t session_beat_anew(hf_mono now);
/* Whether a session with this beat was begun again since it had the former one. */
bool session_is_anew(int64_t former, int64_t beat);
/* Whether a lock depends on the beats from now on. */
void session_holds_locked(hf_client *client, bool holds);
/* The next beat is sent at once, unless the last was less than ms milliseconds ago. */
void session_hurry_locked(hf_client *client, int64_t ms);

/* ---- Asks (R9) ---- */

session_ask *session_find_ask_locked(hf_client *client, hf_id ticket);
void session_add_ask_locked(hf_client *client, const session_ask *ask);
void session_answer_locked(hf_client *client, hf_id ticket);
size_t session_answered_locked(const hf_client *client, hf_id answered[HF_ASKS_MAX]);
void session_drop_asks_locked(hf_client *client, const hf_id *answered, size_t n);

/* ---- Suspects (R8) ---- */

void session_suspect_locked(hf_client *client, const char *name);

/* ---- For people ---- */

void session_who(const hf_session *session, char who[HF_TEXT_MAX + 1]);

#endif
