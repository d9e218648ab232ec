/* SPDX-License-Identifier: Apache-2.0 */
/* script_bed.h: what the tests share that hold what clients send against a script: acts, each of
 * which says what came of it. */
#ifndef TESTS_SCRIPT_BED_H
#define TESTS_SCRIPT_BED_H

#include "client/client_bed.h"

#include "support/inside.h"
#include "support/stage.h"

/* A lock that somebody takes. */
typedef struct part {
    hf_client *client;
    const char *name;
    hf_lock_options options;
    hf_lock *lock;
} part;

typedef struct breaking {
    hf_client *client;
    const char *name;
    hf_break_options options;
} breaking;

static inline void say_code(const char *what, const char *name, hf_code code, const hf_error *err)
{
    if (code)
        stage_say("%s %s: %s: %s", what, name, hf_code_name(code), err->text);
    else
        stage_say("%s %s: yes", what, name);
}

static inline void say_loss(void *ctx, hf_lock *lock, const hf_error *why, int64_t left_ms)
{
    (void)ctx;
    stage_say("%s is lost, %lld ms left: %s", hf_lock_name(lock), (long long)left_ms, why->text);
}

static inline void say_log(void *ctx, hf_log_level level, const char *text)
{
    (void)ctx;
    stage_say("%s: %s", level == HF_LOG_INFO ? "log" : "warning", text);
}

static inline void say_wait(void *ctx, const hf_wait_info *info)
{
    (void)ctx;
    stage_say("waits for %s %lld ms, %zu of %zu, held by %zu: %s '%s'%s%s%s", info->name,
              (long long)info->waited_ms, info->position, info->queued, info->n_holders,
              info->holder, info->why, info->held_since_ms ? ", since then" : "",
              *info->trouble ? ", " : "", info->trouble);
}

static inline void take_part(void *arg)
{
    part *p = arg;
    stage_acquire(p->client, p->name, &p->options, &p->lock);
}

/* By the call itself, which tells on_wait. */
static inline void acquire_part(void *arg)
{
    part *p = arg;
    hf_error err;
    hf_code code = hf_lock_acquire(p->client, p->name, &p->options, &p->lock, &err);
    say_code("acquired", p->name, code, &err);
    if (!code)
        stage_say("waited %lld ms", (long long)hf_lock_waited_ms(p->lock));
}

/* The next enter is answered so late, and no beat arrives meanwhile. */
static inline void answer_enter_late(char who, int64_t ms)
{
    stage_let_fail(
        (stage_fault){.who = who, .call = FAULTY_STEP, .is = stage_is_enter, .slow_ms = ms});
    stage_let_fail(
        (stage_fault){.who = who, .call = FAULTY_BEAT, .times = 100, .before = HF_UNREACHABLE});
}

static inline void release_part(void *arg)
{
    part *p = arg;
    hf_error err;
    hf_code code = hf_lock_release(p->lock, &err);
    say_code("released", p->name, code, &err);
}

static inline void close_part(void *arg)
{
    part *p = arg;
    hf_lock_close(p->lock);
    p->lock = NULL;
}

static inline void check_part(void *arg)
{
    part *p = arg;
    hf_error err;
    int64_t left_ms = -1;
    hf_code code = hf_lock_check(p->lock, &left_ms, &err);
    stage_say("%s: %lld ms left%s%s", p->name, (long long)left_ms, code ? ": " : "",
              code                                 ? err.text
              : hf_lock_mode(p->lock) == HF_SHARED ? ", shared"
                                                   : "");
}

static inline void tell_previous(void *arg)
{
    part *p = arg;
    hf_last last;
    hf_error err;
    hf_code code = hf_lock_previous(p->lock, &last, &err);
    if (code)
        stage_say("before %s: %s", p->name, err.text);
    else
        stage_say("before %s: %s, outcome %d%s, '%s'", p->name, last.who, (int)last.outcome,
                  last.has_exit_status ? ", with an exit status" : "", last.reason);
}

static inline void downgrade_part(void *arg)
{
    part *p = arg;
    hf_error err;
    hf_code code = hf_lock_downgrade(p->lock, &err);
    say_code("downgraded", p->name, code, &err);
}

static inline void upgrade_part(void *arg)
{
    part *p = arg;
    hf_error err;
    hf_code code = hf_lock_upgrade(p->lock, &err);
    say_code("upgraded", p->name, code, &err);
}

static inline void break_it(void *arg)
{
    breaking *b = arg;
    hf_error err;
    hf_code code = hf_break(b->client, b->name, &b->options, &err);
    say_code("broken", b->name, code, &err);
}

/* Each that still waits has its lock, and gives it back. */
static inline void close_parts(part *const *parts, size_t n)
{
    for (size_t round = 0; round < n; round++) {
        for (size_t i = 0; i < n; i++)
            close_part(parts[i]);
        stage_run(20000);
    }
}

/* In a thread of its own, for so long. */
static inline void play(void (*act)(void *), void *arg, int64_t ms)
{
    stage_act(act, arg);
    stage_run(ms);
}

#endif
