/* SPDX-License-Identifier: Apache-2.0 */
/* judge.h: the judge of liveness: what was seen since when, on the watcher's own clock (R5).
 * A waiter keeps one; it asks which sessions are to be looked at, and what to make of what it sees.
 */
#ifndef CORE_JUDGE_H
#define CORE_JUDGE_H

#include <holdfast/store.h>

typedef struct judge_watch {
    hf_id id;      /* a session, or a ticket that its session was asked to give up */
    int64_t value; /* the beat; JUDGE_MISSING; 0 for an ask */
    int32_t ttl_ms;
    hf_mono since; /* arrival of the first look that showed this value */
    hf_mono look_at;
    bool is_ask;
    bool is_far;    /* looked at once a ttl, not after each beat */
    bool is_seen;   /* looked at since it was put on watch */
    bool was_alive; /* seen to beat while watched */
} judge_watch;

struct judge {
    judge_watch *watches;
    size_t n;
};

#define JUDGE_MISSING ((int64_t)-1)

typedef enum judge_verdict {
    JUDGE_LIVES,   /* or may; go on watching */
    JUDGE_OVERDUE, /* may be marked now, if its beat is still the same */
    JUDGE_IS_DEAD, /* marked, or missing for its ttl: its tickets may be taken out */
} judge_verdict;

void judge_done(struct judge *judge);

/* Puts a session on watch, to be looked at from `look_at` on, unless it is. ttl_ms: as its ticket
 * says, until its own document is seen. */
void judge_add(struct judge *judge, hf_id session, int32_t ttl_ms, hf_mono look_at);

/* The same for one that is looked at once a ttl, not after each beat, and when there is something
 * else to be done: it is found dead that much later. judge_add() makes an ordinary one of it, to be
 * looked at at once. */
void judge_add_far(struct judge *judge, hf_id session, int32_t ttl_ms, hf_mono look_at);

/* Ends the watch of everything that is not among ids. */
void judge_keep(struct judge *judge, const hf_id *ids, size_t n);

/* When the next session is to be looked at; far ones cause no wake-up. */
hf_mono judge_due(const struct judge *judge);

/* Fills ids with the sessions whose look is due at `now` or within 50 ms; MONO_NEVER: with all. */
size_t judge_collect(const struct judge *judge, hf_mono now, hf_id *ids, size_t max);

/* Takes in one session's state as a look that arrived at `now` shows it. */
judge_verdict judge_session(struct judge *judge, const hf_session_state *state, hf_mono now);

/* Ends the watch of one session: it was judged. */
void judge_drop(struct judge *judge, hf_id session);

/* The session turned out to live (its mark was refused): look again soon. */
void judge_lives(struct judge *judge, hf_id session, hf_mono now);

/* Takes in that the ticket's session was seen to be asked for it. True once that was seen for the
 * session's ttl plus allowance: the ticket may be taken out by anybody (R9). */
bool judge_ask(struct judge *judge, hf_id ticket, int32_t ttl_ms, hf_mono now);

/* True when one of the watched sessions was seen to beat while it was watched. */
bool judge_saw_life(const struct judge *judge);

#endif
