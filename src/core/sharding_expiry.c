/* SPDX-License-Identifier: Apache-2.0 */
/* sharding_expiry.c: decides whether the owner of a lock has stopped pinging, from two looks by
 * one manager that lie at least the expiry apart: on the server's clock, or, if another primary was
 * elected between them, on the manager's own; asked by sharding.c. */
#include "core/alloc.h"
#include "core/id.h"
#include "core/lease.h"
#include "core/sharding.h"

#include <stdio.h>

static sharding_memory *find(const sharding_history *history, const char *name)
{
    for (size_t i = 0; i < history->n; i++)
        if (strcmp(history->memories[i].name, name) == 0)
            return &history->memories[i];
    return NULL;
}

/* The server's time as it is, without subtracting half of the round trip. It was read after the
 * ping, so no span that starts here starts before the ping was read. */
static void remember_server(sharding_memory *memory, const sharding_server *server)
{
    memory->election = server->election;
    memory->server_time = server->local_time;
    memory->read_at = server->arrived;
}

static void remember(sharding_memory *memory, const sharding_look *look)
{
    snprintf(memory->process, sizeof memory->process, "%s", look->lock->process);
    memory->ts = look->lock->ts;
    memory->when_ms = look->lock->when_ms;
    memory->ping_ms = look->ping_ms;
    remember_server(memory, look->server);
    memory->seen_at = look->server->arrived;
    memory->has_moved = false;
}

/* The clocks of two primaries cannot be compared. */
static void move(sharding_memory *memory, const sharding_server *server)
{
    remember_server(memory, server);
    memory->has_moved = true;
}

static sharding_memory *oldest(const sharding_history *history)
{
    sharding_memory *found = history->memories;
    for (size_t i = 1; i < history->n; i++)
        if (history->memories[i].server_time.ms < found->server_time.ms)
            found = &history->memories[i];
    return found;
}

static sharding_memory *make_room(sharding_history *history)
{
    if (history->n == SHARDING_MEMORIES)
        return oldest(history);
    history->memories = alloc_array(history->memories, history->n + 1, sizeof *history->memories);
    return &history->memories[history->n++];
}

static void add(sharding_history *history, const sharding_look *look)
{
    sharding_memory *memory = make_room(history);
    snprintf(memory->name, sizeof memory->name, "%s", look->name);
    remember(memory, look);
}

static bool is_unchanged(const sharding_memory *memory, const sharding_look *look)
{
    return memory->ping_ms == look->ping_ms && id_equal(memory->ts, look->lock->ts) &&
           memory->when_ms == look->lock->when_ms &&
           strcmp(memory->process, look->lock->process) == 0;
}

/* Rounded up: better to expire late than early. */
static int64_t half(int64_t ms)
{
    return ms / 2 + ms % 2;
}

/* Whether it was asked after the answer that is remembered had come. Several threads look, and the
 * answer to one may come late. */
static bool is_later(const sharding_memory *memory, const sharding_server *server)
{
    return mono_reached(memory->read_at, mono_add_ms(server->arrived, -server->round_trip_ms - 1));
}

static bool is_over_there(const sharding_memory *memory, const sharding_server *server,
                          int64_t expiry_ms, bool *went_back)
{
    int64_t passed_ms = server->local_time.ms - memory->server_time.ms;
    *went_back = passed_ms < 0 && is_later(memory, server);
    return passed_ms >= 0 && passed_ms - half(server->round_trip_ms) >= expiry_ms;
}

static bool is_over_here(const sharding_memory *memory, const sharding_server *server,
                         int64_t expiry_ms)
{
    return memory->has_moved &&
           mono_reached(lease_watch_end(memory->seen_at, expiry_ms), server->arrived);
}

/* A look at a lock that has been looked at before. */
static sharding_verdict judge_again(sharding_memory *memory, const sharding_look *look,
                                    int64_t expiry_ms, bool *went_back)
{
    if (!is_unchanged(memory, look)) {
        remember(memory, look);
        return SHARDING_NOT_EXPIRED;
    }
    if (!id_equal(memory->election, look->server->election))
        move(memory, look->server);
    bool is_over = is_over_there(memory, look->server, expiry_ms, went_back) ||
                   is_over_here(memory, look->server, expiry_ms);
    return is_over ? SHARDING_EXPIRED : SHARDING_NOT_EXPIRED;
}

sharding_verdict sharding_judge(sharding_history *history, const sharding_look *look,
                                int64_t expiry_ms, bool *went_back)
{
    *went_back = false;
    if (!look->server->is_primary)
        return SHARDING_NOT_EXPIRED;
    if (!look->server->has_election)
        return SHARDING_NO_ELECTION;
    sharding_memory *memory = find(history, look->name);
    if (memory)
        return judge_again(memory, look, expiry_ms, went_back);
    add(history, look);
    return SHARDING_NOT_EXPIRED;
}

void sharding_forget(sharding_history *history, const char *name)
{
    sharding_memory *memory = find(history, name);
    if (memory)
        *memory = history->memories[--history->n];
}

void sharding_history_done(sharding_history *history)
{
    free(history->memories);
    *history = (sharding_history){0};
}
