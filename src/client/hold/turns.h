/* SPDX-License-Identifier: Apache-2.0 */
/* turns.h: decides which thread of a line has the lock next (local turns), whether the lock stays
 * with the session for a while when none of them wants it (linger), and when it is given up to
 * other sessions. */
#ifndef CLIENT_HOLD_TURNS_H
#define CLIENT_HOLD_TURNS_H

#include "client/hold/line.h"

#include "core/record.h"
#include "core/schedule.h"

#define TURNS_DEFAULT 8

/* The client's; mutex. Written by line.c (lines) and turns.c. */
struct turns {
    struct line *lines;
    struct table by_name; /* of them */
    int32_t bound;        /* turns in a row while another session waits; < 0: none */
    size_t yielding;      /* held locks that may be recalled: the client listens for them */
    struct schedule due;  /* those that linger, or that the first in line will not wait for */
};

/* A lock's place among the threads of this client; mutex. Written by line.c and turns.c. */
struct turn {
    struct line *line; /* of its name, while this one holds its ticket; NULL: none */
    bool has_block;    /* tokens for those in line were kept with its grant */
    bool lingers;      /* nobody has it: it stays with the session for a while, */
    hf_mono linger_until;
    struct slot due;
};

/* Where a request stands in its lock's line. */
typedef enum turns_place {
    PLACE_ALONE,   /* in none: its ticket is its own */
    PLACE_LEADS,   /* enters and waits for all in the line */
    PLACE_IN_LINE, /* waits for its local turn, or to lead */
    PLACE_HELD,    /* a try, and another thread has the lock */
    PLACE_TAKEN,   /* the lock had lingered: request->lock is it */
} turns_place;

void turns_init(struct turns *turns, int32_t bound);
void turns_done(struct turns *turns); /* its lines are freed */

turns_place turns_join_locked(struct lock_request *request, hf_mono now);
/* Makes a new ticket ask for a block of tokens for the threads in line behind it, and for recalls.
 */
void turns_request_block_locked(const struct lock_request *request, hf_entry *entry);
/* Takes what the request was given in line; the leader's ticket is its own from now on. */
line_news turns_hear_locked(struct lock_request *request);
/* A leader that gives up leaves its ticket to the next in line; false: there is none. */
bool turns_transfer_locked(struct lock_request *request);

/* The leader's grant is believed. */
void turns_granted_locked(struct lock_request *request, struct hf_lock *lock, const hf_entry *entry,
                          const hf_record *record);
/* For a holder that releases: passes the lock to the next in line, or lets it linger; false: give
 * up its ticket. The caller wakes the new holder once the mutex is free. */
bool turns_pass_locked(struct hf_lock *lock, hf_mono now, struct waker **to_wake);

/* Its block of tokens ends, because an upgrade has none. */
void turns_end_block_locked(struct hf_lock *lock);

/* A recall: another ticket waits for the lock. name NULL: perhaps, for every lock. */
void turns_recall_locked(hf_client *client, const char *name, hf_stamp stamp);
/* Whether a recall may still come for a lock that is held. */
bool turns_may_be_recalled_locked(const hf_client *client);
/* Gives up locks that have lingered long enough, and says when to look again. */
hf_mono turns_tick_locked(hf_client *client, hf_mono now);
/* Frees the lines, and the locks that nobody has a handle of; the client is closed. */
void turns_free(hf_client *client);

#endif
