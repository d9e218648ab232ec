/* SPDX-License-Identifier: Apache-2.0 */
/* test_sqlite_judging.c: whom the embedded store calls gone, and what it forgets, to the
 * millisecond; and that it says so where it cannot tell. The clocks stand, unless the test moves
 * them. */
#include "sqlite_fixture.h"

#include "store/sqlite/sqlite_internal.h"

#include <fcntl.h>

#define TTL_MS 10000
#define HOUR_MS ((int64_t)3600 * 1000)
#define DAY_MS (24 * HOUR_MS)
#define TOKEN_END ((int64_t)1 << 53)

static int set_up(void **state)
{
    int rc = make_folder(state);
    clocks_stand = true;
    return rc;
}

/* One that no process keeps. */
static hf_id begin_lease(hf_store *store)
{
    hf_error err;
    hf_session self = {.id = new_id(), .ttl_ms = TTL_MS, .app = "test", .host = "here"};
    must(store->ops->session_begin(store, &self, &err), &err);
    return self.id;
}

static hf_code mark(hf_store *store, const hf_session_state *seen)
{
    hf_error err;
    return store->ops->session_mark(store, seen, &err);
}

static void end(hf_store *store, hf_id id)
{
    hf_error err;
    must(store->ops->session_end(store, id, false, &err), &err);
}

/* ---- Gone ---- */

static void test_a_lease_that_is_over_by_more_than_the_trust_is_gone(void **state)
{
    (void)state;
    hf_store *store = open_store();
    hf_id id = begin_session(store), lease = begin_lease(store);
    mono_ahead_ms = TTL_MS;
    assert_int_equal(look_at(store, id, 0).lease_left_ms, 0);
    assert_false(look_at(store, id, 0).is_gone);
    assert_false(look_at(store, lease, 0).is_gone);
    mono_ahead_ms += 500;
    assert_true(look_at(store, id, 499).is_gone);
    assert_true(look_at(store, lease, 499).is_gone);
    assert_true(
        look_at(store, lease, 500).is_gone); /* no process keeps it: the allowance is enough */
    assert_false(look_at(store, lease, -1).is_gone);
    assert_false(look_at(store, id, 500).is_gone);
    assert_true(look_at(store, id, 0).is_gone);
    assert_false(look_at(store, id, -1).is_gone);
    end(store, id);
    assert_false(look_at(store, id, 0).is_gone);
    store->ops->close(store);
}

static void test_what_was_judged_by_the_clock_is_marked_only_when_overdue(void **state)
{
    (void)state;
    hf_store *store = open_at("boot", "machine");
    hf_session_state seen = look_at(store, begin_session(store), -1);
    seen.is_gone = true;
    clock_name = "time:[2]";
    hf_store *other = open_at("boot", "machine");
    assert_int_equal(mark(store, &seen), HF_HELD);
    mono_ahead_ms = TTL_MS;
    assert_int_equal(mark(store, &seen), HF_HELD);
    mono_ahead_ms++;
    assert_int_equal(mark(other, &seen), HF_HELD);
    seen.beat++;
    assert_int_equal(mark(store, &seen), HF_HELD);
    seen.beat--;
    assert_int_equal(mark(store, &seen), HF_OK);
    other->ops->close(other);
    store->ops->close(store);
}

static void renew(hf_store *store, hf_id lease)
{
    hf_session_state after;
    hf_error err;
    must(store->ops->session_beat(store, lease, &(hf_beat){.n_answered = 0}, &after, &err), &err);
}

/* Any process may, one of another time namespace too: then its clock says until when. */
static void test_a_lease_is_judged_by_the_clock_that_renewed_it(void **state)
{
    (void)state;
    mono_ahead_ms = DAY_MS;
    hf_store *ahead = open_at("boot", "machine");
    clock_name = "time:[2]";
    hf_store *behind = open_at("boot", "machine");
    hf_id lease = begin_lease(ahead);
    mono_ahead_ms = 0;
    renew(behind, lease);
    mono_ahead_ms = DAY_MS;
    assert_false(look_at(ahead, lease, 0).is_gone);
    mono_ahead_ms = TTL_MS + 500;
    assert_true(look_at(behind, lease, 0).is_gone);
    mono_ahead_ms = 2 * DAY_MS;
    renew(ahead, lease);
    mono_ahead_ms += TTL_MS + 500;
    assert_true(look_at(ahead, lease, 0).is_gone);
    ahead->ops->close(ahead);
    behind->ops->close(behind);
}

static void test_no_byte_says_whether_a_lease_lives(void **state)
{
    (void)state;
    hf_store *store = open_at("boot-1", "machine");
    hf_id lease = begin_lease(store);
    assert_false(look_at(store, lease, 0).is_gone);
    assert_int_equal(((sqlite_store *)store)->n_watched, 0);
    store->ops->close(store);
    store = open_at("boot-2", "machine");
    mono_ahead_ms = 10 * DAY_MS;
    assert_false(look_at(store, lease, 0).is_gone);
    store->ops->close(store);
}

static void test_who_waits_for_a_living_session_watches_its_byte(void **state)
{
    (void)state;
    hf_store *store = open_store();
    sqlite_store *inside = (sqlite_store *)store;
    hf_id one = begin_session(store), two = begin_session(store), dead = begin_session(store);
    end(store, dead);
    look_at(store, one, -1);
    look_at(store, dead, -1);
    look_at(store, one, -1);
    assert_int_equal(inside->n_watched, 1);
    look_at(store, two, -1);
    assert_int_equal(inside->n_watched, 2);
    assert_int_not_equal(inside->watched[0], inside->watched[1]);
    store->ops->close(store);
}

/* The oldest gives way. */
static void test_no_more_are_watched_than_fit(void **state)
{
    (void)state;
    hf_store *store = open_store();
    sqlite_store *inside = (sqlite_store *)store;
    for (int64_t row = 1; row <= WATCHED_MAX; row++)
        notice_watch_row(inside, row);
    assert_int_equal(inside->n_watched, WATCHED_MAX);
    notice_watch_row(inside, 5000);
    notice_watch_row(inside, 5001);
    notice_watch_row(inside, 5000);
    assert_int_equal(inside->n_watched, WATCHED_MAX);
    int found = 0;
    for (int i = 0; i < WATCHED_MAX; i++)
        found += inside->watched[i] == 5000 || inside->watched[i] == 5001;
    assert_int_equal(found, 2);
    store->ops->close(store);
}

/* Containers often have no id of their machine. */
static void test_a_machine_without_an_id_is_any(void **state)
{
    (void)state;
    static const struct {
        const char *before, *after;
        bool is_gone;
    } cases[] = {
        {"a", "a", true},
        {"a", SQLITE_MACHINE_LOCAL, true},
        {SQLITE_MACHINE_LOCAL, "a", true},
        {SQLITE_MACHINE_LOCAL, SQLITE_MACHINE_LOCAL, true},
        {"a", "b", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        hf_store *store = open_at("boot-1", cases[i].before);
        hf_id id = begin_session(store);
        store->ops->close(store);
        store = open_at("boot-2", cases[i].after);
        assert_int_equal(look_at(store, id, -1).is_gone, cases[i].is_gone);
        store->ops->close(store);
        remove_folder(NULL);
        assert_int_equal(mkdir(folder, 0700), 0);
    }
}

/* Containers often have ids of their own, and share the boot: kernel locks reach all of them. */
static void test_one_boot_is_one_machine(void **state)
{
    (void)state;
    hf_store *there = open_at("boot", "a"), *here = open_at("boot", "b");
    hf_id id = begin_session(there);
    hf_session_state seen = look_at(here, id, -1);
    assert_false(seen.is_gone);
    alive_let_go(&((sqlite_store *)there)->own->hold);
    assert_true(look_at(here, id, -1).is_gone);
    assert_int_equal(mark(here, &seen), HF_OK);
    there->ops->close(there);
    here->ops->close(here);
}

static void test_an_id_begins_once(void **state)
{
    (void)state;
    hf_error err;
    hf_store *store = open_store(), *other = open_store();
    hf_session self = {.id = begin_session(store), .ttl_ms = 1, .pid = 7, .app = "other"};
    assert_int_equal(other->ops->session_begin(other, &self, &err), HF_HELD);
    assert_int_equal(store->ops->session_begin(store, &self, &err), HF_HELD);
    hf_session_state seen = look_at(other, self.id, -1);
    assert_string_equal(seen.session.app, "test");
    assert_int_equal(seen.session.ttl_ms, TTL_MS);
    assert_false(seen.is_gone);
    end(store, self.id);
    assert_int_equal(store->ops->session_begin(store, &self, &err), HF_HELD);
    store->ops->close(other);
    store->ops->close(store);
}

static void test_odd_times_are_reckoned_with(void **state)
{
    (void)state;
    hf_store *store = open_store();
    hf_id id = begin_session(store);
    const int64_t now = env_mono(NULL).ns / 1000000;
    run_sql("UPDATE sessions SET expires_at = -5");
    assert_int_equal(look_at(store, id, -1).lease_left_ms, -now);
    run_sql("UPDATE sessions SET expires_at = 9223372036854775807");
    assert_int_equal(look_at(store, id, -1).lease_left_ms, INT64_MAX / 2 - now);
    run_sql("UPDATE sessions SET expires_at = 1");
    assert_int_equal(look_at(store, id, -1).lease_left_ms, 1 - now);
    store->ops->close(store);
}

/* ---- Where it cannot be told ---- */

static bool note_gone(void *ctx, const hf_session_state *state)
{
    ((int *)ctx)[0]++;
    ((int *)ctx)[1] += state->is_gone;
    return true;
}

static bool take_three(void *ctx, const hf_session_state *state)
{
    (void)state;
    return ++*(int *)ctx < 3;
}

/* Another program may make what it likes of the table. A text is behind all numbers, and would be
 * read as 0: a session would come twice, or for ever. */
static void test_sessions_of_another_form_are_damage(void **state)
{
    (void)state;
    hf_error err;
    int n = 0;
    hf_store *store = open_store();
    begin_session(store);
    begin_session(store);
    run_sql("ALTER TABLE sessions RENAME TO were; CREATE TABLE sessions AS SELECT * FROM were;"
            "UPDATE sessions SET row = 'text' WHERE row = 2");
    assert_int_equal(store->ops->list_sessions(store, take_three, &n, &err), HF_UNUSABLE);
    assert_non_null(strstr(err.text, "changed by another program (5 of 7"));
    assert_int_equal(n, 0);
    store->ops->close(store);
}

static void test_a_list_judges_nobody_by_another_alive_file(void **state)
{
    (void)state;
    hf_error err;
    int seen[2] = {0, 0};
    hf_store *store = open_store(), *crashed = open_store();
    begin_session(crashed);
    crashed->ops->close(crashed);
    must(store->ops->list_sessions(store, note_gone, seen, &err), &err);
    assert_int_equal(seen[1], 1);
    run_sql("UPDATE boots SET alive_ino = alive_ino + 1");
    seen[0] = seen[1] = 0;
    must(store->ops->list_sessions(store, note_gone, seen, &err), &err);
    assert_int_equal(seen[0], 1);
    assert_int_equal(seen[1], 0);
    store->ops->close(store);
}

/* In place of the tester stands a descriptor that can be identified, but not tested through. */
static void break_tester(hf_store *store)
{
    sqlite_store *inside = (sqlite_store *)store;
    int fd = open(inside->alive_path, O_PATH | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(dup2(fd, inside->tester), inside->tester);
    close(fd);
}

static void expect_untested(hf_code code, const hf_error *err)
{
    assert_int_equal(code, HF_UNUSABLE);
    assert_int_equal(err->code, code);
    assert_non_null(strstr(err->text, "test a byte"));
}

static bool note_danger(void *ctx, const hf_finding *finding)
{
    *(int *)ctx += finding->is_danger && strcmp(finding->topic, "alive file") == 0;
    return true;
}

static void test_a_byte_that_cannot_be_tested_is_an_error(void **state)
{
    (void)state;
    hf_error err;
    static hf_session_state seen, gone[4];
    int n[2] = {0, 0}, dangers = 0;
    size_t n_gone;
    bool more;
    hf_store *store = open_store();
    hf_id id = begin_session(store);
    seen = look_at(store, id, -1);
    break_tester(store);
    expect_untested(store->ops->sessions_look(store, &id, 1, -1, &seen, &err), &err);
    expect_untested(store->ops->session_mark(store, &seen, &err), &err);
    expect_untested(store->ops->list_sessions(store, note_gone, n, &err), &err);
    assert_int_equal(n[0], 0);
    expect_untested(store->ops->sweep(store, gone, 4, &n_gone, &more, &err), &err);
    assert_int_equal(n_gone, 0);
    must(store->ops->doctor(store, note_danger, &dangers, &err), &err);
    assert_int_equal(dangers, 1);
    assert_int_equal(query("SELECT count(*) FROM sessions WHERE dead_at IS NULL"), 1);
    store->ops->close(store);
}

static void test_no_row_is_forgotten_whose_byte_cannot_be_tested(void **state)
{
    (void)state;
    hf_error err;
    static hf_session_state gone[4];
    size_t n;
    bool more = true;
    hf_code code = HF_OK;
    hf_store *store = open_store();
    end(store, begin_session(store));
    wall_ahead_ms = 2 * HOUR_MS;
    break_tester(store);
    while (!code && more)
        code = store->ops->sweep(store, gone, 4, &n, &more, &err);
    expect_untested(code, &err);
    assert_int_equal(query("SELECT count(*) FROM sessions"), 1);
    store->ops->close(store);
}

/* ---- As many as are asked for ---- */

static bool count_waits(void *ctx, const hf_waits *waits)
{
    (void)waits;
    ++*(int *)ctx;
    return true;
}

static bool count_record(void *ctx, const hf_record *record)
{
    (void)record;
    ++*(int *)ctx;
    return true;
}

static bool take_one(void *ctx, const hf_waits *waits)
{
    count_waits(ctx, waits);
    return false;
}

static void test_no_more_are_looked_at_than_asked_for(void **state)
{
    (void)state;
    hf_error err;
    static hf_session_state seen[2];
    int n = 0;
    const char *const names[] = {"a", "b"};
    hf_store *store = open_store();
    hf_id ids[] = {begin_session(store), begin_session(store)};
    hf_beat says = {.waits = "a"};
    for (int i = 0; i < 2; i++)
        must(store->ops->session_beat(store, ids[i], &says, &seen[0], &err), &err);
    must(store->ops->waits(store, ids, 1, count_waits, &n, &err), &err);
    assert_int_equal(n, 1);
    n = 0;
    must(store->ops->waits(store, NULL, 0, take_one, &n, &err), &err);
    assert_int_equal(n, 1);
    n = 0;
    must(store->ops->look(store, names, 1, (hf_stamp){0}, false, count_record, &n, &err), &err);
    assert_int_equal(n, 1);
    seen[1].beat = 77;
    must(store->ops->sessions_look(store, ids, 1, -1, seen, &err), &err);
    assert_int_equal(seen[0].beat, 2);
    assert_int_equal(seen[1].beat, 77);
    store->ops->close(store);
}

/* ---- The sweep ---- */

static size_t sweep_now(hf_store *store, hf_session_state *gone, size_t max)
{
    run_sql("UPDATE meta SET value = 0 WHERE key = 'swept_at'");
    return sweep(store, gone, max);
}

static void test_the_sweep_names_those_an_hour_overdue(void **state)
{
    (void)state;
    static hf_session_state gone[4];
    hf_store *store = open_store();
    for (int i = 0; i < 3; i++)
        begin_session(store);
    mono_ahead_ms = TTL_MS + HOUR_MS;
    assert_int_equal(sweep_now(store, gone, 4), 0);
    mono_ahead_ms++;
    assert_int_equal(sweep_now(store, gone, 4), 3);
    gone[2].beat = 77;
    assert_int_equal(sweep_now(store, gone, 2), 2);
    assert_int_equal(gone[2].beat, 77);
    store->ops->close(store);
}

/* Only its beats can say whether it lives. */
static void test_the_sweep_names_leases_of_another_clock(void **state)
{
    (void)state;
    static hf_session_state gone[4];
    hf_store *store = open_at("boot", "machine");
    hf_id lease = begin_lease(store);
    begin_session(store);
    assert_int_equal(sweep_now(store, gone, 4), 0);
    clock_name = "time:[2]";
    hf_store *other = open_at("boot", "machine");
    assert_int_equal(sweep_now(other, gone, 4), 1);
    assert_true(id_equal(gone[0].session.id, lease));
    assert_false(gone[0].is_gone);
    other->ops->close(other);
    store->ops->close(store);
}

static void test_a_mark_is_kept_for_an_hour(void **state)
{
    (void)state;
    static hf_session_state gone[4];
    hf_store *store = open_store();
    hf_id id = begin_session(store);
    end(store, id);
    wall_ahead_ms = HOUR_MS;
    sweep_now(store, gone, 4);
    assert_int_equal(look_at(store, id, -1).presence, HF_DEAD);
    wall_ahead_ms++;
    sweep_now(store, gone, 4);
    assert_int_equal(look_at(store, id, -1).presence, HF_MISSING);
    store->ops->close(store);
}

/* It is not taken for another's: it stays for people to look at. */
static void test_a_dead_session_without_a_proper_id_is_left_alone(void **state)
{
    (void)state;
    static hf_session_state gone[4];
    hf_store *store = open_store();
    for (int i = 0; i < 3; i++)
        end(store, begin_session(store));
    run_sql("UPDATE sessions SET id = x'01' WHERE row = (SELECT max(row) FROM sessions)");
    wall_ahead_ms = 2 * HOUR_MS;
    sweep_now(store, gone, 4);
    assert_int_equal(query("SELECT count(*) FROM sessions"), 1);
    assert_int_equal(query("SELECT length(id) FROM sessions"), 1);
    store->ops->close(store);
}

static void say_waits(hf_store *store, hf_id id, const char *waits)
{
    hf_error err;
    static hf_session_state seen;
    hf_beat says = {.waits = waits};
    must(store->ops->session_beat(store, id, &says, &seen, &err), &err);
}

static void assert_kept(int64_t waits, int64_t asks)
{
    assert_int_equal(query("SELECT count(*) FROM waits"), waits);
    assert_int_equal(query("SELECT count(*) FROM asks"), asks);
}

/* And that of others stays. */
static void test_what_belongs_to_a_session_goes_with_it(void **state)
{
    (void)state;
    hf_error err;
    static hf_session_state gone[4];
    hf_ask ask = {.ticket = new_id(), .by = "me", .reason = "because"};
    hf_store *store = open_store();
    hf_id one = begin_session(store), two = begin_session(store);
    say_waits(store, one, "a");
    say_waits(store, two, "b");
    must(store->ops->ask(store, one, &ask, &err), &err);
    must(store->ops->ask(store, two, &ask, &err), &err);
    assert_kept(2, 2);
    say_waits(store, one, NULL);
    assert_kept(1, 2);
    say_waits(store, one, "a");
    end(store, one);
    assert_kept(1, 1);
    run_sql("INSERT INTO asks SELECT id, x'00', 'me', 'late' FROM sessions WHERE dead_at > 0;"
            "INSERT INTO waits SELECT id, 1, 'late' FROM sessions WHERE dead_at > 0");
    wall_ahead_ms = 2 * HOUR_MS;
    sweep_now(store, gone, 4);
    assert_kept(1, 1);
    store->ops->close(store);
}

static int64_t swept_at(void)
{
    return query("SELECT value FROM meta WHERE key = 'swept_at'");
}

static void test_once_an_hour_somebody_sweeps_for_all(void **state)
{
    (void)state;
    static hf_session_state gone[4];
    const int64_t now = env_wall(NULL).ms;
    hf_store *store = open_store();
    sweep(store, gone, 4);
    assert_int_equal(swept_at(), now);
    wall_ahead_ms = HOUR_MS;
    sweep(store, gone, 4);
    assert_int_equal(swept_at(), now);
    wall_ahead_ms++;
    sweep(store, gone, 4);
    assert_int_equal(swept_at(), now + HOUR_MS + 1);
    wall_ahead_ms--; /* a clock that was set back does not stop it for long */
    sweep(store, gone, 4);
    assert_int_equal(swept_at(), now + HOUR_MS);
    store->ops->close(store);
}

static void leave_with(hf_store *store, const char *name, hf_outcome outcome, int64_t floor)
{
    hf_error err;
    hf_step_reply reply;
    hf_enter in = enter_of(new_id(), 1);
    hf_leave out = {.ticket = in.entry.ticket, .outcome = outcome, .told = true, .who = "test"};
    hf_step step = {.enter = &in, .floor = floor ? &floor : NULL};
    must(store->ops->step(store, name, &step, NULL, &reply, &err), &err);
    step = (hf_step){.leaves = &out, .n_leaves = 1};
    must(store->ops->step(store, name, &step, NULL, &reply, &err), &err);
}

static bool is_there(hf_store *store, const char *name)
{
    hf_record record = read_record(store, name);
    bool is = record.exists;
    record_done(&record);
    return is;
}

static void test_a_record_is_kept_for_three_days(void **state)
{
    (void)state;
    static hf_session_state gone[4];
    hf_store *store = open_store();
    hf_id ticket, waits;
    int64_t token, later = record_floor_of((hf_dbtime){env_wall(NULL).ms + 3 * DAY_MS + 1});
    leave_with(store, "released", HF_OUTCOME_RELEASED, 0);
    leave_with(store, "abandoned", HF_OUTCOME_ABANDONED, 0);
    leave_with(store, "ahead", HF_OUTCOME_RELEASED, later);
    leave_with(store, "nearly ahead", HF_OUTCOME_RELEASED, later - 1);
    hf_id session = begin_session(store);
    leave_with(store, "held", HF_OUTCOME_RELEASED, 0);
    enter(store, "held", session, &ticket, &token);
    enter(store, "held", session, &waits, &token);
    wall_ahead_ms = 3 * DAY_MS;
    sweep_now(store, gone, 4);
    assert_true(is_there(store, "released"));
    wall_ahead_ms++;
    sweep_now(store, gone, 4);
    assert_false(is_there(store, "released"));
    assert_false(is_there(store, "nearly ahead"));
    assert_false(is_there(store, "abandoned"));
    assert_true(is_there(store, "ahead"));
    assert_true(is_there(store, "held"));
    store->ops->close(store);
}

/* More than are read or forgotten at a time, and what stays stands among them. */
static void test_however_many_are_idle_all_are_forgotten(void **state)
{
    (void)state;
    static hf_session_state gone[4];
    char name[16];
    hf_store *store = open_store();
    const int64_t ahead = record_floor_of((hf_dbtime){env_wall(NULL).ms + 9 * DAY_MS});
    for (int i = 0; i < 260; i++) {
        snprintf(name, sizeof name, "lock %03d", i);
        bool stays = i > 100 && i < 230;
        leave_with(store, name, HF_OUTCOME_RELEASED, stays ? ahead : 0);
    }
    wall_ahead_ms = 4 * DAY_MS;
    sweep_now(store, gone, 4);
    assert_int_equal(query("SELECT count(*) FROM locks"), 129);
    assert_int_equal(query("SELECT count(*) FROM locks WHERE name > 'lock 100' AND"
                           " name < 'lock 230'"),
                     129);
    store->ops->close(store);
}

static void sweep_part(hf_store *store)
{
    static hf_session_state gone[4];
    hf_error err;
    size_t n;
    bool more;
    must(store->ops->sweep(store, gone, 4, &n, &more, &err), &err);
    assert_true(more);
}

/* Other calls come in between. */
static void test_no_part_of_a_sweep_takes_long(void **state)
{
    (void)state;
    char name[16];
    hf_store *store = open_store();
    for (int i = 0; i < 250; i++) {
        snprintf(name, sizeof name, "lock %03d", i);
        leave_with(store, name, HF_OUTCOME_RELEASED, 0);
    }
    wall_ahead_ms = 4 * DAY_MS;
    run_sql("UPDATE meta SET value = 0 WHERE key = 'swept_at'");
    sweep_part(store);
    assert_int_equal(query("SELECT count(*) FROM locks"), 250);
    sweep_part(store);
    assert_int_equal(query("SELECT count(*) FROM locks"), 150);
    sweep_part(store);
    assert_int_equal(query("SELECT count(*) FROM locks"), 50);
    store->ops->close(store);
}

/* Writes over that text wherever it stands in the file. */
static void damage(const char *text, const char *with)
{
    static char file[1 << 20];
    FILE *stream = fopen(path, "r+b");
    assert_non_null(stream);
    size_t size = fread(file, 1, sizeof file, stream), length = strlen(text);
    for (size_t i = 0; i + length <= size; i++)
        if (memcmp(file + i, text, length) == 0)
            memcpy(file + i, with, length);
    rewind(stream);
    assert_int_equal(fwrite(file, 1, size, stream), size);
    fclose(stream);
}

/* Behind "aock 2" comes "lock 1" once more, and so on. */
static void test_a_sweep_of_a_damaged_table_ends(void **state)
{
    (void)state;
    hf_error err;
    size_t n;
    bool more = true;
    static hf_session_state gone[4];
    hf_store *store = open_store();
    leave_with(store, "lock 1", HF_OUTCOME_ABANDONED, 0);
    leave_with(store, "lock 2", HF_OUTCOME_ABANDONED, 0);
    store->ops->close(store);
    run_sql("PRAGMA wal_checkpoint(TRUNCATE)");
    damage("lock 2", "aock 2");
    assert_int_equal(query("SELECT count(*) FROM locks WHERE substr(name, 1, 4) = 'aock'"), 1);
    store = open_store();
    run_sql("UPDATE meta SET value = 0 WHERE key = 'swept_at'");
    for (int i = 0; i < 100 && more; i++)
        must(store->ops->sweep(store, gone, 4, &n, &more, &err), &err);
    assert_false(more);
    store->ops->close(store);
}

/* ---- Tokens ---- */

static void set_meta(const char *key, int64_t value)
{
    char text[100];
    snprintf(text, sizeof text, "UPDATE meta SET value = %lld WHERE key = '%s'", (long long)value,
             key);
    run_sql(text);
}

static void test_tokens_that_cannot_be_are_damage(void **state)
{
    (void)state;
    static const char *const keys[] = {"reserved", "high_water"};
    hf_store *store = open_store();
    store->ops->close(store);
    for (int i = 0; i < 2; i++) {
        set_meta(keys[i], -1);
        expect_unusable(keys[i]);
        set_meta(keys[i], TOKEN_END);
        expect_unusable(keys[i]);
        set_meta(keys[i], TOKEN_END - 1);
        store = open_store();
        store->ops->close(store);
        set_meta(keys[i], 0);
        store = open_store();
        store->ops->close(store);
    }
}

static hf_code enter_at(hf_store *store, const char *name, int64_t floor, hf_error *err)
{
    hf_step_reply reply;
    hf_enter in = enter_of(new_id(), 1);
    hf_step step = {.enter = &in, .floor = &floor};
    return store->ops->step(store, name, &step, NULL, &reply, err);
}

static void test_the_last_token_is_followed_by_none(void **state)
{
    (void)state;
    hf_error err;
    hf_store *store = open_store();
    must(enter_at(store, "a", TOKEN_END - 1, &err), &err);
    assert_int_equal(query("SELECT value FROM meta WHERE key = 'reserved'"), TOKEN_END - 1);
    assert_int_equal(enter_at(store, "b", TOKEN_END, &err), HF_UNUSABLE);
    assert_non_null(strstr(err.text, "no tokens left"));
    assert_false(is_there(store, "b"));
    store->ops->close(store);
}

static void test_the_high_water_never_falls(void **state)
{
    (void)state;
    static hf_session_state gone[4];
    hf_store *store = open_store();
    int64_t now = record_floor_of((hf_dbtime){env_wall(NULL).ms});
    leave_with(store, "a", HF_OUTCOME_RELEASED, now + 5);
    leave_with(store, "b", HF_OUTCOME_RELEASED, now);
    wall_ahead_ms = 4 * DAY_MS;
    sweep_now(store, gone, 4);
    assert_false(is_there(store, "b"));
    assert_int_equal(query("SELECT value FROM meta WHERE key = 'high_water'"), now + 5);
    store->ops->close(store);
}

/* Raised ahead of the token, for the time of some minutes; and not again before it is used up. */
static void test_tokens_are_reserved_ahead(void **state)
{
    (void)state;
    hf_error err;
    hf_store *store = open_store();
    int64_t reserved = query("SELECT value FROM meta WHERE key = 'reserved'");
    assert_true(reserved > record_floor_of((hf_dbtime){env_wall(NULL).ms}));
    must(enter_at(store, "a", reserved, &err), &err);
    assert_int_equal(query("SELECT value FROM meta WHERE key = 'reserved'"), reserved);
    must(enter_at(store, "b", reserved + 1, &err), &err);
    assert_true(query("SELECT value FROM meta WHERE key = 'reserved'") > reserved + RECORD_LAG);
    store->ops->close(store);
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, remove_folder)
    const struct CMUnitTest tests[] = {
        TEST(test_a_lease_that_is_over_by_more_than_the_trust_is_gone),
        TEST(test_what_was_judged_by_the_clock_is_marked_only_when_overdue),
        TEST(test_a_lease_is_judged_by_the_clock_that_renewed_it),
        TEST(test_no_byte_says_whether_a_lease_lives),
        TEST(test_who_waits_for_a_living_session_watches_its_byte),
        TEST(test_no_more_are_watched_than_fit),
        TEST(test_a_machine_without_an_id_is_any),
        TEST(test_one_boot_is_one_machine),
        TEST(test_an_id_begins_once),
        TEST(test_odd_times_are_reckoned_with),
        TEST(test_sessions_of_another_form_are_damage),
        TEST(test_a_list_judges_nobody_by_another_alive_file),
        TEST(test_a_byte_that_cannot_be_tested_is_an_error),
        TEST(test_no_row_is_forgotten_whose_byte_cannot_be_tested),
        TEST(test_the_sweep_names_those_an_hour_overdue),
        TEST(test_the_sweep_names_leases_of_another_clock),
        TEST(test_a_mark_is_kept_for_an_hour),
        TEST(test_a_dead_session_without_a_proper_id_is_left_alone),
        TEST(test_what_belongs_to_a_session_goes_with_it),
        TEST(test_once_an_hour_somebody_sweeps_for_all),
        TEST(test_a_record_is_kept_for_three_days),
        TEST(test_however_many_are_idle_all_are_forgotten),
        TEST(test_no_part_of_a_sweep_takes_long),
        TEST(test_a_sweep_of_a_damaged_table_ends),
        TEST(test_tokens_that_cannot_be_are_damage),
        TEST(test_the_last_token_is_followed_by_none),
        TEST(test_tokens_are_reserved_ahead),
        TEST(test_the_high_water_never_falls),
        TEST(test_no_more_are_looked_at_than_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
