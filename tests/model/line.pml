/* SPDX-License-Identifier: Apache-2.0 */
/* line.pml: the line outside of one exclusive lock (src/core/README.md, "The line outside"): the queue
 * of a record with few places, numbers for those that find none, and waiters that die, give up, or do
 * not hear an answer. One server; each step is atomic there. Time is not in it: a look says what is so,
 * the step that follows finds what is so by then. test_model.py runs it; README.md explains it.
 * Names in capitals that are asked for and not defined here are broken variants and TRIES, PRUNES. */

#ifndef WAITERS
#define WAITERS 4 /* sessions that come, each once; number 0 stays until it has had the lock */
#endif
#ifndef PLACES
#define PLACES 1
#endif
#ifndef DEATHS
#define DEATHS 2 /* of holders, of those in the queue, and of those outside */
#endif
#ifndef TIMEOUTS
#define TIMEOUTS 1
#endif
#ifndef LOSSES
#define LOSSES 1 /* answers to an enter */
#endif

#define NOBODY WAITERS

/* ---- The record ---- */

byte holder = NOBODY;
byte queue[PLACES];  /* who waits */
byte number[PLACES]; /* and with which number; 0: is granted in the step that lets it in */
byte queued, given, reached;

/* ---- Those who wait ---- */

byte own[WAITERS];  /* its number, as far as it knows; 0: none */
bool outside[WAITERS];
bool is_dead[WAITERS];
bool has_had; /* number 0 */
byte believing;
byte deaths, timeouts, losses;

#define free (PLACES - queued)
#define lives_outside(w) (outside[w] && !is_dead[w] && own[w] > 0)
#define called(n) (free > 0 && n <= given && n <= reached + free)
#define stands_free (holder == NOBODY && queued == 0)

hidden byte i, j, passed, new, stands, may;
hidden byte overtaken, living_passed, stands_twice, out_of_order;

inline find(who) {
    stands = (holder == who);
    i = 0;
    do
    :: i < queued -> stands = (stands || queue[i] == who); i++
    :: else -> break
    od;
    i = 0
}

/* Grants to the head; the others move up. */
inline grant() {
    if
    :: holder == NOBODY && queued > 0 ->
        holder = queue[0];
        i = 1;
        do
        :: i < queued -> queue[i - 1] = queue[i]; number[i - 1] = number[i]; i++
        :: else -> break
        od;
        queued--;
        queue[queued] = 0;
        number[queued] = 0;
        i = 0
    :: else
    fi
}

/* Behind all that have a lower number. */
inline insert(who, n) {
    j = queued;
#ifndef BY_ARRIVAL
    do
    :: j > 0 && number[j - 1] > n -> queue[j] = queue[j - 1]; number[j] = number[j - 1]; j--
    :: else -> break
    od;
#endif
    queue[j] = who;
    number[j] = n;
    queued++;
    j = 0
}

/* Whoever lives outside with a lower number than what comes in now has been called. */
inline check_order(who, n) {
    i = 0;
    do
    :: i < WAITERS ->
        overtaken = (overtaken || (i != who && lives_outside(i) && own[i] < n && own[i] > reached + free));
        i++
    :: else -> break
    od;
    assert(!overtaken);
    i = 0
}

/* All that were called had the time to come in, says the one that skips; so nobody that lives is passed
 * over. Not so where the lock stands free and half of all are passed, and where another place came free
 * meanwhile: those lose nothing but time. */
inline check_passed(from) {
    i = 0;
    do
    :: i < WAITERS ->
        living_passed = (living_passed || (lives_outside(i) && own[i] > from && own[i] <= reached));
        i++
    :: else -> break
    od;
    assert(!living_passed);
    i = 0
}

#ifdef SKIPS_OFTEN
#define is_as_seen(seen) true
#else
#define is_as_seen(seen) seen == reached
#endif

inline skip_numbers(seen) {
    if
    :: is_as_seen(seen) && free > 0 && given > reached ->
        passed = free;
        if
        :: stands_free && passed < (given - reached + 1) / 2 -> passed = (given - reached + 1) / 2
        :: else
        fi;
        if
        :: passed > given - reached -> passed = given - reached
        :: else
        fi;
        i = reached;
        reached = reached + passed;
#if PLACES == 1
        if
        :: passed == 1 -> j = i; check_passed(j); j = 0
        :: else
        fi;
#endif
        i = 0;
        passed = 0
    :: else
    fi
}

#ifdef NEWCOMERS_ENTER
#define is_line_empty true
#else
#define is_line_empty (given == reached)
#endif

/* A step with an enter. n 0: without a number; it gets the next one if it must stay outside. */
inline enter(who, n, skips, seen) {
    find(who);
    if
#ifdef TICKETS_TWICE
    :: stands && false
#else
    :: stands
#endif
    :: else ->
        if
        :: skips -> skip_numbers(seen)
        :: else
        fi;
        may = free > 0 && ((n == 0 && is_line_empty) || (n > 0 && called(n)));
        new = n;
        if
        :: n == 0 && !(may && stands_free) -> given++; new = given
        :: else
        fi;
        if
        :: may ->
            check_order(who, new);
            if
            :: new > reached -> reached = new
            :: else
            fi;
            insert(who, new);
            grant();
            check()
        :: else
        fi
    fi
}

inline check() {
    assert(reached <= given && queued <= PLACES); /* I8 */
    out_of_order = (queued > 1 && number[0] > number[queued - 1]);
    assert(!out_of_order);
    stands_twice = (queued > 1 && queue[0] == queue[queued - 1]);
    i = 0;
    do
    :: i < queued -> stands_twice = (stands_twice || queue[i] == holder); i++
    :: else -> break
    od;
    assert(!stands_twice); /* I4 */
    stands_twice = 0;
    assert(holder != NOBODY || queued == 0); /* I5 */
    i = 0
}

inline take_out(who) {
    if
    :: holder == who -> holder = NOBODY
    :: else ->
        i = 0;
        do
        :: i < queued && queue[i] != who -> i++
        :: else -> break
        od;
        if
        :: i < queued ->
            queued--;
            do
            :: i < queued -> queue[i] = queue[i + 1]; number[i] = number[i + 1]; i++
            :: else -> break
            od;
            queue[queued] = 0;
            number[queued] = 0
        :: else
        fi;
        i = 0
    fi;
    grant();
    check()
}

/* ---- A waiter ---- */

#define is_in(who) (holder == who || (queued > 0 && queue[0] == who) || (queued > 1 && queue[PLACES - 1] == who))
#define dead_one(d) (d < WAITERS && is_dead[d])
#define dead_holds dead_one(holder)
#define dead_waits(at) (queued > at && is_dead[queue[at % PLACES]])
#define somebody_dead (dead_holds || dead_waits(0) || dead_waits(1))

/* Whoever waits watches those in the record, and takes out the dead. */
inline take_dead_out() {
    if
    :: dead_holds -> take_out(holder)
    :: !dead_holds && dead_waits(0) -> take_out(queue[0])
    :: !dead_holds && !dead_waits(0) && dead_waits(1) -> take_out(queue[1 % PLACES])
    :: else
    fi
}

#define is_called(w) (lives_outside(w) && called(own[w]))
#define nobody_is_called \
    (!is_called(0) && !is_called(1) && !is_called(2 % WAITERS) && !is_called(3 % WAITERS) && !is_called(4 % WAITERS))

proctype Waiter(byte who) {
    byte seen;
    bool skips;

asks: /* without a number */
    atomic {
        outside[who] = true;
        enter(who, own[who], skips, seen);
        skips = false;
        seen = 0;
        find(who);
        may = stands;
        stands = false;
        if
        :: losses < LOSSES -> losses++; printf("waiter %d: no answer\n", who);
            new = 0;
            may = false;
            goto asks
        :: true
        fi;
        if
        :: may -> outside[who] = false; new = 0; may = false; goto stands_in
        :: else
        fi;
        if
        :: own[who] == 0 -> own[who] = given; printf("waiter %d: number %d\n", who, given)
        :: else
        fi;
        new = 0;
        may = false
    }

waits_outside:
    if
    :: atomic { own[who] > given ->
#ifndef NUMBERS_STAY
        own[who] = 0
#endif
        }
        goto asks
    :: atomic { own[who] <= given && called(own[who]) -> skip }
        goto asks
#ifndef NO_SKIP
    :: atomic { own[who] <= given && free > 0 && own[who] > reached + free && nobody_is_called ->
        skips = true;
        seen = reached;
        printf("waiter %d: would skip beyond %d\n", who, seen) }
        goto asks
#endif
#ifndef NOBODY_OUTSIDE_WATCHES
    :: atomic { somebody_dead -> take_dead_out() }
        goto waits_outside
#endif
    :: atomic { who > 0 && deaths < DEATHS -> deaths++; is_dead[who] = true; own[who] = 0; outside[who] = false;
        printf("waiter %d: dies outside\n", who) }
        goto end
    :: atomic { who > 0 && timeouts < TIMEOUTS -> timeouts++; outside[who] = false; own[who] = 0 }
        goto end
    fi;

stands_in:
    if
    :: atomic { holder == who -> believing++;
        assert(believing == 1); /* one_believes */
        own[who] = 0 }
        goto holds
    :: atomic { holder != who && somebody_dead -> take_dead_out() }
        goto stands_in
    :: atomic { who > 0 && deaths < DEATHS -> deaths++; is_dead[who] = true; own[who] = 0;
        printf("waiter %d: dies in the queue\n", who) }
        goto end
    :: atomic { who > 0 && timeouts < TIMEOUTS && holder != who -> timeouts++; take_out(who); own[who] = 0 }
        goto end
    fi;

holds:
    if
    :: atomic { who == 0 -> has_had = true }
    :: who > 0
    fi;
    if
    :: atomic { true -> believing--; take_out(who) }
    :: atomic { who > 0 && deaths < DEATHS -> deaths++; believing--; is_dead[who] = true;
        printf("waiter %d: dies as holder\n", who) }
    fi;
end:
    skip
}

#ifdef TRIES
/* Somebody who only tries, again and again: it takes the lock if nobody holds it or queues for it. */
proctype Tries() {
end_of_tries:
    do
    :: atomic { stands_free -> holder = NOBODY + 1 }
        atomic { holder = NOBODY; grant(); check() }
    od
}
#endif

#ifdef PRUNES
/* The record goes when nobody stands in it, though some have numbers; the next step makes another. */
proctype Pruner() {
    if
    :: atomic { stands_free && given > 0 -> given = 0; reached = 0; printf("the record goes\n") }
    :: true
    fi
}
#endif

init {
    atomic {
        run Waiter(0);
        run Waiter(1);
#if WAITERS > 2
        run Waiter(2);
#endif
#if WAITERS > 3
        run Waiter(3);
#endif
#if WAITERS > 4
        run Waiter(4);
#endif
#ifdef TRIES
        run Tries();
#endif
#ifdef PRUNES
        run Pruner();
#endif
    }
}

/* The waiter that stays gets the lock. */
ltl progress { <> has_had }
