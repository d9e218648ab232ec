/* SPDX-License-Identifier: Apache-2.0 */
/* client_bed.h: what the tests of the client against a faulty store share. */
#ifndef TESTS_CLIENT_BED_H
#define TESTS_CLIENT_BED_H

#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "core/record.h"
#include "support/faulty.h"
#include "support/idle.h"
#include "support/inside.h"

#define SOON_MS 60000 /* what should happen has happened by then, or hangs */

static inline void pause_ms(int ms)
{
    poll(NULL, 0, ms);
}

static inline int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Keeps a call that a hook is in under way until the test opens it. */
typedef struct gate {
    atomic_bool is_shut, is_reached;
} gate;

static inline void gate_shut(gate *g)
{
    g->is_reached = false;
    g->is_shut = true;
}

static inline void gate_open(gate *g)
{
    g->is_shut = false;
}

static inline void gate_pass(gate *g) /* the hook */
{
    if (!g->is_shut)
        return;
    g->is_reached = true;
    while (g->is_shut)
        pause_ms(1);
}

static inline void gate_await(gate *g)
{
    while (!g->is_reached)
        pause_ms(1);
}

static inline void await(atomic_bool *flag)
{
    while (!*flag)
        pause_ms(1);
}

static inline hf_client *open_client(const char *uri, int64_t ttl_ms)
{
    hf_client *client;
    hf_error err;
    hf_options options = {.ttl_ms = ttl_ms};
    assert_int_equal(hf_open(uri, &options, &client, &err), HF_OK);
    return client;
}

static inline hf_lock *take(hf_client *client, const char *name)
{
    hf_lock *lock;
    hf_error err;
    assert_int_equal(hf_lock_acquire(client, name, NULL, &lock, &err), HF_OK);
    return lock;
}

static inline int64_t token_floor(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return record_floor_of((hf_dbtime){(int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000});
}

/* Returns when the clock has left the tokens of a new lock behind by RECORD_LAG: from then on a
 * grant has a whole block. */
static inline void season(hf_client *client, const char *name)
{
    hf_error err;
    hf_lock *lock = take(client, name);
    int64_t token = hf_lock_token(lock);
    assert_int_equal(hf_lock_release(lock, &err), HF_OK);
    hf_lock_close(lock);
    while (token_floor() <= token + RECORD_LAG)
        pause_ms(1);
}

static inline void send_beat(faulty *f, hf_client *client)
{
    for (int seen = f->calls[FAULTY_BEAT]; f->calls[FAULTY_BEAT] == seen; pause_ms(1)) {
        pthread_mutex_lock(&client->mutex);
        session_hurry_locked(client, 0);
        pthread_mutex_unlock(&client->mutex);
    }
}

/* The client knows what a beat has brought that was sent from now on: the next one is sent after
 * that. */
static inline void await_beat(faulty *f, hf_client *client)
{
    send_beat(f, client);
    send_beat(f, client);
}

static inline hf_code try_take(hf_client *client, const char *name, int64_t wait_ms)
{
    hf_lock *lock;
    hf_error err;
    hf_lock_options options = {.wait_ms = wait_ms};
    hf_code code = hf_lock_acquire(client, name, &options, &lock, &err);
    if (!code)
        hf_lock_close(lock);
    return code;
}

/* As a program of that session does that no client here knows of. */
static inline void hold_for(hf_store *store, const char *name, hf_id ticket,
                            const hf_session *session)
{
    hf_error err;
    hf_enter enter = {.entry = {.ticket = ticket,
                                .session = session->id,
                                .ttl_ms = session->ttl_ms,
                                .permits = HF_LIMIT_RW},
                      .limit = HF_LIMIT_RW,
                      .queue_max = HF_QUEUE_MAX};
    hf_step step = {.enter = &enter};
    hf_step_reply reply;
    assert_int_equal(store->ops->step(store, name, &step, NULL, &reply, &err), HF_OK);
}

/* A session that nobody raises the beat of. */
static inline hf_id begin_dead(hf_store *store, uint8_t number, int32_t ttl_ms)
{
    hf_session self = {.id = {{number}}, .ttl_ms = ttl_ms};
    hf_error err;
    assert_int_equal(store->ops->session_begin(store, &self, &err), HF_OK);
    return self.id;
}

/* An exclusive ticket of that session, with a number of its own. */
static inline void enter_as(hf_store *store, const char *name, hf_id session, uint8_t number)
{
    hf_enter enter = {.entry = {.ticket = {{0, number}},
                                .session = session,
                                .ttl_ms = 1000,
                                .permits = HF_LIMIT_RW},
                      .limit = HF_LIMIT_RW,
                      .queue_max = HF_QUEUE_MAX};
    hf_step step = {.enter = &enter};
    hf_step_reply reply;
    hf_error err;
    assert_int_equal(store->ops->step(store, name, &step, NULL, &reply, &err), HF_OK);
}

static inline void leave_by(hf_store *store, const char *name, const hf_leave *leave)
{
    hf_step step = {.leaves = leave, .n_leaves = 1};
    hf_step_reply reply;
    hf_error err;
    assert_int_equal(store->ops->step(store, name, &step, NULL, &reply, &err), HF_OK);
    assert_true(reply.confirmed);
}

/* As a break by force does, or a client that finds the holder dead. */
static inline void abandon(hf_store *store, const char *name, hf_id ticket)
{
    const hf_leave leave = {.ticket = ticket, .outcome = HF_OUTCOME_ABANDONED, .told = true};
    leave_by(store, name, &leave);
}

struct seen {
    size_t holders, queued;
    hf_entry holder, head;
};

static inline bool see(void *ctx, const hf_record *record)
{
    struct seen *seen = ctx;
    *seen = (struct seen){.holders = record->holders, .queued = record->queued};
    if (record->holders)
        seen->holder = record->entries[0];
    if (record->queued)
        seen->head = record->entries[record->holders];
    return false;
}

static inline struct seen look_at(hf_store *store, const char *name)
{
    struct seen seen = {.holders = 0};
    hf_error err;
    assert_int_equal(store->ops->look(store, &name, 1, (hf_stamp){0}, false, see, &seen, &err),
                     HF_OK);
    return seen;
}

static inline bool is_enter(faulty_call call, const void *arg)
{
    return call == FAULTY_STEP && ((const struct faulty_step *)arg)->step->enter != NULL;
}

static inline bool is_leave(faulty_call call, const void *arg)
{
    return call == FAULTY_STEP && ((const struct faulty_step *)arg)->step->n_leaves > 0;
}

#endif
