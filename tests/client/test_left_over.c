/* SPDX-License-Identifier: Apache-2.0 */
/* test_left_over.c: what is still to be sent: releases that are put off, downgrades, tickets that
 * may still land, and the end of a session; each is sent once, and for the right session. The
 * client has no threads: the test makes its ticks. Run by ctest. */
#include "client/lease_bed.h"

#include "core/id.h"

#define TTL 10000

static hf_client *client;
static faulty *f;
static const hf_lock_options plain;

static hf_mono now(void)
{
    return client_now(client);
}

static void open_with(const char *uri, hf_options options)
{
    f = faulty_open_still(uri, &options, &client);
}

static void open_still(const char *uri)
{
    open_with(uri, (hf_options){.ttl_ms = TTL});
}

/* Time passes, and the client does what is due. */
static void go_on(int64_t ms)
{
    for (; ms > 0; ms -= 500) {
        faulty_pass(f, 500);
        beat_tick(client, now());
        upkeep_tick(client, now());
    }
}

static void close_still(void)
{
    f->before = f->after = (faulty_hook *)NULL;
    go_on(5000);
    hf_close(client);
}

static size_t count_releases(void)
{
    size_t n = 0;
    for (const struct release *r = client->hold->releases.first; r; r = r->next)
        n++;
    return n;
}

/* Which code such calls are answered with, in place of being sent. */
static bool (*fails)(faulty_call call, const void *arg);
static hf_code code_of_failure;

static hf_code fail_such(faulty *of, faulty_call call, const void *arg)
{
    (void)of;
    return fails(call, arg) ? code_of_failure : HF_OK;
}

static void let_fail(bool (*which)(faulty_call call, const void *arg), hf_code code)
{
    fails = which;
    code_of_failure = code;
    f->before = fail_such;
}

static bool is_change(faulty_call call, const void *arg)
{
    return call == FAULTY_STEP && ((const struct faulty_step *)arg)->step->change;
}

/* ---- Breaks ---- */

static hf_id of_nobody;
static hf_presence when_it_left;

static hf_presence presence_of(hf_id id)
{
    hf_session_state state;
    hf_error err;
    assert_int_equal(f->inner->ops->sessions_look(f->inner, &id, 1, -1, &state, &err), HF_OK);
    return state.presence;
}

static hf_code note_presence(faulty *of, faulty_call call, const void *arg)
{
    (void)of;
    if (is_leave(call, arg))
        when_it_left = presence_of(of_nobody);
    return HF_OK;
}

/* It could begin again while its ticket is being taken out, and believe. */
static void test_a_session_that_is_missing_is_barred_before_its_ticket_is_taken_out(void **state)
{
    (void)state;
    hf_error err;
    open_still("memory:barred");
    of_nobody = (hf_id){{9}};
    enter_as(f->inner, "x", of_nobody, 1);
    f->before = note_presence;
    assert_int_equal(hf_break(client, "x", &(hf_break_options){.reason = "it is gone"}, &err),
                     HF_OK);
    assert_int_equal(when_it_left, HF_DEAD);
    assert_int_equal(look_at(f->inner, "x").holders, 0);
    close_still();
}

/* ---- Releases ---- */

static void close_while_refused(const char *name)
{
    hf_lock *lock = take(client, name);
    let_fail(is_leave, HF_SHAPE);
    hf_lock_close(lock);
    go_on(500);
    assert_int_equal(count_releases(), 1);
}

/* A look at the suspects shows its ticket, which is on its way out already. */
static void test_what_is_being_released_is_not_released_twice(void **state)
{
    (void)state;
    open_still("memory:twice");
    hf_lock *other = take(client, "y");
    close_while_refused("x");
    session_suspect_locked(client, "x");
    go_on(2 * TTL);
    assert_int_equal(count_releases(), 1);
    hf_lock_close(other);
    close_still();
}

/* A new session would forget what the old one has to release. */
static void test_a_session_with_something_to_release_is_kept(void **state)
{
    (void)state;
    open_still("memory:kept");
    close_while_refused("x");
    session_suspect_locked(client, "z");
    hf_id session = client->session.self.id;
    hf_lock *lock = take(client, "y");
    assert_true(id_equal(client->session.self.id, session));
    f->before = (faulty_hook *)NULL;
    go_on(5000);
    assert_int_equal(count_releases(), 0);
    assert_int_equal(look_at(f->inner, "x").holders, 0);
    hf_lock_close(lock);
    close_still();
}

static void test_an_idle_session_with_suspects_is_replaced(void **state)
{
    (void)state;
    open_still("memory:replaced");
    hf_lock_close(take(client, "x"));
    go_on(500);
    session_suspect_locked(client, "z");
    hf_id session = client->session.self.id;
    hf_lock *lock = take(client, "y");
    assert_false(id_equal(client->session.self.id, session));
    assert_int_equal(client->session.n_suspects, 0);
    hf_lock_close(lock);
    close_still();
}

static bool is_end(faulty_call call, const void *arg)
{
    (void)arg;
    return call == FAULTY_END;
}

/* Otherwise its tickets would stand for another ttl when the store is back. */
static void test_the_end_of_a_session_is_sent_until_the_store_answers(void **state)
{
    (void)state;
    open_still("memory:ended");
    hf_lock *lock = take(client, "x");
    hf_id id = client->session.self.id;
    let_fail(is_end, HF_UNREACHABLE);
    life_end_locked(client);
    go_on(60000);
    assert_int_equal(client->hold->endings.n, 1);
    assert_in_range(f->calls[FAULTY_END], 60, 130);
    f->before = (faulty_hook *)NULL;
    go_on(500);
    assert_int_equal(client->hold->endings.n, 0);
    assert_int_equal(presence_of(id), HF_DEAD);
    hf_lock_close(lock);
    close_still();
}

/* A waiter marks it. */
static void test_an_end_that_the_store_refuses_is_not_sent_again(void **state)
{
    (void)state;
    open_still("memory:refused-end");
    hf_lock *lock = take(client, "x");
    let_fail(is_end, HF_DENIED);
    life_end_locked(client);
    go_on(5000);
    assert_int_equal(f->calls[FAULTY_END], 1);
    assert_int_equal(client->hold->endings.n, 0);
    hf_lock_close(lock);
    close_still();
}

static int ends;

static hf_code lose_session_in_enter(faulty *of, faulty_call call, const void *arg)
{
    ends += call == FAULTY_END;
    if (!is_enter(call, arg))
        return HF_OK;
    faulty_pass(of, TTL);
    belief_tick(client, now());
    return HF_UNKNOWN;
}

/* An enter carries a release along, and its session is lost meanwhile. The leave comes before the
 * mark: it says how the lock was left. */
static void test_a_release_that_is_carried_outlives_its_session(void **state)
{
    (void)state;
    struct attempt a;
    open_still("memory:carried");
    hf_lock_close(take(client, "x"));
    assert_int_equal(count_releases(), 1);
    ends = 0;
    f->after = lose_session_in_enter;
    attempt_init(&a, client, "x", &plain);
    attempt_step(&a, now());
    assert_int_equal(count_releases(), 1);
    let_fail(is_leave, HF_UNREACHABLE);
    upkeep_tick(client, now());
    assert_int_equal(count_releases(), 1);
    assert_int_equal(f->calls[FAULTY_END], 0);
    f->before = (faulty_hook *)NULL;
    go_on(500);
    assert_int_equal(count_releases(), 0);
    assert_int_equal(f->calls[FAULTY_END], 1);
    f->after = (faulty_hook *)NULL;
    attempt_cancel(&a, now());
    attempt_done(&a);
    close_still();
}

/* ---- Downgrades ---- */

/* What could not be lowered is wanted whole again. */
static void test_an_upgrade_ends_a_downgrade_that_is_still_to_be_sent(void **state)
{
    (void)state;
    hf_error err;
    open_with("memory:lowered", (hf_options){.ttl_ms = TTL, .patience_ms = 1});
    hf_lock *lock = take(client, "x");
    let_fail(is_change, HF_UNREACHABLE);
    assert_int_equal(hf_lock_downgrade(lock, &err), HF_UNREACHABLE);
    assert_int_equal(hf_lock_mode(lock), HF_SHARED);
    f->before = (faulty_hook *)NULL;
    assert_int_equal(hf_lock_upgrade(lock, &err), HF_OK);
    int steps = f->calls[FAULTY_STEP];
    go_on(5000);
    assert_int_equal(f->calls[FAULTY_STEP], steps);
    assert_int_equal(look_at(f->inner, "x").holder.permits, HF_LIMIT_RW);
    hf_lock_close(lock);
    close_still();
}

/* ---- Tickets of those that give up ---- */

static void begin_attempt(struct attempt *a, uint64_t thread)
{
    attempt_init(a, client, "x", &plain);
    a->request.thread = thread;
    attempt_step(a, now());
}

/* Another session has x; one waits for it, and two stands behind one. */
static void wait_in_line(struct attempt *one, struct attempt *two)
{
    hf_lock_close(take(client, "w"));
    enter_as(f->inner, "x", begin_dead(f->inner, 9, 3600000), 1);
    begin_attempt(one, 1000);
    begin_attempt(two, 1001);
    assert_int_equal(one->state, ATTEMPT_WAITS);
    assert_int_equal(two->state, ATTEMPT_IN_LINE);
}

static void end_both(struct attempt *one, struct attempt *two)
{
    attempt_done(one);
    attempt_cancel(two, now());
    attempt_done(two);
    assert_int_equal(look_at(f->inner, "x").queued, 0);
    close_still();
}

static void test_a_ticket_goes_to_the_next_in_line(void **state)
{
    (void)state;
    struct attempt one, two;
    open_still("memory:given");
    wait_in_line(&one, &two);
    attempt_cancel(&one, now());
    assert_int_equal(look_at(f->inner, "x").queued, 1);
    attempt_step(&two, now());
    assert_int_equal(two.state, ATTEMPT_WAITS);
    assert_true(id_equal(two.request.enter.entry.ticket, one.request.enter.entry.ticket));
    end_both(&one, &two);
}

/* Nobody may believe in it any more. */
static void test_a_ticket_that_was_asked_for_goes_to_nobody(void **state)
{
    (void)state;
    struct attempt one, two;
    open_still("memory:asked");
    wait_in_line(&one, &two);
    session_ask ask = {.ask.ticket = one.request.enter.entry.ticket};
    session_add_ask_locked(client, &ask);
    attempt_cancel(&one, now());
    assert_int_equal(look_at(f->inner, "x").queued, 0);
    attempt_step(&two, now());
    assert_int_not_equal(two.state, ATTEMPT_ENDED);
    assert_false(id_equal(two.request.enter.entry.ticket, one.request.enter.entry.ticket));
    end_both(&one, &two);
}

/* ---- Suspects ---- */

/* The look shows those that wait, too. */
static void test_who_waits_is_no_suspect(void **state)
{
    (void)state;
    struct attempt one, two;
    open_still("memory:waits");
    wait_in_line(&one, &two);
    session_suspect_locked(client, "x");
    hf_id session = client->session.self.id;
    go_on(2 * TTL);
    assert_int_equal(look_at(f->inner, "x").queued, 1);
    assert_true(id_equal(client->session.self.id, session));
    attempt_cancel(&one, now());
    end_both(&one, &two);
}

/* ---- Ids ---- */

/* So that they sort by time, as ObjectIds do. */
static void test_an_id_begins_with_the_seconds(void **state)
{
    (void)state;
    open_still("memory:ids");
    hf_id id = client_new_id(client), next = client_new_id(client);
    uint64_t seconds = 0;
    for (int i = 0; i < 4; i++)
        seconds = seconds << 8 | id.bytes[i];
    assert_int_equal(seconds, client_wall(client).ms / 1000);
    assert_memory_equal(id.bytes, next.bytes, 4);
    assert_memory_not_equal(id.bytes + 4, next.bytes + 4, 8);
    hf_close(client);
}

/* ---- A lease that is being made ---- */

/* Its ticket may be missing as soon as the pass is sent, and that is no loss. */
static void test_a_lock_on_its_way_to_a_lease_is_not_verified(void **state)
{
    (void)state;
    hf_error err;
    open_still("memory:passing");
    hf_lock *lock = take(client, "x");
    hf_leave leave = {.ticket = lock->grant.ticket, .outcome = HF_OUTCOME_RELEASED};
    hf_step step = {.leaves = &leave, .n_leaves = 1};
    hf_step_reply reply;
    lock_begin_pass_locked(lock);
    assert_int_equal(f->inner->ops->step(f->inner, "x", &step, NULL, &reply, &err), HF_OK);
    go_on(2 * TTL);
    assert_true(f->calls[FAULTY_LOOK] > 0);
    assert_int_equal(hf_lock_check(lock, NULL, &err), HF_OK);
    hf_lock_close(lock);
    close_still();
}

/* ---- Many ---- */

#define MANY 1100 /* more than two looks can take */

static size_t looked_at;

static hf_code count_names(faulty *of, faulty_call call, const void *arg)
{
    (void)of;
    if (call == FAULTY_LOOK)
        looked_at += ((const struct faulty_look *)arg)->n;
    return HF_OK;
}

static void test_all_that_is_held_is_verified(void **state)
{
    (void)state;
    static hf_lock *all[MANY];
    char name[16];
    open_with("memory:many", (hf_options){.ttl_ms = 60000});
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "l%d", i);
        all[i] = take(client, name);
    }
    f->before = count_names;
    looked_at = 0;
    for (int i = 0; i < 4; i++) {
        faulty_pass(f, 20000);
        beat_tick(client, now());
        upkeep_tick(client, now());
    }
    assert_int_equal(looked_at, MANY);
    assert_int_equal(f->calls[FAULTY_LOOK], 3);
    for (int i = 0; i < MANY; i++)
        hf_lock_close(all[i]);
    close_still();
}

/* ---- What records of earlier programs say ---- */

static void test_what_was_done_is_told_from_how_it_was_left(void **state)
{
    (void)state;
    hf_last_mark mark = {.outcome = HF_OUTCOME_RELEASED,
                         .token = 7,
                         .has_exit_status = true,
                         .exit_status = 3,
                         .at = {1000},
                         .who = "me"};
    assert_string_equal(previous_text(&mark).done.who, "me");
    assert_int_equal(previous_text(&mark).done.token, 7);
    assert_int_equal(previous_text(&mark).done.exit_status, 3);
    mark.outcome = HF_OUTCOME_ABANDONED;
    assert_null(previous_text(&mark).done.who);
    mark.outcome = HF_OUTCOME_RELEASED;
    mark.has_exit_status = false;
    assert_null(previous_text(&mark).done.who);
    mark.done.is_known = true;
    mark.done.token = 5;
    assert_int_equal(previous_text(&mark).done.token, 5);
    assert_int_equal(previous_text(&mark).token, 7);
}

/* ---- Releases of leases ---- */

static lease_ids released;
static int leaves;

static bool ignore_second_leave(faulty *of, const struct faulty_step *taken)
{
    (void)of;
    return taken->step->n_leaves && leaves++ == 1;
}

/* The answer is lost; meanwhile another session has had the lock, and the lease's own is dead. */
static hf_code lose_first_answer(faulty *of, faulty_call call, const void *arg)
{
    if (!is_leave(call, arg) || leaves != 1)
        return HF_OK;
    mark_dead(of->inner, released.session);
    hf_id session = begin_dead(of->inner, 9, 3600000);
    enter_as(of->inner, "x", session, 1);
    mark_dead(of->inner, session);
    return HF_UNKNOWN;
}

/* It can only have been this release that took it out. */
static void test_a_lease_whose_release_had_no_answer_was_released(void **state)
{
    (void)state;
    hf_error err;
    hf_lease lease;
    open_still("memory:lease-unanswered");
    assert_int_equal(hf_lease_acquire(client, "x", NULL, &lease, &err), HF_OK);
    released = ids_of(lease.id);
    leaves = 0;
    f->swallows = ignore_second_leave;
    f->after = lose_first_answer;
    assert_int_equal(hf_lease_release(client, lease.id, &err), HF_OK);
    assert_int_equal(leaves, 2);
    close_still();
}

static hf_code die_before_the_first(faulty *of, faulty_call call, const void *arg)
{
    if (!is_leave(call, arg) || leaves++)
        return HF_OK;
    abandon(of->inner, "x", released.ticket);
    mark_dead(of->inner, released.session);
    return HF_UNKNOWN;
}

static void test_a_lease_whose_release_came_too_late_was_lost(void **state)
{
    (void)state;
    hf_error err;
    hf_lease lease;
    open_still("memory:lease-late");
    assert_int_equal(hf_lease_acquire(client, "x", NULL, &lease, &err), HF_OK);
    released = ids_of(lease.id);
    leaves = 0;
    f->before = die_before_the_first;
    assert_int_equal(hf_lease_release(client, lease.id, &err), HF_LOST);
    assert_int_equal(leaves, 2);
    close_still();
}

static hf_code die_before_the_next_holds(faulty *of, faulty_call call, const void *arg)
{
    bool is_first = is_leave(call, arg) && !leaves;
    hf_code code = die_before_the_first(of, call, arg);
    if (!is_first)
        return code;
    enter_as(of->inner, "x", begin_dead(of->inner, 9, 3600000), 1);
    leave_by(of->inner, "x",
             &(hf_leave){.ticket = {{0, 1}}, .outcome = HF_OUTCOME_RELEASED, .told = true});
    return code;
}

/* The record does not say any more that it was (R8). */
static void test_a_lease_that_may_have_been_lost_was(void **state)
{
    (void)state;
    hf_error err;
    hf_lease lease;
    open_still("memory:lease-doubt");
    assert_int_equal(hf_lease_acquire(client, "x", NULL, &lease, &err), HF_OK);
    released = ids_of(lease.id);
    leaves = 0;
    f->before = die_before_the_next_holds;
    assert_int_equal(hf_lease_release(client, lease.id, &err), HF_LOST);
    assert_int_equal(leaves, 2);
    close_still();
}

/* As of an earlier answer in the same memory. */
static void leave_old_asks(faulty *of, hf_session_state *state)
{
    (void)of;
    if (state->n_asked)
        return;
    state->asked[0].ticket = released.ticket;
    snprintf(state->asked[0].by, sizeof state->asked[0].by, "somebody");
}

static bool ignore_leaves(faulty *of, const struct faulty_step *taken)
{
    if (!taken->step->n_leaves || leaves++)
        return false;
    abandon(of->inner, "x", released.ticket);
    return true;
}

/* Only those that were counted are asks: nobody has asked for it, so it was left. */
static void test_asks_beyond_the_count_are_none(void **state)
{
    (void)state;
    hf_error err;
    hf_lease lease;
    open_still("memory:lease-asks");
    assert_int_equal(hf_lease_acquire(client, "x", NULL, &lease, &err), HF_OK);
    released = ids_of(lease.id);
    leaves = 0;
    f->swallows = ignore_leaves;
    f->edits_state = leave_old_asks;
    assert_int_equal(hf_lease_release(client, lease.id, &err), HF_OK);
    close_still();
}

/* ---- What is not there ---- */

static hf_code find_nothing(faulty *of, faulty_call call, const void *arg)
{
    (void)of;
    leaves += is_leave(call, arg);
    return is_enter(call, arg) ? HF_NOT_FOUND : HF_OK;
}

/* A document that is not there has no ticket that could be left in it. */
static void test_nothing_is_left_in_what_is_not_there(void **state)
{
    (void)state;
    hf_lock *lock;
    hf_error err;
    open_still("memory:not-there");
    f->before = find_nothing;
    leaves = 0;
    assert_int_equal(hf_lock_acquire(client, "x", NULL, &lock, &err), HF_NOT_FOUND);
    go_on(2000);
    assert_int_equal(leaves, 0);
    close_still();
}

static void assert_claim_finds_none(const char *filter, const char *said)
{
    hf_lock *lock;
    hf_error err;
    hf_lock_options options = {.wait_ms = HF_TRY};
    assert_int_equal(hf_document_claim(client, filter, NULL, &options, &lock, &err), HF_NOT_FOUND);
    assert_non_null(strstr(err.text, said));
}

static void test_a_claim_says_what_it_looked_for(void **state)
{
    (void)state;
    open_still("memory:filters");
    faulty_let_claim(f, "job");
    hf_id session = begin_dead(f->inner, 9, 3600000);
    enter_as(f->inner, "job", session, 1);
    assert_claim_finds_none(NULL, "matches {} is free");
    assert_claim_finds_none("{\"a\": 1}", "matches {\"a\": 1} is free");
    close_still();
}

/* ---- Sweeps ---- */

/* It watches whom it found for a ttl more than a waiter would, but not for hours. */
static int64_t watches_for_ms(const char *uri, int32_t ttl_ms)
{
    open_still(uri);
    begin_dead(f->inner, 9, ttl_ms);
    faulty_pass(f, INT64_C(26) * 3600 * 1000);
    hf_lock *lock = take(client, "x");
    faulty_pass(f, 1000);
    hf_mono began = now();
    sweep_tick(client, began);
    int64_t ms = mono_ms_until(client->hold->sweep.until, began);
    hf_lock_close(lock);
    close_still();
    return ms;
}

static void test_a_sweep_watches_for_half_an_hour_at_most(void **state)
{
    (void)state;
    int64_t ms = watches_for_ms("memory:short-watch", 60000);
    assert_in_range(ms, 120000, 200000);
    assert_int_equal(watches_for_ms("memory:long-watch", 3600000), 1800000);
}

/* ---- Closing ---- */

static int losses;

static void count_loss(void *ctx, hf_lock *lock, const hf_error *why, int64_t left_ms)
{
    (void)ctx, (void)lock, (void)why, (void)left_ms;
    losses++;
}

/* Who closes the client knows that its locks go; they are left as any release leaves them. */
static void test_closing_releases_and_tells_nobody(void **state)
{
    (void)state;
    hf_lock *lock;
    hf_error err;
    hf_last last;
    hf_lock_options options = {.on_lost = count_loss};
    hf_client *closing = open_client("memory:tells", TTL), *next = open_client("memory:tells", TTL);
    losses = 0;
    assert_int_equal(hf_lock_acquire(closing, "x", &options, &lock, &err), HF_OK);
    int64_t token = hf_lock_token(lock);
    hf_close(closing);
    hf_lock_close(lock);
    lock = take(next, "x");
    assert_int_equal(losses, 0);
    assert_int_equal(hf_lock_previous(lock, &last, &err), HF_OK);
    assert_int_equal(last.outcome, HF_OUTCOME_RELEASED);
    assert_int_equal(last.token, token);
    hf_lock_close(lock);
    hf_close(next);
}

static hf_code fail_all(faulty *of, faulty_call call, const void *arg)
{
    (void)of;
    (void)arg;
    ends += call == FAULTY_END;
    return HF_UNREACHABLE;
}

/* Its sessions end by themselves. Here nothing is left to be released, so it is not waited for. */
static void test_a_store_that_does_not_answer_is_asked_once(void **state)
{
    (void)state;
    hf_error err;
    open_still("memory:away");
    hf_lock *lock = take(client, "x");
    hf_lock_close(lock);
    go_on(500);
    life_end_locked(client);
    lock = take(client, "x");
    assert_int_equal(hf_lock_release(lock, &err), HF_OK);
    hf_lock_close(lock);
    assert_int_equal(client->hold->endings.n, 1);
    ends = 0;
    f->before = fail_all;
    hf_close(client); /* it has two sessions to end */
    assert_int_equal(ends, 1);
}

static void test_sessions_are_ended_if_the_store_answers(void **state)
{
    (void)state;
    open_still("memory:answers");
    hf_lock_close(take(client, "x"));
    go_on(500);
    life_close(client, false);
    assert_int_equal(f->calls[FAULTY_END], 0);
    assert_int_equal(client->session.state, SESSION_NONE);
    life_close(client, true);
    assert_int_equal(f->calls[FAULTY_END], 1);
    hf_close(client);
}

/* ---- Releases of leases ---- */

/* One that got no answer. */
static lease_ids keep_one(void)
{
    hf_error err;
    hf_lease lease;
    assert_int_equal(hf_lease_acquire(client, "x", NULL, &lease, &err), HF_OK);
    lease_ids ids = ids_of(lease.id);
    go_on(1000);
    assert_true(lease_keep(client, &ids, client_now(client)));
    return ids;
}

static void test_closing_sends_the_releases_of_leases_once_more(void **state)
{
    (void)state;
    open_still("memory:departing-at-the-end");
    hf_client *other = open_client("memory:departing-at-the-end", 10000);
    keep_one();
    hf_close(client);
    assert_int_equal(look_at(other->store, "x").holders, 0);
    hf_close(other);
}

static void test_closing_leaves_a_lease_to_itself_if_the_store_is_silent(void **state)
{
    (void)state;
    open_still("memory:departing-into-silence");
    hf_client *other = open_client("memory:departing-into-silence", 10000);
    keep_one();
    ends = 0;
    f->before = fail_all;
    hf_close(client);
    assert_int_equal(look_at(other->store, "x").holders, 1);
    hf_close(other);
}

static void test_a_client_that_is_closed_keeps_no_release_of_a_lease(void **state)
{
    (void)state;
    open_still("memory:departing-too-late");
    lease_ids ids = keep_one();
    lease_forget(client, &ids);
    assert_false(lease_is_kept(client, &ids));
    client->closing.has_begun = true;
    assert_false(lease_keep(client, &ids, client_now(client)));
    assert_false(lease_is_kept(client, &ids));
    hf_close(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_session_that_is_missing_is_barred_before_its_ticket_is_taken_out),
        cmocka_unit_test(test_what_is_being_released_is_not_released_twice),
        cmocka_unit_test(test_a_session_with_something_to_release_is_kept),
        cmocka_unit_test(test_an_idle_session_with_suspects_is_replaced),
        cmocka_unit_test(test_the_end_of_a_session_is_sent_until_the_store_answers),
        cmocka_unit_test(test_an_end_that_the_store_refuses_is_not_sent_again),
        cmocka_unit_test(test_a_release_that_is_carried_outlives_its_session),
        cmocka_unit_test(test_an_upgrade_ends_a_downgrade_that_is_still_to_be_sent),
        cmocka_unit_test(test_a_ticket_goes_to_the_next_in_line),
        cmocka_unit_test(test_a_ticket_that_was_asked_for_goes_to_nobody),
        cmocka_unit_test(test_who_waits_is_no_suspect),
        cmocka_unit_test(test_an_id_begins_with_the_seconds),
        cmocka_unit_test(test_a_lock_on_its_way_to_a_lease_is_not_verified),
        cmocka_unit_test(test_all_that_is_held_is_verified),
        cmocka_unit_test(test_what_was_done_is_told_from_how_it_was_left),
        cmocka_unit_test(test_a_lease_whose_release_had_no_answer_was_released),
        cmocka_unit_test(test_a_lease_whose_release_came_too_late_was_lost),
        cmocka_unit_test(test_a_lease_that_may_have_been_lost_was),
        cmocka_unit_test(test_asks_beyond_the_count_are_none),
        cmocka_unit_test(test_nothing_is_left_in_what_is_not_there),
        cmocka_unit_test(test_a_claim_says_what_it_looked_for),
        cmocka_unit_test(test_a_sweep_watches_for_half_an_hour_at_most),
        cmocka_unit_test(test_closing_releases_and_tells_nobody),
        cmocka_unit_test(test_a_store_that_does_not_answer_is_asked_once),
        cmocka_unit_test(test_sessions_are_ended_if_the_store_answers),
        cmocka_unit_test(test_closing_sends_the_releases_of_leases_once_more),
        cmocka_unit_test(test_closing_leaves_a_lease_to_itself_if_the_store_is_silent),
        cmocka_unit_test(test_a_client_that_is_closed_keeps_no_release_of_a_lease),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
