/* SPDX-License-Identifier: Apache-2.0 */
/* bells.pml: how a waiter hears of its grant. A lock's record on a replicated log, two ringers whose
 * steps grant, a bell, and a waiter with two tickets, one after the other. A failover may roll back
 * what no majority has, of the record and of the bell. test_model.py runs it; README.md explains it.
 * Names in capitals that are asked for and not defined here are broken variants, CALM and REACH. */

#ifndef FAILOVERS
#define FAILOVERS 1
#endif
#ifndef LOST_CURSORS
#define LOST_CURSORS 0 /* without a failover */
#endif
#ifdef CALM /* no failover, no crash, no unknown outcome, no weak write, and no ring is lost */
#undef UNKNOWNS
#define UNKNOWNS 0
#undef FAILOVERS
#define FAILOVERS 0
#endif
#ifndef UNKNOWNS
#define UNKNOWNS 1 /* answers that a ringer loses without a failover */
#endif

/* ---- The record ---------------------------------------------------------------------------------
 * The queue: tickets of three bits, from bit 0 on; 0 is none. The first holds. */

#define PLACES 4
#define PLACE(v, i) (((v) >> (3 * (i))) & 7)
#define HEAD(v) PLACE(v, 0)
#define IN(v, t) (HEAD(v) == t || PLACE(v, 1) == t || PLACE(v, 2) == t || PLACE(v, 3) == t)

/* Tickets 1 and 2 are the waiter's. */
#define FIRST 3  /* holds from the beginning */
#define SECOND 4 /* enters at any time */
#define IS_WAITERS(t) ((t) == 1 || (t) == 2)

hidden short v; /* the version that an atomic step works on */
hidden byte i;

inline take_out(t) {
    i = 0;
    do
    :: i < PLACES && PLACE(v, i) != t -> i++
    :: else -> break
    od;
    if
    :: i < PLACES -> v = (v & ((1 << (3 * i)) - 1)) | ((v >> (3 * i + 3)) << (3 * i))
    :: else
    fi;
    i = 0
}

inline append(t) {
    if
    :: IN(v, t)
    :: else ->
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

/* ---- The replica set ----------------------------------------------------------------------------
 * version[0] is what a majority has: what looks show. No failover takes it away. The primary also
 * has the versions up to `last`. The deposed primary still acknowledges steps that change nothing,
 * if a majority has all that it has. */

#ifndef ROOM
#define ROOM 2
#endif
#define HAS_ROOM (last + 1 < ROOM)
short version[ROOM];
byte last;
byte failovers = FAILOVERS;
bool has_deposed; /* until a step has reached it */
bool deposed_is_ahead;
short deposed;

/* Where the last step of each client waits for its majority: 0, when it is acknowledged. */
#define WAITER 0
#define CLIENT(ticket) ((ticket) - 2) /* of the ringers */
#define NEVER 7
byte at[3];

/* The step has made v of version[last]. One that changes nothing waits for all before it. */
inline put(client) {
    if
    :: v != version[last] -> last++; version[last] = v; at[client] = last
#ifdef NOTHING_DOES_NOT_WAIT
    :: else -> at[client] = 0
#else
    :: else -> at[client] = last
#endif
    fi
}

inline commit() {
    i = 0;
    do
    :: i < last -> version[i] = version[i + 1]; i++
    :: else -> break
    od;
    version[last] = 0;
    last--;
    i = 0;
    do
    :: i < 3 ->
        if
        :: at[i] && at[i] != NEVER -> at[i]--
        :: else
        fi;
        i++
    :: else -> break
    od;
    i = 0
}

/* Versions behind `until` are rolled back. */
inline roll_back(until) {
    do
    :: last > until -> version[last] = 0; last--
    :: else -> break
    od;
    i = 0;
    do
    :: i < 3 ->
        if
        :: at[i] > until -> at[i] = NEVER
        :: else
        fi;
        i++
    :: else -> break
    od;
    i = 0
}

/* ---- The bell -----------------------------------------------------------------------------------
 * Only rings for the waiter's session. A set: the waiter cannot tell a ring from its repetition. */

#define LOOK 1
#define RING(ticket) (1 << (ticket))
bool is_made;
byte rung;    /* what is in the bell */
byte unheard; /* what the cursor is still to give */
bool is_open;
bool is_stale; /* rings may have been missed: then the opening says "look" */
byte lost_cursors = LOST_CURSORS;

inline ring(what) {
    if
    :: !is_made /* nobody rings a bell that is not there */
    :: is_made ->
        rung = rung | (what);
        if
        :: is_open -> unheard = unheard | (what)
        :: else
        fi
#ifndef CALM
    :: true -> printf("a ring is lost\n")
#endif
    fi
}

/* What a step rings that showed this record. */
inline tell(shown) {
    atomic {
        if
        :: IS_WAITERS(HEAD(shown)) ->
            printf("a ringer rings for ticket %d\n", HEAD(shown));
            ring(RING(HEAD(shown)))
        :: else
        fi
    }
}

#if defined(NO_LOOK) && !defined(LOST_CURSOR_SAYS_NOTHING)
#define LOST_CURSOR_SAYS true
#else
#define LOST_CURSOR_SAYS is_stale
#endif
#if defined(NO_LOOK) && !defined(MADE_BELL_SAYS_NOTHING)
#define MADE_BELL_SAYS true
#else
#define MADE_BELL_SAYS is_stale
#endif

inline lose_cursor() {
    is_open = false;
    unheard = 0;
    is_stale = LOST_CURSOR_SAYS
}

/* A ring is acknowledged by one server. */
inline may_lose(what) {
    if
    :: rung = rung & ~(what)
    :: true
    fi
}

/* ---- The ringers -------------------------------------------------------------------------------- */

bool is_gone[5]; /* the ticket's session: others take the ticket out */

#ifdef RINGS_BEFORE_MAJORITY
#define MAY_RING(client) true
#else
#define MAY_RING(client) (at[client] == 0)
#endif

inline leave_deposed(t) {
    v = deposed;
    take_out(t);
    if
#ifdef NOTHING_DOES_NOT_WAIT
    :: v == deposed -> at[CLIENT(t)] = 0
#else
    :: v == deposed && !deposed_is_ahead -> at[CLIENT(t)] = 0
#endif
    :: else -> at[CLIENT(t)] = NEVER
    fi;
    has_deposed = false;
    deposed_is_ahead = false;
    deposed = 0
}

proctype Ringer(byte me) {
    short shown;
    byte unknowns = UNKNOWNS;
    if
    :: me == FIRST -> goto end_holds
    :: else
    fi;

enter:
    atomic { HAS_ROOM -> v = version[last]; append(me); put(CLIENT(me)) }
    if
    :: at[CLIENT(me)] == 0
    :: at[CLIENT(me)] == NEVER -> goto enter
    fi;

end_holds:
    HEAD(version[0]) == me;

leave:
    if
    :: atomic { HAS_ROOM -> v = version[last]; take_out(me); put(CLIENT(me)); shown = v }
    :: atomic { has_deposed -> leave_deposed(me); shown = v }
    fi;
    if
    :: MAY_RING(CLIENT(me)) -> tell(shown)
    :: at[CLIENT(me)] == NEVER -> goto unknown
#ifndef CALM
    :: unknowns -> unknowns--; goto unknown
#endif
#ifdef CRASHES
    :: atomic { is_gone[me] = true; printf("ringer %d crashes before it rings\n", me) }
#endif
#ifdef WEAK
    :: goto is_weak
#endif
    fi;
    if
    :: IN(version[0], me) && !is_gone[me] -> goto leave /* R8: nothing was there, at the deposed one */
    :: else -> goto end
    fi;

unknown:
#ifdef RINGS_AFTER_UNKNOWN
    tell(shown);
#endif
    goto leave;

is_weak: /* nobody repeats it if it is rolled back */
#ifdef WEAK_RING_HAS_TOKEN
    tell(shown);
    is_gone[me] = true;
#else
    atomic {
        is_gone[me] = true;
        if
        :: IS_WAITERS(HEAD(shown)) -> ring(LOOK)
        :: else
        fi
    }
#endif
end:
    atomic { shown = 0; unknowns = 0; at[CLIENT(me)] = 0 }
}

/* Other clients take out the tickets of sessions that are gone, and ring nobody. */
#define IS_LEFT_OVER(t) (is_gone[t] && IN(version[last], t) && HAS_ROOM)
inline clear(t) {
    v = version[last];
    take_out(t);
    last++;
    version[last] = v
}

/* ---- The waiter --------------------------------------------------------------------------------- */

byte awaited; /* the ticket that it waits with */
bool granted; /* a ring with its token has been heard */
#ifdef NO_LOOK
bool told; /* to look */
#define MAY_LOOK told
#define say_look() told = true
#define forget_look() told = false
#else /* L2: it looks by itself from time to time, at any time */
#define MAY_LOOK true
#define say_look() skip
#define forget_look() skip
#endif
bool is_done; /* it has believed in its second ticket */

#ifdef REACH
bool old_rang; /* a ring of the first ticket was heard while it waited with the second */
bool has_failed_over;
#endif

/* believed_is_held: a majority has the grant, and nobody has taken the ticket out. */
inline believe() {
    printf("the waiter believes in ticket %d\n", ticket);
    assert(HEAD(version[0]) == ticket);
    atomic { awaited = 0; granted = false; forget_look(); is_head = false }
}

proctype Waiter() {
    byte ticket = 1;
    bool is_head;

enter:
    atomic {
        HAS_ROOM ->
            awaited = ticket;
            v = version[last];
            append(ticket);
            is_head = (HEAD(v) == ticket);
            put(WAITER)
    }
    if
    :: at[WAITER] == NEVER -> goto enter
    :: atomic { at[WAITER] == 0 && is_head -> believe() } goto had
    :: at[WAITER] == 0 && !is_head
    fi;

wait:
    if
    :: atomic {
            granted ->
#ifdef REACH
                assert(!(has_failed_over && old_rang)); /* is_rung */
#endif
                believe()
        }
        goto had
    :: atomic {
            MAY_LOOK && !granted ->
                forget_look();
                if
                :: HEAD(version[0]) == ticket -> believe(); goto had
                :: !IN(version[0], ticket) -> goto enter /* L3 */
                :: else
                fi
        }
        goto wait
    :: ticket == 1 -> goto leave /* its time is over */
    fi;

had:
    if
    :: ticket == 2 -> goto done
    :: else
    fi;

leave: /* by itself; or its session is lost, and others take the ticket out */
    atomic { awaited = 0; granted = false; forget_look() }
again:
    atomic { HAS_ROOM -> v = version[last]; take_out(1); put(WAITER) }
    if
    :: at[WAITER] == NEVER -> goto again
    :: atomic { at[WAITER] == 0 -> ticket = 2 } goto enter
    fi;

done:
    is_done = true
}

inline hear(t) {
    unheard = unheard & ~RING(t);
#ifdef REACH
    old_rang = old_rang || (awaited == 2 && t == 1);
#endif
    if
#ifdef RING_WITHOUT_TICKET
    :: awaited != 0 -> granted = true
#else
    :: awaited == t -> granted = true
#endif
    :: else
    fi
}

/* Reads the bell from its oldest ring on, so after a lost cursor all of it again. */
inline open_cursor() {
    if
    :: !is_made ->
        is_made = true;
        is_stale = MADE_BELL_SAYS
    :: else
    fi;
    is_open = true;
    unheard = rung;
    if
    :: is_stale -> say_look(); is_stale = false
    :: else
    fi
}

proctype Listener() {
end:
    do
    :: atomic { !is_open && awaited -> open_cursor() }
    :: atomic { unheard & LOOK -> unheard = unheard & ~LOOK; say_look() }
    :: atomic { unheard & RING(1) -> hear(1) }
    :: atomic { unheard & RING(2) -> hear(2) }
    od
}

/* ---- What else happens -------------------------------------------------------------------------- */

inline fail_over() {
    printf("a failover\n");
    failovers--;
    has_deposed = true;
#ifdef REACH
    has_failed_over = true;
#endif
    deposed = version[last];
    deposed_is_ahead = (last > 0);
    if
    :: roll_back(0)
    :: last > 1 -> roll_back(1)
    :: true
    fi;
    may_lose(LOOK);
    may_lose(RING(1));
    may_lose(RING(2));
    lose_cursor()
}

inline overrun() {
    printf("the cursor is lost\n");
    lost_cursors--;
    if
    :: rung = 0 /* a bell is small */
    :: true
    fi;
    lose_cursor()
}

init {
    atomic {
        version[0] = FIRST;
        run Waiter();
        run Listener();
        run Ringer(FIRST);
        run Ringer(SECOND)
    }
end:
    do
    :: atomic { last > 0 -> commit() }
    :: atomic { IS_LEFT_OVER(FIRST) -> clear(FIRST) }
    :: atomic { IS_LEFT_OVER(SECOND) -> clear(SECOND) }
    :: atomic { failovers -> fail_over() }
    :: atomic { failovers -> failovers-- } /* there is none */
    :: atomic { lost_cursors && is_open -> overrun() }
    :: atomic { lost_cursors -> lost_cursors-- }
    od
}

/* The waiter's second ticket, with which it stays, gets the lock. */
ltl progress { <> is_done }
