/* SPDX-License-Identifier: Apache-2.0 */
/* heartbeat.c: what it costs to hold one lock, and 1,000 of them. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#include "bench.h"
#include "server.h"

#define MOST_LOCKS 1000
#define THREADS 8
#define TTL_MS 3000 /* a window of one ttl: three beats, and each lock is verified once */

typedef struct holder {
    const struct place *place;
    hf_client *client;
    int n;
    atomic_int next;
    hf_lock *locks[MOST_LOCKS];
} holder;

static void *take_some(void *arg)
{
    holder *h = arg;
    char name[32];
    for (int i; (i = atomic_fetch_add(&h->next, 1)) < h->n;) {
        snprintf(name, sizeof name, "many-%d", i);
        h->locks[i] = client_acquire(h->client, h->place, name);
    }
    return NULL;
}

static void take_all(holder *h)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, take_some, h);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static void check_all(const holder *h)
{
    hf_error err;
    for (int i = 0; i < h->n; i++)
        must(hf_lock_check(h->locks[i], NULL, &err), &err);
}

static void close_all(holder *h)
{
    for (int i = 0; i < h->n; i++)
        hf_lock_close(h->locks[i]);
}

static double cpu_ms(void)
{
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (double)used.tv_sec * 1e3 + (double)used.tv_nsec / 1e6;
}

/* One ttl. */
static void watch(struct server *server, struct costs *costs, series *cpu)
{
    counts before, after;
    double from = cpu_ms();
    if (server)
        before = server_count(server);
    pause_ms(TTL_MS);
    series_add(cpu, (cpu_ms() - from) / TTL_MS * 1000);
    if (server) {
        after = server_count(server);
        server_add(server, &before, &after, (double)(after.ns - before.ns) / 1e9, costs);
    }
}

static void hold(const struct bench *bench, struct server *server, const char *why, int n,
                 const char *what)
{
    static holder h;
    struct costs costs = {.reads.n = 0};
    series cpu = {.n = 0};
    h = (holder){.place = &bench->place, .n = n, .client = client_open(&bench->place, TTL_MS)};
    take_all(&h);
    for (int run = 0; run < bench->runs; run += 2)
        watch(server, &costs, &cpu);
    check_all(&h);
    close_all(&h);
    hf_close(h.client);
    if (bench->place.kind == PLACE_MONGO)
        server_rows(server, why, &costs, NO_GOAL, what);
    table_row(&cpu, NO_GOAL, "%s: processor time of the client, ms/s", what);
}

void measure_heartbeat(const struct bench *bench)
{
    const char *why;
    struct server *server = server_open(&bench->place, &why);
    hold(bench, server, why, 0, "per second, nothing held");
    hold(bench, server, why, 1, "per second, 1 lock held, ttl 3 s");
    hold(bench, server, why, MOST_LOCKS, "per second, 1,000 locks held, ttl 3 s");
    server_close(server);
}
