/* SPDX-License-Identifier: Apache-2.0 */
/* test_sqlite.c: the embedded store's file: what it refuses to open, what it keeps, and that tokens
 * never come back. */
#include "sqlite_fixture.h"

#include "store/sqlite/sql.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* ---- The file ---- */

static void makes_a_database_of_its_own(void **state)
{
    (void)state;
    struct stat info;
    mode_t before = umask(027);
    hf_store *store = open_store();
    umask(before);
    store->ops->close(store);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
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

/* Another program may have begun with nothing but one of these. */
static void refuses_what_only_seems_empty(void **state)
{
    (void)state;
    static const char *const signs[] = {"PRAGMA application_id = 7", "PRAGMA user_version = 2",
                                        "PRAGMA application_id = 7; PRAGMA user_version = 2",
                                        "CREATE TABLE bookmarks(url)"};
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
        run_sql(signs[i]);
        expect_unusable("another program");
        assert_int_equal(unlink(path), 0);
    }
    run_sql("PRAGMA user_version = 0"); /* says nothing */
    hf_store *store = open_store();
    store->ops->close(store);
}

static void takes_over_schema_1(void **state)
{
    (void)state;
    hf_error err;
    hf_store *store = open_store();
    store->ops->close(store);
    run_sql("DROP TABLE waits; PRAGMA user_version = 1");
    store = open_store();
    assert_int_equal(store->ops->waits(store, NULL, 0, NULL, NULL, &err), HF_OK);
    store->ops->close(store);
    run_sql("DROP TABLE waits; DROP TABLE asks; PRAGMA user_version = 1");
    expect_unusable("changed by another program");
    assert_int_equal(query("PRAGMA user_version"), 1); /* what is refused is left as it was */
    assert_int_equal(query("SELECT count(*) FROM sqlite_master WHERE name = 'waits'"), 0);
}

static void refuses_a_newer_schema(void **state)
{
    (void)state;
    hf_store *store = open_store();
    store->ops->close(store);
    run_sql("PRAGMA user_version = 3");
    expect_unusable("schema 3");
}

static bool count_record(void *ctx, const hf_record *record)
{
    (void)record;
    ++*(int *)ctx;
    return true;
}

/* Code of whoever may write to the file would run here, and may take for ever. */
#define TRIGGER "CREATE TRIGGER t AFTER INSERT ON sessions BEGIN DELETE FROM locks; END"
static const char *const codes[] = {
    TRIGGER,
    TRIGGER "; PRAGMA writable_schema = ON;"
            " UPDATE sqlite_master SET type = 'TRIGGER', tbl_name = 'SESSIONS' WHERE name = 't'",
    "CREATE INDEX i ON locks(instr(zeroblob(9), name))",
    "CREATE INDEX i ON LOCKS(name) WHERE length(record) > 9",
    "CREATE VIEW history AS SELECT 1 AS name",
    "CREATE TABLE history(x, name TEXT AS (hex(zeroblob(9))))",
};

static void refuses_tables_that_run_code(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        hf_store *store = open_store();
        store->ops->close(store);
        run_sql(codes[i]);
        expect_unusable("did not make");
        assert_int_equal(unlink(path), 0);
    }
}

static hf_code try_all(hf_store *store, hf_id session, hf_error *err)
{
    static hf_session_state found;
    hf_enter in = enter_of(session, 1);
    hf_step_reply reply;
    const hf_list_part all = {.prefix = "", .after = ""};
    hf_code steps = store->ops->step(store, "b", &(hf_step){.enter = &in}, NULL, &reply, err);
    int n = 0;
    assert_int_equal(store->ops->list(store, &all, count_record, &n, NULL), steps);
    assert_int_equal(
        store->ops->session_beat(store, session, &(hf_beat){.waits = NULL}, &found, NULL), steps);
    return steps;
}

static void lets_no_code_in_while_it_is_open(void **state)
{
    (void)state;
    hf_error err;
    hf_store *store = open_store();
    hf_id session = begin_session(store);
    assert_int_equal(try_all(store, session, &err), HF_OK);
    run_sql("CREATE INDEX i ON locks(instr(zeroblob(9), name))");
    assert_int_equal(try_all(store, session, &err), HF_UNUSABLE);
    assert_non_null(strstr(err.text, "did not make"));
    run_sql("DROP INDEX i");
    assert_int_equal(try_all(store, session, &err), HF_OK);
    store->ops->close(store);
}

/* They are never run. */
static void leaves_what_others_keep_beside(void **state)
{
    (void)state;
    hf_error err;
    hf_store *store = open_store();
    hf_id session = begin_session(store);
    run_sql("CREATE TABLE mine(x); CREATE INDEX mine_x ON mine(abs(x)); CREATE VIEW held AS SELECT"
            " name FROM locks; ANALYZE");
    assert_int_equal(try_all(store, session, &err), HF_OK);
    store->ops->close(store);
    store = open_store();
    store->ops->close(store);
}

static void refuses_a_row_that_fills_the_memory(void **state)
{
    (void)state;
    hf_error err;
    int n = 0;
    const hf_list_part all = {.prefix = "", .after = ""};
    hf_store *store = open_store();
    run_sql("INSERT INTO locks VALUES('big', zeroblob(20000000))");
    assert_int_equal(store->ops->list(store, &all, count_record, &n, &err), HF_UNUSABLE);
    assert_non_null(strstr(err.text, "a row of more than 16 MB"));
    store->ops->close(store);
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
    path[0] = '\0';
    assert_int_equal(open_fails(&err), HF_INVALID);
}

/* The exit status says at which line it failed. */
#define CHILD_MUST(claim)                                                                          \
    do {                                                                                           \
        if (!(claim))                                                                              \
            _exit(__LINE__ % 255 + 1);                                                             \
    } while (0)

static void read_as_nobody(void)
{
    static hf_session_state state;
    hf_error err;
    int n = 0;
    hf_store *store;
    hf_step_reply reply;
    hf_enter in = enter_of(new_id(), 1);
    hf_session self = {.id = in.entry.session, .ttl_ms = 1000, .pid = 1};
    CHILD_MUST(geteuid() != 0 || setresuid(65534, 65534, 65534) == 0);
    CHILD_MUST(sqlite_open(path, &config, &store, &err) == HF_OK);
    CHILD_MUST(store->ops->list(store, &(hf_list_part){.prefix = "", .after = ""}, count_record, &n,
                                &err) == HF_OK &&
               n == 1);
    hf_step step = {.enter = &in};
    CHILD_MUST(store->ops->step(store, "a", &step, NULL, &reply, &err) == HF_READONLY);
    CHILD_MUST(strstr(err.text, path) && strstr(err.text, "read-only"));
    CHILD_MUST(store->ops->session_begin(store, &self, &err) == HF_READONLY);
    CHILD_MUST(store->ops->session_beat(store, self.id, &(hf_beat){.waits = NULL}, &state, &err) ==
               HF_READONLY);
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

/* Many open it at once, and most of them while somebody writes. */
static void opens_while_another_writes(void **state)
{
    (void)state;
    sqlite3 *writer;
    hf_store *store = open_store();
    store->ops->close(store);
    assert_int_equal(sqlite3_open(path, &writer), SQLITE_OK);
    assert_int_equal(sqlite3_exec(writer, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    store = open_store();
    store->ops->close(store);
    sqlite3_close(writer);
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

static int64_t size_of_log(void)
{
    char name[128];
    struct stat info;
    snprintf(name, sizeof name, "%s-wal", path);
    assert_int_equal(stat(name, &info), 0);
    return info.st_size;
}

/* However much is written to it: it goes into the database now and then. */
static void its_log_does_not_grow_for_ever(void **state)
{
    (void)state;
    char name[32];
    hf_id ticket;
    int64_t token;
    hf_store *store = open_store();
    hf_id id = begin_session(store);
    for (int i = 0; i < 1500; i++) {
        snprintf(name, sizeof name, "lock %d", i);
        enter(store, name, id, &ticket, &token);
    }
    assert_true(size_of_log() < INT64_C(2000) * 4120);
    store->ops->close(store);
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
    assert_int_equal(
        store->ops->list(store, &(hf_list_part){.prefix = "", .after = ""}, count_record, &n, &err),
        HF_OK);
    assert_int_equal(n, 1);
    assert_non_null(strstr(warning, "bad"));
    assert_int_equal(query("SELECT record = 'mine' FROM locks WHERE name = 'bad'"), 1);
    store->ops->close(store);
}

/* What is wrong with it is said, not only that something is. */
static void says_what_is_wrong_with_a_row(void **state)
{
    (void)state;
    static const struct {
        const char *sql, *word;
    } rows[] = {
        {"INSERT INTO locks VALUES('bad', x'0500000000')", "_id"},
        {"INSERT INTO locks VALUES('bad', 'mine')", "not a lock's record"},
        {"INSERT INTO locks VALUES('bad', x'')", "not a lock's record"},
        {"INSERT INTO locks SELECT 'bad', record FROM locks WHERE name = 'good'", "another name"},
    };
    hf_error err;
    hf_id ticket;
    int64_t token;
    int n;
    const char *names[] = {"bad", "good"};
    hf_store *store = open_store();
    enter(store, "good", begin_session(store), &ticket, &token);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        run_sql("DELETE FROM locks WHERE name = 'bad'");
        run_sql(rows[i].sql);
        n = 0;
        hf_code code =
            store->ops->look(store, names, 2, (hf_stamp){0}, false, count_record, &n, &err);
        assert_int_equal(code, HF_SHAPE);
        assert_int_equal(n, 1);
        assert_non_null(strstr(err.text, rows[i].word));
    }
    store->ops->close(store);
}

/* The first of those that cannot be read is the error. */
static void gives_all_that_can_be_read(void **state)
{
    (void)state;
    hf_error err;
    int n = 0;
    hf_id ticket;
    int64_t token;
    const char *names[] = {"a", "bad 1", "b", "bad 2", "none", "c"};
    hf_store *store = open_store();
    hf_id session = begin_session(store);
    for (int i = 0; i < 6; i += i == 2 ? 3 : 2)
        enter(store, names[i], session, &ticket, &token);
    run_sql("INSERT INTO locks VALUES('bad 1', 'mine'), ('bad 2', 'mine')");
    hf_code code = store->ops->look(store, names, 6, (hf_stamp){0}, false, count_record, &n, &err);
    assert_int_equal(code, HF_SHAPE);
    assert_int_equal(n, 4);
    assert_non_null(strstr(err.text, "bad 1"));
    store->ops->close(store);
}

static bool count_to_two(void *ctx, const hf_record *record)
{
    return record->name[0] && ++*(int *)ctx < 2;
}

static void stops_when_told(void **state)
{
    (void)state;
    hf_error err;
    int looked = 0, listed = 0;
    hf_id ticket;
    int64_t token;
    const char *names[] = {"a", "b", "c", "d", "e", "f"};
    hf_store *store = open_store();
    hf_id session = begin_session(store);
    for (int i = 0; i < 6; i++)
        enter(store, names[i], session, &ticket, &token);
    must(store->ops->look(store, names, 6, (hf_stamp){0}, false, count_to_two, &looked, &err),
         &err);
    assert_int_equal(looked, 2);
    must(store->ops->list(store, &(hf_list_part){.prefix = "", .after = ""}, count_to_two, &listed,
                          &err),
         &err);
    assert_int_equal(listed, 2);
    store->ops->close(store);
}

/* They could not be locked: they are passed over, and keep nothing else from being forgotten. */
static void the_sweep_leaves_rows_that_cannot_be_alone(void **state)
{
    (void)state;
    static hf_session_state gone[4];
    hf_id ticket;
    int64_t token;
    hf_store *store = open_store();
    hf_id session = begin_session(store);
    enter(store, "idle", session, &ticket, &token);
    leave(store, "idle", ticket);
    run_sql("INSERT INTO locks SELECT printf('%.*c', 60000, 'a'), record FROM locks;"
            "INSERT INTO locks SELECT x'6162', record FROM locks WHERE name = 'idle';"
            "INSERT INTO locks SELECT 7, record FROM locks WHERE name = 'idle';"
            "INSERT INTO locks SELECT 'a' || char(0) || 'b', record FROM locks WHERE name = 'idle';"
            "INSERT INTO locks SELECT '', record FROM locks WHERE name = 'idle';"
            "INSERT INTO locks VALUES('the last one', 'mine')");
    wall_ahead_ms = (int64_t)4 * 24 * 3600 * 1000;
    sweep(store, gone, 4);
    assert_int_equal(query("SELECT count(*) FROM locks WHERE name = 'idle'"), 0);
    assert_int_equal(query("SELECT count(*) FROM locks"), 6);
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
        must(store->ops->list(store, &(hf_list_part){.prefix = expected[i][0], .after = ""},
                              append_name, found, &err),
             &err);
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

/* The next to open it alone would read the whole log. */
static void empties_a_long_log_at_its_end(void **state)
{
    (void)state;
    hf_id ticket;
    int64_t token;
    struct stat info;
    char log[128];
    snprintf(log, sizeof log, "%s-wal", path);
    hf_store *store = open_store();
    hf_id session = begin_session(store);
    for (int i = 0; i < 150; i++) {
        assert_int_equal(enter(store, "a", session, &ticket, &token), RECORD_HOLDS);
        leave(store, "a", ticket);
    }
    store->ops->close(store);
    assert_int_equal(stat(log, &info), 0);
    assert_int_equal(info.st_size, 0);
    store = open_store();
    hf_record record = read_record(store, "a");
    assert_int_equal(record.token, token);
    record_done(&record);
    store->ops->close(store);
}

static int64_t log_after(bool is_tidy, int rows)
{
    sql conn;
    hf_error err;
    must(sql_open(&conn, path, 5000, &err), &err);
    sql_tend_log(&conn, is_tidy);
    for (int i = 0; i < rows; i++)
        must(sql_exec(&conn, "INSERT INTO bulk VALUES(zeroblob(4000))", NULL, &err), &err);
    sql_close(&conn);
    return size_of_log();
}

/* That of beats is not tidy: it must not wait for the disk. */
static void only_a_tidy_connection_empties_the_log(void **state)
{
    (void)state;
    hf_store *store = open_store();
    store->ops->close(store);
    run_sql("CREATE TABLE bulk(bytes)");
    assert_int_equal(log_after(true, 300), 0);
    assert_true(log_after(true, 5) > 0);
    assert_true(log_after(false, 300) > 200 * 4120);
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

static void release_for(hf_store *store, const char *name, int64_t period_ms)
{
    hf_id ticket;
    int64_t token;
    hf_error err;
    hf_step_reply reply;
    enter(store, name, begin_session(store), &ticket, &token);
    hf_leave out = {.ticket = ticket,
                    .outcome = HF_OUTCOME_RELEASED,
                    .told = true,
                    .period = period_at((hf_dbtime){env_wall(NULL).ms}, period_ms)};
    hf_step step = {.leaves = &out, .n_leaves = 1};
    must(store->ops->step(store, name, &step, NULL, &reply, &err), &err);
}

static void assert_exists(hf_store *store, const char *name, bool expected)
{
    hf_record record = read_record(store, name);
    assert_int_equal(record.exists, expected);
    record_done(&record);
}

static void a_record_stays_until_its_period_is_over(void **state)
{
    (void)state;
    const int64_t day_ms = (int64_t)24 * 3600 * 1000;
    static hf_session_state gone[4];
    hf_store *store = open_store();
    wall_ahead_ms = 400 * day_ms - env_wall(NULL).ms % (400 * day_ms); /* a period begins */
    release_for(store, "yearly", 400 * day_ms);
    release_for(store, "daily", day_ms);
    wall_ahead_ms += 399 * day_ms;
    sweep(store, gone, 4);
    assert_exists(store, "yearly", true);
    assert_exists(store, "daily", false);
    wall_ahead_ms += day_ms;
    sweep(store, gone, 4);
    assert_exists(store, "yearly", false);
    store->ops->close(store);
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {
        TEST(makes_a_database_of_its_own),
        TEST(refuses_what_is_no_database),
        TEST(refuses_another_programs_database),
        TEST(refuses_what_only_seems_empty),
        TEST(takes_over_schema_1),
        TEST(refuses_a_newer_schema),
        TEST(refuses_tables_that_run_code),
        TEST(lets_no_code_in_while_it_is_open),
        TEST(leaves_what_others_keep_beside),
        TEST(refuses_a_row_that_fills_the_memory),
        TEST(refuses_paths_that_cannot_be),
        TEST(opens_while_another_writes),
        TEST(says_what_is_wrong_with_a_row),
        TEST(gives_all_that_can_be_read),
        TEST(stops_when_told),
        TEST(the_sweep_leaves_rows_that_cannot_be_alone),
        TEST(lists_what_it_cannot_write),
        TEST(loses_nothing_on_a_full_disk),
        TEST(leaves_a_row_of_another_shape_alone),
        TEST(lists_by_prefix_in_byte_order),
        TEST(writes_nothing_when_nothing_changes),
        TEST(only_a_tidy_connection_empties_the_log),
        TEST(empties_a_long_log_at_its_end),
        TEST(tokens_rise_after_a_loss_of_power),
        TEST(its_log_does_not_grow_for_ever),
        TEST(reserves_before_it_gives),
        TEST(tokens_rise_after_a_prune),
        TEST(a_record_stays_until_its_period_is_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
