/* SPDX-License-Identifier: Apache-2.0 */
/* handover.c: how long a lock takes from its release to its next owner, among processes that all
 * want it: in turn with one write by hand, and with a loop that polls. */
#include <stdio.h>

#include "raw.h"
#include "recall.h"
#include "table.h"
#include "turns.h"

#define MOST_WRITES 4096
#define POLLING_MS 1500

static const int sizes[] = {2, 4, 8, 16, 32, 64};

struct figures {
    series median_ms, p90_ms, fewest, most, polling_ms, polling_fewest, polling_most;
    series write_ms, write_p90_ms;
    struct costs costs;
};

static void write_by_hand(struct raw *raw, struct figures *out)
{
    static double ms[MOST_WRITES];
    size_t n = 0;
    raw_put(raw, 0); /* makes the collection */
    int64_t until = now_ns() + 300000000;
    for (int64_t from; n < MOST_WRITES && (from = now_ns()) < until;) {
        raw_put(raw, 0);
        ms[n++] = (double)(now_ns() - from) / 1e6;
    }
    spread s = spread_of(ms, n);
    series_add(&out->write_ms, s.median);
    series_add(&out->write_p90_ms, s.p90);
}

/* Long enough for some turns each. */
static int64_t window_ms(const struct bench *bench, int workers)
{
    if (bench->place.kind != PLACE_MONGO)
        return 500 + workers * 10;
    return workers > 16 ? workers * 80 : 2000;
}

static void run_once(const struct bench *bench, struct raw *raw, struct server *server, int workers,
                     struct figures *out)
{
    write_by_hand(raw, out);
    struct passing ours =
        turns_measure(bench, "turns", workers, window_ms(bench, workers), server, &out->costs);
    series_add(&out->median_ms, ours.median_ms);
    series_add(&out->p90_ms, ours.p90_ms);
    series_add(&out->fewest, ours.fewest);
    series_add(&out->most, ours.most);
    struct passing polling = turns_measure(bench, "poll", workers, POLLING_MS, NULL, NULL);
    series_add(&out->polling_ms, polling.median_ms);
    series_add(&out->polling_fewest, polling.fewest);
    series_add(&out->polling_most, polling.most);
}

/* What lies between has its medians only: tools/bench-page draws them. */
static bool is_told_in_full(int workers)
{
    return workers == 2 || workers == 16 || workers == 64;
}

static void print_in_full(const struct bench *bench, const struct server *server, const char *why,
                          int workers, const struct figures *f)
{
    bool has_goal = workers == 16;
    char what[64];
    snprintf(what, sizeof what, "hand-over, %d processes", workers);
    table_ratio(&f->p90_ms, &f->write_p90_ms, NO_GOAL, "%s, p90 ms / one write's", what);
    table_ratio(&f->fewest, &f->most, has_goal ? AT_LEAST(0.9) : NO_GOAL,
                "%s, fewest / most turns of one", what);
    table_ratio(&f->polling_fewest, &f->polling_most, NO_GOAL,
                "the same, polling, fewest / most turns of one");
    if (bench->place.kind == PLACE_MONGO)
        server_rows(server, why, &f->costs,
                    has_goal ? AT_MOST(2.1) /* one, and the ring */ : NO_GOAL, what);
}

static void print(const struct bench *bench, const struct server *server, const char *why,
                  int workers, const struct figures *f)
{
    if (bench->place.kind == PLACE_SQLITE)
        table_row(&f->median_ms, AT_MOST(1), "hand-over, %d processes, median ms", workers);
    table_ratio(&f->median_ms, &f->write_ms,
                workers == 16 && bench->place.kind == PLACE_MONGO ? AT_MOST(1.4) : NO_GOAL,
                "hand-over, %d processes, median ms / one write", workers);
    table_ratio(&f->median_ms, &f->polling_ms, NO_GOAL,
                "hand-over, %d processes, median ms / polling each 100 ms", workers);
    if (is_told_in_full(workers))
        print_in_full(bench, server, why, workers, f);
}

void measure_handover(const struct bench *bench)
{
    const char *why;
    if (!raw_is_there(&bench->place)) {
        table_note("needs a store that other processes see", "hand-over");
        return;
    }
    struct server *server = server_open(&bench->place, &why);
    struct raw *raw = raw_open(&bench->place);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct figures figures = {0};
        for (int run = 0; run < bench->runs; run++)
            run_once(bench, raw, server, sizes[i], &figures);
        print(bench, server, why, sizes[i], &figures);
    }
    measure_recall(bench, raw);
    raw_close(raw);
    server_close(server);
}
