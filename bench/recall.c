/* SPDX-License-Identifier: Apache-2.0 */
/* recall.c: how long another client waits for a lock that lingers: what lingering adds, at worst,
 * to a hand-over. */
#include "recall.h"
#include "bench.h"
#include "raw.h"
#include "table.h"

#define TIMES 30
#define RAW_ID 1

static double write_ms(struct raw *raw)
{
    int64_t from = now_ns();
    raw_put(raw, RAW_ID);
    return (double)(now_ns() - from) / 1e6;
}

static double recall_ms(const struct bench *bench, hf_client *lingers, hf_client *asks)
{
    hf_lock_options options = {.linger_ms = 60000};
    char name[PLACE_NAME_MAX];
    hf_lock *lock;
    hf_error err;
    place_name(&bench->place, "recalled", name);
    must(hf_lock_acquire(lingers, name, &options, &lock, &err), &err);
    must(hf_lock_release(lock, &err), &err);
    hf_lock_close(lock);
    int64_t from = now_ns();
    lock = client_acquire(asks, &bench->place, "recalled");
    int64_t took = now_ns() - from;
    must(hf_lock_release(lock, &err), &err);
    hf_lock_close(lock);
    return (double)took / 1e6;
}

static void run_once(const struct bench *bench, struct raw *raw, series *ours, series *other)
{
    double recalls[TIMES], writes[TIMES];
    hf_client *lingers = client_open(&bench->place, 0), *asks = client_open(&bench->place, 0);
    recall_ms(bench, lingers, asks);
    pause_ms(SEASON_MS);
    for (int i = 0; i < TIMES; i++) {
        recalls[i] = recall_ms(bench, lingers, asks);
        writes[i] = write_ms(raw);
    }
    series_add(ours, spread_of(recalls, TIMES).median);
    series_add(other, spread_of(writes, TIMES).median);
    hf_close(lingers);
    hf_close(asks);
}

void measure_recall(const struct bench *bench, struct raw *raw)
{
    series ours = {.n = 0}, other = {.n = 0};
    for (int run = 0; run < bench->runs; run++)
        run_once(bench, raw, &ours, &other);
    raw_remove(raw, RAW_ID);
    table_ratio(&ours, &other, NO_GOAL,
                "a lock that lingers, from another's request to its grant, ms / one write");
}
