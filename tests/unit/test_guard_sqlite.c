/* SPDX-License-Identifier: Apache-2.0 */
/* test_guard_sqlite.c: proves that the fence in a SQLite database lets no lower token write (R12);
 * run by ctest. */
#include "unit.h"

#include <sqlite3.h>
#include <unistd.h>

static char path[64];

static sqlite3 *open_db(void)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    return db;
}

static void run(sqlite3 *db, const char *sql)
{
    char *text = NULL;
    if (sqlite3_exec(db, sql, NULL, NULL, &text) != SQLITE_OK)
        fail_msg("%s: %s", sql, text);
}

static int set_up(void **state)
{
    snprintf(path, sizeof path, "/tmp/holdfast-guard-%d-XXXXXX", (int)getpid());
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    *state = open_db();
    return 0;
}

static int tear_down(void **state)
{
    sqlite3_close(*state);
    unlink(path);
    return 0;
}

/* One guarded transaction. */
static hf_code guard(sqlite3 *db, const char *resource, int64_t token, hf_error *err)
{
    run(db, "BEGIN IMMEDIATE");
    hf_code code = hf_guard_sqlite(db, resource, token, err);
    run(db, code ? "ROLLBACK" : "COMMIT");
    return code;
}

static void test_rising_and_equal_tokens_pass_lower_ones_do_not(void **state)
{
    hf_error err;
    assert_int_equal(guard(*state, "ledger", 5, &err), HF_OK);
    assert_int_equal(err.code, HF_OK);
    assert_int_equal(guard(*state, "ledger", 5, &err), HF_OK);
    assert_int_equal(guard(*state, "ledger", 9, &err), HF_OK);
    assert_int_equal(guard(*state, "ledger", 8, &err), HF_FENCED);
    assert_int_equal(err.code, HF_FENCED);
    assert_non_null(strstr(err.text, "ledger"));
    assert_non_null(strstr(err.text, "9"));
    assert_int_equal(guard(*state, "ledger", 9, &err), HF_OK);
}

static void test_each_resource_has_its_own_fence(void **state)
{
    assert_int_equal(guard(*state, "a", 9, NULL), HF_OK);
    assert_int_equal(guard(*state, "b", 3, NULL), HF_OK);
    assert_int_equal(guard(*state, "b", 2, NULL), HF_FENCED);
    assert_int_equal(guard(*state, "a'; DROP TABLE holdfast_fence; --", 1, NULL), HF_OK);
    assert_int_equal(guard(*state, "a", 8, NULL), HF_FENCED);
}

static void test_a_rollback_takes_the_token_back_too(void **state)
{
    run(*state, "BEGIN IMMEDIATE");
    assert_int_equal(hf_guard_sqlite(*state, "a", 9, NULL), HF_OK);
    run(*state, "ROLLBACK");
    assert_int_equal(guard(*state, "a", 3, NULL), HF_OK);
}

static void test_the_fence_is_seen_through_other_connections(void **state)
{
    sqlite3 *other = open_db();
    assert_int_equal(guard(*state, "a", 9, NULL), HF_OK);
    assert_int_equal(guard(other, "a", 8, NULL), HF_FENCED);
    assert_int_equal(guard(other, "a", 10, NULL), HF_OK);
    assert_int_equal(guard(*state, "a", 9, NULL), HF_FENCED);
    sqlite3_close(other);
}

static void test_outside_a_transaction_it_guards_nothing(void **state)
{
    hf_error err;
    assert_int_equal(hf_guard_sqlite(*state, "a", 9, &err), HF_INVALID);
    assert_non_null(strstr(err.text, "BEGIN"));
    assert_int_equal(guard(*state, "a", 3, &err), HF_OK);
}

static void test_what_is_no_token_or_resource_is_refused(void **state)
{
    assert_int_equal(guard(*state, "a", 0, NULL), HF_INVALID);
    assert_int_equal(guard(*state, "a", -1, NULL), HF_INVALID);
    assert_int_equal(guard(*state, "a", (int64_t)1 << 53, NULL), HF_INVALID);
    assert_int_equal(guard(*state, "a", ((int64_t)1 << 53) - 1, NULL), HF_OK);
    assert_int_equal(guard(*state, "", 1, NULL), HF_INVALID);
    assert_int_equal(guard(*state, NULL, 1, NULL), HF_INVALID);
    assert_int_equal(hf_guard_sqlite(NULL, "a", 1, NULL), HF_INVALID);
}

static void test_a_busy_database_can_be_tried_again(void **state)
{
    hf_error err;
    sqlite3 *other = open_db();
    run(other, "BEGIN IMMEDIATE");
    run(*state, "BEGIN");
    assert_int_equal(hf_guard_sqlite(*state, "a", 9, &err), HF_UNREACHABLE);
    assert_true(err.retryable);
    run(*state, "ROLLBACK");
    sqlite3_close(other);
}

static void test_a_foreign_table_is_named(void **state)
{
    hf_error err;
    run(*state, "CREATE TABLE holdfast_fence (something TEXT)");
    assert_int_equal(guard(*state, "a", 9, &err), HF_SHAPE);
    assert_non_null(strstr(err.text, "holdfast_fence"));
}

static void test_a_read_only_connection_says_so(void **state)
{
    (void)state;
    sqlite3 *reader;
    assert_int_equal(sqlite3_open_v2(path, &reader, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    run(reader, "BEGIN");
    assert_int_equal(hf_guard_sqlite(reader, "a", 9, NULL), HF_READONLY);
    sqlite3_close(reader);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_rising_and_equal_tokens_pass_lower_ones_do_not),
        CASE(test_each_resource_has_its_own_fence),
        CASE(test_a_rollback_takes_the_token_back_too),
        CASE(test_the_fence_is_seen_through_other_connections),
        CASE(test_outside_a_transaction_it_guards_nothing),
        CASE(test_what_is_no_token_or_resource_is_refused),
        CASE(test_a_busy_database_can_be_tried_again),
        CASE(test_a_foreign_table_is_named),
        CASE(test_a_read_only_connection_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
