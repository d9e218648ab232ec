/* SPDX-License-Identifier: Apache-2.0 */
/* counter.c: counts up in an SQLite database, under a lock, with the fence where the data is.
 *
 *     cc counter.c -o counter $(pkg-config --cflags --libs holdfast-guard-sqlite)
 *     ./counter 'mongodb://a,b,c/app?replicaSet=rs0' counter.db
 *     ./counter sqlite:locks.db local.db     # another store, so another counter
 *     1, with token 1881931675262136
 *
 * The lock lets one count at a time. The fence is for what no lock can stop: a holder that was
 * paused between its look and its write for longer than its lease. Its token is then lower than
 * one that the database has seen, and it writes nothing. */
#include <holdfast/holdfast.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

static int failed(const char *what, const char *why)
{
    fprintf(stderr, "counter: %s: %s\n", what, why);
    return 1;
}

static int take_number(void *out, int columns, char **values, char **names)
{
    (void)columns;
    (void)names;
    *(long long *)out = strtoll(values[0], NULL, 10);
    return 0;
}

/* One transaction: the fence first, then the write. */
static int count_up(sqlite3 *db, int64_t token)
{
    hf_error err;
    long long n = 0;
    if (sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL))
        return failed("begin", sqlite3_errmsg(db));
    if (hf_guard_sqlite(db, "counter", token, &err)) {
        sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
        return failed(hf_code_name(err.code), err.text);
    }
    if (sqlite3_exec(db,
                     "CREATE TABLE IF NOT EXISTS counter (n INTEGER);"
                     "INSERT INTO counter SELECT 0 WHERE NOT EXISTS (SELECT * FROM counter);"
                     "UPDATE counter SET n = n + 1; SELECT n FROM counter; COMMIT",
                     take_number, &n, NULL))
        return failed("write", sqlite3_errmsg(db));
    printf("%lld, with token %lld\n", n, (long long)token);
    return 0;
}

static int count_under_lock(hf_client *client, sqlite3 *db)
{
    hf_lock *lock;
    hf_error err;
    hf_lock_options options = {.wait_ms = 60000, .why = "counting"};
    if (hf_lock_acquire(client, "counter", &options, &lock, &err))
        return failed(hf_code_name(err.code), err.text);
    int status = count_up(db, hf_lock_token(lock));
    hf_lock_set_exit_status(lock, status);
    if (hf_lock_release(lock, &err))
        status = failed(hf_code_name(err.code), err.text);
    hf_lock_close(lock);
    return status;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: counter STORE DATABASE\n");
        return 64;
    }
    hf_client *client;
    hf_error err;
    if (hf_open(argv[1], NULL, &client, &err))
        return failed(hf_code_name(err.code), err.text);
    sqlite3 *db;
    int status = sqlite3_open(argv[2], &db) ? failed(argv[2], sqlite3_errmsg(db))
                                            : count_under_lock(client, db);
    sqlite3_close(db);
    hf_close(client);
    return status;
}
