/* SPDX-License-Identifier: Apache-2.0 */
/* sqlite_pairs.c: acquire + release on SQLite, against a raw loop of two transactions, in turn. */
#include "bench.h"

#include <sqlite3.h>

#define ROUNDS 7
#define ROUND_NS 1000000000

struct raw {
    sqlite3 *db;
    sqlite3_stmt *begin, *commit, *put, *remove;
};

static void check(const struct raw *raw, int rc)
{
    if (rc != SQLITE_OK && rc != SQLITE_DONE)
        fail("raw loop", sqlite3_errmsg(raw->db));
}

static sqlite3_stmt *prepare(const struct raw *raw, const char *text)
{
    sqlite3_stmt *statement;
    check(raw, sqlite3_prepare_v2(raw->db, text, -1, &statement, NULL));
    return statement;
}

static void raw_init(struct raw *raw, const char *folder)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/raw.db", folder);
    check(raw, sqlite3_open(path, &raw->db));
    check(raw, sqlite3_exec(raw->db,
                            "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;"
                            "CREATE TABLE raw (name TEXT NOT NULL PRIMARY KEY, owner BLOB NOT NULL)"
                            " WITHOUT ROWID",
                            NULL, NULL, NULL));
    raw->begin = prepare(raw, "BEGIN IMMEDIATE");
    raw->commit = prepare(raw, "COMMIT");
    raw->put = prepare(raw, "INSERT INTO raw VALUES('pair', zeroblob(100))"
                            " ON CONFLICT DO UPDATE SET owner = excluded.owner");
    raw->remove = prepare(raw, "DELETE FROM raw WHERE name = 'pair'");
}

static void raw_done(struct raw *raw)
{
    sqlite3_finalize(raw->begin);
    sqlite3_finalize(raw->commit);
    sqlite3_finalize(raw->put);
    sqlite3_finalize(raw->remove);
    sqlite3_close(raw->db);
}

static void transact(const struct raw *raw, sqlite3_stmt *change)
{
    sqlite3_stmt *const all[] = {raw->begin, change, raw->commit};
    for (size_t i = 0; i < 3; i++) {
        check(raw, sqlite3_step(all[i]));
        sqlite3_reset(all[i]);
    }
}

static void raw_pair(void *ctx)
{
    const struct raw *raw = ctx;
    transact(raw, raw->put);
    transact(raw, raw->remove);
}

static void lock_pair(void *ctx)
{
    hf_lock *held;
    hf_error err;
    must(hf_lock_acquire(ctx, "pair", NULL, &held, &err), &err);
    must(hf_lock_release(held, &err), &err);
    hf_lock_close(held);
}

struct figures {
    series pairs, cpu_us;
};

static int64_t cpu_ns(void)
{
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (int64_t)used.tv_sec * 1000000000 + used.tv_nsec;
}

static void repeat(void (*pair)(void *), void *ctx, struct figures *out)
{
    int64_t pairs = 0, from = now_ns(), cpu_from = cpu_ns(), now;
    for (; (now = now_ns()) < from + ROUND_NS; pairs++)
        pair(ctx);
    series_add(&out->pairs, (double)pairs * 1e9 / (double)(now - from));
    series_add(&out->cpu_us, (double)(cpu_ns() - cpu_from) / 1e3 / (double)pairs);
}

int main(int argc, char **argv)
{
    hf_client *client;
    hf_error err;
    char uri[4096];
    struct raw raw;
    struct figures ours = {.pairs.n = 0}, loop = {.pairs.n = 0};
    if (argc != 2)
        fail("usage", "bench_sqlite_pairs FOLDER");
    snprintf(uri, sizeof uri, "sqlite:%s/pairs.db", argv[1]);
    must(hf_open(uri, NULL, &client, &err), &err);
    raw_init(&raw, argv[1]);
    lock_pair(client);
    for (int round = 0; round < ROUNDS; round++) {
        repeat(raw_pair, &raw, &loop);
        repeat(lock_pair, client, &ours);
    }
    row("SQLite, pairs/s, 1 lock", &ours.pairs, &loop.pairs, AT_LEAST(0.6));
    row("  processor time of the same, us per pair", &ours.cpu_us, &loop.cpu_us, NO_GOAL);
    raw_done(&raw);
    hf_close(client);
}
