/* SPDX-License-Identifier: Apache-2.0 */
/* pairs.c: acquire + release by threads, each of a lock of its own: the release awaited, closed in
 * the background, lingering; in turn with the loop by hand. And one lock among the threads. */
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>

#include "bench.h"
#include "raw.h"
#include "table.h"

#define MOST_THREADS 64
#define LINGER_MS 10000
#define WARM_MS 300

struct bed {
    const struct place *place;
    hf_client *client;
    struct raw *raws[MOST_THREADS];
};

struct round {
    const struct bed *bed;
    void (*work)(const struct round *round, int number, int64_t *pairs);
    atomic_int numbers;
    atomic_bool stop;
    atomic_llong pairs;
};

typedef void work_fn(const struct round *round, int number, int64_t *pairs);

/* ---- What a thread repeats ---- */

static void by_hand(const struct round *round, int number, int64_t *pairs)
{
    for (; !atomic_load(&round->stop); ++*pairs) {
        raw_put(round->bed->raws[number], number);
        raw_remove(round->bed->raws[number], number);
    }
}

static void repeat(const struct round *round, int number, const hf_lock_options *options,
                   bool is_awaited, int64_t *pairs)
{
    char own[32], name[PLACE_NAME_MAX];
    hf_error err;
    hf_lock *held;
    snprintf(own, sizeof own, "pair-%d", number);
    place_name(round->bed->place, own, name);
    for (; !atomic_load(&round->stop); ++*pairs) {
        must(hf_lock_acquire(round->bed->client, name, options, &held, &err), &err);
        if (is_awaited)
            must(hf_lock_release(held, &err), &err);
        hf_lock_close(held);
    }
}

static void awaited(const struct round *round, int number, int64_t *pairs)
{
    repeat(round, number, NULL, true, pairs);
}

static void closed(const struct round *round, int number, int64_t *pairs)
{
    repeat(round, number, NULL, false, pairs);
}

static void lingering(const struct round *round, int number, int64_t *pairs)
{
    repeat(round, number, &(hf_lock_options){.linger_ms = LINGER_MS}, true, pairs);
}

static void one_lock(const struct round *round, int number, int64_t *pairs)
{
    (void)number;
    repeat(round, MOST_THREADS, NULL, true, pairs);
}

/* What a hand-over takes where nothing but the order is kept. */
static struct fifo {
    pthread_mutex_t mutex;
    bool is_taken;
    size_t first, n;
    sem_t *line[MOST_THREADS];
} fifo = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void fifo_take(sem_t *own)
{
    pthread_mutex_lock(&fifo.mutex);
    bool waits = fifo.is_taken;
    fifo.is_taken = true;
    if (waits)
        fifo.line[(fifo.first + fifo.n++) % MOST_THREADS] = own;
    pthread_mutex_unlock(&fifo.mutex);
    while (waits && sem_wait(own))
        continue;
}

static void fifo_leave(void)
{
    sem_t *next = NULL;
    pthread_mutex_lock(&fifo.mutex);
    fifo.is_taken = fifo.n > 0;
    if (fifo.n) {
        next = fifo.line[fifo.first++ % MOST_THREADS];
        fifo.n--;
    }
    pthread_mutex_unlock(&fifo.mutex);
    if (next)
        sem_post(next);
}

static void by_semaphores(const struct round *round, int number, int64_t *pairs)
{
    static sem_t own[MOST_THREADS];
    sem_init(&own[number], 0, 0);
    for (; !atomic_load(&round->stop); ++*pairs) {
        fifo_take(&own[number]);
        fifo_leave();
    }
}

/* ---- A round ---- */

static void *run_one(void *arg)
{
    struct round *round = arg;
    int64_t pairs = 0;
    round->work(round, atomic_fetch_add(&round->numbers, 1), &pairs);
    atomic_fetch_add(&round->pairs, pairs);
    return NULL;
}

static double pairs_per_s(const struct bed *bed, int threads, int64_t ms, work_fn *work)
{
    pthread_t thread[MOST_THREADS];
    struct round round = {.bed = bed, .work = work};
    int64_t from = now_ns();
    for (int i = 0; i < threads; i++)
        pthread_create(&thread[i], NULL, run_one, &round);
    pause_ms(ms);
    atomic_store(&round.stop, true);
    for (int i = 0; i < threads; i++)
        pthread_join(thread[i], NULL);
    return (double)atomic_load(&round.pairs) * 1e9 / (double)(now_ns() - from);
}

/* ---- The table ---- */

struct way {
    const char *how;
    work_fn *work;
    goal on_mongo;
};

#define MOST_WAYS 3

static const struct {
    int threads;
    struct way ways[MOST_WAYS];
} sizes[] = {
    {1,
     {{"release awaited", awaited, {LEAST_EACH, 1.05}},
      {"closed in the background", closed, {LEAST_EACH, 1.8}},
      {"lingering", lingering, {LEAST, 1000}}}},
    {16,
     {{"release awaited", awaited, {LEAST_EACH, 1.3}},
      {"closed in the background", closed, {NONE, 0}},
      {"lingering", lingering, {NONE, 0}}}},
    {64, {{"release awaited", awaited, {LEAST_EACH, 1.4}}}},
};

static int64_t round_ms(const struct bed *bed)
{
    return bed->place->kind == PLACE_MONGO ? 1000 : 400;
}

static void print(const struct bed *bed, int threads, const struct way *way, const series *ours,
                  const series *other)
{
    char figure[100];
    if (threads == 1)
        snprintf(figure, sizeof figure, "pairs/s, 1 lock, %s", way->how);
    else
        snprintf(figure, sizeof figure, "pairs/s, %d locks in %d threads, %s", threads, threads,
                 way->how);
    if (raw_is_there(bed->place))
        table_ratio(ours, other, bed->place->kind == PLACE_MONGO ? way->on_mongo : NO_GOAL, "%s",
                    figure);
    else
        table_row(ours, NO_GOAL, "%s", figure);
}

/* Each has a client of its own, which has begun its session: one that has lingered goes on
 * listening for a while, and every write costs more then. */
static double measure(struct bed *bed, int threads, int64_t ms, work_fn *work)
{
    if (work == by_hand)
        return pairs_per_s(bed, threads, ms, work);
    bed->client = client_open(bed->place, 0);
    hf_lock_close(client_acquire(bed->client, bed->place, "first"));
    double pairs = pairs_per_s(bed, threads, ms, work);
    hf_close(bed->client);
    return pairs;
}

/* All ways and the loop by hand, round by round, another one first each time. */
static void measure_size(struct bed *bed, int runs, int threads, const struct way ways[MOST_WAYS])
{
    series of[MOST_WAYS + 1] = {{.n = 0}};
    work_fn *works[MOST_WAYS + 1] = {NULL};
    int n = 0;
    while (n < MOST_WAYS && ways[n].work) {
        works[n] = ways[n].work;
        n++;
    }
    if (bed->raws[0])
        works[n] = by_hand;
    int all = n + !!works[n];
    for (int run = -1; run < runs; run++)
        for (int i = 0; i < all; i++) {
            int at = (i + run + 1) % all;
            double pairs = measure(bed, threads, run < 0 ? WARM_MS : round_ms(bed), works[at]);
            if (run >= 0)
                series_add(&of[at], pairs);
        }
    for (int i = 0; i < n; i++)
        print(bed, threads, &ways[i], &of[i], &of[n]);
}

void measure_pairs(const struct bench *bench)
{
    struct bed bed = {.place = &bench->place};
    for (int i = 0; i < MOST_THREADS && raw_is_there(bed.place); i++)
        bed.raws[i] = raw_open(bed.place);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        measure_size(&bed, bench->runs, sizes[i].threads, sizes[i].ways);
    for (int i = 0; i < MOST_THREADS && bed.raws[i]; i++)
        raw_close(bed.raws[i]);
}

void measure_threads(const struct bench *bench)
{
    struct bed bed = {.place = &bench->place, .client = client_open(&bench->place, 0)};
    series ours = {.n = 0}, other = {.n = 0};
    pairs_per_s(&bed, 16, WARM_MS, one_lock);
    pause_ms(SEASON_MS);
    for (int run = 0; run < bench->runs; run++) {
        series_add(&other, pairs_per_s(&bed, 16, 500, by_semaphores));
        series_add(&ours, pairs_per_s(&bed, 16, 500, one_lock));
    }
    table_row(&ours, AT_LEAST(100000), "hand-overs/s of one lock among 16 threads of one process");
    table_ratio(&ours, &other, NO_GOAL, "the same / threads that only wake each other in turn");
    hf_close(bed.client);
}
