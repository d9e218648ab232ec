/* SPDX-License-Identifier: Apache-2.0 */
/* search.c: searches orders depth first, with sleep sets (Godefroid): when all orders have been
 * searched in which A comes next, then in those where B comes next, A sleeps until a turn touches
 * what A's turn touched. Whoever would only repeat an order is asleep. */
#include "orders/search.h"

#define DEPTH_MOST 4096
#define ALL (~0U)

/* Before a turn. */
typedef struct fork {
    unsigned ready, asleep, done; /* masks; done: all orders in which it comes next */
    int chosen;
    footprint touched[PARTIES_MOST]; /* of those asleep, done or chosen */
} fork;

static fork path[DEPTH_MOST];
static int depth, known; /* how far this order is; how far it is given */
static bool is_random, is_repeat;
static bool has_stretches; /* every other random order has long ones of one party */
static uint64_t chance;
static double weight;

static unsigned bit(int party)
{
    return 1U << party;
}

static int first_of(unsigned parties)
{
    return __builtin_ctz(parties);
}

static bool are_exchangeable(const footprint *a, const footprint *b)
{
    return !(a->writes & (b->reads | b->adds | b->writes)) && !(a->adds & (b->reads | b->writes)) &&
           !(a->reads & (b->adds | b->writes));
}

/* Who sleeps after a turn: those that slept, or were done, and that it has not woken. */
static void fall_asleep(fork *at, const fork *before)
{
    const footprint *turn = &before->touched[before->chosen];
    unsigned sleepers = (before->asleep | before->done) & ~bit(before->chosen);
    for (int i = 0; i < PARTIES_MOST; i++)
        if (sleepers & bit(i) && are_exchangeable(&before->touched[i], turn)) {
            at->asleep |= bit(i);
            at->touched[i] = before->touched[i];
        }
}

/* ---- Random orders ---- */

static unsigned draw(unsigned below)
{
    chance = chance * 6364136223846793005U + 1442695040888963407U;
    return (unsigned)(chance >> 33) % below;
}

static int nth_of(unsigned parties, unsigned nth)
{
    while (nth--)
        parties &= parties - 1;
    return first_of(parties);
}

static int last_chosen(void)
{
    return depth ? path[depth - 1].chosen : -1;
}

static int choose_at_random(unsigned ready)
{
    unsigned n = (unsigned)__builtin_popcount(ready);
    int last = last_chosen();
    bool can_go_on = has_stretches && last >= 0 && ready & bit(last) && n > 1;
    if (!can_go_on) {
        weight *= n;
        return nth_of(ready, draw(n));
    }
    bool goes_on = draw(8) > 0;
    weight *= goes_on ? 8.0 / 7 : 8.0 * (n - 1);
    return goes_on ? last : nth_of(ready & ~bit(last), draw(n - 1));
}

/* ---- One order ---- */

static int choose(fork *at)
{
    unsigned awake = at->ready & ~at->asleep;
    if (is_random)
        return choose_at_random(at->ready);
    if (!awake)
        is_repeat = true;
    return first_of(awake ? awake : at->ready);
}

int search_choose(unsigned ready)
{
    if (depth == DEPTH_MOST)
        return -1;
    fork *at = &path[depth];
    if (depth >= known) {
        *at = (fork){.ready = ready};
        if (depth && !is_random)
            fall_asleep(at, at - 1);
        at->chosen = choose(at);
        if (is_repeat)
            at->asleep = ALL; /* nothing is left to be chosen here */
    }
    depth++;
    return at->chosen;
}

void search_touched(const footprint *touched)
{
    path[depth - 1].touched[last_chosen()] = *touched;
}

bool search_is_repeat(void)
{
    return is_repeat;
}

double search_weight(void)
{
    return weight;
}

int search_turn(int nth)
{
    return nth < depth ? path[nth].chosen : -1;
}

/* ---- All orders ---- */

static void start_anew(int given)
{
    known = given;
    depth = 0;
    is_repeat = false;
    has_stretches = !has_stretches;
    weight = 1;
}

void search_begin(bool random)
{
    is_random = random;
    chance = 16;
    start_anew(0);
}

void search_follow(const int *turns, int n)
{
    for (int i = 0; i < n && i < DEPTH_MOST; i++)
        path[i] = (fork){.chosen = turns[i]};
    start_anew(n);
}

bool search_next(void)
{
    int given = is_random ? 0 : depth;
    for (; given; given--) {
        fork *at = &path[given - 1];
        at->done |= bit(at->chosen);
        unsigned left = at->ready & ~(at->asleep | at->done);
        if (!left)
            continue;
        at->chosen = first_of(left);
        break;
    }
    start_anew(given);
    return is_random || given;
}
