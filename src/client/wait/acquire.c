/* SPDX-License-Identifier: Apache-2.0 */
/* acquire.c: checks the options, and drives one attempt to its end. */
#include "client/wait/acquire.h"

#include "core/error.h"
#include "core/period.h"
#include "core/text.h"

#define TELL_MS 1000 /* how often on_wait is called */
#define DOZE_MS 20

static hf_code check_mode(const hf_lock_options *options, hf_error *err)
{
    if (options->permits || options->mode == HF_EXCLUSIVE || options->mode == HF_SHARED)
        return HF_OK;
    return error_set(err, HF_INVALID, "a mode of %d: HF_EXCLUSIVE (%d) or HF_SHARED (%d)",
                     (int)options->mode, HF_EXCLUSIVE, HF_SHARED);
}

static hf_code check_permits(const hf_lock_options *options, hf_error *err)
{
    if (options->sets_limit && (!options->limit || options->limit == HF_LIMIT_RW))
        return error_set(err, HF_INVALID,
                         "sets_limit (--set-limit, set_limit) needs the limit of a semaphore");
    if (!options->permits && !options->limit)
        return HF_OK;
    if (options->permits < 1 || options->limit < 1)
        return error_set(err, HF_INVALID,
                         "permits %d of limit %d: both must be given, and be at least 1",
                         (int)options->permits, (int)options->limit);
    if (options->permits > options->limit)
        return error_set(err, HF_INVALID, "permits %d are more than the limit of %d",
                         (int)options->permits, (int)options->limit);
    if (options->limit > HF_LIMIT_RW)
        return error_set(err, HF_INVALID, "limit %d is above %d", (int)options->limit, HF_LIMIT_RW);
    return HF_OK;
}

static hf_code check_period(const hf_client *client, const hf_lock_options *options, hf_error *err)
{
    if (!options->period_ms)
        return HF_OK;
    if (options->period_ms < PERIOD_MIN_MS || options->period_ms > PERIOD_MAX_MS)
        return error_set(err, HF_INVALID, "a period of %lld ms: at least 1 s, at most 87600 h",
                         (long long)options->period_ms);
    if (options->permits || options->mode == HF_SHARED)
        return error_set(err, HF_INVALID,
                         "once per period is for exclusive locks: of several that hold at once, "
                         "none would see that another has run");
    if (client->store->can & (HF_CAN_QUEUE | HF_CAN_LAST))
        return HF_OK;
    return error_set(err, HF_UNSUPPORTED,
                     "protocol %s does not keep how a lock was left, so nothing is done once per "
                     "period: hfProtocol=queue does",
                     client->store->protocol);
}

static hf_code check_wait(const hf_lock_options *options, hf_error *err)
{
    if (options->wait_ms >= 0 || options->wait_ms == HF_TRY)
        return HF_OK;
    return error_set(
        err, HF_INVALID,
        "a wait of %lld ms is negative: HF_TRY (-1) does not wait, HF_WAIT_DEFAULT (0) "
        "waits as long as the protocol does",
        (long long)options->wait_ms);
}

static hf_code check_watchdog(const hf_lock_options *options, hf_error *err)
{
    if (options->feed_ms >= 0 && options->max_hold_ms >= 0)
        return HF_OK;
    return error_set(err, HF_INVALID, "%s of %lld ms is negative",
                     options->feed_ms < 0 ? "a feeding interval" : "a longest holding",
                     (long long)(options->feed_ms < 0 ? options->feed_ms : options->max_hold_ms));
}

static hf_code check_can(hf_client *client, const hf_lock_options *options, hf_error *err)
{
    bool shares = options->permits || options->mode == HF_SHARED;
    if (options->no_refresh && !client->store->ops->refresh)
        return error_set(err, HF_UNSUPPORTED,
                         "protocol %s renews all its locks itself: hfProtocol=document has locks "
                         "that are refreshed by hand (no_refresh)",
                         client->store->protocol);
    if (!shares || client->store->can & HF_CAN_SHARE)
        return HF_OK;
    return error_set(err, HF_UNSUPPORTED,
                     "protocol %s has no shared locks and no semaphores: hfProtocol=queue has them",
                     client->store->protocol);
}

static hf_code check_linger(const hf_client *client, const hf_lock_options *options, hf_error *err)
{
    if (!options->linger_ms)
        return HF_OK;
    if (options->linger_ms < 0 || options->linger_ms > 3600000)
        return error_set(err, HF_INVALID, "to linger for %lld ms: from 0 to one hour",
                         (long long)options->linger_ms);
    if (options->permits || options->mode == HF_SHARED || options->period_ms)
        return error_set(err, HF_INVALID,
                         "only exclusive locks linger, and none that are taken once per period");
    if (client->store->can & HF_CAN_QUEUE && client->store->can & HF_CAN_NOTIFY)
        return HF_OK;
    return error_set(err, HF_UNSUPPORTED,
                     "protocol %s cannot ask for a lock that lingers: hfProtocol=queue can",
                     client->store->protocol);
}

/* Started before the lock is taken, so that every loss can be reported. */
static hf_code start_notifier(hf_client *client, const hf_lock_options *options, hf_error *err)
{
    MUTEX_SCOPE(&client->mutex);
    return options->on_lost ? ticker_start_locked(client, TICK_NOTIFY, err) : HF_OK;
}

/* It stands inside hf_lease_options, and so never grows. */
_Static_assert(sizeof(void *) != 8 || sizeof(hf_lock_options) == 200,
               "a new member of hf_lock_options takes the place of a reserved one");

/* What a later version has there, this one would ignore. */
static hf_code check_reserved(const hf_lock_options *options, hf_error *err)
{
    for (size_t i = 0; i < sizeof options->reserved / sizeof *options->reserved; i++)
        if (options->reserved[i])
            return error_set(
                err, HF_INVALID,
                "a reserved member of hf_lock_options is not 0: start from {0}; if the "
                "program was compiled with a later version of Holdfast, it needs that "
                "version's library, and this is %s",
                HF_VERSION);
    return HF_OK;
}

hf_code acquire_check(hf_client *client, const hf_lock_options *options, hf_error *err)
{
    hf_id lock_session; /* the attempt reads it again */
    hf_code code = check_reserved(options, err);
    if (!code)
        code = text_check("the reason (why)", options->why, HF_TEXT_MAX, err);
    if (!code)
        code = text_check("the actor", options->actor, HF_ACTOR_MAX, err);
    if (!code)
        code = check_wait(options, err);
    if (!code)
        code = check_mode(options, err);
    if (!code)
        code = check_permits(options, err);
    if (!code)
        code = check_period(client, options, err);
    if (!code)
        code = check_watchdog(options, err);
    if (!code)
        code = check_linger(client, options, err);
    if (!code)
        code = check_can(client, options, err);
    if (!code)
        code = client_lock_session(client, options->lock_session, &lock_session, err);
    return code ? code : start_notifier(client, options, err);
}

/* False when it was woken meanwhile. */
static bool may_sleep(struct attempt *attempt)
{
    hf_client *client = attempt->request.client;
    MUTEX_SCOPE(&client->mutex);
    if (!attempt->request.waker)
        attempt->request.waker =
            waker_take_locked(&client->wakers, attempt->request.options->cancel != NULL);
    waker_drain(attempt->request.waker);
    return !attempt->request.is_woken;
}

/* For calls by the simulator, which has no threads to wake. */
static void doze(struct attempt *attempt, int64_t ms)
{
    hf_client *client = attempt->request.client;
    int64_t most = ms < DOZE_MS ? ms : DOZE_MS;
    if (most > 0 && !attempt->request.is_woken)
        client->env.pause(client->env.ctx, most);
}

static void sleep_until(struct attempt *attempt, hf_mono due)
{
    int64_t ms = mono_ms_until(due, client_now(attempt->request.client));
    if (!attempt->request.client->tickers.is_threaded) {
        doze(attempt, ms);
        return;
    }
    if (!may_sleep(attempt))
        return;
    if (ms > 0)
        waker_sleep(attempt->request.waker, cancel_fd(attempt->request.options->cancel),
                    ms > 3600000 ? 3600000 : ms);
}

static hf_mono tell(struct attempt *attempt, hf_mono now, hf_mono tell_due)
{
    if (!attempt->request.options->on_wait || !mono_reached(tell_due, now))
        return tell_due;
    hf_wait_info info;
    attempt_info(attempt, &info, now);
    attempt->request.options->on_wait(attempt->request.options->wait_ctx, &info);
    return mono_add_ms(now, TELL_MS);
}

void acquire_drive(struct attempt *attempt)
{
    hf_client *client = attempt->request.client;
    hf_mono tell_due = attempt->request.started;
    for (;;) {
        hf_mono due = attempt_step(attempt, client_now(client));
        if (attempt->state == ATTEMPT_ENDED)
            return;
        hf_mono now = client_now(client);
        if (mono_reached(due, now))
            continue;
        tell_due = tell(attempt, now, tell_due);
        sleep_until(attempt, attempt->request.options->on_wait ? mono_min(due, tell_due) : due);
    }
}

acquire_caller acquire_caller_now(hf_client *client)
{
    return (acquire_caller){client_thread(), client_now(client)};
}

hf_code acquire_run(hf_client *client, const char *name, const hf_claim *claim,
                    const hf_lock_options *options, acquire_caller by, hf_lock **out, hf_error *err)
{
    static const hf_lock_options defaults = {0};
    if (!options)
        options = &defaults;
    hf_code code = acquire_check(client, options, err);
    if (code)
        return code;
    struct attempt attempt;
    if (claim)
        attempt_init_claim(&attempt, client, claim, options);
    else
        attempt_init(&attempt, client, name, options);
    attempt.request.thread = by.thread;
    attempt.asked = by.asked;
    acquire_drive(&attempt);
    code = attempt.code;
    if (code == HF_OK)
        *out = attempt.request.lock;
    else if (err)
        *err = attempt.err;
    attempt_done(&attempt);
    return code;
}
