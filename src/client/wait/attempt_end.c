/* SPDX-License-Identifier: Apache-2.0 */
/* attempt_end.c: how an attempt ends, or goes on after an error. Gives its ticket back, and says
 * which session is in the way; called by attempt.c and attempt_enter.c. */
#include "client/wait/attempt_internal.h"

#include "client/hold/hold.h"

#include "core/backoff.h"
#include "core/error.h"
#include "core/id.h"

#include <stdio.h>

#define RETRY_FIRST_MS 10
#define RETRY_MOST_MS 500
#define OTHERS_MS 50
#define LAST_MS 300  /* for what was asked just before the time is over */
#define LEAVE_MS 600 /* for taking a ticket back; afterwards that goes on in the background */
#define ADVICE_SIZE 256

hf_mono attempt_end(struct attempt *attempt, hf_code code)
{
    attempt->state = ATTEMPT_ENDED;
    attempt->code = code;
    return MONO_NEVER;
}

static bool may_be_given_locked(const struct attempt *attempt, line_news news)
{
    bool has_ticket = attempt->state == ATTEMPT_WAITS || news == NEWS_TICKET;
    return (has_ticket || attempt->request.is_unanswered) &&
           !attempt->request.client->closing.has_begun && !attempt->request.enter.try_only &&
           !session_find_ask_locked(attempt->request.client, attempt->request.enter.entry.ticket);
}

bool attempt_has_queue(const struct attempt *attempt)
{
    return attempt->request.client->store->can & HF_CAN_QUEUE;
}

/* The death of a session takes out its tickets. In protocols without sessions, documents last until
 * their time is over.
 */
static bool outlives_session_locked(const struct attempt *attempt)
{
    return session_is_present_locked(attempt->request.client,
                                     attempt->request.enter.entry.session) ||
           !attempt_has_queue(attempt);
}

/* Takes the ticket back, as a give-back if it was granted meanwhile (L4). First it leaves its line,
 * so that no other thread can pass it the lock or a ticket; false: one has just passed it the lock.
 * *to_send stays NULL if nothing is to be sent here. While the client is being closed, or the store
 * does not answer, only the background sends, within its own time limit. */
static bool take_back(struct attempt *attempt, struct release **to_send)
{
    hf_client *client = attempt->request.client;
    hf_leave leave = {.outcome = HF_OUTCOME_RELEASED};
    MUTEX_SCOPE(&client->mutex);
    line_news news = turns_hear_locked(&attempt->request);
    if (news == NEWS_LOCK)
        return false;
    leave.ticket = attempt->request.enter.entry.ticket; /* it may have been given one until now */
    waiters_remove(&attempt->request.waiter);
    bool stands = attempt->request.is_in_flight && !attempt->request.is_common &&
                  outlives_session_locked(attempt);
    bool is_given =
        stands && may_be_given_locked(attempt, news) && turns_transfer_locked(&attempt->request);
    if (stands && !is_given) {
        struct release *release = release_push_locked(
            client, attempt->request.name, attempt->request.enter.entry.session, &leave, false);
        release->in_flight = !client->closing.has_begun && !attempt->trouble.failures;
        *to_send = release->in_flight ? release : NULL;
        ticker_poke(client, TICK_UPKEEP);
    }
    if (!attempt->request.is_in_flight)
        guardian_out(client, leave.ticket);
    if (attempt->request.place.in_line)
        line_quit_locked(&attempt->request);
    return true;
}

/* Makes one try here, which does not keep the caller for long; the background goes on. */
static bool give_back(struct attempt *attempt, hf_mono now)
{
    struct release *to_send = NULL;
    if (!take_back(attempt, &to_send))
        return false;
    if (!to_send)
        return true;
    BOUND_SCOPE(attempt->request.client->store, mono_add_ms(now, LEAVE_MS), NULL);
    release_send(attempt->request.client, to_send, now, NULL);
    return true;
}

hf_mono attempt_give_up(struct attempt *attempt, hf_code code, hf_mono now)
{
    return attempt_end(attempt, give_back(attempt, now) ? code : HF_OK);
}

static hf_mono describe_none(struct attempt *attempt, hf_code code, hf_mono now)
{
    const char *filter = attempt->request.claim->filter ? attempt->request.claim->filter : "{}";
    error_set(&attempt->err, code == HF_HELD ? HF_NOT_FOUND : code,
              "no document that matches %.200s %s", filter,
              code == HF_HELD ? "is free" : "became free in time");
    return attempt_give_up(attempt, attempt->err.code, now);
}

/* "18m" */
static void age_text(int64_t ms, char out[32])
{
    int64_t s = ms / 1000;
    if (s < 120)
        snprintf(out, 32, "%llds", (long long)s);
    else if (s < 7200)
        snprintf(out, 32, "%lldm", (long long)s / 60);
    else
        snprintf(out, 32, "%lldh", (long long)s / 3600);
}

/* What says that a session is dead; "": nothing does. */
static void sign_text(const struct ahead_seen *seen, char out[64])
{
    char age[32];
    age_text(seen->overdue_ms, age);
    if (seen->is_missing)
        snprintf(out, 64, "its session is gone");
    else if (seen->overdue_ms > 0)
        snprintf(out, 64, "its lease ended %s ago", age);
}

/* Adds to the message what a request that may not wait, or not long enough, should know besides the
 * holder. */
static void say_overdue(const struct attempt *attempt, hf_code code, hf_mono now,
                        char out[ADVICE_SIZE])
{
    const struct ahead_seen *holder = judging_seen(&attempt->ahead);
    long long wait_s = holder ? (holder->ttl_ms * 3 / 2 + 999) / 1000 : 0;
    bool has_others = attempt->ahead.record.holders > 1; /* they may live */
    bool is_short =
        code == HF_HELD || lock_request_waited_ms(&attempt->request, now) / 1000 < wait_s;
    char sign[64] = "";
    if (holder)
        sign_text(holder, sign);
    if (sign[0] && is_short)
        snprintf(out, ADVICE_SIZE,
                 "; %s, so it is probably dead: a request that waits %llds or "
                 "longer (-w %llds, wait_ms %lld) makes sure, and takes %s",
                 sign, wait_s, wait_s, wait_s * 1000, has_others ? "it out" : "the lock over");
    else if (code == HF_HELD && attempt->request.client->clock_trust_ms < 0)
        snprintf(out, ADVICE_SIZE,
                 "; if it died, only a request that waits takes it over (clock_trust is off)");
}

hf_mono attempt_describe_held(struct attempt *attempt, hf_code code, hf_mono now)
{
    char advice[ADVICE_SIZE] = "";
    if (attempt->request.claim)
        return describe_none(attempt, code, now);
    const hf_record *record = &attempt->ahead.record;
    const char *why = record->holders ? record->entries[0].why : "";
    say_overdue(attempt, code, now, advice);
    error_set(&attempt->err, code, "%.128s was %s: held by %.100s%s%.100s%s%s",
              attempt->request.name, code == HF_HELD ? "not free" : hf_code_text(code),
              judging_holder(&attempt->request, &attempt->ahead), why[0] ? " (" : "", why,
              why[0] ? ")" : "", advice);
    return attempt_give_up(attempt, code, now);
}

static const char *limit_text(int32_t limit, char out[40])
{
    if (limit == HF_LIMIT_RW)
        return "no limit (as a mutex)";
    snprintf(out, 40, "a limit of %d", (int)limit);
    return out;
}

hf_mono attempt_refuse_limit(struct attempt *attempt, hf_mono now)
{
    const hf_enter *enter = &attempt->request.enter;
    int32_t used = attempt->ahead.record.limit;
    char of_all[40], wanted[40];
    error_set(&attempt->err, HF_LIMIT, "%.128s is in use with %s, not with %s: %s",
              attempt->request.name, limit_text(used, of_all), limit_text(enter->limit, wanted),
              used == HF_LIMIT_RW || enter->limit == HF_LIMIT_RW
                  ? "all users of a lock must give a limit, or none"
              : enter->sets_limit
                  ? "one that waits wants more permits than that"
                  : "all users of a lock must give the same limit, or set it (sets_limit, "
                    "--set-limit)");
    return attempt_give_up(attempt, HF_LIMIT, now);
}

/* A try never starts its patience anew. */
static hf_mono try_end(const struct attempt *attempt)
{
    return mono_add_ms(attempt->asked, attempt->request.client->call_patience_ms);
}

static hf_mono patience_end(const struct attempt *attempt)
{
    if (attempt->request.enter.try_only)
        return try_end(attempt);
    return mono_add_ms(attempt->trouble.since, attempt->request.client->patience_ms);
}

/* A wait, however short, has the time of a try: it says for how long the lock is waited for, not
 * how near the store is. What was asked just before its end gets a moment to be answered. */
hf_mono attempt_calls_end(const struct attempt *attempt, hf_mono now)
{
    if (attempt->request.enter.try_only)
        return try_end(attempt);
    hf_mono since = attempt->trouble.failures ? attempt->trouble.since : now;
    hf_mono end = mono_add_ms(since, attempt->request.client->patience_ms);
    hf_mono wait_end = mono_max(attempt->deadline, try_end(attempt));
    return mono_min(end, mono_add_ms(wait_end, LAST_MS));
}

/* A call failed. An error that may pass is retried until patience ends. */
hf_mono attempt_failed(struct attempt *attempt, hf_code code, hf_mono now)
{
    hf_client *client = attempt->request.client;
    if (!error_is_no_answer(code))
        return attempt_give_up(attempt, code, now);
    client->is_silent = true;
    if (attempt->trouble.failures++ == 0)
        attempt->trouble.since = attempt->stepped;
    if (mono_reached(patience_end(attempt), now))
        return attempt_give_up(attempt, code, now);
    if (attempt->trouble.failures == 1)
        client_log(client, HF_LOG_INFO, "%s: trying again: %s",
                   lock_request_title(&attempt->request), attempt->err.text);
    hf_mono due = mono_add_ms(now, backoff_ms(attempt->trouble.failures, RETRY_FIRST_MS,
                                              RETRY_MOST_MS, client_chance(client)));
    due = mono_min(due, patience_end(attempt)); /* the last try is when it ends */
    attempt->enter_due = attempt->look_due = due;
    return mono_min(due, attempt->deadline);
}

hf_mono attempt_await_others(struct attempt *attempt, hf_mono now)
{
    if (!attempt->request.enter.try_only || !mono_reached(try_end(attempt), now))
        return mono_add_ms(now, OTHERS_MS); /* it is woken when that has changed */
    error_set(&attempt->err, HF_UNREACHABLE, "%s: the store does not answer",
              lock_request_title(&attempt->request));
    return attempt_give_up(attempt, HF_UNREACHABLE, now);
}

void attempt_succeeded(struct attempt *attempt)
{
    attempt->trouble.failures = 0;
    attempt->request.client->is_silent = false;
}

/* A ticket that was asked for before it was believed is never believed (R9). */
hf_mono attempt_refuse_asked(struct attempt *attempt, const hf_ask *ask, hf_mono now)
{
    error_set(&attempt->err, HF_LOST, "%.128s was broken by %.100s before it was granted: %.160s",
              attempt->request.name, ask->by, ask->reason);
    return attempt_give_up(attempt, HF_LOST, now);
}

hf_mono attempt_stopped(struct attempt *attempt, hf_code code, hf_mono now)
{
    error_set(&attempt->err, code, "%.128s: waiting was %s", lock_request_title(&attempt->request),
              code == HF_CLOSED ? "ended: the client was closed" : "cancelled");
    return attempt_give_up(attempt, code, now);
}
