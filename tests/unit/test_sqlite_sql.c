/* SPDX-License-Identifier: Apache-2.0 */
/* test_sqlite_sql.c: how long a connection waits for another writer, when it moves the log into the
 * database, and what SQLite's results mean to us. The linker leads the clock, sleeping and the
 * checkpoints here. */
#include "unit.h"

#include "store/sqlite/sql.h"

#include <errno.h>
#include <sqlite3.h>
#include <time.h>

static sql conn;
static hf_error err;

/* ---- What the linker leads here ---- */

static int64_t clock_ms;
static long slept_us;
static int (*waiter)(void *, int);
static void *waiter_of;
static int (*hook)(void *, sqlite3 *, const char *, int);
static void *hook_of;
static char checkpoints[200];
static int log_pages, kept_pages; /* kept: a reader needs them */

int __wrap_clock_gettime(clockid_t clock, struct timespec *out);
int __wrap_nanosleep(const struct timespec *time, struct timespec *left);
int __real_sqlite3_busy_handler(sqlite3 *db, int (*handler)(void *, int), void *ctx);
int __wrap_sqlite3_busy_handler(sqlite3 *db, int (*handler)(void *, int), void *ctx);
void *__wrap_sqlite3_wal_hook(sqlite3 *db, int (*fn)(void *, sqlite3 *, const char *, int),
                              void *ctx);
int __wrap_sqlite3_wal_checkpoint_v2(sqlite3 *db, const char *name, int mode, int *log, int *done);

int __wrap_clock_gettime(clockid_t clock, struct timespec *out)
{
    assert_int_equal(clock, CLOCK_MONOTONIC);
    *out =
        (struct timespec){.tv_sec = clock_ms / 1000, .tv_nsec = (long)(clock_ms % 1000) * 1000000};
    return 0;
}

int __wrap_nanosleep(const struct timespec *time, struct timespec *left)
{
    (void)left;
    assert_int_equal(time->tv_sec, 0);
    slept_us = time->tv_nsec / 1000;
    return 0;
}

int __wrap_sqlite3_busy_handler(sqlite3 *db, int (*handler)(void *, int), void *ctx)
{
    waiter = handler;
    waiter_of = ctx;
    return __real_sqlite3_busy_handler(db, handler, ctx);
}

void *__wrap_sqlite3_wal_hook(sqlite3 *db, int (*fn)(void *, sqlite3 *, const char *, int),
                              void *ctx)
{
    assert_ptr_equal(db, conn.db);
    hook = fn;
    hook_of = ctx;
    return NULL;
}

/* "P5000 ": a passive one, in whose time others are waited for so long; "-": for nobody. */
int __wrap_sqlite3_wal_checkpoint_v2(sqlite3 *db, const char *name, int mode, int *log, int *done)
{
    size_t used = strlen(checkpoints);
    assert_ptr_equal(db, conn.db);
    assert_null(name);
    const char *kind = mode == SQLITE_CHECKPOINT_PASSIVE    ? "P"
                       : mode == SQLITE_CHECKPOINT_RESTART  ? "R"
                       : mode == SQLITE_CHECKPOINT_TRUNCATE ? "T"
                                                            : "?";
    snprintf(checkpoints + used, sizeof checkpoints - used, "%s%lld%s ", kind,
             (long long)conn.patience_ms, waiter ? "" : "-");
    if (log) {
        *log = log_pages;
        *done = log_pages - kept_pages;
    }
    return SQLITE_OK;
}

static void open_it(int64_t patience_ms)
{
    assert_int_equal(sql_open(&conn, ":memory:", patience_ms, &err), HF_OK);
    checkpoints[0] = '\0';
    kept_pages = 0;
    clock_ms = 10900;
}

static int begin(void **state)
{
    (void)state;
    open_it(5000);
    return 0;
}

static int end(void **state)
{
    (void)state;
    sql_close(&conn);
    return 0;
}

/* ---- Other writers ---- */

static int wait_for(int count)
{
    slept_us = 0;
    return waiter(waiter_of, count);
}

static void test_the_longer_one_waits_the_longer_are_its_pauses(void **state)
{
    (void)state;
    static const struct {
        int64_t waited_ms;
        long us;
    } pauses[] = {{0, 50}, {0, 50}, {1, 125}, {8, 1000}, {39, 4875}, {40, 5000}, {4000, 5000}};
    int64_t began_ms = clock_ms;
    assert_ptr_equal(waiter_of, &conn);
    for (int i = 0; i < (int)(sizeof pauses / sizeof *pauses); i++) {
        clock_ms = began_ms + pauses[i].waited_ms;
        assert_int_equal(wait_for(i), 1);
        assert_int_equal(slept_us, pauses[i].us);
    }
}

static void test_patience_ends(void **state)
{
    (void)state;
    assert_int_equal(wait_for(0), 1);
    clock_ms += 4999;
    assert_int_equal(wait_for(7), 1);
    clock_ms += 1;
    assert_int_equal(wait_for(8), 0);
    assert_int_equal(slept_us, 0);
    assert_int_equal(wait_for(0), 1); /* another wait */
    clock_ms += 200;                  /* over a full second */
    assert_int_equal(wait_for(1), 1);
}

/* ---- The log ---- */

static void commit(int pages)
{
    log_pages = pages;
    assert_int_equal(hook(hook_of, conn.db, "main", pages), SQLITE_OK);
}

static void test_a_long_log_is_shortened(void **state)
{
    (void)state;
    sql_tend_log(&conn, true);
    commit(999);
    assert_string_equal(checkpoints, "");
    commit(1002);
    assert_string_equal(checkpoints, "P100 ");
    assert_int_equal(conn.patience_ms, 5000);
    commit(1999); /* that was in vain: tried again only when it is as much longer */
    assert_string_equal(checkpoints, "P100 ");
    commit(2001);
    assert_string_equal(checkpoints, "P100 P100 ");
}

static void test_one_that_begins_while_the_log_is_long_leaves_it_to_others(void **state)
{
    (void)state;
    sql_tend_log(&conn, true);
    commit(1500);
    commit(1504);
    assert_string_equal(checkpoints, "");
    commit(2504);
    assert_string_equal(checkpoints, "P100 ");
}

static void test_a_log_that_begins_anew_is_short(void **state)
{
    (void)state;
    sql_tend_log(&conn, true);
    commit(1000);
    assert_string_equal(checkpoints, "P100 ");
    commit(3);
    commit(999);
    assert_string_equal(checkpoints, "P100 ");
    commit(1000);
    assert_string_equal(checkpoints, "P100 P100 ");
}

static void test_for_a_log_that_is_too_long_others_wait(void **state)
{
    (void)state;
    sql_tend_log(&conn, true);
    commit(3001);
    commit(4001);
    assert_string_equal(checkpoints, "P100 P100 R100 ");
    commit(1);
    commit(4000);
    assert_string_equal(checkpoints, "P100 P100 R100 P100 R100 ");
}

static void test_nobody_waits_for_a_reader(void **state)
{
    (void)state;
    sql_tend_log(&conn, true);
    kept_pages = 1;
    commit(5000);
    assert_string_equal(checkpoints, "P100 ");
    commit(6000);
    assert_string_equal(checkpoints, "P100 P100 ");
    kept_pages = 0;
    commit(7000);
    assert_string_equal(checkpoints, "P100 P100 P100 R100 ");
}

static void test_no_longer_than_its_patience(void **state)
{
    (void)state;
    sql_close(&conn);
    open_it(99);
    sql_tend_log(&conn, true);
    commit(1000);
    assert_string_equal(checkpoints, "P99 ");
    assert_int_equal(conn.patience_ms, 99);
}

static void test_one_that_is_not_tidy_leaves_it(void **state)
{
    (void)state;
    sql_tend_log(&conn, false);
    commit(5000);
    sql_close(&conn);
    assert_string_equal(checkpoints, "");
}

static void test_closing_does_not_shorten_by_itself(void **state)
{
    (void)state;
    int is_set = 0;
    sql_tend_log(&conn, true);
    sqlite3_db_config(conn.db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, -1, &is_set);
    assert_int_equal(is_set, 1);
}

static const char *closed_at(int pages)
{
    sql_close(&conn);
    open_it(5000);
    sql_tend_log(&conn, true);
    commit(pages);
    sql_close(&conn);
    return checkpoints;
}

static void test_a_log_worth_it_is_emptied_at_the_end(void **state)
{
    (void)state;
    assert_string_equal(closed_at(199), "");
    assert_string_equal(closed_at(200), "T5000- "); /* unless somebody else is at it */
}

/* ---- Results ---- */

static void assert_means(int rc, int os, hf_code code, const char *says)
{
    static sql closed = {.path = "p", .patience_ms = 77};
    errno = os;
    if (sql_fail(&closed, rc, "read", &err) != code)
        fail_msg("%d, %d: %s", rc, os, err.text);
    assert_int_equal(err.code, code);
    if (!strstr(err.text, says))
        fail_msg("%d, %d: %s", rc, os, err.text);
}

static void test_what_results_mean(void **state)
{
    (void)state;
    assert_means(SQLITE_BUSY, 0, HF_UNREACHABLE,
                 "p: busy: another program has kept it locked for 77");
    assert_means(SQLITE_BUSY_SNAPSHOT, 0, HF_UNREACHABLE, "busy");
    assert_means(SQLITE_LOCKED, 0, HF_UNREACHABLE, "busy");
    assert_means(SQLITE_READONLY, 0, HF_READONLY, "is read-only for this program");
    assert_means(SQLITE_READONLY_DBMOVED, 0, HF_READONLY, "is read-only for this program");
    assert_means(SQLITE_FULL, 0, HF_FULL, "p: no space left (read)");
    assert_means(SQLITE_NOTADB, 0, HF_UNUSABLE, "is not an SQLite database");
    assert_means(SQLITE_CORRUPT, 0, HF_UNUSABLE, "is damaged");
    assert_means(SQLITE_PERM, 0, HF_DENIED, "p: no right to read it");
    assert_means(SQLITE_AUTH, 0, HF_DENIED, "p: no right to read it");
    assert_means(SQLITE_NOMEM, 0, HF_INTERNAL, "out of memory (SQLite 7)");
    assert_means(SQLITE_CANTOPEN, EROFS, HF_READONLY, "the file system is read-only");
    assert_means(SQLITE_CANTOPEN, EACCES, HF_DENIED, "Permission denied: give this user");
    assert_means(SQLITE_CANTOPEN, EPERM, HF_DENIED, "Operation not permitted: give this user");
    assert_means(SQLITE_CANTOPEN, ENOENT, HF_UNUSABLE, "cannot be opened: No such file");
    assert_means(SQLITE_CANTOPEN, 0, HF_UNUSABLE, "cannot be opened: not a file");
    assert_means(SQLITE_IOERR_WRITE, ENOSPC, HF_FULL, "no space left (read)");
    assert_means(SQLITE_IOERR_WRITE, EDQUOT, HF_FULL, "no space left (read)");
    assert_means(SQLITE_IOERR_WRITE, EFBIG, HF_FULL, "no space left (read)");
    assert_means(SQLITE_IOERR_READ, EIO, HF_UNREACHABLE,
                 "read: disk I/O error (Input/output error)");
    assert_means(SQLITE_IOERR_READ, 0, HF_UNREACHABLE, "(no cause given): check the disk");
}

static void test_rows_and_texts(void **state)
{
    (void)state;
    int64_t out = 5;
    assert_int_equal(sql_exec(&conn, "SELECT 7", &out, &err), HF_OK);
    assert_int_equal(out, 7);
    assert_int_equal(sql_exec(&conn, "SELECT 8", NULL, &err), HF_OK);
    assert_int_equal(sql_exec(&conn, "CREATE TABLE t (a)", &out, &err), HF_OK);
    assert_int_equal(sql_exec(&conn, "SELECT a FROM t", &out, &err), HF_OK);
    assert_int_equal(out, 7);
    assert_int_equal(sql_exec(&conn, "SELECT b FROM t", &out, &err), HF_INTERNAL);
    assert_non_null(strstr(err.text, "no such column: b (SQLite 1)"));
    conn.is_readonly = true;
    assert_int_equal(sql_begin(&conn, &err), HF_READONLY);
    assert_int_equal(sql_begin_read(&conn, &err), HF_OK);
    assert_false(sqlite3_get_autocommit(conn.db));
    sql_rollback(&conn);
    assert_true(sqlite3_get_autocommit(conn.db));
    sql_rollback(&conn); /* there is none */
    assert_int_equal(sqlite3_errcode(conn.db), SQLITE_OK);
    sql_close(&conn);
    sql_rollback(&conn); /* nor a connection */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_the_longer_one_waits_the_longer_are_its_pauses),
        TEST(test_patience_ends),
        TEST(test_a_long_log_is_shortened),
        TEST(test_one_that_begins_while_the_log_is_long_leaves_it_to_others),
        TEST(test_a_log_that_begins_anew_is_short),
        TEST(test_for_a_log_that_is_too_long_others_wait),
        TEST(test_nobody_waits_for_a_reader),
        TEST(test_no_longer_than_its_patience),
        TEST(test_one_that_is_not_tidy_leaves_it),
        TEST(test_closing_does_not_shorten_by_itself),
        TEST(test_a_log_worth_it_is_emptied_at_the_end),
        TEST(test_what_results_mean),
        TEST(test_rows_and_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
