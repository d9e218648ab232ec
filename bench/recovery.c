/* SPDX-License-Identifier: Apache-2.0 */
/* recovery.c: how long it takes, with the smallest ttl, until one who waits has the lock of a
 * holder that was killed. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "crew.h"
#include "table.h"

#define TTL_MS 1000
#define WAITED_MS 400 /* at least, before the holder is killed */

void role_hold(struct board *board, int number)
{
    (void)number;
    client_acquire(client_open(&board->place, TTL_MS), &board->place, "crash");
    atomic_fetch_add(&board->ready, 1);
    for (;;)
        pause();
}

typedef struct waiter {
    const struct place *place;
    hf_client *client;
    int64_t got_ns;
} waiter;

static void *wait_for_it(void *arg)
{
    waiter *w = arg;
    hf_lock *lock = client_acquire(w->client, w->place, "crash");
    w->got_ns = now_ns();
    hf_lock_close(lock);
    return NULL;
}

struct search {
    int64_t pid, beat_ns;
};

/* When the session of that process was renewed, as the store tells it. */
static bool find_beat(void *ctx, const hf_session_info *info)
{
    struct search *s = ctx;
    if (info->pid == s->pid && !info->dead)
        s->beat_ns = now_ns() - (info->ttl_ms - info->lease_left_ms) * 1000000;
    return true;
}

struct times {
    series from_kill, from_beat;
};

static void crash(const struct bench *bench, struct crew *crew, waiter *w, struct times *out)
{
    pthread_t thread;
    hf_error err;
    struct search search = {.pid = crew->pids[0]};
    pthread_create(&thread, NULL, wait_for_it, w);
    pause_ms(WAITED_MS + rand() % (TTL_MS / 3)); /* at any time between two beats */
    must(hf_sessions(w->client, find_beat, &search, &err), &err);
    int64_t from = now_ns();
    kill(crew->pids[0], SIGKILL);
    pthread_join(thread, NULL);
    waitpid(crew->pids[0], NULL, 0);
    series_add(&out->from_kill, (double)(w->got_ns - from) / 1e6);
    if (bench->place.kind == PLACE_MONGO && search.beat_ns)
        series_add(&out->from_beat, (double)(w->got_ns - search.beat_ns) / 1e6);
}

static void run_once(const struct bench *bench, struct times *out)
{
    struct crew crew;
    waiter w = {&bench->place, client_open(&bench->place, TTL_MS), 0};
    crew_open(&crew, &bench->place);
    crew_start(&crew, "hold", 1);
    crew_await_ready(&crew, 1);
    crash(bench, &crew, &w, out);
    crew_close(&crew);
    hf_close(w.client);
}

void measure_recovery(const struct bench *bench)
{
    struct times times = {.from_kill.n = 0};
    bool is_mongo = bench->place.kind == PLACE_MONGO;
    if (bench->place.kind == PLACE_MEMORY) {
        table_note("needs a store that other processes see", "crash recovery");
        return;
    }
    for (int run = 0; run < bench->runs; run++)
        run_once(bench, &times);
    table_row(&times.from_kill, AT_MOST(is_mongo ? TTL_MS + 300 : 50),
              "crash recovery, ttl 1 s, from the kill to the grant, ms");
    if (is_mongo)
        table_row(&times.from_beat, AT_MOST(TTL_MS + 300),
                  "crash recovery, ttl 1 s, from the last beat to the grant, ms");
}
