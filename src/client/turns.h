/* SPDX-License-Identifier: Apache-2.0 */
/* turns.h: threads of one client that want one lock stand in one line, behind one ticket of their
 * session. The lock is passed on among them (local turns), and may stay with the session for a
 * while when none of them wants it (linger). */
#ifndef CLIENT_TURNS_H
#define CLIENT_TURNS_H

#include <holdfast/store.h>

#define TURNS_BUCKETS 256
#define TURNS_DEFAULT 8

struct attempt;
struct hf_lock;
struct line;
struct waker;

/* All under the client's mutex. */
struct turns {
    struct line *lines[TURNS_BUCKETS]; /* by their names' hashes */
    int32_t bound;                     /* turns in a row while another session waits; < 0: none */
    size_t yielding;                   /* locks held that a recall may be for: it is listened for */
    hf_mono linger_due;                /* upkeep looks no later than this */
};

/* Where an attempt stands in its lock's line. */
typedef enum turns_place {
    PLACE_ALONE,   /* in none: its ticket is its own */
    PLACE_LEADS,   /* enters and waits for all in the line */
    PLACE_IN_LINE, /* waits for its local turn, or to lead */
    PLACE_HELD,    /* a try, and another thread has the lock */
    PLACE_TAKEN,   /* the lock had lingered: attempt->lock is it */
} turns_place;

/* Whether it is held by the thread, or actor, that makes the attempt. */
bool turns_is_held_by_locked(const struct hf_lock *lock, const struct attempt *attempt);

void turns_init(struct turns *turns, int32_t bound);

turns_place turns_join_locked(struct attempt *attempt, hf_mono now);
/* For a new ticket: tokens for those who stand behind, and recalls. */
void turns_dress_locked(const struct attempt *attempt, hf_entry *entry);
/* What came to one in line: the lock, or the lead, or with it the leader's ticket. */
typedef enum turns_news { NEWS_NONE, NEWS_LOCK, NEWS_LEADS, NEWS_TICKET } turns_news;
turns_news turns_hear_locked(struct attempt *attempt);
/* Gives the ticket of a leader that gives up to the next in line; false: there is none. */
bool turns_bequeath_locked(struct attempt *attempt);
/* The attempt is over, however it ended. */
void turns_quit_locked(struct attempt *attempt);
size_t turns_position(const struct attempt *attempt); /* in line; 1: next */

/* The leader's grant is believed. */
void turns_granted_locked(struct attempt *attempt, struct hf_lock *lock, const hf_entry *entry,
                          const hf_record *record);
/* A holder that releases: whether the lock went to the next in line, or lingers; otherwise its
 * ticket is to be left. Who has it now is to be woken once the mutex is free. */
bool turns_pass_locked(struct hf_lock *lock, hf_mono now, struct waker **to_wake);
/* The lock's ticket is left, or lost: the next in line leads. */
void turns_left_locked(struct hf_lock *lock);

/* Another ticket waits for the lock; name NULL: perhaps, for each of them. */
void turns_recall_locked(hf_client *client, const char *name, hf_stamp stamp);
/* Whether a recall is yet to be heard for one that is held. */
bool turns_may_be_recalled_locked(const hf_client *client);
/* Gives up what has lingered for long enough, and says when to look again. */
hf_mono turns_tick_locked(hf_client *client, hf_mono now);
/* Frees the lines, and the locks that nobody has a handle of; the client is closed. */
void turns_free(hf_client *client);

#endif
