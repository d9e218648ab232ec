/* SPDX-License-Identifier: Apache-2.0 */
/* test_sqlite_sessions.c: the embedded store's sessions within one process: whom it calls dead,
 * what it refuses to judge, and that threads can share it. */
#include "sqlite_fixture.h"

#include "store/sqlite/sqlite_internal.h"

#include <fcntl.h>
#include <pthread.h>

static hf_code mark(hf_store *store, const hf_session_state *seen)
{
    hf_error err;
    return store->ops->session_mark(store, seen, &err);
}

static hf_code beat(hf_store *store, hf_id id, const hf_id *answered, size_t n)
{
    hf_error err;
    static hf_session_state state;
    hf_beat says = {.answered = answered, .n_answered = n};
    return store->ops->session_beat(store, id, &says, &state, &err);
}

static void marks_only_what_is_as_it_was_seen(void **state)
{
    (void)state;
    hf_store *store = open_store();
    int64_t before = clock_ns(CLOCK_BOOTTIME);
    hf_id id = begin_session(store);
    hf_session_state seen = look_at(store, id, 0);
    int64_t took_ms = (clock_ns(CLOCK_BOOTTIME) - before) / 1000000;
    assert_int_equal(seen.presence, HF_LIVE);
    assert_false(seen.is_gone);
    assert_true(seen.lease_left_ms >= 10000 - took_ms - 1 && seen.lease_left_ms <= 10000);
    assert_int_equal(beat(store, id, NULL, 0), HF_OK);
    assert_int_equal(mark(store, &seen), HF_HELD);
    seen = look_at(store, id, 0);
    assert_int_equal(mark(store, &seen), HF_OK);
    assert_int_equal(mark(store, &seen), HF_OK);
    assert_int_equal(beat(store, id, NULL, 0), HF_LOST);
    assert_int_equal(look_at(store, id, 0).presence, HF_DEAD);
    seen.session.id = new_id();
    assert_int_equal(mark(store, &seen), HF_NOT_FOUND);
    assert_int_equal(look_at(store, seen.session.id, 0).presence, HF_MISSING);
    store->ops->close(store);
}

/* A stopped process keeps its byte; its lease still ends, by a clock that does not jump. */
static void judges_the_overdue_by_its_clock(void **state)
{
    (void)state;
    hf_store *store = open_store();
    hf_id id = begin_session(store);
    mono_ahead_ms = 10000 + 5000;
    assert_false(look_at(store, id, 6000).is_gone);
    assert_false(look_at(store, id, -1).is_gone);
    hf_session_state seen = look_at(store, id, 4000);
    assert_true(seen.is_gone);
    assert_int_equal(beat(store, id, NULL, 0), HF_OK);
    assert_int_equal(mark(store, &seen), HF_HELD);
    store->ops->close(store);
}

/* CLOCK_BOOTTIME of another time namespace says nothing. */
static void judges_by_no_other_clock(void **state)
{
    (void)state;
    hf_store *store = open_at("boot", "machine");
    hf_id id = begin_session(store);
    clock_name = "time:[2]";
    hf_store *other = open_at("boot", "machine");
    mono_ahead_ms = 3600 * 1000;
    assert_true(look_at(store, id, 0).is_gone);
    assert_false(look_at(other, id, 0).is_gone);
    other->ops->close(other);
    store->ops->close(store);
}

/* Two that could not find out whose clock theirs is have not the same one. */
static void judges_by_no_unknown_clock(void **state)
{
    (void)state;
    clock_name = "";
    hf_store *store = open_at("boot", "machine");
    hf_store *other = open_at("boot", "machine");
    hf_id id = begin_session(store);
    mono_ahead_ms = 3600 * 1000;
    assert_false(look_at(other, id, 0).is_gone);
    other->ops->close(other);
    store->ops->close(store);
}

static void passes_asks_on(void **state)
{
    (void)state;
    hf_error err;
    hf_store *store = open_store();
    hf_id id = begin_session(store);
    hf_ask ask = {.by = "me", .reason = "because"};
    for (int i = 0; i < HF_ASKS_MAX; i++) {
        ask.ticket = new_id();
        must(store->ops->ask(store, id, &ask, &err), &err);
    }
    must(store->ops->ask(store, id, &ask, &err), &err);
    hf_id answered = ask.ticket;
    ask.ticket = new_id();
    assert_int_equal(store->ops->ask(store, id, &ask, &err), HF_FULL);
    assert_int_equal(look_at(store, id, 0).n_asked, HF_ASKS_MAX);
    assert_int_equal(beat(store, id, &answered, 1), HF_OK);
    hf_session_state seen = look_at(store, id, 0);
    assert_int_equal(seen.n_asked, HF_ASKS_MAX - 1);
    assert_string_equal(seen.asked[0].reason, "because");
    must(store->ops->session_end(store, id, false, &err), &err);
    assert_int_equal(store->ops->ask(store, id, &ask, &err), HF_NOT_FOUND);
    assert_int_equal(store->ops->ask(store, new_id(), &ask, &err), HF_NOT_FOUND);
    store->ops->close(store);
}

static void an_earlier_boot_is_gone_another_machine_is_not(void **state)
{
    (void)state;
    hf_error err;
    hf_store *store = open_at("boot-1", "machine-a");
    hf_id id = begin_session(store);
    store->ops->close(store);
    store = open_at("boot-2", "machine-b");
    hf_session_state seen = look_at(store, id, 0);
    assert_int_equal(seen.presence, HF_LIVE);
    assert_false(seen.is_gone);
    assert_int_equal(store->ops->session_mark(store, &seen, &err), HF_UNUSABLE);
    assert_non_null(strstr(err.text, "test@here"));
    store->ops->close(store);
    store = open_at("boot-3", "machine-a");
    seen = look_at(store, id, 0);
    assert_true(seen.is_gone);
    assert_int_equal(mark(store, &seen), HF_OK);
    store->ops->close(store);
}

static void a_removed_or_replaced_alive_file_is_an_error(void **state)
{
    (void)state;
    hf_error err;
    char alive[128], other[128];
    static hf_session_state seen;
    hf_store *store = open_store();
    hf_id id = begin_session(store);
    snprintf(alive, sizeof alive, "%s-alive", path);
    snprintf(other, sizeof other, "%s/other", folder);
    assert_int_equal(rename(alive, other), 0);
    expect_unusable("is missing");
    write_file(alive, "", 1);
    expect_unusable("another file");
    assert_false(look_at(store, id, 0).is_gone);
    hf_session self = {.id = new_id(), .ttl_ms = 1000, .pid = 1};
    assert_int_equal(store->ops->session_begin(store, &self, &err), HF_UNUSABLE);
    assert_int_equal(rename(other, alive), 0);
    run_sql("UPDATE boots SET alive_ino = alive_ino + 1");
    assert_int_equal(store->ops->sessions_look(store, &id, 1, 0, &seen, &err), HF_UNUSABLE);
    run_sql("UPDATE boots SET alive_ino = alive_ino - 1");
    assert_false(look_at(store, id, 0).is_gone);
    store->ops->close(store);
}

/* Others would find a new file, and every lock in it free. */
static void test_a_removed_database_is_lost(void **state)
{
    (void)state;
    hf_error err;
    char other[128];
    hf_store *store = open_store();
    hf_id id = begin_session(store);
    assert_int_equal(beat(store, id, NULL, 0), HF_OK);
    snprintf(other, sizeof other, "%s/other", folder);
    assert_int_equal(rename(path, other), 0);
    assert_int_equal(beat(store, id, NULL, 0), HF_LOST);
    hf_session self = {.id = new_id(), .ttl_ms = 1000, .pid = 1};
    assert_int_equal(store->ops->session_begin(store, &self, &err), HF_UNUSABLE);
    assert_non_null(strstr(err.text, "removed or replaced"));
    assert_int_equal(rename(other, path), 0);
    assert_int_equal(beat(store, id, NULL, 0), HF_OK);
    store->ops->close(store);
}

static bool count_session(void *ctx, const hf_session_state *state)
{
    (void)state;
    ++*(int *)ctx;
    return true;
}

static int count_sessions(hf_store *store)
{
    hf_error err;
    int n = 0;
    must(store->ops->list_sessions(store, count_session, &n, &err), &err);
    return n;
}

static void sweeps_the_dead_and_names_the_gone(void **state)
{
    (void)state;
    hf_error err;
    static hf_session_state gone[4];
    hf_store *other = open_store(), *store = open_store();
    hf_id id = begin_session(other);
    must(store->ops->session_end(store, begin_session(store), false, &err), &err);
    hf_id live = begin_session(store);
    other->ops->close(other);
    assert_int_equal(sweep(store, gone, 4), 1);
    assert_true(id_equal(gone[0].session.id, id));
    assert_int_equal(mark(store, &gone[0]), HF_OK);
    assert_int_equal(count_sessions(store), 3);
    wall_ahead_ms = 2 * 3600 * 1000;
    assert_int_equal(sweep(store, gone, 4), 0);
    assert_int_equal(count_sessions(store), 1);
    assert_false(look_at(store, live, 0).is_gone);
    store->ops->close(store);
}

/* Many that ended well are all forgotten, and so is one that left a ticket. */
static void forgets_all_that_ended(void **state)
{
    (void)state;
    hf_error err;
    int64_t token;
    static hf_session_state gone[4];
    hf_store *store = open_store();
    hf_id session = begin_session(store), ticket;
    assert_int_equal(enter(store, "left", session, &ticket, &token), RECORD_HOLDS);
    must(store->ops->session_end(store, session, true, &err), &err);
    for (int i = 0; i < 250; i++)
        must(store->ops->session_end(store, begin_session(store), false, &err), &err);
    wall_ahead_ms = 2 * 3600 * 1000;
    assert_int_equal(sweep(store, gone, 4), 0);
    assert_int_equal(query("SELECT count(*) FROM sessions"), 0);
    store->ops->close(store);
}

static bool note_danger(void *ctx, const hf_finding *finding)
{
    if (finding->is_danger)
        print_message("%s: %s\n", finding->topic, finding->text);
    *(int *)ctx += finding->is_danger;
    return true;
}

static void doctor_finds_no_danger_here(void **state)
{
    (void)state;
    hf_error err;
    int dangers = 0;
    hf_store *store = open_store();
    must(store->ops->doctor(store, note_danger, &dangers, &err), &err);
    assert_int_equal(dangers, 0);
    store->ops->close(store);
}

/* ---- Threads ---- */

#define ROUNDS 200

typedef struct worker {
    pthread_t thread;
    hf_store *store;
    hf_id session;
} worker;

static bool is_fine(void *ctx, const hf_record *record)
{
    (void)ctx;
    return record->exists;
}

static void *work(void *ctx)
{
    worker *w = ctx;
    const char *name = "shared";
    const int64_t floor = 0;
    static _Thread_local hf_session_state seen;
    hf_error err;
    hf_step_reply reply;
    for (int i = 0; i < ROUNDS; i++) {
        hf_enter in = enter_of(w->session, 1);
        hf_step step = {.enter = &in, .floor = &floor};
        hf_leave out = {.ticket = in.entry.ticket, .outcome = HF_OUTCOME_RELEASED};
        hf_step back = {.leaves = &out, .n_leaves = 1};
        const hf_store_ops *ops = w->store->ops;
        if (ops->step(w->store, name, &step, NULL, &reply, &err) ||
            ops->look(w->store, &name, 1, reply.stamp, false, is_fine, NULL, &err) ||
            ops->session_beat(w->store, w->session, &(hf_beat){0}, &seen, &err) ||
            ops->sessions_look(w->store, &w->session, 1, 0, &seen, &err) ||
            ops->step(w->store, name, &back, NULL, &reply, &err))
            return w;
        ops->wake(w->store);
    }
    return NULL;
}

static void ignore_notice(void *ctx, const hf_notice *notice)
{
    (void)ctx, (void)notice;
}

static void serves_threads_at_the_same_time(void **state)
{
    (void)state;
    hf_error err;
    worker workers[4];
    hf_store *store = open_store();
    hf_id session = begin_session(store);
    for (int i = 0; i < 4; i++) {
        workers[i] = (worker){.store = store, .session = session};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < ROUNDS; i++)
        must(store->ops->await(store, session, (hf_stamp){0}, 5, ignore_notice, NULL, &err), &err);
    for (int i = 0; i < 4; i++) {
        void *failed;
        pthread_join(workers[i].thread, &failed);
        assert_null(failed);
    }
    hf_record record = read_record(store, "shared");
    assert_int_equal(record.token, 4 * ROUNDS);
    record_done(&record);
    store->ops->close(store);
}

/* The listener sleeps for long, and its session may have been lost meanwhile. */
static void whoever_listens_turns_to_a_new_session(void **state)
{
    (void)state;
    hf_error err;
    hf_store *store = open_store();
    hf_id session = begin_session(store);
    begin_session(store);
    int64_t before = clock_ns(CLOCK_MONOTONIC);
    must(store->ops->await(store, session, (hf_stamp){0}, 10000, ignore_notice, NULL, &err), &err);
    assert_true(clock_ns(CLOCK_MONOTONIC) - before < 5000000000);
    store->ops->close(store);
}

static int count_descriptors(void)
{
    int n = 0;
    for (int fd = 0; fd < 256; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static void a_session_that_ended_leaves_no_descriptor(void **state)
{
    (void)state;
    hf_error err;
    hf_store *store = open_store();
    hf_id first = begin_session(store);
    must(store->ops->await(store, first, (hf_stamp){0}, 0, ignore_notice, NULL, &err), &err);
    must(store->ops->session_end(store, first, false, &err), &err);
    int before = count_descriptors();
    for (int i = 0; i < 3; i++) {
        hf_id id = begin_session(store);
        must(store->ops->await(store, id, (hf_stamp){0}, 0, ignore_notice, NULL, &err), &err);
        must(store->ops->await(store, id, (hf_stamp){0}, 0, ignore_notice, NULL, &err), &err);
        must(store->ops->session_end(store, id, false, &err), &err);
        assert_int_equal(count_descriptors(), before);
        assert_int_equal(store->ops->await(store, id, (hf_stamp){0}, 0, ignore_notice, NULL, &err),
                         HF_NOT_FOUND);
    }
    store->ops->close(store);
}

struct commit {
    const sqlite_store *store;
    hf_code code;
    bool is_free;
    int n;
};

/* Before anybody else can see the row that is about to be there. */
static int test_byte(void *ctx)
{
    struct commit *at = ctx;
    hf_error err;
    int64_t row = sqlite3_last_insert_rowid(at->store->main.db);
    at->n++;
    at->code = alive_test(at->store->alive_path, at->store->tester, row, &at->is_free, &err);
    return 0;
}

/* A reader that saw the row with its byte free would take the session for dead (R10). */
static void the_byte_is_locked_before_the_row_can_be_seen(void **state)
{
    (void)state;
    hf_store *store = open_store();
    begin_session(store); /* what is made once is there */
    struct commit at = {.store = (sqlite_store *)store};
    sqlite3_commit_hook(at.store->main.db, test_byte, &at);
    begin_session(store);
    sqlite3_commit_hook(at.store->main.db, NULL, NULL);
    assert_int_equal(at.n, 1);
    assert_int_equal(at.code, HF_OK);
    assert_false(at.is_free);
    store->ops->close(store);
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {
        TEST(marks_only_what_is_as_it_was_seen),
        TEST(the_byte_is_locked_before_the_row_can_be_seen),
        TEST(judges_the_overdue_by_its_clock),
        TEST(judges_by_no_other_clock),
        TEST(judges_by_no_unknown_clock),
        TEST(passes_asks_on),
        TEST(an_earlier_boot_is_gone_another_machine_is_not),
        TEST(a_removed_or_replaced_alive_file_is_an_error),
        TEST(test_a_removed_database_is_lost),
        TEST(sweeps_the_dead_and_names_the_gone),
        TEST(forgets_all_that_ended),
        TEST(doctor_finds_no_danger_here),
        TEST(whoever_listens_turns_to_a_new_session),
        TEST(a_session_that_ended_leaves_no_descriptor),
        TEST(serves_threads_at_the_same_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
