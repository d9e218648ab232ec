/* SPDX-License-Identifier: Apache-2.0 */
/* pairs.c: acquire + release on a replica set, against a raw loop of two majority writes, in
 * turn. */
#include "mongo.h"

#include <pthread.h>
#include <stdatomic.h>

#define ROUNDS 11
#define MOST_THREADS 16

struct setup {
    hf_client *client;
    mongoc_client_pool_t *raw, *raw_once; /* once: with retryWrites=false */
};

struct crew {
    void (*work)(const struct setup *setup, int number, atomic_bool *stop, int64_t *pairs);
    const struct setup *setup;
    atomic_int numbers;
    atomic_bool stop;
    atomic_int_least64_t pairs;
};

static void write_raw(mongoc_client_pool_t *pool, int number, atomic_bool *stop, int64_t *pairs)
{
    mongoc_client_t *client = mongoc_client_pool_pop(pool);
    mongoc_collection_t *raw = raw_open(client);
    for (; !atomic_load(stop); ++*pairs) {
        raw_put(raw, number);
        raw_remove(raw, number);
    }
    mongoc_collection_destroy(raw);
    mongoc_client_pool_push(pool, client);
}

static void raw(const struct setup *setup, int number, atomic_bool *stop, int64_t *pairs)
{
    write_raw(setup->raw, number, stop, pairs);
}

static void raw_once(const struct setup *setup, int number, atomic_bool *stop, int64_t *pairs)
{
    write_raw(setup->raw_once, number, stop, pairs);
}

static void lock(const struct setup *setup, int number, atomic_bool *stop, int64_t *pairs)
{
    char name[16];
    hf_error err;
    hf_lock *held;
    snprintf(name, sizeof name, "pair-%d", number);
    for (; !atomic_load(stop); ++*pairs) {
        must(hf_lock_acquire(setup->client, name, NULL, &held, &err), &err);
        must(hf_lock_release(held, &err), &err);
        hf_lock_close(held);
    }
}

static void *run_one(void *arg)
{
    struct crew *crew = arg;
    int64_t pairs = 0;
    crew->work(crew->setup, atomic_fetch_add(&crew->numbers, 1), &crew->stop, &pairs);
    atomic_fetch_add(&crew->pairs, pairs);
    return NULL;
}

static double pairs_per_s(const struct setup *setup, size_t threads, int64_t ms,
                          void (*work)(const struct setup *, int, atomic_bool *, int64_t *))
{
    pthread_t thread[MOST_THREADS];
    struct crew crew = {.work = work, .setup = setup};
    int64_t from = now_ns();
    for (size_t i = 0; i < threads; i++)
        pthread_create(&thread[i], NULL, run_one, &crew);
    pause_ms(ms);
    atomic_store(&crew.stop, true);
    for (size_t i = 0; i < threads; i++)
        pthread_join(thread[i], NULL);
    return (double)atomic_load(&crew.pairs) * 1e9 / (double)(now_ns() - from);
}

static void measure(const struct setup *setup, size_t threads)
{
    char title[80];
    series ours = {.n = 0}, loop = {.n = 0}, loop_once = {.n = 0};
    pairs_per_s(setup, threads, 500, raw);
    pairs_per_s(setup, threads, 500, lock);
    for (int round = 0; round < ROUNDS; round++) {
        series_add(&loop, pairs_per_s(setup, threads, 1500, raw));
        series_add(&ours, pairs_per_s(setup, threads, 1500, lock));
        series_add(&loop_once, pairs_per_s(setup, threads, 1000, raw_once));
    }
    snprintf(title, sizeof title, "MongoDB, pairs/s, %zu lock%s and thread%s", threads,
             threads > 1 ? "s" : "", threads > 1 ? "s" : "");
    row(title, &ours, &loop, AT_LEAST(0.95));
    row("  the same against a loop with retryWrites=false", &ours, &loop_once, NO_GOAL);
}

static mongoc_client_pool_t *open_pool(bool retries)
{
    mongoc_uri_t *uri = mongoc_uri_new(bench_uri());
    if (!retries)
        mongoc_uri_set_option_as_bool(uri, MONGOC_URI_RETRYWRITES, false);
    mongoc_client_pool_t *pool = mongoc_client_pool_new(uri);
    mongoc_uri_destroy(uri);
    return pool;
}

int main(void)
{
    hf_error err;
    mongoc_init();
    struct setup setup = {.raw = open_pool(true), .raw_once = open_pool(false)};
    must(hf_open(bench_uri(), NULL, &setup.client, &err), &err);
    measure(&setup, 1);
    measure(&setup, MOST_THREADS);
    hf_close(setup.client);
    mongoc_client_pool_destroy(setup.raw_once);
    mongoc_client_pool_destroy(setup.raw);
    mongoc_cleanup();
}
