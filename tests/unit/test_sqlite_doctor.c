/* SPDX-License-Identifier: Apache-2.0 */
/* test_sqlite_doctor.c: what the doctor finds of an embedded store, and what of it is a danger; on
 * file systems that the test names: statfs() comes here by the linker (--wrap). */
#include "sqlite_fixture.h"

#include "store/sqlite/sqlite_internal.h"

#include <sys/vfs.h>

static uint32_t file_system; /* 0: the one that is there */

int __real_statfs(const char *name, struct statfs *out);
int __wrap_statfs(const char *name, struct statfs *out);

int __wrap_statfs(const char *name, struct statfs *out)
{
    int rc = __real_statfs(name, out);
    if (file_system)
        out->f_type = (__fsword_t)file_system;
    return rc;
}

static int set_up(void **state)
{
    file_system = 0;
    return make_folder(state);
}

typedef struct findings {
    struct {
        char topic[32], text[700];
        bool is_danger;
    } all[8];
    int n, most;
} findings;

static bool note_finding(void *ctx, const hf_finding *finding)
{
    findings *to = ctx;
    assert_true(to->n < 8);
    snprintf(to->all[to->n].topic, sizeof to->all[0].topic, "%s", finding->topic);
    snprintf(to->all[to->n].text, sizeof to->all[0].text, "%s", finding->text);
    to->all[to->n].is_danger = finding->is_danger;
    return ++to->n != to->most;
}

static findings examine(hf_store *store)
{
    hf_error err;
    findings found = {.n = 0};
    must(store->ops->doctor(store, note_finding, &found, &err), &err);
    return found;
}

static void assert_finding(const findings *found, int at, const char *topic, bool is_danger,
                           const char *words)
{
    assert_true(at < found->n);
    assert_string_equal(found->all[at].topic, topic);
    assert_int_equal(found->all[at].is_danger, is_danger);
    if (!strstr(found->all[at].text, words))
        fail_msg("%s: \"%s\" has no \"%s\"", topic, found->all[at].text, words);
}

static void test_all_is_found_in_order(void **state)
{
    (void)state;
    hf_error err;
    hf_store *store = open_at("boot", "machine");
    begin_session(store);
    must(store->ops->session_end(store, begin_session(store), false, &err), &err);
    findings found = examine(store);
    assert_int_equal(found.n, 6);
    assert_finding(&found, 0, "reach", false, "locks.db, 1 live sessions");
    assert_null(strstr(found.all[0].text, "read-only"));
    assert_finding(&found, 1, "server", false, "schema 2, journal wal, synchronous 1,");
    assert_finding(&found, 2, "file system", false, "local (type 0x");
    assert_finding(&found, 3, "alive file", false, "-alive (device ");
    assert_finding(&found, 4, "machine", false, "machine: 0 of 1 sessions are of another machine");
    assert_null(strstr(found.all[4].text, "don't reach"));
    assert_finding(&found, 5, "latency", false, "us (median of 5)");
    store->ops->close(store);
}

/* ---- Who may open the files ---- */

static void expect_files(hf_store *store, const char *suffix, mode_t mode, const char *words)
{
    char name[sizeof path + 8];
    snprintf(name, sizeof name, "%s%s", path, suffix);
    assert_int_equal(chmod(name, mode), 0);
    findings found = examine(store);
    assert_int_equal(found.n, words ? 7 : 6);
    if (words)
        assert_finding(&found, 3, "files", true, words);
    assert_int_equal(chmod(name, 0600), 0);
}

static void test_files_that_others_may_open_are_a_danger(void **state)
{
    (void)state;
    static const char *const suffixes[] = {"", "-alive", "-wal", "-shm"};
    hf_store *store = open_store();
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        expect_files(store, suffixes[i], 0600, NULL);
        expect_files(store, suffixes[i], 0604, "open to all users");
        expect_files(store, suffixes[i], 0602, "chmod o=");
        expect_files(store, suffixes[i], 0640, "a group that does not share the folder");
    }
    assert_int_equal(chmod(folder, 02770), 0);
    expect_files(store, "", 0660, NULL);
    expect_files(store, "", 0664, "open to all users");
    store->ops->close(store);
}

/* ---- A log that somebody else reads ---- */

static sqlite3 *begin_to_read(const char *file)
{
    sqlite3 *reader;
    assert_int_equal(sqlite3_open(file, &reader), SQLITE_OK);
    assert_int_equal(sqlite3_exec(reader, "BEGIN; SELECT count(*) FROM locks", NULL, NULL, NULL),
                     SQLITE_OK);
    return reader;
}

static void write_pages(sqlite_store *store, int pages)
{
    hf_error err;
    for (int64_t value = 0; store->main.log_pages < pages; value++) {
        must(sql_begin(&store->main, &err), &err);
        must(schema_meta_set(&store->main, "swept_at", value, &err), &err);
        must(sql_end(&store->main, HF_OK, &err), &err);
    }
}

static void test_a_log_that_a_reader_keeps_is_told_and_nobody_waits_for_it(void **state)
{
    (void)state;
    hf_store *base = open_store();
    sqlite_store *store = store_of(base);
    sqlite3 *reader = begin_to_read(store->path);
    store->main.busy_since_ms = -1;
    write_pages(store, 2 * SQL_TOO_LONG_LOG);
    assert_int_equal(store->main.busy_since_ms, -1);
    findings found = examine(base);
    assert_int_equal(found.n, 7);
    assert_finding(&found, 4, "log", false, "locks.db-wal has grown to 32 MB");
    sqlite3_close(reader);
    assert_int_equal(examine(base).n, 6);
    write_pages(store, store->main.log_pages + 1);
    base->ops->close(base);
}

static void test_it_stops_when_told(void **state)
{
    (void)state;
    hf_error err;
    hf_store *store = open_store();
    for (int most = 1; most < 6; most++) {
        findings found = {.most = most};
        must(store->ops->doctor(store, note_finding, &found, &err), &err);
        assert_int_equal(found.n, most);
    }
    store->ops->close(store);
}

static void test_a_file_system_of_several_machines_is_a_danger(void **state)
{
    (void)state;
    static const struct {
        uint32_t type;
        const char *name;
    } networks[] = {{0x6969, "NFS"}, {0xff534d42, "CIFS"}, {0x73757245, "Coda"}};
    hf_store *store = open_store();
    for (size_t i = 0; i < 3; i++) {
        file_system = networks[i].type;
        findings found = examine(store);
        char words[40];
        snprintf(words, sizeof words, "is on %s: locks", networks[i].name);
        assert_finding(&found, 2, "file system", true, words);
    }
    file_system = 0xef53;
    findings found = examine(store);
    assert_finding(&found, 2, "file system", false, "local (type 0xef53)");
    store->ops->close(store);
}

static void test_sessions_of_another_machine_are_a_danger(void **state)
{
    (void)state;
    hf_store *other = open_at("boot-1", "there"), *store = NULL;
    begin_session(other);
    other->ops->close(other);
    store = open_at("boot-2", "here");
    begin_session(store);
    findings found = examine(store);
    assert_finding(&found, 4, "machine", true,
                   "here: 1 of 2 sessions are of another machine, where kernel locks don't reach");
    run_sql("UPDATE sessions SET machine = 'there', boot = 'boot-1'");
    found = examine(store);
    assert_finding(&found, 4, "machine", true, "here: 2 of 2 sessions are of another machine");
    run_sql("UPDATE sessions SET machine = 'here'");
    found = examine(store);
    assert_finding(&found, 4, "machine", false, "here: 0 of 2 sessions are of another machine");
    store->ops->close(store);
}

static void test_a_removed_database_is_a_danger(void **state)
{
    (void)state;
    hf_store *store = open_store();
    assert_int_equal(unlink(path), 0);
    findings found = examine(store);
    assert_finding(&found, 2, "file system", true, "removed while in use");
    store->ops->close(store);
}

static void test_another_alive_file_is_a_danger(void **state)
{
    (void)state;
    hf_store *store = open_store();
    run_sql("UPDATE boots SET alive_ino = alive_ino + 1");
    findings found = examine(store);
    assert_finding(&found, 3, "alive file", true, "is another file");
    assert_int_equal(found.n, 6);
    store->ops->close(store);
}

static void test_a_byte_that_another_holds_is_a_danger(void **state)
{
    (void)state;
    hf_store *store = open_store();
    sqlite_store *inside = (sqlite_store *)store;
    alive_hold hold;
    hf_error err;
    must(alive_take(inside->alive_path, &inside->alive, 0, &hold, &err), &err);
    findings found = examine(store);
    assert_finding(&found, 3, "alive file", true, "byte 0 is locked");
    alive_let_go(&hold);
    found = examine(store);
    assert_finding(&found, 3, "alive file", false, "a crash is seen at once");
    store->ops->close(store);
}

static void test_what_cannot_be_written_is_a_danger(void **state)
{
    (void)state;
    hf_store *store = open_store();
    sqlite_store *inside = (sqlite_store *)store;
    inside->main.is_readonly = true; /* as where this user may not write it */
    findings found = examine(store);
    assert_int_equal(found.n, 5);
    assert_finding(&found, 0, "reach", false, "live sessions, read-only");
    assert_finding(&found, 3, "machine", false, "sessions are of another machine");
    assert_finding(&found, 4, "latency", true, "cannot be written: no lock can be taken");
    inside->main.is_readonly = false;
    store->ops->close(store);
}

/* Changes when another connection commits. */
static int64_t version_seen_by(sqlite3 *db)
{
    sqlite3_stmt *statement;
    assert_int_equal(sqlite3_prepare_v2(db, "PRAGMA data_version", -1, &statement, NULL), 0);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    int64_t version = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return version;
}

static void test_it_writes_what_already_stands_there(void **state)
{
    (void)state;
    sqlite3 *reader;
    hf_store *store = open_store();
    run_sql("UPDATE meta SET value = 12345 WHERE key = 'swept_at'");
    int64_t keys = query("SELECT count(*) FROM meta");
    assert_int_equal(sqlite3_open(path, &reader), SQLITE_OK);
    int64_t before = version_seen_by(reader);
    examine(store);
    assert_int_not_equal(version_seen_by(reader), before);
    sqlite3_close(reader);
    assert_int_equal(query("SELECT value FROM meta WHERE key = 'swept_at'"), 12345);
    assert_int_equal(query("SELECT count(*) FROM meta"), keys);
    store->ops->close(store);
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, remove_folder)
    const struct CMUnitTest tests[] = {
        TEST(test_all_is_found_in_order),
        TEST(test_files_that_others_may_open_are_a_danger),
        TEST(test_a_log_that_a_reader_keeps_is_told_and_nobody_waits_for_it),
        TEST(test_it_stops_when_told),
        TEST(test_a_file_system_of_several_machines_is_a_danger),
        TEST(test_sessions_of_another_machine_are_a_danger),
        TEST(test_a_removed_database_is_a_danger),
        TEST(test_another_alive_file_is_a_danger),
        TEST(test_a_byte_that_another_holds_is_a_danger),
        TEST(test_what_cannot_be_written_is_a_danger),
        TEST(test_it_writes_what_already_stands_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
