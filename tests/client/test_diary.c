/* SPDX-License-Identifier: Apache-2.0 */
/* test_diary.c: the turns that a client notes: each once, with its end, few calls of the store, and
 * nothing that waits for them. */
#include "client/client_bed.h"

#include "client/hold/diary.h"
#include "client/hold/sweep.h"
#include "client/hold/upkeep.h"
#include "client/lease/lease_id.h"

#define TURNS 64

/* What hf_history() gave, the newest first. */
static struct turn_copy {
    char name[64], who[64], why[64], reason[512];
    int64_t token, held_ms, more;
    hf_turn_end end;
    int exit_status; /* -1: none */
    bool is_shared;
} turns[TURNS];
static size_t n_turns;

static bool keep(void *ctx, const hf_turn *turn)
{
    (void)ctx;
    struct turn_copy *copy = &turns[n_turns++];
    snprintf(copy->name, sizeof copy->name, "%s", turn->name);
    snprintf(copy->who, sizeof copy->who, "%s", turn->who);
    snprintf(copy->why, sizeof copy->why, "%s", turn->why);
    snprintf(copy->reason, sizeof copy->reason, "%s", turn->reason);
    copy->token = turn->token;
    copy->held_ms = turn->ended_ms - turn->granted_ms;
    copy->more = turn->more;
    copy->end = turn->end;
    copy->exit_status = turn->has_exit_status ? turn->exit_status : -1;
    copy->is_shared = turn->permits < turn->limit;
    return n_turns < TURNS;
}

static void read_history(hf_client *client, const char *name)
{
    hf_error err;
    n_turns = 0;
    assert_int_equal(hf_history(client, name, NULL, keep, NULL, &err), HF_OK);
}

static void read_with_missing(hf_client *client, const char *name)
{
    hf_error err;
    const hf_history_options options = {.struct_size = sizeof options, .tells_missing = true};
    n_turns = 0;
    assert_int_equal(hf_history(client, name, &options, keep, NULL, &err), HF_OK);
}

/* Lets the client write what it has noted. */
static void write_diary(faulty *f, hf_client *client)
{
    faulty_pass(f, 5000);
    sweep_tick(client, client_now(client));
}

static void release(hf_lock *lock)
{
    hf_error err;
    assert_int_equal(hf_lock_release(lock, &err), HF_OK);
    hf_lock_close(lock);
}

static hf_lock *take_for(hf_client *client, const char *name, const hf_lock_options *options)
{
    hf_lock *lock;
    hf_error err;
    assert_int_equal(hf_lock_acquire(client, name, options, &lock, &err), HF_OK);
    return lock;
}

/* ---- What is noted ---- */

static void test_a_turn_is_written_a_beat_later(void **state)
{
    (void)state;
    hf_client *client;
    const hf_options options = {.app = "nightly"};
    faulty *f = faulty_open_still("memory:diary", &options, &client);
    hf_lock *lock = take_for(client, "x", &(hf_lock_options){.why = "backup"});
    int64_t token = hf_lock_token(lock);
    faulty_pass(f, 1234);
    hf_lock_set_exit_status(lock, 0);
    release(lock);
    sweep_tick(client, client_now(client));
    assert_int_equal(f->calls[FAULTY_HISTORY], 0);
    write_diary(f, client);
    write_diary(f, client);
    assert_int_equal(f->calls[FAULTY_HISTORY], 1);
    read_history(client, "x");
    assert_int_equal(n_turns, 1);
    assert_string_equal(turns[0].name, "x");
    assert_memory_equal(turns[0].who, "nightly@", 8);
    assert_string_equal(turns[0].why, "backup");
    assert_string_equal(turns[0].reason, "");
    assert_int_equal(turns[0].token, token);
    assert_int_equal(turns[0].held_ms, 1234);
    assert_int_equal(turns[0].end, HF_TURN_RELEASED);
    assert_int_equal(turns[0].exit_status, 0);
    assert_false(turns[0].is_shared);
    hf_close(client);
}

/* A slow answer tells the store's time but roughly; here as earlier than it is. */
static void tell_early(hf_client *client)
{
    MUTEX_SCOPE(&client->mutex);
    hf_mono now = client_now(client);
    diary_hear_locked(client, now, now, (hf_dbtime){diary_time_locked(client, now).ms - 100});
}

static void test_no_turn_ends_before_it_was_granted(void **state)
{
    (void)state;
    hf_client *client;
    faulty *f = faulty_open_still("memory:roughly", NULL, &client);
    hf_lock *lock = take_for(client, "x", NULL);
    tell_early(client);
    release(lock);
    write_diary(f, client);
    read_history(client, "x");
    assert_int_equal(n_turns, 1);
    assert_int_equal(turns[0].held_ms, 0);
    hf_close(client);
}

static void lose_session(faulty *f)
{
    hf_client *client = f->ctx;
    hf_error why = {.code = HF_LOST, .text = "it is lost"};
    MUTEX_SCOPE(&client->mutex);
    belief_lose_session_locked(client, &why, client_now(client));
}

static hf_code lose_session_at_the_pass(faulty *f, faulty_call call, const void *arg)
{
    const struct faulty_step *step = arg;
    if (call == FAULTY_STEP && step->step->pass)
        lose_session(f);
    return HF_OK;
}

/* The lease has the lock's place, and the turn is the lease's. */
static void test_a_lease_whose_maker_loses_its_session_is_one_turn(void **state)
{
    (void)state;
    hf_client *client;
    hf_error err;
    hf_lease lease;
    faulty *f = faulty_open_still("memory:maker", NULL, &client);
    f->ctx = client;
    f->after = lose_session_at_the_pass;
    assert_int_equal(hf_lease_acquire(client, "x", NULL, &lease, &err), HF_OK);
    assert_int_equal(client->session.state, SESSION_NONE);
    assert_int_equal(hf_lease_release(client, lease.id, &err), HF_OK);
    write_diary(f, client);
    read_history(client, "x");
    assert_int_equal(n_turns, 1);
    assert_int_equal(turns[0].end, HF_TURN_RELEASED);
    assert_int_equal(turns[0].token, lease.token);
    hf_close(client);
}

static hf_code lose_session_before_the_pass(faulty *f, faulty_call call, const void *arg)
{
    if (call == FAULTY_BEGIN && !((const hf_session *)arg)->pid)
        lose_session(f);
    return call == FAULTY_BEGIN && !((const hf_session *)arg)->pid ? HF_UNREACHABLE : HF_OK;
}

static void test_a_lock_that_is_lost_before_it_becomes_a_lease_is_a_lost_turn(void **state)
{
    (void)state;
    hf_client *client;
    hf_error err;
    hf_lease lease;
    faulty *f = faulty_open_still("memory:no maker", NULL, &client);
    f->ctx = client;
    f->before = lose_session_before_the_pass;
    assert_int_equal(hf_lease_acquire(client, "x", NULL, &lease, &err), HF_UNKNOWN);
    f->before = (faulty_hook *)NULL;
    write_diary(f, client);
    read_history(client, "x");
    assert_int_equal(n_turns, 1);
    assert_int_equal(turns[0].end, HF_TURN_LOST);
    hf_close(client);
}

static void test_no_lease_ends_before_it_was_granted(void **state)
{
    (void)state;
    hf_client *client;
    hf_error err;
    hf_lease lease;
    faulty *f = faulty_open_still("memory:roughly lease", NULL, &client);
    assert_int_equal(hf_lease_acquire(client, "x", NULL, &lease, &err), HF_OK);
    tell_early(client);
    assert_int_equal(hf_lease_release(client, lease.id, &err), HF_OK);
    write_diary(f, client);
    read_history(client, "x");
    assert_int_equal(n_turns, 1);
    assert_int_equal(turns[0].held_ms, 0);
    hf_close(client);
}

/* What this client took out ended by the store's clock, of which it knows but roughly. */
static void test_no_turn_ends_before_the_one_that_it_followed(void **state)
{
    (void)state;
    hf_client *client;
    faulty *f = faulty_open_still("memory:followed", NULL, &client);
    hf_lock *lock = take_for(client, "x", NULL);
    pthread_mutex_lock(&client->mutex);
    hf_dbtime later = {diary_time_locked(client, client_now(client)).ms + 100};
    pthread_mutex_unlock(&client->mutex);
    diary_note_other(client, &(hf_turn_note){.name = "x",
                                             .who = "the dead",
                                             .actor = "",
                                             .why = "",
                                             .reason = "",
                                             .ticket = {{1}},
                                             .token = 1,
                                             .ended_at = later,
                                             .end = HF_TURN_ABANDONED});
    release(lock);
    write_diary(f, client);
    read_history(client, "x");
    assert_int_equal(n_turns, 2);
    assert_int_equal(turns[0].end, HF_TURN_RELEASED);
    assert_int_equal(turns[1].end, HF_TURN_ABANDONED);
    hf_close(client);
}

static void test_what_is_left_is_written_at_the_end(void **state)
{
    (void)state;
    hf_client *client = open_client("memory:diary end", 0);
    hf_client *other = open_client("memory:diary end", 0);
    release(take_for(client, "x", &(hf_lock_options){.mode = HF_SHARED}));
    pause_ms(2); /* so that it ends earlier */
    hf_lock *held = take(client, "y");
    hf_close(client);
    hf_lock_close(held);
    read_history(other, NULL);
    assert_int_equal(n_turns, 2);
    assert_string_equal(turns[0].name, "y");
    assert_int_equal(turns[0].end, HF_TURN_RELEASED);
    assert_string_equal(turns[1].name, "x");
    assert_true(turns[1].is_shared);
    hf_close(other);
}

/* A job that is done already, and a lock that nobody had. */
static void test_what_is_given_back_was_no_turn(void **state)
{
    (void)state;
    hf_client *client;
    faulty *f = faulty_open_still("memory:diary unused", NULL, &client);
    hf_lock *lock = take_for(client, "x", &(hf_lock_options){.period_ms = 3600000});
    hf_lock_close(lock);
    upkeep_tick(client, client_now(client));
    write_diary(f, client);
    assert_int_equal(f->calls[FAULTY_HISTORY], 0);
    hf_close(client);
}

/* The turn of a lingering lock ended when it was released; that it lingered is none. */
static void test_a_lock_that_lingers(void **state)
{
    (void)state;
    hf_client *client;
    faulty *f = faulty_open_still("memory:diary linger", NULL, &client);
    release(take(client, "x"));
    faulty_pass(f, 2000); /* a record that is older than a second gives a block of tokens */
    release(take_for(client, "x", &(hf_lock_options){.linger_ms = 1000}));
    assert_non_null(client->hold->locks);
    faulty_pass(f, 2000);
    upkeep_tick(client, client_now(client));
    assert_null(client->hold->locks);
    write_diary(f, client);
    read_history(client, "x");
    assert_int_equal(n_turns, 2);
    assert_int_equal(turns[0].held_ms, 0);
    hf_close(client);
}

/* ---- Other ends ---- */

static void test_a_lost_turn(void **state)
{
    (void)state;
    hf_client *client;
    hf_error err;
    faulty *f = faulty_open_still("memory:diary lost", NULL, &client);
    hf_lock *lock = take_for(client, "x", &(hf_lock_options){.feed_ms = 200});
    faulty_pass(f, 300);
    assert_int_equal(hf_lock_release(lock, &err), HF_LOST);
    hf_lock_close(lock);
    upkeep_tick(client, client_now(client));
    write_diary(f, client);
    read_history(client, "x");
    assert_int_equal(n_turns, 1);
    assert_int_equal(turns[0].end, HF_TURN_LOST);
    assert_string_equal(turns[0].reason, "it was not fed for 200 ms");
    hf_close(client);
}

/* It is asked for; its owner has not learned of that. */
static faulty *break_lease(const char *uri, hf_client **client, hf_lease *lease, lease_ids *ids)
{
    hf_error err;
    faulty *f = faulty_open_still(uri, NULL, client);
    assert_int_equal(hf_lease_acquire(*client, "x", NULL, lease, &err), HF_OK);
    assert_int_equal(lease_id_read(lease->id, ids, &err), HF_OK);
    const hf_ask ask = {.ticket = ids->ticket, .by = "ops", .reason = "stuck"};
    assert_int_equal(f->inner->ops->ask(f->inner, ids->session, &ask, &err), HF_OK);
    return f;
}

static void check_broken_lease(faulty *f, hf_client *client)
{
    write_diary(f, client);
    read_history(client, "x");
    assert_int_equal(n_turns, 1);
    assert_int_equal(turns[0].end, HF_TURN_BROKEN);
    assert_string_equal(turns[0].reason, "broken by ops: stuck");
    hf_close(client);
}

static void test_a_broken_lease(void **state)
{
    (void)state;
    hf_client *client;
    hf_error err;
    hf_lease lease;
    lease_ids ids;
    faulty *f = break_lease("memory:diary renewed", &client, &lease, &ids);
    assert_int_equal(hf_lease_renew(client, lease.id, &lease, &err), HF_LOST);
    check_broken_lease(f, client);
}

static void test_a_lease_that_is_released_after_its_break(void **state)
{
    (void)state;
    hf_client *client;
    hf_error err;
    hf_lease lease;
    lease_ids ids;
    faulty *f = break_lease("memory:diary left", &client, &lease, &ids);
    abandon(f->inner, "x", ids.ticket);
    assert_int_equal(hf_lease_release(client, lease.id, &err), HF_LOST);
    check_broken_lease(f, client);
}

/* Whoever made the lease learns of that at its next renewal, and may write first. */
static void test_a_lease_that_another_client_has_released(void **state)
{
    (void)state;
    hf_client *maker, *other;
    hf_error err;
    hf_lease lease;
    faulty *f = faulty_open_still("memory:diary elsewhere", NULL, &maker);
    assert_int_equal(hf_lease_acquire(maker, "x", NULL, &lease, &err), HF_OK);
    other = open_client("memory:diary elsewhere", 0);
    assert_int_equal(hf_lease_release(other, lease.id, &err), HF_OK);
    assert_int_equal(hf_lease_renew(maker, lease.id, &lease, &err), HF_LOST);
    write_diary(f, maker);
    hf_close(other);
    read_history(maker, "x");
    assert_int_equal(n_turns, 1);
    assert_int_equal(turns[0].end, HF_TURN_RELEASED);
    hf_close(maker);
}

/* Its lease ran out; the next one takes it over, and notes that, too. It is one turn. */
static void test_the_loser_and_the_next_holder_note_one_turn(void **state)
{
    (void)state;
    hf_client *loser, *next;
    const hf_options options = {.ttl_ms = 2000};
    faulty *f = faulty_open_still("memory:diary two", &options, &loser);
    hf_lock *lock = take(loser, "x");
    faulty_pass(f, 2500);
    belief_tick(loser, client_now(loser));
    write_diary(f, loser);
    next = open_client("memory:diary two", 2000);
    hf_lock *had = take(next, "x");
    hf_lock_close(lock);
    release(had);
    hf_close(next);
    read_history(loser, "x");
    assert_int_equal(n_turns, 2);
    assert_int_equal(turns[0].end, HF_TURN_RELEASED);
    assert_int_equal(turns[1].end, HF_TURN_LOST);
    hf_close(loser);
}

/* Of x, the one with that token. On a busy machine, the times of two clients are only about right.
 */
static const struct turn_copy *only_turn(hf_client *reader, int64_t token)
{
    const struct turn_copy *found = NULL;
    read_history(reader, "x");
    for (size_t i = 0; i < n_turns; i++)
        if (turns[i].token == token) {
            assert_null(found);
            found = &turns[i];
        }
    assert_non_null(found);
    return found;
}

/* Nobody but the next holder can note the turn of one that is dead. */
static void test_the_dead_are_noted_by_the_next_holder(void **state)
{
    (void)state;
    hf_client *dead, *next;
    const hf_options options = {.app = "worker", .ttl_ms = 2000};
    faulty_open_still("memory:diary dead", &options, &dead);
    hf_lock *lock = take_for(dead, "x", &(hf_lock_options){.why = "half done"});
    int64_t token = hf_lock_token(lock);
    next = open_client("memory:diary dead", 2000);
    release(take(next, "x"));
    hf_close(next);
    hf_client *reader = open_client("memory:diary dead", 0);
    const struct turn_copy *turn = only_turn(reader, token);
    assert_int_equal(turn->end, HF_TURN_ABANDONED);
    assert_memory_equal(turn->who, "worker@", 7);
    assert_string_equal(turn->why, "half done");
    hf_close(reader);
    hf_lock_close(lock);
    hf_close(dead);
}

static void test_a_break_by_force(void **state)
{
    (void)state;
    hf_client *dead, *breaker = open_client("memory:diary break", 2000);
    hf_error err;
    const hf_break_options how = {.reason = "stuck", .by = "alice", .force = true};
    faulty_open_still("memory:diary break", NULL, &dead);
    hf_lock *lock = take(dead, "x");
    assert_int_equal(hf_break(breaker, "x", &how, &err), HF_OK);
    hf_close(breaker);
    hf_client *reader = open_client("memory:diary break", 0);
    read_history(reader, "x");
    assert_int_equal(n_turns, 1);
    assert_int_equal(turns[0].end, HF_TURN_BROKEN);
    assert_string_equal(turns[0].reason, "broken by alice: stuck");
    hf_close(reader);
    hf_lock_close(lock);
    hf_close(dead);
}

static hf_code swallow_leaves(faulty *f, faulty_call call, const void *arg)
{
    (void)f;
    const struct faulty_step *step = arg;
    return call == FAULTY_STEP && step->step->n_leaves ? HF_UNREACHABLE : HF_OK;
}

static hf_code refuse_leaves(faulty *f, faulty_call call, const void *arg)
{
    return swallow_leaves(f, call, arg) ? HF_DENIED : HF_OK;
}

/* Its session ends meanwhile, and the store is back after that. */
static void test_a_release_that_is_acknowledged_late(void **state)
{
    (void)state;
    hf_client *client;
    hf_error err;
    const hf_options options = {.ttl_ms = 2000, .patience_ms = 1};
    faulty *f = faulty_open_still("memory:diary late", &options, &client);
    hf_lock *lock = take(client, "x");
    f->before = swallow_leaves;
    assert_int_equal(hf_lock_release(lock, &err), HF_UNREACHABLE);
    faulty_pass(f, 2500);
    belief_tick(client, client_now(client));
    upkeep_tick(client, client_now(client)); /* in vain */
    faulty_pass(f, 500);
    f->before = (faulty_hook *)NULL;
    upkeep_tick(client, client_now(client));
    write_diary(f, client);
    read_history(client, "x");
    assert_int_equal(n_turns, 1);
    assert_int_equal(turns[0].end, HF_TURN_RELEASED);
    hf_lock_close(lock);
    hf_close(client);
}

/* The store refuses it, and its session has ended: whoever comes next takes it out. */
static void test_a_release_that_is_never_acknowledged(void **state)
{
    (void)state;
    hf_client *client;
    hf_error err;
    const hf_options options = {.ttl_ms = 2000, .patience_ms = 1};
    faulty *f = faulty_open_still("memory:diary unsure", &options, &client);
    hf_lock *lock = take(client, "x");
    f->before = refuse_leaves;
    assert_int_equal(hf_lock_release(lock, &err), HF_DENIED);
    faulty_pass(f, 2500);
    belief_tick(client, client_now(client));
    upkeep_tick(client, client_now(client));
    write_diary(f, client);
    read_history(client, "x");
    assert_int_equal(n_turns, 1);
    assert_int_equal(turns[0].end, HF_TURN_LOST);
    assert_string_equal(turns[0].reason, "it was lost before its release was acknowledged");
    hf_lock_close(lock);
    hf_close(client);
}

/* ---- Bounds ---- */

static void test_of_many_turns_most_are_counted(void **state)
{
    (void)state;
    hf_client *client;
    int64_t last = 0;
    faulty *f = faulty_open_still("memory:diary many", NULL, &client);
    for (int i = 0; i < 50; i++) {
        hf_lock *lock = take(client, "x");
        last = hf_lock_token(lock);
        release(lock);
    }
    write_diary(f, client);
    assert_int_equal(f->calls[FAULTY_HISTORY], 1);
    read_history(client, "x");
    assert_int_equal(n_turns, 20);
    assert_int_equal(turns[0].token, last);
    assert_int_equal(turns[0].more, 30);
    for (size_t i = 1; i < n_turns; i++)
        assert_int_equal(turns[i].more, 0);
    hf_close(client);
}

static void test_turns_that_ended_badly_are_never_only_counted(void **state)
{
    (void)state;
    hf_client *client;
    size_t failed = 0;
    faulty *f = faulty_open_still("memory:diary bad", NULL, &client);
    for (int i = 0; i < 60; i++) {
        hf_lock *lock = take(client, "x");
        if (i % 2)
            hf_lock_set_exit_status(lock, i);
        release(lock);
    }
    write_diary(f, client);
    read_history(client, "x");
    for (size_t i = 0; i < n_turns; i++)
        failed += turns[i].exit_status > 0;
    assert_int_equal(failed, 30);
    hf_close(client);
}

static _Atomic hf_code answer;

static hf_code refuse_history(faulty *f, faulty_call call, const void *arg)
{
    (void)f;
    (void)arg;
    return call == FAULTY_HISTORY ? answer : HF_OK;
}

static void test_of_too_many_locks_some_are_missing(void **state)
{
    (void)state;
    hf_client *client;
    char name[16];
    faulty *f = faulty_open_still("memory:diary full", NULL, &client);
    for (int i = 0; i < 4100; i++) {
        snprintf(name, sizeof name, "x%d", i);
        release(take(client, name));
    }
    assert_int_equal(client->hold->diary.n, 4000);
    assert_int_equal(client->hold->diary.dropped, 100);
    write_diary(f, client);
    assert_int_equal(f->calls[FAULTY_HISTORY], 5); /* 1,000 at once, and what is missing */
    assert_int_equal(client->hold->diary.n, 0);
    assert_int_equal(client->hold->diary.dropped, 0);
    read_history(client, "x7");
    assert_int_equal(n_turns, 1); /* who does not ask for it is not told */
    read_with_missing(client, "x7");
    assert_int_equal(n_turns, 2);
    const struct turn_copy *missing = &turns[turns[0].end != HF_TURN_MISSING];
    assert_int_equal(missing->end, HF_TURN_MISSING);
    assert_int_equal(missing->more, 100);
    assert_true(missing->held_ms >= 0);
    assert_string_equal(missing->name, "");
    hf_close(client);
}

/* When many have gathered, they are written before it is their time. */
static void test_many_are_written_early(void **state)
{
    (void)state;
    hf_client *client;
    char name[16];
    faulty_open_still("memory:diary early", NULL, &client);
    for (int i = 0; i < 499; i++) {
        snprintf(name, sizeof name, "x%d", i);
        release(take(client, name));
    }
    hf_mono due = client->hold->diary.due;
    assert_true(due.ns > client_now(client).ns);
    release(take(client, "y"));
    assert_true(client->hold->diary.due.ns <= client_now(client).ns);
    hf_close(client);
}

/* What could not be written of missing turns is told later, once. */
static void test_what_is_missing_is_told_when_the_store_answers(void **state)
{
    (void)state;
    hf_client *client;
    char name[16];
    faulty *f = faulty_open_still("memory:diary full and again", NULL, &client);
    for (int i = 0; i < 4010; i++) {
        snprintf(name, sizeof name, "x%d", i);
        release(take(client, name));
    }
    answer = HF_UNKNOWN;
    f->after = refuse_history;
    write_diary(f, client);
    write_diary(f, client);
    f->after = (faulty_hook *)NULL;
    write_diary(f, client);
    read_with_missing(client, "none of them");
    int64_t missing = 0;
    for (size_t i = 0; i < n_turns; i++)
        missing += turns[i].more;
    assert_int_equal(missing, 10);
    hf_close(client);
}

/* ---- A store that does not take them ---- */

static void test_what_got_no_answer_is_written_again(void **state)
{
    (void)state;
    hf_client *client;
    faulty *f = faulty_open_still("memory:diary again", NULL, &client);
    answer = HF_UNKNOWN;
    f->after = refuse_history;
    release(take(client, "x"));
    write_diary(f, client);
    assert_int_equal(client->hold->diary.n, 1);
    f->after = (faulty_hook *)NULL;
    write_diary(f, client);
    assert_int_equal(f->calls[FAULTY_HISTORY], 2);
    read_history(client, "x");
    assert_int_equal(n_turns, 1);
    hf_close(client);
}

static char logged[512];

static void note_log(void *ctx, hf_log_level level, const char *text)
{
    (void)ctx;
    if (level == HF_LOG_INFO && strstr(text, "history"))
        snprintf(logged, sizeof logged, "%s", text);
}

static void test_a_missing_right_turns_it_off(void **state)
{
    (void)state;
    hf_client *client;
    const hf_options options = {.log = note_log};
    faulty *f = faulty_open_still("memory:diary denied", &options, &client);
    answer = HF_DENIED;
    f->before = refuse_history;
    logged[0] = '\0';
    release(take(client, "x"));
    write_diary(f, client);
    assert_string_equal(logged, "no history of the locks is kept: injected");
    release(take(client, "x"));
    write_diary(f, client);
    assert_int_equal(f->calls[FAULTY_HISTORY], 1);
    hf_close(client);
}

/* ---- Nothing waits for it ---- */

static gate writing;

static hf_code stop_history(faulty *f, faulty_call call, const void *arg)
{
    (void)f;
    (void)arg;
    if (call == FAULTY_HISTORY)
        gate_pass(&writing);
    return HF_OK;
}

static void test_locks_do_not_wait_for_the_history(void **state)
{
    (void)state;
    hf_client *client;
    const hf_options options = {.ttl_ms = 1000};
    gate_shut(&writing);
    faulty_open("memory:diary gate", &options, &client)->before = stop_history;
    release(take(client, "x"));
    gate_await(&writing);
    for (int i = 0; i < 10; i++)
        hf_lock_close(take(client, "x")); /* the background sends its release */
    gate_open(&writing);
    hf_close(client);
}

/* ---- ID leases ---- */

static void test_a_lease_that_is_released(void **state)
{
    (void)state;
    hf_client *client;
    hf_error err;
    hf_lease lease;
    const hf_lease_options options = {.owner = "deploy", .host = "web1", .lock.why = "v42"};
    faulty *f = faulty_open_still("memory:diary lease", NULL, &client);
    assert_int_equal(hf_lease_acquire(client, "x", &options, &lease, &err), HF_OK);
    faulty_pass(f, 700);
    assert_int_equal(hf_lease_release(client, lease.id, &err), HF_OK);
    assert_int_equal(hf_lease_release(client, lease.id, &err), HF_OK); /* a repeat */
    write_diary(f, client);
    read_history(client, "x");
    assert_int_equal(n_turns, 1);
    assert_string_equal(turns[0].who, "deploy@web1");
    assert_string_equal(turns[0].why, "v42");
    assert_int_equal(turns[0].token, lease.token);
    assert_int_equal(turns[0].held_ms, 700);
    assert_int_equal(turns[0].end, HF_TURN_RELEASED);
    hf_close(client);
}

/* Which one that was is read before it is released. */
static void test_a_lease_that_another_process_releases(void **state)
{
    (void)state;
    hf_client *maker = open_client("memory:diary lease other", 5000), *other;
    hf_error err;
    hf_lease lease;
    const hf_lease_options options = {.owner = "deploy", .host = "web1", .lock.why = "release 41"};
    other = open_client("memory:diary lease other", 5000);
    assert_int_equal(hf_lease_acquire(maker, "x", &options, &lease, &err), HF_OK);
    assert_int_equal(hf_lease_release(other, lease.id, &err), HF_OK);
    hf_close(other);
    read_history(maker, "x");
    assert_int_equal(n_turns, 1);
    assert_string_equal(turns[0].who, "deploy@web1");
    assert_string_equal(turns[0].why, "release 41");
    assert_int_equal(turns[0].token, lease.token);
    assert_in_range(turns[0].held_ms, 0, SOON_MS);
    hf_close(maker);
}

/* ---- What is asked for ---- */

static void test_bad_questions(void **state)
{
    (void)state;
    hf_client *client = open_client("memory:diary asked", 0);
    hf_error err;
    const hf_history_options much = {.limit = 10001}, early = {.since_ms = -1};
    assert_int_equal(hf_history(client, "x", &much, keep, NULL, &err), HF_INVALID);
    assert_string_equal(err.text, "a limit of 10001 turns: at most 10000 are given");
    assert_int_equal(hf_history(client, "x", &early, keep, NULL, &err), HF_INVALID);
    assert_int_equal(hf_history(client, "\xff", NULL, keep, NULL, &err), HF_INVALID);
    hf_close(client);
}

static void test_prefixes_part_histories(void **state)
{
    (void)state;
    hf_client *mine, *theirs;
    hf_error err;
    const hf_options my = {.name_prefix = "mine/"}, their = {.name_prefix = "theirs/"};
    assert_int_equal(hf_open("memory:diary prefix", &my, &mine, &err), HF_OK);
    assert_int_equal(hf_open("memory:diary prefix", &their, &theirs, &err), HF_OK);
    release(take(theirs, "x"));
    hf_close(theirs);
    read_history(mine, NULL);
    assert_int_equal(n_turns, 0);
    assert_int_equal(hf_open("memory:diary prefix", &their, &theirs, &err), HF_OK);
    read_history(theirs, NULL);
    assert_int_equal(n_turns, 1);
    assert_string_equal(turns[0].name, "x");
    hf_close(theirs);
    hf_close(mine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_turn_is_written_a_beat_later),
        cmocka_unit_test(test_no_turn_ends_before_it_was_granted),
        cmocka_unit_test(test_a_lease_whose_maker_loses_its_session_is_one_turn),
        cmocka_unit_test(test_a_lock_that_is_lost_before_it_becomes_a_lease_is_a_lost_turn),
        cmocka_unit_test(test_no_lease_ends_before_it_was_granted),
        cmocka_unit_test(test_no_turn_ends_before_the_one_that_it_followed),
        cmocka_unit_test(test_what_is_left_is_written_at_the_end),
        cmocka_unit_test(test_what_is_given_back_was_no_turn),
        cmocka_unit_test(test_a_lock_that_lingers),
        cmocka_unit_test(test_a_lost_turn),
        cmocka_unit_test(test_a_broken_lease),
        cmocka_unit_test(test_a_lease_that_another_client_has_released),
        cmocka_unit_test(test_a_lease_that_is_released_after_its_break),
        cmocka_unit_test(test_the_loser_and_the_next_holder_note_one_turn),
        cmocka_unit_test(test_the_dead_are_noted_by_the_next_holder),
        cmocka_unit_test(test_a_break_by_force),
        cmocka_unit_test(test_a_release_that_is_acknowledged_late),
        cmocka_unit_test(test_a_release_that_is_never_acknowledged),
        cmocka_unit_test(test_of_many_turns_most_are_counted),
        cmocka_unit_test(test_turns_that_ended_badly_are_never_only_counted),
        cmocka_unit_test(test_of_too_many_locks_some_are_missing),
        cmocka_unit_test(test_many_are_written_early),
        cmocka_unit_test(test_what_is_missing_is_told_when_the_store_answers),
        cmocka_unit_test(test_what_got_no_answer_is_written_again),
        cmocka_unit_test(test_a_missing_right_turns_it_off),
        cmocka_unit_test(test_locks_do_not_wait_for_the_history),
        cmocka_unit_test(test_a_lease_that_is_released),
        cmocka_unit_test(test_a_lease_that_another_process_releases),
        cmocka_unit_test(test_bad_questions),
        cmocka_unit_test(test_prefixes_part_histories),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
