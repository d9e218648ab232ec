/* SPDX-License-Identifier: Apache-2.0 */
/* test_sqlite.c: the embedded store within one process: what it refuses to open, what it keeps,
 * whom it calls dead, and that tokens never come back. */
#include "sqlite_fixture.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* ---- The file ---- */

static void run_sql(const char *text)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static int64_t query(const char *text)
{
    sqlite3 *db;
    sqlite3_stmt *statement;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, text, -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    int64_t value = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    sqlite3_close(db);
    return value;
}

static void write_file(const char *name, const char *text, int times)
{
    FILE *file = fopen(name, "w");
    assert_non_null(file);
    for (int i = 0; i < times; i++)
        fputs(text, file);
    fclose(file);
}

static void expect_unusable(const char *word)
{
    hf_error err;
    assert_int_equal(open_fails(&err), HF_UNUSABLE);
    assert_non_null(strstr(err.text, path));
    assert_non_null(strstr(err.text, word));
}

static void makes_a_database_of_its_own(void **state)
{
    (void)state;
    struct stat info;
    mode_t before = umask(027);
    hf_store *store = open_store();
    umask(before);
    store->ops->close(store);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0640);
    store = open_store();
    store->ops->close(store);
}

static void refuses_what_is_no_database(void **state)
{
    (void)state;
    struct stat info;
    write_file(path, "this is a letter, not a database\n", 100);
    expect_unusable("not an SQLite database");
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_size, 3300);
}

static void refuses_another_programs_database(void **state)
{
    (void)state;
    run_sql("CREATE TABLE bookmarks(url)");
    expect_unusable("another program");
    run_sql("SELECT url FROM bookmarks");
    run_sql("PRAGMA application_id = 7");
    expect_unusable("0x00000007");
}

static void refuses_a_newer_schema(void **state)
{
    (void)state;
    hf_store *store = open_store();
    store->ops->close(store);
    run_sql("PRAGMA user_version = 2");
    expect_unusable("schema 2");
}

static void refuses_paths_that_cannot_be(void **state)
{
    (void)state;
    hf_error err;
    snprintf(path, sizeof path, "%s/none/locks.db", folder);
    assert_int_equal(open_fails(&err), HF_UNUSABLE);
    assert_non_null(strstr(err.text, "folder must exist"));
    snprintf(path, sizeof path, "%s", folder);
    assert_int_equal(open_fails(&err), HF_UNUSABLE);
    strcpy(path, ":memory:");
    assert_int_equal(open_fails(&err), HF_INVALID);
    assert_int_equal(access(":memory:", F_OK), -1);
}

static bool count_record(void *ctx, const hf_record *record)
{
    (void)record;
    ++*(int *)ctx;
    return true;
}

/* The exit status says at which line it failed. */
#define CHILD_MUST(claim)                                                                          \
    do {                                                                                           \
        if (!(claim))                                                                              \
            _exit(__LINE__ % 255 + 1);                                                             \
    } while (0)

static void read_as_nobody(void)
{
    hf_error err;
    int n = 0;
    hf_store *store;
    hf_step_reply reply;
    hf_enter in = enter_of(new_id(), 1);
    hf_session self = {.id = in.entry.session, .ttl_ms = 1000};
    CHILD_MUST(geteuid() != 0 || setresuid(65534, 65534, 65534) == 0);
    CHILD_MUST(sqlite_open(path, &config, &store, &err) == HF_OK);
    CHILD_MUST(store->ops->list(store, "", count_record, &n, &err) == HF_OK && n == 1);
    hf_step step = {.enter = &in};
    CHILD_MUST(store->ops->step(store, "a", &step, NULL, &reply, &err) == HF_READONLY);
    CHILD_MUST(strstr(err.text, path) && strstr(err.text, "read-only"));
    CHILD_MUST(store->ops->session_begin(store, &self, &err) == HF_READONLY);
    store->ops->close(store);
    snprintf(path, sizeof path, "%s/other.db", folder);
    CHILD_MUST(sqlite_open(path, &config, &store, &err) == HF_DENIED);
    _exit(0);
}

static void expect_success(pid_t child)
{
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void lists_what_it_cannot_write(void **state)
{
    (void)state;
    hf_id ticket;
    int64_t token;
    char name[128];
    hf_store *store = open_store();
    enter(store, "a", begin_session(store), &ticket, &token);
    store->ops->close(store);
    for (const char *const *end = (const char *const[]){"", "-wal", "-shm", NULL}; *end; end++) {
        snprintf(name, sizeof name, "%s%s", path, *end);
        chmod(name, 0444);
    }
    chmod(folder, 0555);
    pid_t child = fork();
    if (child == 0)
        read_as_nobody();
    expect_success(child);
    chmod(folder, 0755);
}

/* A limit on the size of files stands for a full disk. */
static void fill_disk(hf_store *store, hf_id session)
{
    hf_error err;
    hf_step_reply reply;
    char name[32];
    hf_code code = HF_OK;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){.rlim_cur = 200000, .rlim_max = RLIM_INFINITY});
    for (int i = 0; i < 200 && !code; i++) {
        hf_enter in = enter_of(session, 1);
        snprintf(name, sizeof name, "lock %d", i);
        code = store->ops->step(store, name, &(hf_step){.enter = &in}, NULL, &reply, &err);
    }
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY});
    assert_int_equal(code, HF_FULL);
    assert_non_null(strstr(err.text, path));
}

static void loses_nothing_on_a_full_disk(void **state)
{
    (void)state;
    hf_id ticket;
    int64_t token, later;
    hf_store *store = open_store();
    hf_id session = begin_session(store);
    assert_int_equal(enter(store, "held", session, &ticket, &token), RECORD_HOLDS);
    fill_disk(store, session);
    hf_record record = read_record(store, "held");
    assert_non_null(record_find(&record, ticket));
    record_done(&record);
    leave(store, "held", ticket);
    assert_int_equal(enter(store, "held", session, &ticket, &later), RECORD_HOLDS);
    assert_true(later > token);
    store->ops->close(store);
}

/* ---- Records ---- */

static void leaves_a_row_of_another_shape_alone(void **state)
{
    (void)state;
    hf_error err;
    int n = 0;
    hf_id ticket;
    int64_t token;
    hf_step_reply reply;
    hf_store *store = open_store();
    hf_id session = begin_session(store);
    enter(store, "good", session, &ticket, &token);
    run_sql("INSERT INTO locks VALUES('bad', 'mine')");
    hf_enter in = enter_of(session, 1);
    hf_step step = {.enter = &in};
    assert_int_equal(store->ops->step(store, "bad", &step, NULL, &reply, &err), HF_SHAPE);
    assert_non_null(strstr(err.text, "bad"));
    assert_int_equal(store->ops->list(store, "", count_record, &n, &err), HF_SHAPE);
    assert_int_equal(n, 1);
    assert_int_equal(query("SELECT record = 'mine' FROM locks WHERE name = 'bad'"), 1);
    store->ops->close(store);
}

static bool append_name(void *ctx, const hf_record *record)
{
    strcat(strcat(ctx, record->name), " ");
    return true;
}

static void lists_by_prefix_in_byte_order(void **state)
{
    (void)state;
    hf_error err;
    hf_id ticket;
    int64_t token;
    hf_store *store = open_store();
    hf_id session = begin_session(store);
    const char *const names[] = {"b%1", "a", "b", "b_", "bx", "b\xc3\xa9", "B", "c"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        enter(store, names[i], session, &ticket, &token);
    const char *const expected[][2] = {{"b", "b b%1 b_ bx b\xc3\xa9 "},
                                       {"b%", "b%1 "},
                                       {"b_", "b_ "},
                                       {"", "B a b b%1 b_ bx b\xc3\xa9 c "},
                                       {"z", ""}};
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        char found[100] = "";
        must(store->ops->list(store, expected[i][0], append_name, found, &err), &err);
        assert_string_equal(found, expected[i][1]);
    }
    store->ops->close(store);
}

static void writes_nothing_when_nothing_changes(void **state)
{
    (void)state;
    hf_id ticket;
    int64_t token;
    struct stat before, after;
    char wal[128];
    snprintf(wal, sizeof wal, "%s-wal", path);
    hf_store *store = open_store();
    enter(store, "a", begin_session(store), &ticket, &token);
    assert_int_equal(stat(wal, &before), 0);
    leave(store, "a", new_id());
    leave(store, "none", new_id());
    assert_int_equal(stat(wal, &after), 0);
    assert_int_equal(before.st_size, after.st_size);
    hf_record record = read_record(store, "none");
    assert_false(record.exists);
    record_done(&record);
    store->ops->close(store);
}

/* ---- Tokens ---- */

static int64_t take_and_release(hf_store *store, const char *name)
{
    hf_id ticket;
    int64_t token;
    assert_int_equal(enter(store, name, begin_session(store), &ticket, &token), RECORD_HOLDS);
    leave(store, name, ticket);
    return token;
}

/* What the last commits before a loss of power wrote is gone, and the clock is a year behind. */
static void tokens_rise_after_a_loss_of_power(void **state)
{
    (void)state;
    hf_store *store = open_at("boot-1", "machine");
    int64_t token = take_and_release(store, "a");
    wall_ahead_ms = 3600 * 1000; /* past what was reserved: it is raised first */
    int64_t later = take_and_release(store, "a");
    assert_true(later > token);
    store->ops->close(store);
    run_sql("DELETE FROM locks");
    wall_ahead_ms = (int64_t)-365 * 24 * 3600 * 1000;
    store = open_at("boot-2", "machine");
    assert_true(take_and_release(store, "a") > later);
    assert_true(take_and_release(store, "b") > later);
    store->ops->close(store);
}

static void reserves_before_it_gives(void **state)
{
    (void)state;
    hf_store *store = open_store();
    for (int i = 0; i < 5; i++) {
        wall_ahead_ms += 700 * 1000;
        int64_t token = take_and_release(store, "a");
        assert_true(query("SELECT value FROM meta WHERE key = 'reserved'") >= token);
    }
    store->ops->close(store);
}

static size_t sweep(hf_store *store, hf_session_state *gone, size_t max)
{
    hf_error err;
    size_t n;
    must(store->ops->sweep(store, gone, max, &n, &err), &err);
    return n;
}

static void tokens_rise_after_a_prune(void **state)
{
    (void)state;
    static hf_session_state gone[4];
    hf_store *store = open_store();
    int64_t token = take_and_release(store, "a");
    sweep(store, gone, 4);
    hf_record record = read_record(store, "a");
    assert_true(record.exists);
    record_done(&record);
    wall_ahead_ms = (int64_t)4 * 24 * 3600 * 1000;
    sweep(store, gone, 4);
    record = read_record(store, "a");
    assert_false(record.exists);
    wall_ahead_ms = (int64_t)-24 * 3600 * 1000;
    assert_true(take_and_release(store, "a") > token);
    store->ops->close(store);
}

/* ---- Sessions ---- */

static hf_code mark(hf_store *store, const hf_session_state *seen)
{
    hf_error err;
    return store->ops->session_mark(store, seen, &err);
}

static hf_code beat(hf_store *store, hf_id id, const hf_id *answered, size_t n)
{
    hf_error err;
    static hf_session_state state;
    return store->ops->session_beat(store, id, answered, n, &state, &err);
}

static void marks_only_what_is_as_it_was_seen(void **state)
{
    (void)state;
    hf_store *store = open_store();
    hf_id id = begin_session(store);
    hf_session_state seen = look_at(store, id, 0);
    assert_int_equal(seen.presence, HF_LIVE);
    assert_false(seen.is_gone);
    assert_in_range(seen.lease_left_ms, 9000, 10000);
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
    must(store->ops->session_end(store, id, &err), &err);
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
    expect_unusable("was removed");
    write_file(alive, "", 1);
    expect_unusable("another file");
    assert_false(look_at(store, id, 0).is_gone);
    hf_session self = {.id = new_id(), .ttl_ms = 1000};
    assert_int_equal(store->ops->session_begin(store, &self, &err), HF_UNUSABLE);
    assert_int_equal(rename(other, alive), 0);
    run_sql("UPDATE boots SET alive_ino = alive_ino + 1");
    assert_int_equal(store->ops->sessions_look(store, &id, 1, 0, &seen, &err), HF_UNUSABLE);
    run_sql("UPDATE boots SET alive_ino = alive_ino - 1");
    assert_false(look_at(store, id, 0).is_gone);
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
    must(store->ops->session_end(store, begin_session(store), &err), &err);
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
            ops->session_beat(w->store, w->session, NULL, 0, &seen, &err) ||
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

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {
        TEST(makes_a_database_of_its_own),
        TEST(refuses_what_is_no_database),
        TEST(refuses_another_programs_database),
        TEST(refuses_a_newer_schema),
        TEST(refuses_paths_that_cannot_be),
        TEST(lists_what_it_cannot_write),
        TEST(loses_nothing_on_a_full_disk),
        TEST(leaves_a_row_of_another_shape_alone),
        TEST(lists_by_prefix_in_byte_order),
        TEST(writes_nothing_when_nothing_changes),
        TEST(tokens_rise_after_a_loss_of_power),
        TEST(reserves_before_it_gives),
        TEST(tokens_rise_after_a_prune),
        TEST(marks_only_what_is_as_it_was_seen),
        TEST(judges_the_overdue_by_its_clock),
        TEST(judges_by_no_other_clock),
        TEST(passes_asks_on),
        TEST(an_earlier_boot_is_gone_another_machine_is_not),
        TEST(a_removed_or_replaced_alive_file_is_an_error),
        TEST(sweeps_the_dead_and_names_the_gone),
        TEST(doctor_finds_no_danger_here),
        TEST(serves_threads_at_the_same_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
