/* SPDX-License-Identifier: Apache-2.0 */
/* many.c: what 1,000 locks held by one process cost the replica set, for some lengths of lease. */
#include "mongo.h"

#include <pthread.h>
#include <stdatomic.h>

#define LOCKS 1000
#define THREADS 8
#define WINDOWS 3

struct holder {
    hf_client *client;
    int64_t ttl_ms;
    atomic_int next;
    hf_lock *locks[LOCKS];
};

static void *take_some(void *arg)
{
    struct holder *holder = arg;
    char name[32];
    hf_error err;
    for (int i; (i = atomic_fetch_add(&holder->next, 1)) < LOCKS;) {
        snprintf(name, sizeof name, "many-%d-%d", (int)holder->ttl_ms, i);
        must(hf_lock_acquire(holder->client, name, NULL, &holder->locks[i], &err), &err);
    }
    return NULL;
}

static void take_all(struct holder *holder)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, take_some, holder);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static void check_all(struct holder *holder)
{
    hf_error err;
    for (int i = 0; i < LOCKS; i++)
        must(hf_lock_check(holder->locks[i], NULL, &err), &err);
}

static void close_all(struct holder *holder)
{
    hf_close(holder->client);
    for (int i = 0; i < LOCKS; i++)
        hf_lock_close(holder->locks[i]);
}

struct rates {
    series writes, entries, reads;
};

static void measure(mongoc_client_t *server, int64_t ms, struct rates *out)
{
    counts before = counts_now(server);
    pause_ms(ms);
    counts after = counts_now(server);
    double s = (double)(after.ns - before.ns) / 1e9;
    series_add(&out->writes, (double)(after.writes - before.writes) / s);
    series_add(&out->entries, (double)oplog_between(server, &before, &after) / s);
    series_add(&out->reads, (double)(after.reads - before.reads) / s);
}

static void print(const char *who, const struct rates *rates)
{
    char title[80];
    snprintf(title, sizeof title, "%s: oplog entries/s", who);
    row(title, &rates->entries, NULL, NO_GOAL);
    snprintf(title, sizeof title, "%s: write commands/s", who);
    row(title, &rates->writes, NULL, NO_GOAL);
    snprintf(title, sizeof title, "%s: read commands/s", who);
    row(title, &rates->reads, NULL, NO_GOAL);
}

/* Windows of one ttl each: three beats, and each lock verified once. */
static void hold_many(mongoc_client_t *server, int64_t ttl_ms)
{
    static struct holder holder;
    char title[64];
    hf_error err;
    struct rates rates = {.reads.n = 0};
    hf_options options = {.ttl_ms = ttl_ms};
    holder.ttl_ms = ttl_ms;
    atomic_store(&holder.next, 0);
    must(hf_open(bench_uri(), &options, &holder.client, &err), &err);
    take_all(&holder);
    for (int i = 0; i < WINDOWS; i++)
        measure(server, ttl_ms, &rates);
    check_all(&holder);
    close_all(&holder);
    snprintf(title, sizeof title, "MongoDB, %d locks held, ttl %d s", LOCKS, (int)ttl_ms / 1000);
    print(title, &rates);
}

int main(void)
{
    struct rates idle = {.reads.n = 0};
    mongoc_init();
    mongoc_client_t *server = mongoc_client_new(bench_uri());
    for (int i = 0; i < WINDOWS; i++)
        measure(server, 2000, &idle);
    print("MongoDB, nobody there", &idle);
    hold_many(server, 3000);
    hold_many(server, 9000);
    mongoc_client_destroy(server);
    mongoc_cleanup();
}
