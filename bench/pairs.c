/* SPDX-License-Identifier: Apache-2.0 */
/* pairs.c: acquire + release on a replica set, against a raw loop of two majority writes, in turn:
 * the release awaited, closed in the background, lingering; and hand-overs among threads. */
#include "mongo.h"

#include <pthread.h>
#include <stdatomic.h>

#define ROUNDS 11
#define MOST_THREADS 64

struct setup {
    hf_client *client;
    mongoc_client_pool_t *raw;
};

struct crew {
    void (*work)(const struct setup *setup, int number, atomic_bool *stop, int64_t *pairs);
    const struct setup *setup;
    atomic_int numbers;
    atomic_bool stop;
    atomic_int_least64_t pairs;
};

static void raw(const struct setup *setup, int number, atomic_bool *stop, int64_t *pairs)
{
    mongoc_client_t *client = mongoc_client_pool_pop(setup->raw);
    mongoc_collection_t *collection = raw_open(client);
    for (; !atomic_load(stop); ++*pairs) {
        raw_put(collection, number);
        raw_remove(collection, number);
    }
    mongoc_collection_destroy(collection);
    mongoc_client_pool_push(setup->raw, client);
}

/* Acquires and gives up the lock of that number, again and again. */
static void loop(const struct setup *setup, int number, const hf_lock_options *options,
                 bool is_awaited, atomic_bool *stop, int64_t *pairs)
{
    char name[16];
    hf_error err;
    hf_lock *held;
    snprintf(name, sizeof name, "pair-%d", number);
    for (; !atomic_load(stop); ++*pairs) {
        must(hf_lock_acquire(setup->client, name, options, &held, &err), &err);
        if (is_awaited)
            must(hf_lock_release(held, &err), &err);
        hf_lock_close(held);
    }
}

static void lock(const struct setup *setup, int number, atomic_bool *stop, int64_t *pairs)
{
    loop(setup, number, NULL, true, stop, pairs);
}

static void lock_closed(const struct setup *setup, int number, atomic_bool *stop, int64_t *pairs)
{
    loop(setup, number, NULL, false, stop, pairs);
}

static void lock_lingering(const struct setup *setup, int number, atomic_bool *stop, int64_t *pairs)
{
    loop(setup, number, &(hf_lock_options){.linger_ms = 10000}, true, stop, pairs);
}

static void one_lock(const struct setup *setup, int number, atomic_bool *stop, int64_t *pairs)
{
    (void)number;
    loop(setup, 1000, NULL, true, stop, pairs);
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

typedef void work_fn(const struct setup *setup, int number, atomic_bool *stop, int64_t *pairs);

static void measure(const struct setup *setup, size_t threads, const char *how, work_fn *work,
                    struct goal goal)
{
    char title[80];
    series ours = {.n = 0}, other = {.n = 0};
    pairs_per_s(setup, threads, 500, raw);
    pairs_per_s(setup, threads, 500, work);
    for (int round = 0; round < ROUNDS; round++) {
        series_add(&other, pairs_per_s(setup, threads, 1500, raw));
        series_add(&ours, pairs_per_s(setup, threads, 1500, work));
    }
    snprintf(title, sizeof title, "MongoDB, pairs/s, %zu lock%s and thread%s, %s", threads,
             threads > 1 ? "s" : "", threads > 1 ? "s" : "", how);
    row(title, &ours, &other, goal);
}

static void measure_turns(const struct setup *setup)
{
    series ours = {.n = 0};
    for (int round = 0; round < ROUNDS; round++)
        series_add(&ours, pairs_per_s(setup, 16, 500, one_lock));
    row("MongoDB, hand-overs/s, 1 lock, 16 threads of one process", &ours, NULL, AT_LEAST(100000));
}

static mongoc_client_pool_t *open_pool(void)
{
    mongoc_uri_t *uri = mongoc_uri_new(bench_uri());
    mongoc_client_pool_t *pool = mongoc_client_pool_new(uri);
    mongoc_uri_destroy(uri);
    return pool;
}

int main(void)
{
    hf_error err;
    mongoc_init();
    struct setup setup = {.raw = open_pool()};
    must(hf_open(bench_uri(), NULL, &setup.client, &err), &err);
    measure(&setup, 1, "release awaited", lock, AT_LEAST(1.0));
    measure(&setup, 1, "closed in the background", lock_closed, AT_LEAST(1.8));
    measure(&setup, 1, "lingering", lock_lingering, AT_LEAST(1000));
    measure(&setup, 16, "release awaited", lock, AT_LEAST(1.2));
    measure(&setup, MOST_THREADS, "release awaited", lock, AT_LEAST(1.15));
    measure_turns(&setup);
    hf_close(setup.client);
    mongoc_client_pool_destroy(setup.raw);
    mongoc_cleanup();
}
