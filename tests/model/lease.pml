/* SPDX-License-Identifier: Apache-2.0 */
/* lease.pml: one lease of an exclusive lock, and one key. Two callers make it, repeat and renew it,
 * the first also releases it; a breaker asks for it; a rival waits, judges and takes the lock. All
 * requests are atomic at the server; answers come late, or never (LOSSES); a pass that got no answer
 * may land when its caller has given up. test_model.py runs it; README.md says which of them are in
 * a search (BREAKS, ONE_CALLER, HOLDS_ON, NO_RIVAL). */

#ifndef LOSSES
#define LOSSES 1
#endif
#ifndef RENEWALS
#define RENEWALS 0 /* of each caller */
#endif

#define LEASE 2 /* ticks that a renewal is believed for, from before it was sent */
#define WATCH 3 /* ticks that a watcher, or a breaker, waits */
#ifndef TICKS
#define TICKS 4
#endif

/* Whose ticket holds: nobody's, the callers' own, the lease's, the rival's. */
#define FREE 0
#define OWN(who) (1 + who)
#define LEASED 3
#define RIVAL 4

/* ---- At the server ---- */

mtype = { absent, live, dead };
mtype session = absent; /* the lease's */
byte beat;
bool broken_ask;   /* a breaker asks for the lease's ticket */
bool released_ask; /* its owner says that it is over */
byte holder = FREE;
bool last_is_lease; /* `last` is of the lease's session */

/* ---- Outside ---- */

byte now;
byte until;         /* the lease is believed before that; one key, one owner */
bool is_released;   /* the owner has begun to release it */
bool rival_believes;
byte made;          /* how often the lease's ticket came to stand */
bool late_pass[2];  /* without an answer, on its way */
byte lost;

#define believed (now < until && !is_released)

inline check() {
    assert(!(rival_believes && believed)); /* two_believe */
    assert(made <= 1)                      /* one_key_one_lease */
}

inline believe(sent) {
    if
    :: sent + LEASE > until -> until = sent + LEASE
    :: else
    fi;
    check()
}

#ifdef PASS_REVIVES
#define may_be_made true
#else
#define may_be_made !last_is_lease
#endif

/* Where the lease stands already no own ticket holds: the lock is exclusive. */
inline pass(c) {
    if
    :: (holder == OWN(c) && may_be_made) -> holder = LEASED; made++
    :: else
    fi;
    check()
}

inline leave_own(c) {
    atomic {
        if
        :: holder == OWN(c) -> holder = FREE
        :: else
        fi
    }
}

/* ---- A caller ---- */

/* Renews the lease: sets is_over, or sees whether its ticket stands. */
inline attend(sent, is_over, stands) {
    sent = now;
    atomic {
        is_over = (session != live);
        if
        :: session == live ->
            beat++;
#ifndef LEASE_IGNORES_ASK
            is_over = (broken_ask || released_ask)
#endif
        :: else
        fi
    }
    atomic {
        stands = (holder == LEASED);
#ifndef PASS_REVIVES
        if
        :: !stands && last_is_lease -> is_over = true
        :: else
        fi
#endif
    }
#ifdef LEASE_FROM_REPLY
    sent = now
#endif
}

proctype Caller(byte c) {
    byte sent;
    bool is_over, stands, has_begun;
    byte renewals;

find:
    if
    :: session == absent -> goto enter
    :: session != absent
    fi;
    attend(sent, is_over, stands);
    if
    :: is_over -> goto end
    :: !is_over && stands -> goto had
    :: else
    fi;

enter: /* waits in line; joins a lease that it sees */
    if
    :: atomic { holder == FREE -> holder = OWN(c) }
    :: holder == LEASED -> goto find
    :: goto end /* its time is over */
    fi;

make:
    sent = now;
    atomic {
        has_begun = (session == absent);
        if
        :: has_begun -> session = live; beat = 1
        :: else
        fi
    }
    if
    :: !has_begun ->
        attend(sent, is_over, stands);
        if
        :: is_over -> goto give_back
        :: else
        fi
    :: else
    fi;

send:
    if
    :: lost < LOSSES -> atomic { lost++; late_pass[c] = true } /* no answer, or none yet */
        if
        :: goto make
        :: goto give_back
        fi
    :: atomic { pass(c); stands = (holder == LEASED) }
    fi;
    if
    :: !stands -> goto give_back
    :: else
    fi;

had:
    atomic {
        if
        :: now < sent + LEASE -> believe(sent)
        :: else
        fi
    }
    do
    :: renewals < RENEWALS ->
        renewals++;
        attend(sent, is_over, stands);
        if
        :: !is_over && stands && now < sent + LEASE -> atomic { believe(sent) }
        :: else -> break
        fi
    :: break
    od;
#ifdef HOLDS_ON
    goto end;
#else
    if
    :: c == 0 && !is_released -> goto release
    :: goto end
    fi;
#endif

release:
    is_released = true;
#ifndef RELEASED_KEY_UNSAID
    atomic {
        if
        :: session == live -> released_ask = true
        :: else
        fi
    }
#endif
    atomic {
        if
        :: holder == LEASED -> holder = FREE; last_is_lease = true
        :: else
        fi
    }
    if
    :: atomic { session == live -> session = dead }
    :: true /* its end got lost */
    fi;
    goto end;

give_back:
    leave_own(c);
#ifdef FAILED_LEASE_TAKEN_OUT
    atomic {
        if
        :: holder == LEASED -> holder = FREE
        :: else
        fi
    }
#endif
end:
    skip
}

/* ---- The breaker ---- */

#ifdef BREAKS
proctype Breaker() {
    byte asked, target;
    do
    :: holder == LEASED || holder == OWN(0) || holder == OWN(1) ->
        target = holder;
        atomic {
            if
            :: target == LEASED && session == live -> broken_ask = true
            :: else
            fi
        }
        asked = now;
        if
        :: holder != target /* it has left, or become a lease */
        :: holder == target && target == LEASED && now >= asked + WATCH ->
            atomic {
                if
                :: holder == target -> holder = FREE; last_is_lease = true
                :: else
                fi
            }
        :: now >= TICKS -> break
        fi;
#ifdef BREAK_LOSES_PASSED
        atomic {
            if
            :: target != LEASED && holder == LEASED ->
                assert(!believed); /* a_break_is_no_break */
                break
            :: else
            fi
        }
#endif
        if
        :: target == LEASED && holder != LEASED ->
            assert(!believed || is_released || made == 0); /* broken_and_believed */
            break
        :: else
        fi
    :: now >= TICKS -> break
    od
}
#endif

/* ---- The rival ---- */

proctype Rival() {
    byte seen, since;
    do
    :: holder == LEASED && session == live ->
        atomic { seen = beat; since = now }
        if
        :: now >= since + WATCH ->
            atomic {
                if
#ifdef MARK_ANY_BEAT
                :: session == live -> session = dead
#else
                :: session == live && beat == seen -> session = dead
#endif
                :: else
                fi
            }
        :: holder != LEASED || session != live
        :: now >= TICKS -> break
        fi
    :: atomic { holder == LEASED && session == dead -> holder = FREE; last_is_lease = true }
    :: atomic { holder == FREE -> holder = RIVAL; rival_believes = true; check() }
        atomic { rival_believes = false; holder = FREE; last_is_lease = false }
        break
    :: now >= TICKS -> break
    od
}

proctype Weather() {
    do
    :: atomic { now < TICKS -> now++ }
    :: atomic { late_pass[0] -> late_pass[0] = false; pass(0) }
    :: atomic { late_pass[1] -> late_pass[1] = false; pass(1) }
    :: now >= TICKS -> break
    od
}

init {
    atomic {
        run Caller(0);
#ifndef ONE_CALLER
        run Caller(1);
#endif
#ifndef NO_RIVAL
        run Rival();
#endif
#ifdef BREAKS
        run Breaker();
#endif
        run Weather()
    }
}
