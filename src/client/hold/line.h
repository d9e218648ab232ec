/* SPDX-License-Identifier: Apache-2.0 */
/* line.h: threads of one client that want one lock stand in one line, behind one ticket of their
 * session. The first in line becomes the leader, which enters and waits for all. This file keeps
 * the line; turns.c decides which thread has the lock next. */
#ifndef CLIENT_HOLD_LINE_H
#define CLIENT_HOLD_LINE_H

#include "client/hold/lock_request.h"

#include "core/table.h"

/* All under the mutex. */
struct line {
    struct line *next, **link; /* of the client's */
    struct table_node by_name;
    hf_client *client; /* constant, as the next */
    char *name;
    struct lock_request *leader;
    struct hf_lock *user; /* who holds it now; or it lingers */
    struct lock_request *first, **end;
    int64_t last_token;           /* of the ticket's block */
    char holder[HF_TEXT_MAX + 1]; /* who has the lock, as the leader sees it; "": not known */
    bool is_overdue; /* another ticket waits, and this one should have been left by now */
    bool is_wanted;  /* another ticket waits, as a recall says: */
    hf_stamp recalled;
    hf_mono wanted_at;
    int32_t turns; /* since then */
};

struct line *line_find_locked(hf_client *client, const char *name);
struct line *line_find_or_make_locked(hf_client *client, const char *name);
void line_free_locked(struct line *line); /* even if it is not empty */

void line_append_locked(struct line *line, struct lock_request *request);
struct lock_request *line_next_locked(struct line *line); /* takes the first out; NULL: nobody */
/* Makes the first the leader, unless the lock will come to the line anyway. */
void line_see_to_leader_locked(struct line *line);

/* The request is over, however it ended. */
void line_quit_locked(struct lock_request *request);
size_t line_position(const struct lock_request *request); /* 1: next */
/* For those behind a leader: who it waits for. */
void line_tell_holder_locked(struct lock_request *leader, const char *who);

/* The lock's ticket was given up or lost: the next in line leads. */
void line_left_locked(struct hf_lock *lock);
/* A lost lock was given up. If it had lingered, nobody has a handle to close it: upkeep does. */
void line_over_locked(struct hf_lock *lock);

#endif
