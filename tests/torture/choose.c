/* SPDX-License-Identifier: Apache-2.0 */
/* choose.c: what a turn of the campaign is like, from a seed. */
#include "history.h"
#include "turn.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define FEED_MS 300
#define PERIOD_MS ((int64_t)10 * 365 * 86400 * 1000)

/* splitmix64 */
static uint64_t next(thread *t)
{
    uint64_t z = t->chance += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

int64_t chance_below(thread *t, int64_t n)
{
    return (int64_t)(next(t) % (uint64_t)n);
}

bool chance_is_one_in(thread *t, int64_t n)
{
    return chance_below(t, n) == 0;
}

/* Mostly short, sometimes longer than a lease. */
static int64_t choose_hold_ms(thread *t)
{
    int64_t ttl_ms = given.client.ttl_ms;
    int64_t kind = chance_below(t, 100);
    if (kind < 80)
        return chance_below(t, 20);
    if (kind < 93)
        return chance_below(t, 150);
    return kind < 97 ? chance_below(t, ttl_ms) : ttl_ms + chance_below(t, ttl_ms);
}

static int64_t choose_wait_ms(thread *t)
{
    int64_t kind = chance_below(t, 4);
    if (kind == 0)
        return HF_TRY;
    return kind == 1 ? HF_WAIT_FOREVER : 50 + chance_below(t, 4000);
}

/* A new name from time to time, and a period that does not end: so each is to be done once. */
static void choose_work(thread *t, turn *it)
{
    int64_t number = now_ns() / NS_PER_MS / given.work_ms;
    snprintf(it->work, sizeof it->work, "once-%" PRId64, number);
    it->name = NULL;
    it->options.mode = HF_EXCLUSIVE;
    it->options.permits = it->options.limit = 0;
    it->options.period_ms = PERIOD_MS;
    it->counts = false;
    it->hold_ms = chance_is_one_in(t, 4) ? chance_below(t, given.client.ttl_ms) : it->hold_ms;
}

/* Some do not feed. */
static void choose_feeding(thread *t, turn *it)
{
    it->options.feed_ms = FEED_MS;
    it->feeds = !chance_is_one_in(t, 4);
    if (!it->feeds && chance_is_one_in(t, 2))
        it->hold_ms = 2 * FEED_MS;
}

static void choose_campaign(turn *it)
{
    it->name = LEADER;
    it->options.mode = HF_EXCLUSIVE;
    it->options.permits = it->options.limit = 0;
    it->is_campaign = true;
    it->counts = it->has_fd = false;
}

turn turn_choose(thread *t)
{
    turn it = {.name = given.names[chance_below(t, (int64_t)given.n_names)],
               .hold_ms = choose_hold_ms(t),
               .closes = chance_is_one_in(t, 4),
               .has_fd = chance_is_one_in(t, 2)};
    bool is_semaphore = !strncmp(it.name, "sem", 3);
    it.options = (hf_lock_options){.struct_size = sizeof it.options,
                                   .actor = t->actor,
                                   .mode = chance_is_one_in(t, 3) ? HF_SHARED : HF_EXCLUSIVE,
                                   .permits = is_semaphore ? 1 + (int32_t)chance_below(t, 2) : 0,
                                   .limit = is_semaphore ? SEM_LIMIT : 0,
                                   .wait_ms = choose_wait_ms(t)};
    it.counts = !is_semaphore && it.options.mode == HF_EXCLUSIVE && !chance_is_one_in(t, 3);
    if (given.work_ms && chance_is_one_in(t, 6))
        choose_work(t, &it);
    else if (given.work_ms && chance_is_one_in(t, 6))
        choose_feeding(t, &it);
    else if (given.work_ms && chance_is_one_in(t, 12))
        choose_campaign(&it);
    if (given.is_writer) {
        it.options.mode = HF_EXCLUSIVE;
        it.options.wait_ms = HF_WAIT_FOREVER;
        it.counts = true;
        it.closes = false;
    }
    if (given.hold_ms)
        it.hold_ms = given.hold_ms;
    return it;
}

const char *turn_name(const turn *it)
{
    return it->name ? it->name : it->work;
}

size_t turn_choose_all(thread *t, turn all[NAMES_MAX], const char *names[NAMES_MAX])
{
    turn first = turn_choose(t);
    size_t n = 0, begin = (size_t)chance_below(t, (int64_t)given.n_names);
    first.options = (hf_lock_options){.struct_size = sizeof first.options,
                                      .actor = t->actor,
                                      .mode = first.options.mode,
                                      .wait_ms = first.options.wait_ms};
    first.feeds = first.is_campaign = false;
    first.has_fd = true;
    first.group = t->turn + 1;
    for (size_t i = 0; i < given.n_names; i++) {
        first.name = given.names[(begin + i) % given.n_names];
        if (!strncmp(first.name, "sem", 3))
            continue;
        first.number = ++t->turn;
        names[n] = first.name;
        all[n++] = first;
    }
    return n;
}
