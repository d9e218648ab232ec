/* SPDX-License-Identifier: Apache-2.0 */
/* judge.h: judges which sessions live: remembers what was seen since when, on the watcher's own
 * clock (R5). Each waiter has one. It asks which sessions to look at, and what a look means.
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
    bool waits;     /* and so beats seldom */
    bool is_far;    /* looked at once a ttl, not after each beat */
    bool is_seen;   /* looked at since it was put on watch */
    bool was_alive; /* seen to beat while watched */
} judge_watch;

struct judge {
    judge_watch *watches;
    size_t n;
    int64_t slack_ms; /* looks at beats may come so much later, several together */
};

#define JUDGE_MISSING ((int64_t)-1)

typedef enum judge_verdict {
    JUDGE_LIVES,   /* or may; go on watching */
    JUDGE_OVERDUE, /* may be marked now, if its beat is still the same, or it is still missing */
    JUDGE_IS_DEAD, /* marked: its tickets may be taken out */
} judge_verdict;

void judge_done(struct judge *judge);

/* Starts to watch a session, with the first look at `look_at`, unless it is watched already.
 * ttl_ms: that of its ticket, used until the session's own document is seen. waits: it holds
 * nothing here, and beats as seldom as it may (lease_waiting_beat_ms()). One that has waited and
 * holds now is looked at as soon as its next beat should be there. */
void judge_add(struct judge *judge, hf_id session, int32_t ttl_ms, bool waits, hf_mono look_at);

/* The same, with a look once per ttl instead of after each beat, and whenever other looks are due.
 * So its death is found that much later. judge_add() turns it into an ordinary one that is looked
 * at at once. */
void judge_add_far(struct judge *judge, hf_id session, int32_t ttl_ms, hf_mono look_at);

/* Ends the watch of everything that is not among ids. */
void judge_keep(struct judge *judge, const hf_id *ids, size_t n);

/* When the next session is to be looked at; far ones cause no wake-up. The verdict has no slack. */
hf_mono judge_due(const struct judge *judge);

/* Fills ids with the sessions whose look is due at `now` or within 50 ms; MONO_NEVER: with all. */
size_t judge_collect(const struct judge *judge, hf_mono now, hf_id *ids, size_t max);

/* Takes in the state of one session, from a look that arrived at `now`. */
judge_verdict judge_session(struct judge *judge, const hf_session_state *state, hf_mono now);

/* Ends the watch of one session: it was judged. */
void judge_drop(struct judge *judge, hf_id session);

/* The session turned out to live (its mark was refused): look again soon. */
void judge_lives(struct judge *judge, hf_id session, hf_mono now);

/* Takes in that a look showed an ask for this ticket. True once the ask has been seen for the
 * session's ttl plus the allowance: then anybody may take the ticket out (R9). */
bool judge_ask(struct judge *judge, hf_id ticket, int32_t ttl_ms, hf_mono now);

/* True when one of the watched sessions was seen to beat while it was watched. */
bool judge_saw_life(const struct judge *judge);

#endif
