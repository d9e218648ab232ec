/* SPDX-License-Identifier: Apache-2.0 */
/* holdfast.pml: sessions, beats, marks and steps of one lock, over a log with a commit point, with
 * failovers, a deposed primary that lives on, and clocks that drift; run by test_model.py, explained
 * in README.md. Names in capitals that are asked for and not defined here are bounds' switches
 * (TIMELESS, HOLDS_ON, FRAIL, SWEEP) and broken variants. */

/* How much of it: test_model.py says what it checks with which. */
#ifndef SESSIONS
#define SESSIONS 2 /* session 0 does all there is to do; the others wait, judge and hold */
#endif
#ifndef BEATS
#define BEATS 1 /* of session 0, its insert among them */
#endif
#ifndef TICKETS
#define TICKETS 1 /* of session 0, one after the other */
#endif
#ifndef LOSSES
#define LOSSES 0 /* lost answers and late requests, beside those of the failovers */
#endif
#ifndef FAILOVERS
#define FAILOVERS 1
#endif
#ifndef ROOM
#define ROOM 2 /* versions in the window of the log: one that is known to all, and those after it */
#endif
#ifdef FRAIL
#define MAY_BE_LOST(s) true
#else
#define MAY_BE_LOST(s) (s == 0)
#endif
#ifdef HOLDS_ON
#define LEAVES_IT false /* until it is lost */
#else
#define LEAVES_IT true
#endif
#define GIVES_UP(s) (LEAVES_IT && s == 0)
#define BEATS_OF(s) (s == 0 -> BEATS : 1) /* the others beat unseen */

/* ---- Clocks -------------------------------------------------------------------------------------
 * Time goes by in ticks, as many as it likes between any two events. Each session has a clock of its
 * own, which at a tick may stand still or go on by two, but only once in UNTIL_OFF_AGAIN ticks. So
 * a lease or a watch can be wrong by one tick, which is what the allowance is for. */
#ifdef TIMELESS
#define IS_CLOCKED(s) false
#else
#define IS_CLOCKED(s) (s == 0) /* its lease is; the others' watches are, too */
#endif
#define TTL 3
#ifdef NO_DRIFT_ALLOWANCE
#define ALLOWANCE 0
#else
#define ALLOWANCE 1
#endif
#define LEASE (TTL - ALLOWANCE) /* R4 */
#define WATCH (TTL + ALLOWANCE) /* R5 */
#ifdef DRIFTS_BEYOND_ALLOWANCE
#define UNTIL_OFF_AGAIN 1
#else
#define UNTIL_OFF_AGAIN TTL
#endif
#define NEW_LEASE(s) (IS_CLOCKED(s) -> LEASE : 0)

/* ---- A version of the store ---------------------------------------------------------------------
 * One int: the queue from bit 0 on, the last token given, each session's document. The first of the
 * queue holds: one permit, so the step's fold grants nothing else. */

#define PLACES 5 /* of three bits: a ticket; 0 is none */
#define IN_QUEUE 32767
#define ONE_TOKEN 32768
#define PLACE(v, i) (((v) >> (3 * (i))) & 7)
#define HEAD(v) PLACE(v, 0)
#define TOKEN(v) (((v) >> 15) & 7)
#define BIT_OF(s) (18 + 3 * (s))
#define SESSION(v, s) (((v) >> BIT_OF(s)) & 7)
#define ABSENT 0 /* otherwise the beat, or: */
#define DEAD 7
#define IN(v, t) \
    (HEAD(v) == t || PLACE(v, 1) == t || PLACE(v, 2) == t || PLACE(v, 3) == t || PLACE(v, 4) == t)
#define TICKET(s, k) ((s) * TICKETS + (k) + 1)
#define OWNER(t) (((t) - 1) / TICKETS)

hidden int v, was; /* the version that an atomic step works on, and what it was */
hidden byte i, x;

/* The step's edits, on v. */
inline set_session(s, value) {
    v = (v & ~(7 << BIT_OF(s))) | ((value) << BIT_OF(s))
}

inline take_out(t) {
    i = 0;
    do
    :: i < PLACES && PLACE(v, i) != t -> i++
    :: else -> break
    od;
    if
    :: i < PLACES ->
        v = (v & ~IN_QUEUE) | (v & ((1 << (3 * i)) - 1)) |
            (((v & IN_QUEUE) >> (3 * i + 3)) << (3 * i));
        if
        :: i == 0 && HEAD(v) -> v = v + ONE_TOKEN /* the next is granted, with the next token */
        :: else
        fi
    :: else
    fi;
    i = 0
}

inline append(t) {
    if
    :: IN(v, t)
    :: else ->
        if
        :: HEAD(v) == 0 -> v = v + ONE_TOKEN /* granted at once */
        :: else
        fi;
        i = 0;
        do
        :: PLACE(v, i) -> i++
        :: else -> break
        od;
        assert(i < PLACES);
        v = v | (t << (3 * i));
        i = 0
    fi
}

inline take_out_all(s) {
    x = 0;
    do
    :: x < TICKETS -> take_out(TICKET(s, x)); x++
    :: else -> break
    od;
    x = 0
}

/* ---- The replica set ----------------------------------------------------------------------------
 * version[0 .. last] is the primary's log, as far as it can matter. `commit` is its commit point, as
 * it knows it: what majority reads show, and what is acknowledged. version[0] is the commit point as
 * the next primary will know it. After a failover there is also the deposed primary; a later failover
 * ends it. */

#define PRIMARY 0
#define DEPOSED 1
int version[ROOM];
byte commit, last;
byte kept; /* the true commit point: no failover takes away what is up to here */
byte failovers = FAILOVERS; /* still to come, at most */
bool deposed_lives, deposed_is_ahead; /* it has what will never commit */
int deposed_commit; /* what its majority reads show, for good */
#ifdef LOCAL_LOOKS
int deposed_last; /* only local looks tell what it has that will never commit */
#else
#define deposed_last deposed_commit
#endif
byte deposed_at; /* 1 + where version[] has its commit point; 0: before version[0] */

/* ---- What is in flight --------------------------------------------------------------------------
 * A write's answer: where in version[] it waits for the commit point. */
#define ANSWERED 8 /* by the deposed one, before it was deposed */
#define NEVER 16
byte step_at[SESSIONS], beat_at[SESSIONS]; /* each session has two connections */
byte late; /* a ticket whose enter is still in a socket */
byte losses = LOSSES;
#define IS_ACKNOWLEDGED(at) ((at) != NEVER && ((at) >= ANSWERED || (at) <= commit))

/* What a session's client has seen (R1): reads from now on are at or after this. */
byte after[SESSIONS];
bool is_past_deposed[SESSIONS];

/* ---- What sessions and watchers believe ------------------------------------------------------ */
byte lease[SESSIONS];   /* the beat that it counts from; 0: not begun, or lost */
bool is_lost[SESSIONS]; /* for good */
byte over[SESSIONS];    /* a lease from this beat on is over, if its answer should come now */
byte held[SESSIONS];    /* the ticket that it believes to hold */
bool waits[SESSIONS];   /* wants the lock, and stays */
byte watched[SESSIONS]; /* whom it watches: 1 + session; 0: nobody */
byte seen[SESSIONS];    /* ... and with which beat, unchanged */
byte lease_left[SESSIONS]; /* of its lease: ticks of its own clock */
byte next_left[SESSIONS];  /* ... of the lease from its beat that has no answer yet */
byte watch_left[SESSIONS]; /* ... until its watch is over */
byte steady[SESSIONS];     /* ticks until its clock may be off again */
byte highest_token;     /* of those believed */

/* A notice of a grant: the last one, and its token. It comes at any time after the commit. */
byte told[SESSIONS], told_token[SESSIONS];

inline notify(at) {
    v = version[at];
    if
    :: HEAD(v) ->
        told[OWNER(HEAD(v))] = HEAD(v);
        told_token[OWNER(HEAD(v))] = TOKEN(v)
    :: else
    fi
}

/* What must never be. And what must be, or nothing happens here: */
hidden byte two_believe, token_is_no_higher, a_ticket_is_unknown;
hidden byte is_followed; /* a holder by a waiter, after the last failover */

inline lose(s) {
    is_lost[s] = true;
    lease[s] = 0;
    lease_left[s] = 0;
    held[s] = 0;
    over[s] = 0
}

inline believe(s, t, token) {
    printf("session %d: believes that it holds, ticket %d, token %d\n", s, t, token);
    held[s] = t;
    waits[s] = false;
    two_believe = false;
    x = 0;
    do
    :: x < SESSIONS -> two_believe = two_believe || (x != s && held[x]); x++
    :: else -> break
    od;
    x = 0;
    assert(!two_believe);
    token_is_no_higher = token <= highest_token;
    assert(!token_is_no_higher);
#ifdef REACH
    is_followed = highest_token && s > 0 && !failovers;
    assert(!is_followed);
#endif
    highest_token = token
}

/* ---- Reads and writes ------------------------------------------------------------------------ */

inline choose(node) {
    if
    :: node = PRIMARY
    :: deposed_lives -> node = DEPOSED
    fi
}

inline learn(s, at) { /* operation time, carried to all of the session's connections */
    if
    :: at > after[s] -> after[s] = at
    :: else
    fi;
    if
    :: deposed_lives && at + 1 > deposed_at -> is_past_deposed[s] = true
    :: else
    fi
}

#define HAS_ROOM (last < ROOM - 1)

inline open_write(node) {
    v = (node == PRIMARY -> version[last] : deposed_last);
    was = v
}

/* A write that changes nothing waits for all that was written before it. */
inline close_on_primary(at) {
    if
    :: v != was -> last++; version[last] = v
    :: else
    fi;
#ifdef NOTICES_BEFORE_COMMIT
    notify(last);
#endif
    at = last
}

inline close_write(node, at) {
    if
    :: node == PRIMARY -> close_on_primary(at)
    :: node == DEPOSED && v != was ->
#ifdef LOCAL_LOOKS
        deposed_last = v;
#endif
        deposed_is_ahead = true;
        at = NEVER
    :: node == DEPOSED && v == was -> at = (deposed_is_ahead -> NEVER : ANSWERED)
    fi
}

inline acknowledge(s, at) {
    if
    :: at < ANSWERED -> learn(s, at)
    :: else -> after[s] = (at - ANSWERED > after[s] -> at - ANSWERED : after[s])
    fi;
    at = 0
}

#ifdef LOCAL_LOOKS
#define MAY_LOOK(s, node) true
inline look(s, node) {
    v = (node == PRIMARY -> version[last] : deposed_last)
}
#else
#ifdef LOOKS_NOT_CAUSAL
#define MAY_LOOK(s, node) true
#else
#define MAY_LOOK(s, node) (node == PRIMARY -> after[s] <= commit : !is_past_deposed[s])
#endif
inline look(s, node) {
    if
    :: node == PRIMARY -> v = version[commit]; learn(s, commit)
    :: else -> v = deposed_commit /* learns nothing that it must not forget */
    fi
}
#endif

#define CAN_LOOK(s) (MAY_LOOK(s, PRIMARY) || (deposed_lives && MAY_LOOK(s, DEPOSED)))
inline choose_look(s) {
    if
    :: MAY_LOOK(s, PRIMARY) -> look(s, PRIMARY)
    :: deposed_lives && MAY_LOOK(s, DEPOSED) -> look(s, DEPOSED)
    fi
}

/* ---- A session ------------------------------------------------------------------------------- */

#define MAY_ENTER(s) lease[s] /* the primary has acknowledged its insert */
#ifdef LOST_INSERT_IS_LOSS
#define BEGINS_AGAIN(s) false
#else
#define BEGINS_AGAIN(s) (lease[s] == 1) /* no majority has acknowledged a beat of it */
#endif
#ifdef ABSENT_TAKEN_OUT
#define MARKS_ABSENT false
#else
#define MARKS_ABSENT true
#endif
#ifdef ABSENCE_IS_DEATH
#define TAKES_FOR_DEAD(beat) ((beat) == ABSENT)
#else
#define TAKES_FOR_DEAD(beat) false
#endif
#ifdef NOBODY_JUDGES
#define MAY_LOOK_AT(other) false
#else
#define MAY_LOOK_AT(other) MAY_BE_LOST(other) /* any other would be watched in vain */
#endif
#ifdef MARK_ANY_BEAT
#define MARKS_ANY(beat) ((beat) != ABSENT)
#else
#define MARKS_ANY(beat) false
#endif
#ifdef BELIEVES_AFTER_LEASE
#define MAY_BELIEVE(s) true
#else
#define MAY_BELIEVE(s) lease[s]
#endif
#ifdef WEAK_WRITES
#define IS_WEAK(token) (token)
#else
#define IS_WEAK(token) false
#endif

/* Where no clock runs there is what clocks are for, as an axiom: when the watch over a beat has
 * ended, so has the lease from that beat, and those before it. */
#define WATCHED_BEAT(s) (seen[s] == ABSENT -> 1 : seen[s])
#define MAY_JUDGE(s, other) \
    (IS_CLOCKED(other) -> watch_left[s] == 0 : lease[other] == 0 || lease[other] > WATCHED_BEAT(s))

#define HAS_NO_ANSWER(at) ((at) == NEVER || ((at) && losses))
inline give_up_answer(at) {
    if
    :: at != NEVER -> losses--
    :: else
    fi;
    at = 0
}

inline forget(s) { /* ends the watch */
    watched[s] = 0;
    watch_left[s] = 0;
    seen[s] = 0
}

/* A ticket of this session that nobody here knows. */
inline find_unknown(s) {
#ifndef NO_LOOKS_AT_SUSPECTS
    x = 0;
    do
    :: x < TICKETS ->
        gone = (suspects && TICKET(s, x) != ticket && IN(v, TICKET(s, x)) -> TICKET(s, x) : gone);
        x++
    :: else -> break
    od;
    x = 0
#else
    skip
#endif
}

/* Its insert. */
#define UNSENT 0
#define SENT 1
#define LANDED 2

/* What the client is at. */
#define ENTERS 0
#define ENTERED 1 /* waits for the answer; and so on */
#define WAITS 2
#define LOOKS 3 /* at the session that holds */
#define MARKS 4
#define MARKED 5
#define TAKES_OUT 6
#define BELIEVES 7
#define HOLDS 8
#define LEAVES 9
#define LEFT 10
#define CONFIRMS 11
#define IDLES 12
#define ENDS 13
#define GONE 14

inline be_gone(s) {
    lose(s);
    waits[s] = false;
    forget(s);
    step_at[s] = 0;
    beat_at[s] = 0;
    next_left[s] = 0;
    steady[s] = 0;
    after[s] = 0;
    told[s] = 0;
    told_token[s] = 0;
    sent = 0; ticket = 0; turn = 0; gone = 0; token = 0; other = 0;
    suspects = false; was_there = false;
    phase = GONE
}

/* The client forgets ticket t: from version `at` on it must be gone, for good, or suspected (R8). */
inline forget_ticket(t, at) {
    a_ticket_is_unknown = false;
    i = at;
    do
    :: i <= last -> a_ticket_is_unknown = a_ticket_is_unknown || IN(version[i], t); i++
    :: else -> break
    od;
    i = 0;
    a_ticket_is_unknown = (a_ticket_is_unknown || late == t) && !suspects;
    assert(!a_ticket_is_unknown)
}

inline stop_leaving(s) {
    printf("session %d: knows that ticket %d is gone\n", s, gone);
    was_there = false;
    gone = 0;
    held[s] = 0;
    phase = (ticket -> WAITS : IDLES)
}

inline give_up(s) {
    printf("session %d: gives up ticket %d\n", s, ticket);
    gone = ticket;
    ticket = 0;
    waits[s] = false;
    forget(s);
    phase = LEAVES
}

/* A client with its session: it beats; it enters, waits, judges the holder, believes, leaves; or
 * gives up; and once more with its next ticket. Sending and landing are one event, but for the insert
 * and a late enter; the answer is another, and comes once the write is committed, or never. A beat
 * that reaches the deposed primary is as one that was not sent: nobody will ever see it. */
proctype Session(byte s)
{
    byte phase, node, sent;  /* sent: the beat that waits for its answer */
    byte ticket, turn, gone; /* gone: the ticket to leave */
    byte token, other;       /* of an answer's grant; the session that holds */
    byte insert;
    bool suspects, was_there;

    atomic { insert = (s > 0 -> LANDED : UNSENT); ticket = TICKET(s, 0); waits[s] = true };

end:
    do
    /* Beats (R3, R4) */
    :: atomic { insert == UNSENT -> /* the insert: the first beat */
        printf("session %d: sends its insert\n", s);
        next_left[s] = NEW_LEASE(s);
        insert = SENT }
    :: atomic { insert == SENT && HAS_ROOM -> /* no majority is awaited, and none may get it */
        choose(node);
        printf("session %d: its insert lands on %d\n", s, node);
        open_write(node);
        set_session(s, 1);
        close_write(node, x);
        x = 0;
        node = 0;
        sent = 1;
        beat_at[s] = ANSWERED;
        insert = LANDED }
    :: atomic { sent && IS_ACKNOWLEDGED(beat_at[s]) ->
        acknowledge(s, beat_at[s]);
        printf("session %d: beat %d is acknowledged\n", s, sent);
#ifdef LEASE_FROM_REPLY
        next_left[s] = NEW_LEASE(s);
#endif
        if
        :: is_lost[s] || sent <= over[s] || (IS_CLOCKED(s) && !next_left[s]) -> be_gone(s)
        :: else -> lease[s] = sent; lease_left[s] = next_left[s]; sent = 0; next_left[s] = 0
        fi }
    :: atomic { sent && HAS_NO_ANSWER(beat_at[s]) ->
        give_up_answer(beat_at[s]);
        printf("session %d: beat %d gets no answer\n", s, sent);
        sent = 0;
        next_left[s] = 0;
        if
        :: lease[s] == 0 -> be_gone(s)
        :: else
        fi }
    :: atomic { !sent && lease[s] && lease[s] < BEATS_OF(s) && HAS_ROOM ->
        open_write(PRIMARY);
        if
        :: SESSION(v, s) == DEAD || (SESSION(v, s) == ABSENT && !BEGINS_AGAIN(s)) ->
            printf("session %d: its beat finds itself dead\n", s);
            be_gone(s)
        :: SESSION(v, s) == ABSENT && BEGINS_AGAIN(s) ->
            printf("session %d: beat 2 lands, and begins it again\n", s);
#ifdef REACH_AGAIN
            assert(!held[s]);
#endif
            sent = 2;
            next_left[s] = NEW_LEASE(s);
            set_session(s, sent);
            close_on_primary(beat_at[s])
        :: IS_CLOCKED(s) && SESSION(v, s) == BEATS_OF(s) -> skip /* no more of them */
        :: else ->
            sent = (SESSION(v, s) < BEATS_OF(s) -> SESSION(v, s) + 1 : BEATS_OF(s));
            printf("session %d: beat %d lands\n", s, sent);
            next_left[s] = NEW_LEASE(s);
            set_session(s, sent);
            close_on_primary(beat_at[s])
        fi }
    :: atomic { lease[s] && MAY_BE_LOST(s) && !IS_CLOCKED(s) ->
        printf("session %d: is lost, its lease ends\n", s); /* a crash, a pause */
        lose(s) }
    :: atomic { is_lost[s] && phase != GONE -> be_gone(s) }

    /* Entering (R2, R4) */
    :: atomic { phase == ENTERS && MAY_ENTER(s) && HAS_ROOM ->
        choose(node);
        open_write(node);
        append(ticket);
        close_write(node, step_at[s]);
        printf("session %d: enter of ticket %d lands on %d\n", s, ticket, node);
        token = (HEAD(v) == ticket -> TOKEN(v) : 0);
        node = 0;
        phase = ENTERED }
    :: atomic { phase == ENTERS && MAY_ENTER(s) && s == 0 && losses && !late ->
        losses--;
        late = ticket;
        printf("session %d: enter of ticket %d gets stuck in a socket\n", s, ticket);
        step_at[s] = NEVER;
        phase = ENTERED }
    :: atomic { phase == ENTERED && (IS_ACKNOWLEDGED(step_at[s]) || IS_WEAK(token)) ->
        acknowledge(s, step_at[s]);
        printf("session %d: enter is answered, token %d (0: it waits)\n", s, token);
        phase = (token -> BELIEVES : WAITS) }
    :: atomic { phase == ENTERED && HAS_NO_ANSWER(step_at[s]) ->
        give_up_answer(step_at[s]);
        printf("session %d: enter gets no answer\n", s);
        token = 0;
#if !defined(NO_SUSPECTS) && !defined(UNKNOWN_IS_FAILURE)
        suspects = true;
#endif
#ifdef UNKNOWN_IS_FAILURE
        forget_ticket(ticket, 0); /* takes it for one that was refused */
#endif
        if
        :: phase = ENTERS /* a repeat: the same ticket */
        :: GIVES_UP(s) -> give_up(s)
        fi }

    /* Waiting (L1, L2, L3) */
    :: atomic { phase == WAITS && GIVES_UP(s) -> give_up(s) }
    :: atomic { phase == WAITS && told[s] == ticket ->
        printf("session %d: a notice says that ticket %d holds\n", s, ticket);
        token = told_token[s];
        forget(s);
        phase = BELIEVES }
    :: atomic { phase == WAITS && CAN_LOOK(s) ->
        choose_look(s);
        find_unknown(s);
        if
        :: gone -> phase = LEAVES
        :: !gone && !IN(v, ticket) -> /* vanished: enters again, if there is a ticket for that */
            forget(s);
            if
            :: s == 0 && turn < TICKETS - 1 -> turn++; ticket = TICKET(s, turn); phase = ENTERS
            :: else -> ticket = 0; waits[s] = false; phase = IDLES
            fi
        :: !gone && HEAD(v) == ticket ->
            printf("session %d: a look shows that ticket %d holds\n", s, ticket);
            token = TOKEN(v);
            forget(s);
            phase = BELIEVES
        :: else ->
            other = OWNER(HEAD(v));
            if
            :: watched[s] != other + 1 -> forget(s)
            :: else
            fi;
            if
            :: other != s && MAY_LOOK_AT(other) -> phase = LOOKS
            :: else -> other = 0
            fi
        fi }

    /* Judging (R5) */
    :: atomic { phase == LOOKS && CAN_LOOK(s) ->
        choose_look(s);
        phase = WAITS;
        if
        :: SESSION(v, other) == DEAD ->
            printf("session %d: a look shows that session %d is marked dead\n", s, other);
            phase = TAKES_OUT
        :: SESSION(v, other) != DEAD && (!watched[s] || seen[s] != SESSION(v, other)) ->
            printf("session %d: begins to watch session %d at beat %d (0: missing)\n", s, other,
                   SESSION(v, other));
            watched[s] = other + 1; /* the watch begins, or begins anew */
            seen[s] = SESSION(v, other);
            watch_left[s] = (IS_CLOCKED(other) && !TAKES_FOR_DEAD(seen[s]) -> WATCH : 0);
        :: watched[s] && seen[s] == SESSION(v, other) && MAY_JUDGE(s, other) ->
            printf("session %d: has watched session %d for its ttl\n", s, other);
            over[other] = (!IS_CLOCKED(other) && lease[other] == 0 && !is_lost[other] ->
                               WATCHED_BEAT(s) : over[other]);
            phase = (seen[s] == ABSENT && !MARKS_ABSENT -> TAKES_OUT : MARKS)
        :: watched[s] && seen[s] == SESSION(v, other) && !MAY_JUDGE(s, other) -> skip
        fi;
        other = (phase == WAITS -> 0 : other) }
    :: atomic { phase == MARKS && HAS_ROOM ->
        choose(node);
        open_write(node);
        if
        :: SESSION(v, other) == ABSENT && seen[s] == ABSENT -> /* it must be there to be marked */
            set_session(other, 1);
            close_write(node, x);
            x = 0;
            seen[s] = 1;
            printf("session %d: begins the missing session %d on %d\n", s, other, node)
        :: SESSION(v, other) == seen[s] && seen[s] != ABSENT || MARKS_ANY(SESSION(v, other)) ->
            set_session(other, DEAD);
            close_write(node, step_at[s]);
            printf("session %d: its mark on session %d lands on %d\n", s, other, node);
            phase = MARKED
        :: else -> forget(s); other = 0; phase = WAITS /* it lives after all */
        fi;
#ifdef TICKETS_BEFORE_MARK
        phase = (phase == MARKED -> TAKES_OUT : phase);
        step_at[s] = 0;
#endif
        node = 0 }
    :: atomic { phase == MARKED && IS_ACKNOWLEDGED(step_at[s]) ->
        acknowledge(s, step_at[s]);
        printf("session %d: its mark is acknowledged\n", s);
        phase = TAKES_OUT }
    :: atomic { phase == MARKED && HAS_NO_ANSWER(step_at[s]) ->
        give_up_answer(step_at[s]);
        other = 0;
        phase = WAITS }
    :: atomic { phase == TAKES_OUT && HAS_ROOM ->
        forget(s);
        open_write(PRIMARY);
        take_out_all(other);
        close_on_primary(x);
        x = 0;
        printf("session %d: takes out the tickets of session %d\n", s, other);
        other = 0;
        phase = WAITS } /* looks, before it believes anything */

    /* Holding (R4) */
    :: atomic { phase == BELIEVES && MAY_BELIEVE(s) ->
        believe(s, ticket, token);
        token = 0;
        phase = HOLDS;
        if
        :: is_lost[s] -> be_gone(s)
        :: else
        fi }
    :: atomic { phase == HOLDS && LEAVES_IT && held[s] ->
#ifndef LEAVES_BEFORE_BELIEF_ENDS
        held[s] = 0;
#endif
        printf("session %d: is done with ticket %d\n", s, ticket);
        gone = ticket;
        ticket = 0;
        phase = LEAVES }

    /* Leaving (R8): it does not rest until it is known that the ticket is gone. */
    :: atomic { phase == LEAVES && HAS_ROOM ->
        choose(node);
        open_write(node);
        take_out(gone);
        was_there = v != was;
        close_write(node, step_at[s]);
        printf("session %d: leave of ticket %d lands on %d\n", s, gone, node);
        node = 0;
        phase = LEFT }
    :: atomic { phase == LEFT && IS_ACKNOWLEDGED(step_at[s]) ->
#ifdef NOTHING_IS_ENOUGH
        was_there = true;
#endif
        if
        :: was_there -> forget_ticket(gone, step_at[s] % ANSWERED); stop_leaving(s)
        :: else -> phase = CONFIRMS
        fi;
        acknowledge(s, step_at[s]) }
    :: atomic { phase == LEFT && HAS_NO_ANSWER(step_at[s]) ->
        give_up_answer(step_at[s]);
        was_there = false;
        phase = LEAVES }
    :: atomic { phase == CONFIRMS && commit == last -> /* a linearizable read */
        if
        :: IN(version[last], gone) -> phase = LEAVES
        :: else -> forget_ticket(gone, last); stop_leaving(s)
        fi }

    /* Living on: it enters once more, ends, or looks after its suspects. */
    :: atomic { phase == IDLES && s == 0 && turn < TICKETS - 1 ->
        turn++;
        ticket = TICKET(s, turn);
        waits[s] = true;
        phase = ENTERS }
    :: atomic { phase == IDLES && MAY_BE_LOST(s) -> be_gone(s); phase = ENDS }
    :: atomic { phase == ENDS && HAS_ROOM ->
        choose(node);
        open_write(node);
        set_session(s, DEAD);
        printf("session %d: ends, its own mark lands on %d\n", s, node);
        close_write(node, x);
        x = 0;
        node = 0;
        phase = GONE }
    :: atomic { phase == IDLES && CAN_LOOK(s) ->
        choose_look(s);
        find_unknown(s);
        phase = (gone -> LEAVES : IDLES) }
    :: atomic { phase == GONE -> break }
    od
}

/* ---- What happens by itself ------------------------------------------------------------------ */

#define SHIFT(at) at = ((at) % ANSWERED && (at) < NEVER -> (at) - 1 : (at))
/* Everything before the commit point that is known to all does not matter any more. */
inline shift() {
    i = 0;
    do
    :: i < last -> version[i] = version[i + 1]; i++
    :: else -> break
    od;
    version[last] = 0;
    last--;
    commit--;
    kept--;
    i = 0;
    do
    :: i < SESSIONS ->
        SHIFT(step_at[i]);
        SHIFT(beat_at[i]);
        after[i] = (after[i] -> after[i] - 1 : 0);
        i++
    :: else -> break
    od;
    i = 0;
    deposed_at = (deposed_at -> deposed_at - 1 : 0)
}

#define WILL_BE_ANSWERED(at) ((at) == 0 || (at) >= ANSWERED)
#define FATE(at) at = \
    (WILL_BE_ANSWERED(at) -> (at) : ((at) <= commit -> ANSWERED + (at) : NEVER))

inline bury() {
    printf("the deposed primary ends\n");
    deposed_lives = false;
    deposed_commit = 0;
#ifdef LOCAL_LOOKS
    deposed_last = 0;
#endif
    deposed_is_ahead = false;
    deposed_at = 0;
    i = 0;
    do
    :: i < SESSIONS -> is_past_deposed[i] = false; i++
    :: else -> break
    od;
    i = 0
}

/* The next primary has all that was acknowledged, knows less of that, and lacks a suffix. */
inline fail_over() {
    bury();
    printf("failover: the primary is deposed, with %d versions not committed\n", last - commit);
    deposed_lives = true;
    deposed_commit = version[commit];
#ifdef LOCAL_LOOKS
    deposed_last = version[last];
#endif
    deposed_is_ahead = last > commit;
    deposed_at = commit + 1;
    do
    :: last > kept -> version[last] = 0; last--
    :: break
    od;
    printf("failover: %d of them survive\n", last - commit);
    i = 0;
    do
    :: i < SESSIONS ->
        FATE(step_at[i]);
        FATE(beat_at[i]);
        is_past_deposed[i] = after[i] > commit;
        i++
    :: else -> break
    od;
    i = 0;
    commit = 0;
    failovers--
}

#define LESS(t) t = ((t) > x -> (t) - x : 0)
#define RUNS_OUT(s) (lease_left[s] && lease_left[s] <= x)

/* A tick of the world, as the clock of session s counts it. A clock that is off the other way makes
 * a shorter lease, or a longer watch; beats that stop, or late looks, have shown that. */
inline tick(s) {
    if
    :: !lease_left[s] && !next_left[s] && !watch_left[s] -> steady[s] = 0 /* counts nothing */
    :: else ->
        if
        :: x = 1
        :: !steady[s] && (lease_left[s] || next_left[s]) -> x = 0
        :: !steady[s] && watch_left[s] -> x = 2
        fi;
        steady[s] = (x != 1 -> UNTIL_OFF_AGAIN : steady[s]);
        steady[s] = (steady[s] -> steady[s] - 1 : 0);
        if
        :: RUNS_OUT(s) -> printf("session %d: its lease ends\n", s); lose(s); next_left[s] = 0
        :: else
        fi;
        LESS(lease_left[s]);
        LESS(next_left[s]);
        LESS(watch_left[s]);
        x = 0
    fi
}

/* A late enter reaches one of the two, or nobody. */
inline land() {
    if
    :: HAS_ROOM -> node = PRIMARY
    :: deposed_lives -> node = DEPOSED
    :: node = 2
    fi;
    if
    :: node == 2
    :: else ->
        printf("the late enter of ticket %d lands on %d\n", late, node);
        open_write(node);
        append(late);
        close_write(node, x);
        x = 0
    fi;
    late = 0;
    node = 0
}

bool is_swept;

proctype Weather()
{
    byte node;

end:
    do
    :: atomic { commit < last -> commit++;
        kept = (commit > kept -> commit : kept);
        notify(commit);
        printf("the commit point advances\n");
        if
        :: !failovers -> shift()
        :: else
        fi }
    :: atomic { commit > 0 && failovers -> shift() }
    :: atomic { failovers -> fail_over() }
#ifndef TIMELESS
    :: atomic { true -> /* a tick */
        i = 0;
        do
        :: i < SESSIONS -> tick(i); i++
        :: else -> break
        od;
        i = 0 }
#endif
    :: atomic { deposed_lives -> bury() }
    :: atomic { late -> land() }
#ifdef NO_FLOOR
    :: atomic { HEAD(version[last]) == 0 && TOKEN(version[last]) && HAS_ROOM ->
        printf("the record is pruned, and its token forgotten\n");
        last++;
        version[last] = version[last - 1] - TOKEN(version[last - 1]) * ONE_TOKEN }
#endif
#ifdef SWEEP
    :: atomic { !is_swept && HAS_ROOM -> /* the TTL index on dead_at, or never */
        is_swept = true;
        v = version[last];
        was = v;
        if
        :: SESSION(v, 0) == DEAD -> set_session(0, ABSENT)
        :: SESSION(v, 1) == DEAD -> set_session(1, ABSENT)
        :: true
        fi;
        close_on_primary(x);
        x = 0 }
#endif
    od
}

init {
    atomic {
        i = 0;
        do
        :: i < SESSIONS -> run Session(i); i++
        :: else -> break
        od;
        i = 0;
        v = 0;
        set_session(1, 1);
        lease[1] = 1;
#if SESSIONS > 2
        set_session(2, 1);
        lease[2] = 1;
#endif
        version[0] = v;
        run Weather()
    }
}

/* A waiter that stays gets the lock, or its session is lost. */
ltl progress { []<> !waits[SESSIONS - 1] }
