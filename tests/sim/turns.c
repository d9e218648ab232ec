/* SPDX-License-Identifier: Apache-2.0 */
/* turns.c: the history of the locks: what workers saw of the ends of their turns, against what the
 * store has in the end. */
#include "sim/world.h"

#include "store/memory/memory_internal.h"

#include <string.h>

#define TURNS 8192

/* A turn as its worker saw it end. */
typedef struct seen {
    const node *node;
    int name;
    int64_t token;
    bool is_lost; /* else it was released, and that was acknowledged */
} seen;

static seen turns[TURNS];
static size_t n_turns;

void turns_begin(void)
{
    n_turns = 0;
}

void turns_ended(const node *n, int name, int64_t token, bool is_lost)
{
    if (n_turns < TURNS)
        turns[n_turns++] = (seen){n, name, token, is_lost};
}

/* What the store has. */
typedef struct told {
    const seen *of;
    bool is_there, is_released; /* a turn with that token */
    int64_t more;               /* turns of that lock that are only counted */
} told;

static bool compare(void *ctx, const hf_turn_note *note)
{
    told *t = ctx;
    t->more += note->more;
    t->is_there |= note->token == t->of->token;
    t->is_released |= note->token == t->of->token && note->end == HF_TURN_RELEASED;
    return true;
}

static told look_for(const seen *turn)
{
    told t = {.of = turn};
    const hf_history_part part = {
        .name = sim_name(turn->name), .prefix = "", .limit = MEMORY_TURNS};
    sim.server->ops->history(sim.server, &part, compare, &t, NULL);
    return t;
}

/* Whether the store has dropped old turns. */
static bool has_dropped(void)
{
    struct memory *memory = memory_lock(sim.server);
    bool has = memory->n_turns > MEMORY_TURNS;
    memory_unlock(memory);
    return has;
}

void turns_check(void)
{
    int64_t missing[NAMES] = {0};
    bool is_whole = !has_dropped();
    for (const seen *turn = turns; turn < turns + n_turns; turn++) {
        const told t = look_for(turn);
        if (turn->is_lost && t.is_released)
            sim_violation("a lost turn of %s, token %lld, is told as released",
                          sim_name(turn->name), (long long)turn->token);
        /* if a release got no answer, others may have taken the ticket out, and note that */
        if (turn->is_lost || t.is_there || turn->node->is_dead || !is_whole)
            continue;
        if (++missing[turn->name] > t.more)
            sim_violation(
                "the turn of %s with token %lld, which was released, is not in the history",
                sim_name(turn->name), (long long)turn->token);
    }
}
