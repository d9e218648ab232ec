/* SPDX-License-Identifier: Apache-2.0 */
/* sharding.c: decides one round of an acquire in protocol `sharding`, from the replies to the
 * commands that it names, and which errors are tried again; called by the mongo store. */
#include "core/sharding.h"

#include "core/id.h"

#include <assert.h>
#include <string.h>

#define DUPLICATE                                                                                  \
    11000 /* how a lock that is held answers a grab: the upsert finds its _id taken                \
           */

#define FREED_MOST 3 /* in one round: refused by a grab, free in the look after it */

const sharding_settings sharding_defaults = {
    .ping_ms = 30000,
    .late_ping_ms = 300000,
    .expiry_ms = 900000,
    .poll_ms = 500,
    .wait_ms = 20000,
    .still_ms = 10000,
    .grab_repeats = 2,
    .tries = 3,
};

/* ---- Errors ---- */

bool sharding_is_not_primary(int32_t code)
{
    return code == 10107    /* NotWritablePrimary */
           || code == 13435 /* NotPrimaryNoSecondaryOk */
           || code == 13436 /* NotPrimaryOrSecondary */;
}

bool sharding_is_retriable(int32_t code)
{
    switch (code) {
    case 6:     /* HostUnreachable */
    case 7:     /* HostNotFound */
    case 89:    /* NetworkTimeout */
    case 91:    /* ShutdownInProgress */
    case 189:   /* PrimarySteppedDown */
    case 262:   /* ExceededTimeLimit */
    case 9001:  /* SocketException */
    case 11600: /* InterruptedAtShutdown */
    case 11602: /* InterruptedDueToReplStateChange */
        return true;
    default:
        return sharding_is_not_primary(code);
    }
}

bool sharding_tries_again(const sharding_settings *settings, sharding_call call, int32_t code,
                          unsigned tried)
{
    if (tried >= settings->tries)
        return false;
    switch (call) {
    case SHARDING_GRAB_LOCK: /* the round repeats it, after an unlock */
        return false;
    case SHARDING_PING:
    case SHARDING_STOP_PING:
    case SHARDING_OVERTAKE_LOCK:
        return sharding_is_not_primary(code);
    case SHARDING_UNLOCK_ONE:
    case SHARDING_UNLOCK_ALL:
    case SHARDING_GET_PING:
    case SHARDING_GET_LOCK:
    case SHARDING_SERVER_INFO:
        return sharding_is_retriable(code);
    }
    return false;
}

bool sharding_is_held_by(const sharding_lock *lock, hf_id ts)
{
    return lock->state != 0 && id_equal(lock->ts, ts);
}

/* ---- One round ---- */

bool sharding_is_command(sharding_action action)
{
    return action <= SHARDING_OVERTAKE;
}

sharding_action sharding_begin(sharding_round *round, const char *name, hf_id ts,
                               const sharding_settings *settings)
{
    *round =
        (sharding_round){.name = name, .ts = ts, .settings = settings, .action = SHARDING_GRAB};
    return round->action;
}

static sharding_action busy(sharding_round *round)
{
    round->again_ms = round->settings->poll_ms;
    return SHARDING_BUSY;
}

/* A read failed, after the grab was refused. */
static sharding_action fail(sharding_round *round, int32_t code)
{
    round->code = code;
    return SHARDING_FAIL;
}

/* A write failed, and may have been applied all the same. */
static sharding_action fail_unsure(sharding_round *round, int32_t code)
{
    round->code = code;
    return SHARDING_QUEUE_UNLOCK_AND_FAIL;
}

static sharding_action granted(sharding_round *round, sharding_history *history, bool is_takeover)
{
    sharding_forget(history, round->name);
    round->is_takeover = is_takeover;
    return SHARDING_GRANTED;
}

/* The write found no document to change: another holds, or was faster. */
static bool is_refused(const sharding_reply *reply)
{
    return reply->code == DUPLICATE || (!reply->code && !reply->is_found);
}

static sharding_action after_grab(sharding_round *round, sharding_history *history,
                                  const sharding_reply *reply)
{
    if (is_refused(reply))
        return SHARDING_READ_LOCK;
    if (!reply->code)
        return granted(round, history, false);
    if (!sharding_is_retriable(reply->code) || round->repeats == round->settings->grab_repeats)
        return fail_unsure(round, reply->code);
    round->repeats++;
    return SHARDING_UNLOCK;
}

/* Nothing unlocked is a success, too: the grab has not landed. */
static sharding_action after_unlock(sharding_round *round, const sharding_reply *reply)
{
    return reply->code ? fail_unsure(round, reply->code) : SHARDING_GRAB;
}

/* The look is no older than the refusal, so a lock that nobody holds was freed since, and is
 * grabbed again; it is never overtaken, for its ts may be about to hold again. If it is free at
 * each look and taken at each grab, it is in such heavy use that it counts as busy. */
static sharding_action after_lock(sharding_round *round, const sharding_reply *reply)
{
    if (reply->code)
        return fail(round, reply->code);
    if (!reply->is_found || reply->lock.state == 0)
        return round->n_freed++ < FREED_MOST ? SHARDING_GRAB : busy(round);
    round->seen = reply->lock;
    return id_equal(round->seen.ts, round->ts) ? SHARDING_OVERTAKE : SHARDING_READ_PING;
}

/* Before the lock of an expired owner is overtaken, the owner's ping is read once more: this
 * process may have been stopped between reading the ping and asking the server for its time. */
static sharding_action after_ping(sharding_round *round, const sharding_reply *reply)
{
    if (reply->code)
        return fail(round, reply->code);
    int64_t ping_ms = reply->is_found ? reply->ping_ms : SHARDING_NO_PING;
    if (round->is_known_expired)
        return ping_ms == round->ping_ms ? SHARDING_OVERTAKE : busy(round);
    round->ping_ms = ping_ms;
    return SHARDING_READ_SERVER;
}

static sharding_action after_server(sharding_round *round, sharding_history *history,
                                    const sharding_reply *reply)
{
    sharding_look look = {round->name, &round->seen, round->ping_ms, &reply->server};
    if (sharding_is_not_primary(reply->code))
        return busy(round);
    if (reply->code)
        return fail(round, reply->code);
    switch (sharding_judge(history, &look, round->settings->expiry_ms, &round->clock_went_back)) {
    case SHARDING_NOT_EXPIRED:
        break;
    case SHARDING_EXPIRED:
        round->is_known_expired = true;
        return SHARDING_READ_PING;
    case SHARDING_NO_ELECTION:
        return SHARDING_FAIL_FOR_WANT_OF_A_SET;
    }
    return busy(round);
}

static sharding_action after_overtake(sharding_round *round, sharding_history *history,
                                      const sharding_reply *reply)
{
    if (is_refused(reply))
        return busy(round);
    if (reply->code)
        return fail_unsure(round, reply->code);
    return granted(round, history, !id_equal(round->seen.ts, round->ts));
}

static sharding_action after(sharding_round *round, sharding_history *history,
                             const sharding_reply *reply)
{
    switch (round->action) {
    case SHARDING_GRAB:
        return after_grab(round, history, reply);
    case SHARDING_UNLOCK:
        return after_unlock(round, reply);
    case SHARDING_READ_LOCK:
        return after_lock(round, reply);
    case SHARDING_READ_PING:
        return after_ping(round, reply);
    case SHARDING_READ_SERVER:
        return after_server(round, history, reply);
    case SHARDING_OVERTAKE:
        return after_overtake(round, history, reply);
    case SHARDING_GRANTED:
    case SHARDING_BUSY:
    case SHARDING_FAIL:
    case SHARDING_QUEUE_UNLOCK_AND_FAIL:
    case SHARDING_FAIL_FOR_WANT_OF_A_SET:
        break;
    }
    return round->action;
}

sharding_action sharding_next(sharding_round *round, sharding_history *history,
                              const sharding_reply *reply)
{
    assert(sharding_is_command(round->action));
    round->action = after(round, history, reply);
    return round->action;
}
