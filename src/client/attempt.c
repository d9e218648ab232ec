/* SPDX-License-Identifier: Apache-2.0 */
/* attempt.c: one acquire, as steps that are told the time: enters, waits in the queue, judges those
 * ahead, believes or gives up; called in a loop by acquire.c, or by a simulator. */
#include "client/client.h"

#include "core/alloc.h"
#include "core/backoff.h"
#include "core/error.h"
#include "core/id.h"
#include "core/plant.h"

#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define LOOK_MS 3000     /* L2: a lost notice costs so much */
#define POLL_FIRST_MS 10 /* where there are no notices */
#define POLL_MOST_MS 500
#define RETRY_FIRST_MS 10
#define RETRY_MOST_MS 1000
#define REFUSED_MS 500 /* until a refused limit is tried again */
#define NOTICED_MS 500 /* without a queue: until one comes back without a notice */

/* ---- Making one --------------------------------------------------------------------------------
 */

static void set_permits(hf_enter *enter, const hf_lock_options *options)
{
    bool counts = options->permits > 0;
    enter->limit = counts ? options->limit : HF_LIMIT_RW;
    enter->entry.permits = counts ? options->permits : options->mode == HF_SHARED ? 1 : HF_LIMIT_RW;
}

static void link_locked(hf_client *client, struct attempt *attempt)
{
    attempt->next = client->attempts;
    attempt->link = &client->attempts;
    if (attempt->next)
        attempt->next->link = &attempt->next;
    client->attempts = attempt;
}

void attempt_init(struct attempt *attempt, hf_client *client, const char *name,
                  const hf_lock_options *options)
{
    *attempt = (struct attempt){.client = client, .name = name, .options = options, .wake_fd = -1};
    hf_entry *entry = &attempt->enter.entry;
    set_permits(&attempt->enter, options);
    entry->ttl_ms = (int32_t)client->ttl_ms;
    snprintf(entry->why, sizeof entry->why, "%s", options->why ? options->why : "");
    snprintf(entry->actor, sizeof entry->actor, "%s", options->actor ? options->actor : "");
    attempt->enter.queue_max = HF_QUEUE_MAX;
    attempt->enter.by_hand = options->no_refresh;
    attempt->enter.try_only = options->wait_ms < 0;
    attempt->started = attempt->enter_due = client_now(client);
    int64_t wait_ms = options->wait_ms ? options->wait_ms : client->store->wait_ms;
    attempt->deadline = wait_ms > 0 ? mono_add_ms(attempt->started, wait_ms) : MONO_NEVER;
    attempt->look_due = attempt->failing_since = MONO_NEVER;
    record_init(&attempt->record, name);
    pthread_mutex_lock(&client->mutex);
    link_locked(client, attempt);
    pthread_mutex_unlock(&client->mutex);
}

void attempt_init_claim(struct attempt *attempt, hf_client *client, const hf_claim *claim,
                        const hf_lock_options *options)
{
    attempt_init(attempt, client, "", options);
    attempt->claim = claim;
}

void attempt_done(struct attempt *attempt)
{
    hf_client *client = attempt->client;
    pthread_mutex_lock(&client->mutex);
    waiters_remove(&attempt->waiter);
    *attempt->link = attempt->next;
    if (attempt->next)
        attempt->next->link = attempt->link;
    pthread_cond_broadcast(&client->changed);
    pthread_mutex_unlock(&client->mutex);
    judge_done(&attempt->judge);
    record_done(&attempt->record);
    if (attempt->wake_fd >= 0)
        close(attempt->wake_fd);
}

void attempt_wake_locked(struct attempt *attempt)
{
    uint64_t one = 1;
    attempt->is_woken = true;
    if (attempt->wake_fd >= 0 && write(attempt->wake_fd, &one, sizeof one) < 0)
        return; /* it is readable already */
}

/* ---- Ending
 * -------------------------------------------------------------------------------------- */

static hf_mono end(struct attempt *attempt, hf_code code)
{
    attempt->state = ATTEMPT_ENDED;
    attempt->code = code;
    return MONO_NEVER;
}

/* Takes the ticket back: a give-back, if it was granted meanwhile (L4). One try is made here; the
 * background goes on. */
static void give_back(struct attempt *attempt, hf_mono now)
{
    hf_client *client = attempt->client;
    hf_leave leave = {.ticket = attempt->enter.entry.ticket, .outcome = HF_OUTCOME_RELEASED};
    leave.told = PLANTED(GIVE_BACK_TOLD);
    struct release *release = NULL;
    bool closing = false;
    pthread_mutex_lock(&client->mutex);
    waiters_remove(&attempt->waiter);
    bool ours = client->session.state == SESSION_ALIVE &&
                id_equal(client->session.self.id, attempt->enter.entry.session);
    if (attempt->is_in_flight && ours && !PLANTED(TICKET_FORGOTTEN)) {
        release = release_push_locked(client, attempt->name, &leave, false);
        closing = client->is_closing; /* the background has a bound of its own */
        release->in_flight = !closing;
        ticker_poke(client, TICK_UPKEEP);
    }
    attempt->is_in_flight = false;
    pthread_mutex_unlock(&client->mutex);
    if (release && !closing)
        release_send(client, release, now, NULL);
}

static hf_mono give_up(struct attempt *attempt, hf_code code, hf_mono now)
{
    give_back(attempt, now);
    return end(attempt, code);
}

/* Who is in the way, for people: the first holder. */
static const char *holder_of(const struct attempt *attempt)
{
    const hf_record *record = &attempt->record;
    if (record->holders && id_equal(record->entries[0].session, attempt->enter.entry.session))
        return "this very process";
    if (record->who)
        return record->who;
    return attempt->holder[0] ? attempt->holder : "another session";
}

/* What it is after, for people. */
static const char *title_of(const struct attempt *attempt)
{
    return attempt->claim ? "a document that matches" : attempt->name;
}

static hf_mono describe_none(struct attempt *attempt, hf_code code, hf_mono now)
{
    const char *filter = attempt->claim->filter ? attempt->claim->filter : "{}";
    error_set(&attempt->err, code == HF_HELD ? HF_NOT_FOUND : code,
              "no document that matches %.200s %s", filter,
              code == HF_HELD ? "is free" : "became free in time");
    return give_up(attempt, attempt->err.code, now);
}

static hf_mono describe_held(struct attempt *attempt, hf_code code, hf_mono now)
{
    if (attempt->claim)
        return describe_none(attempt, code, now);
    const hf_record *record = &attempt->record;
    const char *why = record->holders ? record->entries[0].why : "";
    bool untrusting = code == HF_HELD && attempt->client->clock_trust_ms < 0;
    error_set(&attempt->err, code, "%.128s was %s: held by %.100s%s%.100s%s%s", attempt->name,
              code == HF_HELD ? "not free" : hf_code_text(code), holder_of(attempt),
              why[0] ? " (" : "", why, why[0] ? ")" : "",
              untrusting ? "; if it died, only a request that waits takes it over (clock_trust is "
                           "off)"
                         : "");
    return give_up(attempt, code, now);
}

static const char *limit_text(int32_t limit, char out[40])
{
    if (limit == HF_LIMIT_RW)
        return "no limit (as a mutex)";
    snprintf(out, 40, "a limit of %d", (int)limit);
    return out;
}

static hf_mono refuse_limit(struct attempt *attempt, hf_mono now)
{
    char used[40], wanted[40];
    error_set(
        &attempt->err, HF_LIMIT,
        "%.128s is in use with %s, not with %s: all users of a lock must give the same limit, "
        "or none",
        attempt->name, limit_text(attempt->record.limit, used),
        limit_text(attempt->enter.limit, wanted));
    return give_up(attempt, HF_LIMIT, now);
}

static hf_mono start_anew(struct attempt *attempt, hf_mono now);

/* A call failed. What may pass is tried again until patience ends. */
static hf_mono failed(struct attempt *attempt, hf_code code, hf_mono now)
{
    hf_client *client = attempt->client;
    if (code != HF_UNREACHABLE && code != HF_UNKNOWN)
        return give_up(attempt, code, now);
    if (PLANTED(UNKNOWN_IS_FAILURE) && code == HF_UNKNOWN)
        return start_anew(attempt, now);
    if (attempt->failures++ == 0)
        attempt->failing_since = now;
    /* a try never starts its patience anew */
    hf_mono since = attempt->enter.try_only ? attempt->started : attempt->failing_since;
    if (mono_reached(mono_add_ms(since, client->patience_ms), now))
        return give_up(attempt, code, now);
    if (attempt->failures == 1)
        client_log(client, HF_LOG_INFO, "%s: trying again: %s", title_of(attempt),
                   attempt->err.text);
    hf_mono due = mono_add_ms(
        now, backoff_ms(attempt->failures, RETRY_FIRST_MS, RETRY_MOST_MS, client_chance(client)));
    attempt->enter_due = attempt->look_due = due;
    return mono_min(due, attempt->deadline);
}

static void succeeded(struct attempt *attempt)
{
    attempt->failures = 0;
    attempt->failing_since = MONO_NEVER;
}

/* ---- Belief
 * --------------------------------------------------------------------------------------- */

static void fill_lock(struct attempt *attempt, struct hf_lock *lock, hf_mono now)
{
    const hf_lock_options *options = attempt->options;
    lock->stamp = attempt->waiter.stamp;
    lock->born = now;
    lock->is_by_hand = options->no_refresh;
    if (attempt->claim || options->no_refresh) {
        lock->lease_end = lease_end(attempt->sent, attempt->client->ttl_ms);
        ticker_poke(attempt->client, TICK_WATCH);
    }
    lock->verify_due = mono_add_ms(now, attempt->client->ttl_ms);
    lock->waited_ms = (now.ns - attempt->started.ns) / 1000000;
    lock->on_lost = options->on_lost;
    lock->lost_ctx = options->lost_ctx;
    if (lock->on_lost)
        ticker_start(attempt->client, TICK_NOTIFY, lock_notify_tick);
}

/* An asked ticket that was not believed before never will be (R9). */
static hf_mono refuse_asked(struct attempt *attempt, const hf_ask *ask, hf_mono now)
{
    error_set(&attempt->err, HF_LOST, "%.128s was broken by %.100s before it was had: %.160s",
              attempt->name, ask->by, ask->reason);
    return give_up(attempt, HF_LOST, now);
}

static hf_mono stopped(struct attempt *attempt, hf_code code, hf_mono now)
{
    error_set(&attempt->err, code, "%.128s: waiting was %s", title_of(attempt),
              code == HF_CLOSED ? "ended: the client was closed" : "cancelled");
    return give_up(attempt, code, now);
}

/* Granted, says an acknowledged answer or a look: believed only if the lease still runs (R4). */
static hf_mono believe(struct attempt *attempt, const hf_entry *entry, hf_mono now)
{
    hf_client *client = attempt->client;
    pthread_mutex_lock(&client->mutex);
    bool alive = session_is_believed_locked(client, entry->session, now) || PLANTED(REVIVED_BELIEF);
    session_ask *asked = alive ? session_find_ask_locked(client, entry->ticket) : NULL;
    if (PLANTED(ASKED_GRANT_BELIEVED))
        asked = NULL;
    hf_ask ask = asked ? asked->ask : (hf_ask){.by = ""};
    bool closing = client->is_closing;
    if (alive && !asked && !closing) {
        attempt->lock = lock_new_locked(
            client, attempt->claim ? attempt->record.name : attempt->name, entry, &attempt->record);
        fill_lock(attempt, attempt->lock, now);
        waiters_remove(&attempt->waiter);
        attempt->is_in_flight = false;
        if (client->store->can & HF_CAN_TELL_LOST)
            listen_want_locked(client, attempt->waiter.stamp);
    }
    pthread_mutex_unlock(&client->mutex);
    if (closing)
        return stopped(attempt, HF_CLOSED, now);
    if (asked)
        return refuse_asked(attempt, &ask, now);
    return alive ? end(attempt, HF_OK) : start_anew(attempt, now);
}

/* ---- Entering
 * --------------------------------------------------------------------------------------- */

/* With a new ticket: the old one is gone, or belongs to a session that is (L3). */
static hf_mono start_anew(struct attempt *attempt, hf_mono now)
{
    pthread_mutex_lock(&attempt->client->mutex);
    waiters_remove(&attempt->waiter);
    pthread_mutex_unlock(&attempt->client->mutex);
    attempt->enter.entry.ticket = (hf_id){{0}};
    attempt->is_in_flight = attempt->is_unanswered = false;
    attempt->state = ATTEMPT_ENTERS;
    attempt->enter_due = now;
    return now;
}

static void take_ticket_locked(struct attempt *attempt)
{
    hf_client *client = attempt->client;
    hf_entry *entry = &attempt->enter.entry;
    bool same = id_equal(entry->session, client->session.self.id);
    if (same && !id_is_zero(entry->ticket))
        return;
    waiters_remove(&attempt->waiter);
    entry->session = client->session.self.id;
    entry->ticket = client_new_id(client);
    attempt->is_unanswered = false;
    attempt->waiter.ticket = entry->ticket;
    attempt->waiter.stamp = (hf_stamp){0};
    waiters_add(&client->waiters, &attempt->waiter);
}

/* What a step of ours carries along: the releases of this name that wait in the background. */
struct cargo {
    struct release *releases;
    hf_leave *leaves;
    size_t n;
};

static bool load_locked(struct attempt *attempt, struct cargo *cargo)
{
    bool is_busy;
    *cargo = (struct cargo){.n = 0};
    if (PLANTED(CLOSE_UNORDERED) || attempt->claim)
        return true;
    cargo->releases = release_take_locked(attempt->client, attempt->name, &is_busy);
    for (struct release *r = cargo->releases; r; r = r->cargo_next) {
        cargo->leaves = alloc_array(cargo->leaves, cargo->n + 1, sizeof *cargo->leaves);
        cargo->leaves[cargo->n++] = r->leave;
    }
    return !is_busy;
}

static void unload_locked(hf_client *client, struct cargo *cargo, hf_code code, bool confirmed)
{
    if (code == HF_OK && confirmed)
        release_done_locked(client, cargo->releases);
    else
        release_put_back_locked(client, cargo->releases, code == HF_UNKNOWN);
    free(cargo->leaves);
}

static bool prepare(struct attempt *attempt, struct cargo *cargo)
{
    hf_client *client = attempt->client;
    pthread_mutex_lock(&client->mutex);
    bool ready = client->session.state == SESSION_ALIVE && load_locked(attempt, cargo);
    if (ready) {
        take_ticket_locked(attempt);
        attempt->is_in_flight = true;
    }
    pthread_mutex_unlock(&client->mutex);
    return ready;
}

/* A claim that got no answer may have taken a document, or may still do so: the next one comes with
 * a new ticket, as this one could otherwise come to stand in two documents. */
static void disown_locked(struct attempt *attempt)
{
    hf_client *client = attempt->client;
    hf_leave leave = {.ticket = attempt->enter.entry.ticket, .outcome = HF_OUTCOME_RELEASED};
    release_push_locked(client, "", &leave, false);
    ticker_poke(client, TICK_UPKEEP);
    attempt->enter.entry.ticket = (hf_id){{0}};
    attempt->is_in_flight = attempt->is_unanswered = false;
}

static hf_code step_or_claim(struct attempt *attempt, const struct cargo *cargo, hf_record *record,
                             hf_step_reply *reply)
{
    hf_store *store = attempt->client->store;
    hf_step step = {.leaves = cargo->leaves, .n_leaves = cargo->n, .enter = &attempt->enter};
    attempt->sent = client_now(attempt->client);
    if (attempt->claim)
        return store->ops->claim(store, attempt->claim, &attempt->enter, record, reply,
                                 &attempt->err);
    return store->ops->step(store, attempt->name, &step, record, reply, &attempt->err);
}

static hf_code send_enter(struct attempt *attempt, struct cargo *cargo)
{
    hf_client *client = attempt->client;
    hf_step_reply reply = {.confirmed = false};
    hf_record record;
    hf_code code = step_or_claim(attempt, cargo, &record, &reply);
    pthread_mutex_lock(&client->mutex);
    unload_locked(client, cargo, code, reply.confirmed);
    if (code == HF_UNKNOWN && !PLANTED(UNKNOWN_IS_FAILURE)) {
        session_suspect_locked(client, attempt->name);
        attempt->is_unanswered = true;
        if (attempt->claim)
            disown_locked(attempt);
    }
    if (code == HF_OK && reply.stamp.value > attempt->waiter.stamp.value)
        attempt->waiter.stamp = reply.stamp; /* a notice may have come first */
    pthread_mutex_unlock(&client->mutex);
    if (code == HF_OK) {
        record_done(&attempt->record);
        attempt->record = record;
        attempt->again_ms = reply.again_ms;
    }
    return code;
}

static hf_mono after_look(struct attempt *attempt, hf_mono now)
{
    if (PLANTED(NO_LOOK_UNTOLD))
        return MONO_NEVER;
    hf_client *client = attempt->client;
    int64_t most = client->is_polling ? POLL_MOST_MS : LOOK_MS;
    int64_t first = client->is_polling ? POLL_FIRST_MS : LOOK_MS;
    return mono_add_ms(now, backoff_ms(++attempt->polls, first, most, client_chance(client)));
}

static hf_mono queued(struct attempt *attempt, hf_mono now)
{
    hf_client *client = attempt->client;
    attempt->state = ATTEMPT_WAITS;
    pthread_mutex_lock(&client->mutex);
    listen_want_locked(client, attempt->waiter.stamp);
    attempt->look_due = after_look(attempt, now);
    pthread_mutex_unlock(&client->mutex);
    return now;
}

/* A try that was refused looks once at who is in its way (R6). */
static hf_mono refused_try(struct attempt *attempt, hf_mono now)
{
    judging result;
    attempt->is_in_flight = attempt->is_unanswered;
    hf_code code = judging_tick(attempt, now, true, &result, &attempt->err);
    if (code)
        return failed(attempt, code, now);
    if (result == JUDGING_CHANGED)
        return start_anew(attempt, client_now(attempt->client));
    if (attempt->record.limit != attempt->enter.limit)
        return refuse_limit(attempt, now);
    return describe_held(attempt, HF_HELD, now);
}

static hf_mono come_back(struct attempt *attempt, attempt_state state, int64_t ms, hf_mono now)
{
    attempt->state = state;
    attempt->is_in_flight = attempt->is_unanswered;
    attempt->enter_due = mono_add_ms(now, ms);
    return now;
}

/* This very session uses the lock with the other limit: no need to see whether it lives. */
static bool is_ours(const struct attempt *attempt)
{
    const hf_record *record = &attempt->record;
    for (size_t i = 0; i < record->holders + record->queued; i++)
        if (id_equal(record->entries[i].session, attempt->enter.entry.session))
            return true;
    return false;
}

/* Without a queue: comes back now and then, and at a notice. */
static hf_mono held_by_others(struct attempt *attempt, hf_mono now)
{
    hf_client *client = attempt->client;
    if (attempt->enter.try_only)
        return describe_held(attempt, HF_HELD, now);
    pthread_mutex_lock(&client->mutex);
    listen_want_locked(client, attempt->waiter.stamp);
    int64_t ms = attempt->again_ms ? attempt->again_ms : POLL_MOST_MS;
    if (!client->is_polling && ms < NOTICED_MS)
        ms = NOTICED_MS;
    ms = backoff_ms(1, ms, ms, client_chance(client));
    pthread_mutex_unlock(&client->mutex);
    return come_back(attempt, ATTEMPT_BUSY, ms, now);
}

static bool has_queue(const struct attempt *attempt)
{
    return attempt->client->store->can & HF_CAN_QUEUE;
}

static hf_mono judge_answer(struct attempt *attempt, hf_mono now)
{
    const hf_entry *own = record_find(&attempt->record, attempt->enter.entry.ticket);
    if (!has_queue(attempt))
        return own ? believe(attempt, own, now) : held_by_others(attempt, now);
    switch (record_judge(&attempt->record, &attempt->enter)) {
    case RECORD_HOLDS:
        return believe(attempt, own, now);
    case RECORD_WAITS:
        return queued(attempt, now);
    case RECORD_HELD:
        return refused_try(attempt, now);
    case RECORD_BUSY:
        attempt->enter.returner = true;
        return come_back(attempt, ATTEMPT_BUSY,
                         backoff_busy_ms(&attempt->record, client_chance(attempt->client)), now);
    case RECORD_LIMIT:
        if (attempt->enter.try_only)
            return refused_try(attempt, now);
        if (is_ours(attempt))
            return refuse_limit(attempt, now);
        return come_back(attempt, ATTEMPT_REFUSED, REFUSED_MS, now);
    case RECORD_GONE:
        break;
    }
    return start_anew(attempt, now);
}

static hf_mono enter(struct attempt *attempt, hf_mono now)
{
    struct cargo cargo;
    hf_code code = session_ensure(attempt->client, &attempt->err);
    if (code == HF_HELD || (!code && !prepare(attempt, &cargo)))
        return mono_add_ms(now, 50); /* woken when that has changed */
    if (!code)
        code = send_enter(attempt, &cargo);
    now = client_now(attempt->client);
    if (code == HF_NOT_FOUND) /* a document: there is nothing to leave */
        attempt->is_in_flight = attempt->is_unanswered;
    if (code)
        return failed(attempt, code, now);
    succeeded(attempt);
    return judge_answer(attempt, now);
}

/* ---- Waiting
 * ------------------------------------------------------------------------------------------ */

static bool keep_record(void *ctx, const hf_record *record)
{
    struct attempt *attempt = ctx;
    record_done(&attempt->record);
    record_copy(&attempt->record, record);
    return false;
}

static hf_code look(struct attempt *attempt, hf_stamp after)
{
    hf_store *store = attempt->client->store;
    if (PLANTED(EARLIER_LOOK))
        after.value = 0;
    return store->ops->look(store, &attempt->name, 1, after, false, keep_record, attempt,
                            &attempt->err);
}

/* Its ticket's session is not alive any more: the wait begins anew in the next one (L3). */
static bool is_orphaned(struct attempt *attempt)
{
    hf_client *client = attempt->client;
    pthread_mutex_lock(&client->mutex);
    bool orphaned = client->session.state != SESSION_ALIVE ||
                    !id_equal(client->session.self.id, attempt->enter.entry.session);
    pthread_mutex_unlock(&client->mutex);
    return orphaned;
}

static hf_mono vanished(struct attempt *attempt, hf_mono now)
{
    hf_client *client = attempt->client;
    pthread_mutex_lock(&client->mutex);
    session_ask *asked = session_find_ask_locked(client, attempt->enter.entry.ticket);
    hf_ask ask = asked ? asked->ask : (hf_ask){.by = ""};
    pthread_mutex_unlock(&client->mutex);
    return asked ? refuse_asked(attempt, &ask, now) : start_anew(attempt, now);
}

static hf_mono look_and_see(struct attempt *attempt, hf_stamp after)
{
    hf_code code = look(attempt, after);
    hf_mono now = client_now(attempt->client);
    if (code)
        return failed(attempt, code, now);
    succeeded(attempt);
    pthread_mutex_lock(&attempt->client->mutex);
    attempt->look_due = after_look(attempt, now);
    pthread_mutex_unlock(&attempt->client->mutex);
    const hf_entry *entry = record_find(&attempt->record, attempt->enter.entry.ticket);
    if (!entry)
        return vanished(attempt, now);
    return record_position(&attempt->record, entry) ? now : believe(attempt, entry, now);
}

static hf_mono watch_ahead(struct attempt *attempt, hf_mono now, hf_mono otherwise)
{
    judging result;
    hf_code code = judging_tick(attempt, now, false, &result, &attempt->err);
    if (code)
        return failed(attempt, code, client_now(attempt->client));
    if (result == JUDGING_CHANGED) {
        attempt->look_due = attempt->enter_due = now;
        return now;
    }
    hf_mono due = mono_min(otherwise, judge_due(&attempt->judge));
    return mono_min(due, attempt->deadline);
}

static hf_mono wait_in_queue(struct attempt *attempt, hf_mono now)
{
    hf_client *client = attempt->client;
    if (is_orphaned(attempt))
        return start_anew(attempt, now);
    pthread_mutex_lock(&client->mutex);
    bool told = waiter_take(&attempt->waiter);
    hf_stamp stamp = attempt->waiter.stamp;
    pthread_mutex_unlock(&client->mutex);
    if (PLANTED(NOTICE_TRUSTED) && told)
        return believe(attempt, record_find(&attempt->record, attempt->waiter.ticket), now);
    if (told || mono_reached(attempt->look_due, now)) {
        hf_mono due = look_and_see(attempt, stamp);
        if (attempt->state != ATTEMPT_WAITS || attempt->failures)
            return due;
    }
    return watch_ahead(attempt, client_now(client), attempt->look_due);
}

/* It may be free: worth coming back before the time. */
static bool is_called(struct attempt *attempt)
{
    pthread_mutex_lock(&attempt->client->mutex);
    bool told = !has_queue(attempt) && waiter_take(&attempt->waiter);
    pthread_mutex_unlock(&attempt->client->mutex);
    return told;
}

static hf_mono wait_outside(struct attempt *attempt, hf_mono now)
{
    if (mono_reached(attempt->enter_due, now) || is_called(attempt)) {
        attempt->state = ATTEMPT_ENTERS;
        return enter(attempt, now);
    }
    if (!has_queue(attempt))
        return mono_min(attempt->enter_due, attempt->deadline);
    if (PLANTED(BUSY_DOES_NOT_JUDGE))
        return mono_min(attempt->enter_due, attempt->deadline);
    hf_mono due = watch_ahead(attempt, now, attempt->enter_due);
    if (attempt->state == ATTEMPT_REFUSED && judge_saw_life(&attempt->judge))
        return refuse_limit(attempt, now);
    return due;
}

/* ---- One step
 * ------------------------------------------------------------------------------------------- */

static hf_mono time_out(struct attempt *attempt, hf_mono now)
{
    if (attempt->failures)
        return give_up(attempt, attempt->err.code, now);
    if (attempt->state == ATTEMPT_REFUSED)
        return refuse_limit(attempt, now);
    return describe_held(attempt, HF_TIMEOUT, now);
}

hf_mono attempt_step(struct attempt *attempt, hf_mono now)
{
    hf_client *client = attempt->client;
    pthread_mutex_lock(&client->mutex);
    bool closing = client->is_closing;
    attempt->is_woken = false;
    pthread_mutex_unlock(&client->mutex);
    if (closing)
        return stopped(attempt, HF_CLOSED, now);
    if (cancel_is_fired(attempt->options->cancel))
        return stopped(attempt, HF_CANCELLED, now);
    if (mono_reached(attempt->deadline, now))
        return time_out(attempt, now);
    switch (attempt->state) {
    case ATTEMPT_ENTERS:
        if (mono_reached(attempt->enter_due, now))
            return enter(attempt, now);
        return mono_min(attempt->enter_due, attempt->deadline);
    case ATTEMPT_WAITS:
        return wait_in_queue(attempt, now);
    case ATTEMPT_BUSY:
    case ATTEMPT_REFUSED:
        return wait_outside(attempt, now);
    case ATTEMPT_ENDED:
        break;
    }
    return MONO_NEVER;
}

void attempt_info(const struct attempt *attempt, hf_wait_info *info, hf_mono now)
{
    const hf_record *record = &attempt->record;
    const hf_entry *own = record_find(record, attempt->enter.entry.ticket);
    const hf_entry *holder = record->holders ? &record->entries[0] : NULL;
    *info = (hf_wait_info){.name = title_of(attempt),
                           .waited_ms = (now.ns - attempt->started.ns) / 1000000,
                           .position = own ? record_position(record, own) : 0,
                           .queued = record->queued,
                           .n_holders = record->holders,
                           .holder = holder ? holder_of(attempt) : "",
                           .why = holder ? holder->why : "",
                           .held_since_ms = holder ? holder->granted_at.ms : 0,
                           .trouble = attempt->failures ? attempt->err.text : ""};
}
