/* SPDX-License-Identifier: Apache-2.0 */
/* waiting.c: what 50 processes that only wait cost the processor. */
#include <time.h>

#include "bench.h"
#include "crew.h"
#include "table.h"

#define WAITERS 50
#define SETTLE_MS 1000
#define WINDOW_MS 10000

/* Ready before it waits; it has the lock once the others have left. */
void role_wait(struct board *board, int number)
{
    (void)number;
    hf_client *client = client_open(&board->place, 0);
    atomic_fetch_add(&board->ready, 1);
    hf_lock_close(client_acquire(client, &board->place, "waiting"));
    hf_close(client);
}

static double cpu_s(const struct crew *crew)
{
    double sum = 0;
    for (int i = 0; i < crew->n; i++) {
        clockid_t clock;
        struct timespec used;
        if (clock_getcpuclockid(crew->pids[i], &clock) || clock_gettime(clock, &used))
            fail(EX_SOFTWARE, "the processor time", "of a worker is not to be had");
        sum += (double)used.tv_sec + (double)used.tv_nsec / 1e9;
    }
    return sum;
}

static bool count_queue(void *ctx, const hf_lock_info *info)
{
    *(size_t *)ctx = info->n_queue;
    return true;
}

/* Until all have a place. */
static void await_queue(hf_client *client, const struct place *place)
{
    char name[PLACE_NAME_MAX];
    hf_error err;
    size_t length = 0;
    place_name(place, "waiting", name);
    while (length < WAITERS) {
        must(hf_show(client, name, count_queue, &length, &err), &err);
        pause_ms(100);
    }
}

void measure_waiting(const struct bench *bench)
{
    struct crew crew;
    series percent = {.n = 0};
    if (bench->place.kind == PLACE_MEMORY) {
        table_note("needs a store that other processes see", "50 waiting processes");
        return;
    }
    hf_client *client = client_open(&bench->place, 0);
    hf_lock *held = client_acquire(client, &bench->place, "waiting");
    crew_open(&crew, &bench->place);
    crew_start(&crew, "wait", WAITERS);
    await_queue(client, &bench->place);
    pause_ms(SETTLE_MS);
    double before = cpu_s(&crew);
    pause_ms(WINDOW_MS);
    series_add(&percent, (cpu_s(&crew) - before) / WINDOW_MS * 1e5);
    hf_lock_close(held);
    crew_join(&crew);
    crew_close(&crew);
    hf_close(client);
    table_row(&percent, bench->place.kind == PLACE_SQLITE ? AT_MOST(1) : NO_GOAL,
              "processor time of 50 waiting processes over 10 s, %% of a core");
}
