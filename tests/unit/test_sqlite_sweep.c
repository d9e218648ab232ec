/* SPDX-License-Identifier: Apache-2.0 */
/* test_sqlite_sweep.c: many clients share one sweep, each for a moment, and what dead sessions have
 * left behind goes though nobody asks for it. */
#include "unit/sqlite_fixture.h"

#define HOUR_MS ((int64_t)3600 * 1000)
#define DAY_MS (24 * HOUR_MS)

static hf_session_state gone[32];

/* What a client does at its start, and then it ends. False: the sweep has nothing to do, or another
 * client does it. */
static bool do_share(hf_store *store)
{
    hf_error err;
    size_t n;
    bool more;
    hf_code code = store->ops->sweep(store, gone, 32, &n, &more, &err);
    if (code == HF_HELD)
        return false;
    must(code, &err);
    for (size_t i = 0; i < n; i++)
        if (gone[i].is_gone)
            must(store->ops->session_mark(store, &gone[i], &err), &err);
    return more;
}

static void assert_anothers_turn(hf_store *store)
{
    hf_error err;
    size_t n;
    bool more;
    assert_int_equal(store->ops->sweep(store, gone, 32, &n, &more, &err), HF_HELD);
    assert_false(more);
}

/* Makes a turn as long as one may be, since the machine may be slow, and lets it pass. */
static void assert_anothers_turn_until_it_is_over(hf_store *store)
{
    char text[100];
    snprintf(text, sizeof text, "UPDATE meta SET value = %lld WHERE key = 'sweep_until'",
             (long long)env_wall(NULL).ms + 2000);
    run_sql(text);
    assert_anothers_turn(store);
    wall_ahead_ms += 2001;
    assert_true(do_share(store));
}

static void run_once(void)
{
    hf_store *store = open_store();
    do_share(store);
    store->ops->close(store);
}

static void run_a_minute_apart(int times)
{
    for (int i = 0; i < times; i++) {
        run_once();
        wall_ahead_ms += 60000;
    }
}

static int64_t n_locks(void)
{
    return query("SELECT count(*) FROM locks");
}

/* As many records, of names that nobody uses again. */
static void leave_idle(hf_store *store, int n)
{
    char name[16];
    hf_id ticket, session = begin_session(store);
    int64_t token;
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "lock %05d", i);
        enter(store, name, session, &ticket, &token);
        leave(store, name, ticket);
    }
}

/* Each of those clients lives for one part only. */
static void test_sixty_short_runs_in_an_hour_prune_five_thousand(void **state)
{
    (void)state;
    hf_store *store = open_store();
    leave_idle(store, 5000);
    store->ops->close(store);
    wall_ahead_ms = 3 * DAY_MS - HOUR_MS;
    run_a_minute_apart(5);
    assert_int_equal(n_locks(), 5000);
    wall_ahead_ms += HOUR_MS;
    run_a_minute_apart(60);
    assert_int_equal(n_locks(), 0);
}

/* Twenty each, taken by processes that are killed. */
static void leave_held(int processes)
{
    char name[32];
    hf_id ticket;
    int64_t token;
    for (int i = 0; i < processes; i++) {
        hf_store *store = open_store();
        hf_id session = begin_session(store);
        for (int j = 0; j < 20; j++) {
            snprintf(name, sizeof name, "once %03d %02d", i, j);
            enter(store, name, session, &ticket, &token);
        }
        store->ops->close(store);
    }
}

static size_t n_held(void)
{
    char name[32];
    size_t n = 0;
    hf_store *store = open_store();
    for (int i = 0; i < 2000; i++) {
        snprintf(name, sizeof name, "once %03d %02d", i / 20, i % 20);
        hf_record record = read_record(store, name);
        n += record.holders;
        record_done(&record);
    }
    store->ops->close(store);
    return n;
}

/* Nobody asks for them again. First their tickets go, three days later the records, and the
 * sessions after an hour. */
static void test_what_killed_processes_have_taken_goes(void **state)
{
    (void)state;
    leave_held(100);
    assert_int_equal(n_held(), 2000);
    wall_ahead_ms = HOUR_MS + 1;
    run_a_minute_apart(60);
    assert_int_equal(n_held(), 0);
    assert_int_equal(n_locks(), 2000);
    wall_ahead_ms += 3 * DAY_MS;
    run_a_minute_apart(60);
    assert_int_equal(n_locks(), 0);
    assert_int_equal(query("SELECT count(*) FROM sessions"), 0);
}

/* Each does one part at most, and is gone: nobody goes on at once, as one that stays would. */
static int briefs_until_done(void)
{
    int runs = 0;
    do {
        run_once();
        wall_ahead_ms += 50;
        runs++;
    } while (query("SELECT value FROM meta WHERE key = 'sweep_part'"));
    return runs;
}

/* A part of 100 records, and then a quarter of a second until another client goes on. */
static void test_clients_of_fifty_ms_sweep_two_thousand_in_seconds(void **state)
{
    (void)state;
    clocks_stand = true;
    leave_held(100);
    wall_ahead_ms = HOUR_MS + 1;
    assert_in_range(briefs_until_done(), 20 * 5, 24 * 6);
    assert_int_equal(n_held(), 0);
    wall_ahead_ms += 3 * DAY_MS;
    assert_in_range(briefs_until_done(), 20 * 5, 24 * 6);
    assert_int_equal(n_locks(), 0);
    clocks_stand = false;
}

/* ---- Whose tickets ---- */

static void assert_holders(hf_store *store, const char *name, size_t holders, size_t queued)
{
    hf_record record = read_record(store, name);
    assert_int_equal(record.holders, holders);
    assert_int_equal(record.queued, queued);
    record_done(&record);
}

static void sweep_all(hf_store *store)
{
    wall_ahead_ms += 2 * HOUR_MS;
    while (do_share(store))
        ;
}

static void share(hf_store *store, const char *name, hf_id session)
{
    hf_error err;
    hf_step_reply reply;
    hf_enter in = enter_of(session, 1);
    must(store->ops->step(store, name, &(hf_step){.enter = &in}, NULL, &reply, &err), &err);
}

/* Those of the living stay, and who waits behind a dead one is granted. */
static void test_only_the_tickets_of_the_dead_go(void **state)
{
    (void)state;
    hf_id ticket;
    int64_t token;
    hf_store *other = open_store(), *store = open_store();
    hf_id dead = begin_session(other), lives = begin_session(store);
    enter(store, "mine", lives, &ticket, &token);
    enter(other, "theirs", dead, &ticket, &token);
    share(store, "both", lives);
    share(other, "both", dead);
    enter(other, "line", dead, &ticket, &token);
    enter(store, "line", lives, &ticket, &token);
    enter(other, "line", dead, &ticket, &token);
    other->ops->close(other);
    sweep_all(store);
    assert_holders(store, "mine", 1, 0);
    assert_holders(store, "theirs", 0, 0);
    assert_holders(store, "both", 1, 0);
    assert_holders(store, "line", 1, 0);
    hf_record record = read_record(store, "line");
    assert_true(id_equal(record.entries[0].session, lives));
    assert_int_equal(record.last.outcome, HF_OUTCOME_ABANDONED);
    assert_int_equal(strncmp(record.last.who, "test@here:", 10), 0);
    record_done(&record);
    store->ops->close(store);
}

/* Its lease is over, but its process may go on: it only stands still. */
static void test_a_session_that_is_not_marked_keeps_its_tickets(void **state)
{
    (void)state;
    hf_id ticket;
    int64_t token;
    hf_store *other = open_store(), *store = open_store();
    enter(other, "theirs", begin_session(other), &ticket, &token);
    mono_ahead_ms = 10000 + HOUR_MS - 1000;
    sweep_all(store);
    assert_holders(store, "theirs", 1, 0);
    mono_ahead_ms += 2000;
    sweep_all(store);
    assert_holders(store, "theirs", 0, 0);
    other->ops->close(other);
    store->ops->close(store);
}

static bool note_turn(void *ctx, const hf_turn_note *turn)
{
    hf_turn_note *out = ctx;
    *out = *turn;
    assert_string_equal(turn->name, "theirs");
    assert_string_equal(turn->why, "testing");
    return true;
}

static void test_the_history_has_what_was_taken_out(void **state)
{
    (void)state;
    hf_error err;
    hf_id ticket;
    int64_t token;
    hf_turn_note turn = {.name = NULL};
    const hf_history_part all = {.name = "", .prefix = "", .limit = 10};
    hf_store *other = open_store(), *store = open_store();
    enter(other, "theirs", begin_session(other), &ticket, &token);
    other->ops->close(other);
    sweep_all(store);
    must(store->ops->history(store, &all, note_turn, &turn, &err), &err);
    assert_int_equal(turn.end, HF_TURN_ABANDONED);
    assert_int_equal(turn.token, token);
    assert_true(id_equal(turn.ticket, ticket));
    store->ops->close(store);
}

/* The grant was given back unheard: nothing says when. */
static void test_a_record_that_nobody_ever_had_is_pruned(void **state)
{
    (void)state;
    hf_error err;
    hf_step_reply reply;
    hf_store *store = open_store();
    hf_enter in = enter_of(begin_session(store), 1);
    hf_leave back = {.ticket = in.entry.ticket, .outcome = HF_OUTCOME_RELEASED};
    must(store->ops->step(store, "x", &(hf_step){.enter = &in}, NULL, &reply, &err), &err);
    hf_step step = {.leaves = &back, .n_leaves = 1};
    must(store->ops->step(store, "x", &step, NULL, &reply, &err), &err);
    wall_ahead_ms = 3 * DAY_MS - 3 * HOUR_MS;
    sweep_all(store);
    assert_int_equal(n_locks(), 1);
    sweep_all(store);
    assert_int_equal(n_locks(), 0);
    store->ops->close(store);
}

/* ---- Whose turn ---- */

/* One is at it: nobody else does the same. If it is gone, another goes on two seconds later. */
static void test_one_does_a_part_and_another_goes_on(void **state)
{
    (void)state;
    hf_store *store = open_store(), *other = open_store();
    leave_idle(store, 350);
    wall_ahead_ms = 4 * DAY_MS;
    assert_true(do_share(store));
    assert_true(do_share(store));
    assert_int_equal(n_locks(), 250);
    assert_anothers_turn(other);
    assert_int_equal(n_locks(), 250);
    wall_ahead_ms += 2100;
    assert_true(do_share(other));
    assert_int_equal(n_locks(), 150);
    assert_anothers_turn(store);
    assert_int_equal(n_locks(), 150);
    while (do_share(other))
        ;
    assert_int_equal(n_locks(), 0);
    assert_false(do_share(store));
    other->ops->close(other);
    store->ops->close(store);
}

/* Killed between two parts, it keeps others from going on for as long as the next part would take;
 * killed in one, for two seconds. */
static void test_nobody_waits_long_for_one_that_was_killed(void **state)
{
    (void)state;
    hf_store *store = open_store(), *other = open_store();
    leave_idle(store, 350);
    wall_ahead_ms = 4 * DAY_MS;
    int64_t began = env_wall(NULL).ms;
    assert_true(do_share(store));
    int64_t now = env_wall(NULL).ms,
            until = query("SELECT value FROM meta WHERE key = 'sweep_until'");
    assert_in_range(until - began, 250, 250 + 4 * (now - began + 1));
    assert_anothers_turn_until_it_is_over(other);
    run_sql(
        "UPDATE meta SET value = 7 WHERE key = 'sweep_by'"); /* in a part of it, one was killed */
    assert_anothers_turn_until_it_is_over(store);
    other->ops->close(other);
    store->ops->close(store);
}

/* A part that took too long is somebody else's then: it goes on where that one stopped. */
static void test_a_late_part_goes_on_where_another_stopped(void **state)
{
    (void)state;
    hf_store *store = open_store();
    leave_idle(store, 350);
    wall_ahead_ms = 4 * DAY_MS;
    assert_true(do_share(store));
    run_sql("UPDATE meta SET value = 7 WHERE key = 'sweep_by';"
            "UPDATE meta SET value = x'6c6f636b203030323930' WHERE key = 'sweep_name'");
    wall_ahead_ms += 2100;
    while (do_share(store))
        ;
    assert_int_equal(n_locks(), 291); /* up to "lock 00290" */
    store->ops->close(store);
}

/* An earlier program does all of it in one go, and its hour counts. */
static void test_an_earlier_program_may_have_swept(void **state)
{
    (void)state;
    char text[100];
    hf_store *store = open_store();
    leave_idle(store, 1);
    wall_ahead_ms = 4 * DAY_MS;
    snprintf(text, sizeof text, "UPDATE meta SET value = %lld WHERE key = 'swept_at'",
             (long long)env_wall(NULL).ms);
    run_sql(text);
    assert_false(do_share(store));
    assert_int_equal(n_locks(), 1);
    wall_ahead_ms += HOUR_MS + 1;
    while (do_share(store))
        ;
    assert_int_equal(n_locks(), 0);
    store->ops->close(store);
}

/* Its process was killed, and the pipe stood beside the database. */
static void test_the_pipe_of_a_forgotten_session_goes(void **state)
{
    (void)state;
    char pipe[128];
    snprintf(pipe, sizeof pipe, "%s-left-1", path);
    hf_store *other = open_store(), *store = open_store();
    begin_session(other);
    other->ops->close(other);
    assert_int_equal(mkfifo(pipe, 0600), 0);
    sweep_all(store);
    sweep_all(store);
    assert_int_equal(query("SELECT count(*) FROM sessions WHERE row = 1"), 0);
    assert_int_equal(access(pipe, F_OK), -1);
    store->ops->close(store);
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {
        TEST(test_sixty_short_runs_in_an_hour_prune_five_thousand),
        TEST(test_what_killed_processes_have_taken_goes),
        TEST(test_clients_of_fifty_ms_sweep_two_thousand_in_seconds),
        TEST(test_only_the_tickets_of_the_dead_go),
        TEST(test_a_session_that_is_not_marked_keeps_its_tickets),
        TEST(test_the_history_has_what_was_taken_out),
        TEST(test_a_record_that_nobody_ever_had_is_pruned),
        TEST(test_one_does_a_part_and_another_goes_on),
        TEST(test_nobody_waits_long_for_one_that_was_killed),
        TEST(test_a_late_part_goes_on_where_another_stopped),
        TEST(test_an_earlier_program_may_have_swept),
        TEST(test_the_pipe_of_a_forgotten_session_goes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
