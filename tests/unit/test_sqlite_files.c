/* SPDX-License-Identifier: Apache-2.0 */
/* test_sqlite_files.c: the embedded store takes a file by one name only, and neither follows nor
 * changes what others put in the place of one. */
#include "sqlite_fixture.h"

#include <fcntl.h>

static void close_store(hf_store *store)
{
    store->ops->close(store);
}

static const char *other_name(void)
{
    static char name[sizeof path];
    snprintf(name, sizeof name, "%s/other.db", folder);
    return name;
}

static const char *beside(const char *suffix)
{
    static char name[128];
    snprintf(name, sizeof name, "%s%s", path, suffix);
    return name;
}

static void expect_refusal(const char *at, const char *word)
{
    hf_error err;
    hf_store *store;
    assert_int_equal(sqlite_open(at, &config, &store, &err), HF_UNUSABLE);
    if (!strstr(err.text, at) || !strstr(err.text, word))
        fail_msg("%s: %s", word, err.text);
    assert_null(strstr(err.text, "DELETE FROM boots"));
}

/* ---- Two names ---- */

static void test_a_second_name_is_refused(void **state)
{
    (void)state;
    close_store(open_store());
    assert_int_equal(link(path, other_name()), 0);
    expect_refusal(other_name(), "2 names (hard links)");
    expect_refusal(path, "2 names (hard links)");
    assert_int_equal(unlink(other_name()), 0);
    close_store(open_store());
}

static void test_a_session_does_not_begin_beside_a_second_name_of_the_alive_file(void **state)
{
    (void)state;
    hf_error err;
    hf_store *store = open_store();
    hf_session self = {.id = new_id(), .ttl_ms = 10000, .pid = getpid(), .app = "", .host = ""};
    assert_int_equal(link(beside("-alive"), other_name()), 0);
    assert_int_equal(store->ops->session_begin(store, &self, &err), HF_UNUSABLE);
    assert_non_null(strstr(err.text, "2 names"));
    assert_int_equal(unlink(other_name()), 0);
    must(store->ops->session_begin(store, &self, &err), &err);
    close_store(store);
}

/* As the file looks by another name, beside which there is no log. */
static void expect_other_to_know_the_boot(void)
{
    char kept[sizeof path];
    copy_file(path, other_name(), O_EXCL);
    snprintf(kept, sizeof kept, "%s", path);
    snprintf(path, sizeof path, "%s", other_name());
    expect_unusable("is missing");
    assert_int_equal(query("SELECT count(*) FROM boots"), 1);
    snprintf(path, sizeof path, "%s", kept);
    assert_int_equal(unlink(other_name()), 0);
}

static void test_the_file_itself_knows_its_boot_before_anything_is_granted(void **state)
{
    (void)state;
    hf_store *store = open_store();
    expect_other_to_know_the_boot();
    close_store(store);
    run_sql("DELETE FROM boots");
    store = open_store();
    expect_other_to_know_the_boot();
    close_store(store);
}

static bool is_kept(void)
{
    return query("SELECT value FROM meta WHERE key = 'boot_is_kept'") == 1;
}

/* The first to open it may be killed before it has moved the log. */
static void test_who_finds_a_boot_in_the_log_only_moves_it(void **state)
{
    (void)state;
    close_store(open_store());
    assert_true(is_kept());
    run_sql("UPDATE meta SET value = 0 WHERE key = 'boot_is_kept'");
    close_store(open_store());
    assert_true(is_kept());
    close_store(open_at("next", "here"));
    assert_true(is_kept());
}

static void test_a_boot_that_cannot_be_kept_is_refused(void **state)
{
    (void)state;
    sqlite3 *reader;
    hf_error err;
    hf_store *store = open_store();
    assert_int_equal(sqlite3_open(path, &reader), SQLITE_OK);
    assert_int_equal(sqlite3_exec(reader, "BEGIN; SELECT * FROM meta", NULL, NULL, NULL), 0);
    run_sql("UPDATE meta SET value = 0 WHERE key = 'boot_is_kept'"); /* behind what it reads */
    close_store(store);
    assert_int_equal(open_fails(&err), HF_UNREACHABLE);
    assert_false(is_kept());
    sqlite3_close(reader);
    close_store(open_store());
    assert_true(is_kept());
}

/* ---- What others put there ---- */

static void put_link(const char *at, const char *to)
{
    unlink(at);
    assert_int_equal(symlink(to, at), 0);
}

static const char *const suffixes[] = {"", "-wal", "-shm", "-alive"};

static void test_links_are_not_followed(void **state)
{
    (void)state;
    struct stat before, after;
    write_file(other_name(), "secret", 1);
    assert_int_equal(chmod(other_name(), 0600), 0);
    assert_int_equal(chmod(folder, 02770), 0);
    assert_int_equal(stat(other_name(), &before), 0);
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        put_link(beside(suffixes[i]), other_name());
        expect_refusal(path, "symbolic link");
        assert_int_equal(unlink(beside(suffixes[i])), 0);
    }
    assert_int_equal(stat(other_name(), &after), 0);
    assert_int_equal(after.st_mode, before.st_mode);
    assert_int_equal(after.st_size, before.st_size);
}

static void test_nothing_is_made_where_a_link_leads(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        put_link(beside(suffixes[i]), other_name());
        expect_refusal(path, "symbolic link");
        assert_int_equal(access(other_name(), F_OK), -1);
        assert_int_equal(unlink(beside(suffixes[i])), 0);
    }
}

static void test_other_files_are_not_waited_for(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        unlink(beside(suffixes[i]));
        assert_int_equal(mkfifo(beside(suffixes[i]), 0666), 0);
        expect_refusal(path, "not a file");
        assert_int_equal(unlink(beside(suffixes[i])), 0);
    }
}

/* Its folder may be reached by links. */
static void test_a_folder_may_be_linked(void **state)
{
    (void)state;
    char by_link[128], kept[sizeof path];
    snprintf(by_link, sizeof by_link, "%s.link", folder);
    assert_int_equal(symlink(folder, by_link), 0);
    hf_store *store = open_store();
    hf_id session = begin_session(store);
    snprintf(kept, sizeof kept, "%s", path);
    snprintf(path, sizeof path, "%s.link/locks.db", folder);
    hf_store *other = open_store();
    assert_false(look_at(other, session, -1).is_gone);
    close_store(other);
    close_store(store);
    assert_int_equal(unlink(by_link), 0);
    snprintf(path, sizeof path, "%s", kept);
}

/* ---- Modes ---- */

static mode_t mode_of(const char *suffix)
{
    struct stat info;
    assert_int_equal(stat(beside(suffix), &info), 0);
    return info.st_mode & 0777;
}

static void expect_modes(mode_t wanted, mode_t mask)
{
    mode_t before = umask(mask);
    hf_store *store = open_store();
    umask(before);
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++)
        assert_int_equal(mode_of(suffixes[i]), wanted);
    close_store(store);
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++)
        unlink(beside(suffixes[i]));
}

static void test_files_are_their_makers_alone(void **state)
{
    (void)state;
    expect_modes(0600, 0);
    expect_modes(0600, 022);
    assert_int_equal(chmod(folder, 02770), 0);
    expect_modes(0660, 077);
    expect_modes(0660, 0);
    assert_int_equal(chmod(folder, 0770), 0); /* what is made in it has another group */
    expect_modes(0600, 0);
}

/* Who made the database may have let others use it. */
static void test_the_alive_file_is_for_all_who_may_use_the_database(void **state)
{
    (void)state;
    write_file(path, "", 1);
    assert_int_equal(chmod(path, 0666), 0);
    expect_modes(0666, 022);
}

/* Only what was just made is changed. */
static void test_what_is_there_keeps_its_mode(void **state)
{
    (void)state;
    close_store(open_store());
    assert_int_equal(chmod(folder, 02770), 0);
    close_store(open_store());
    assert_int_equal(mode_of(""), 0600);
    assert_int_equal(mode_of("-alive"), 0600);
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {
        TEST(test_a_second_name_is_refused),
        TEST(test_a_session_does_not_begin_beside_a_second_name_of_the_alive_file),
        TEST(test_the_file_itself_knows_its_boot_before_anything_is_granted),
        TEST(test_who_finds_a_boot_in_the_log_only_moves_it),
        TEST(test_a_boot_that_cannot_be_kept_is_refused),
        TEST(test_links_are_not_followed),
        TEST(test_nothing_is_made_where_a_link_leads),
        TEST(test_other_files_are_not_waited_for),
        TEST(test_a_folder_may_be_linked),
        TEST(test_files_are_their_makers_alone),
        TEST(test_the_alive_file_is_for_all_who_may_use_the_database),
        TEST(test_what_is_there_keeps_its_mode),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
