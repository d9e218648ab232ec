/* SPDX-License-Identifier: Apache-2.0 */
/* busy.c: what many processes cost the servers: each waits for a lock of its own, with and without
 * foreign writes beside it, and how soon it has it; then each holds one. */
#include <stdio.h>

#include "bench.h"
#include "crew.h"
#include "raw.h"
#include "server.h"
#include "table.h"

#define WORKERS 100
#define HANDED_OVER 50
#define FOREIGN_PER_S 2000
#define FOREIGN_AT_ONCE 20
#define SETTLE_MS 1500
#define WINDOW_MS 6660 /* each process beats twice */

enum { REST, WAIT, HOLD, END };

/* ---- Workers ---- */

static void own_name(int number, char out[32])
{
    snprintf(out, 32, "own-%d", number);
}

static void wait_and_note(hf_client *client, struct board *board, int number)
{
    char name[32];
    struct seat *seat = &board->seats[number];
    own_name(number, name);
    hf_lock *lock = client_acquire(client, &board->place, name);
    size_t n = atomic_load(&seat->n);
    seat->turns[n % MOST_TURNS].got_ns = now_ns();
    atomic_store(&seat->n, n + 1);
    hf_lock_close(lock);
}

/* Ready when it has the lock. */
static void hold(hf_client *client, struct board *board, int number)
{
    char name[32];
    own_name(number, name);
    hf_lock *lock = client_acquire(client, &board->place, name);
    atomic_fetch_add(&board->ready, 1);
    while (atomic_load(&board->phase) == HOLD)
        pause_ms(20);
    hf_lock_close(lock);
}

/* Ready again when it rests, and has no client. */
void role_own(struct board *board, int number)
{
    for (int phase; (phase = atomic_load(&board->phase)) != END;) {
        if (phase == REST) {
            pause_ms(20);
            continue;
        }
        hf_client *client = client_open(&board->place, 0);
        if (phase == HOLD)
            hold(client, board, number);
        while (atomic_load(&board->phase) == WAIT)
            wait_and_note(client, board, number);
        hf_close(client);
        atomic_fetch_add(&board->ready, 1);
    }
}

/* Another program on the same servers, which waits for no majority. */
void role_foreign(struct board *board, int number)
{
    struct raw *raw = raw_open(&board->place);
    int64_t due_ns = now_ns();
    while (atomic_load(&board->phase) != END) {
        int per_s = atomic_load(&board->foreign_per_s);
        due_ns += INT64_C(1000000000) * FOREIGN_AT_ONCE / (per_s ? per_s : FOREIGN_PER_S);
        if (per_s) {
            raw_put_many(raw, FOREIGN_AT_ONCE);
            atomic_fetch_add(&board->seats[number].took, FOREIGN_AT_ONCE);
        }
        int64_t ms = (due_ns - now_ns()) / 1000000;
        pause_ms(ms > 0 ? ms : 0);
    }
    raw_close(raw);
}

/* ---- Who waits ---- */

struct scene {
    const struct bench *bench;
    struct server *server;
    struct raw *raw;
    struct crew crew;
    hf_client *client;
    hf_lock *held[WORKERS];
};

static bool count_waiting(void *ctx, const hf_lock_info *info)
{
    *(int *)ctx += info->n_queue > 0;
    return true;
}

static void await_waiting(struct scene *s)
{
    char prefix[PLACE_NAME_MAX];
    hf_error err;
    place_name(&s->bench->place, "own-", prefix);
    for (int n = 0; n < WORKERS;) {
        n = 0;
        must(hf_list(s->client, prefix, count_waiting, &n, &err), &err);
        pause_ms(100);
    }
}

static void take(struct scene *s, int number)
{
    char name[32];
    own_name(number, name);
    s->held[number] = client_acquire(s->client, &s->bench->place, name);
}

static void begin_waiting(struct scene *s)
{
    for (int i = 0; i < WORKERS; i++)
        take(s, i);
    atomic_store(&s->crew.board->ready, 0);
    atomic_store(&s->crew.board->phase, WAIT);
    await_waiting(s);
}

static void end_waiting(struct scene *s)
{
    atomic_store(&s->crew.board->phase, REST);
    for (int i = 0; i < WORKERS; i++)
        hf_lock_close(s->held[i]);
    crew_await_ready(&s->crew, WORKERS);
}

/* ---- Who holds ---- */

static void turn_to(struct scene *s, int phase)
{
    atomic_store(&s->crew.board->ready, 0);
    atomic_store(&s->crew.board->phase, phase);
    crew_await_ready(&s->crew, WORKERS);
}

/* ---- What it costs ---- */

struct rates {
    double primary, others; /* processor time, ms/s */
    double foreign;         /* writes/s */
    double connections, resident_mib;
};

static struct rates rates_while(struct scene *s, int foreign_per_s)
{
    atomic_llong *took = &s->crew.board->seats[WORKERS].took;
    atomic_store(&s->crew.board->foreign_per_s, foreign_per_s);
    pause_ms(SETTLE_MS);
    long long took_before = atomic_load(took);
    counts before = server_count(s->server);
    pause_ms(WINDOW_MS);
    counts after = server_count(s->server);
    double seconds = (double)(after.ns - before.ns) / 1e9;
    return (struct rates){(after.primary_ms - before.primary_ms) / seconds,
                          (after.others_ms - before.others_ms) / seconds,
                          (double)(atomic_load(took) - took_before) / seconds, after.connections,
                          after.resident_mib};
}

struct figures {
    series idle, idle_others, more, more_others, writes, foreign, handed_over, one_write;
    series connections, resident_mib;
    series holding, holding_others, holding_connections;
};

/* ---- How soon they have it ---- */

static double hand_over_ms(struct scene *s, int number)
{
    hf_error err;
    struct seat *seat = &s->crew.board->seats[number];
    size_t n = atomic_load(&seat->n);
    int64_t from = now_ns();
    must(hf_lock_release(s->held[number], &err), &err);
    hf_lock_close(s->held[number]);
    while (atomic_load(&seat->n) == n)
        pause_ms(1);
    double ms = (double)(seat->turns[n % MOST_TURNS].got_ns - from) / 1e6;
    take(s, number);
    return ms;
}

static double one_write_ms(struct scene *s)
{
    int64_t from = now_ns();
    raw_put(s->raw, 0);
    return (double)(now_ns() - from) / 1e6;
}

static void hand_over(struct scene *s, struct figures *to)
{
    double ours[HANDED_OVER], writes[HANDED_OVER];
    raw_put(s->raw, 0);
    for (int i = 0; i < HANDED_OVER; i++) {
        writes[i] = one_write_ms(s);
        ours[i] = hand_over_ms(s, i);
    }
    series_add(&to->handed_over, spread_of(ours, HANDED_OVER).median);
    series_add(&to->one_write, spread_of(writes, HANDED_OVER).median);
}

/* ---- Rows ---- */

static void run_holding(struct scene *s, struct rates none, struct figures *to)
{
    turn_to(s, HOLD);
    struct rates holds = rates_while(s, 0);
    turn_to(s, REST);
    series_add(&to->holding, holds.primary - none.primary);
    series_add(&to->holding_others, holds.others - none.others);
    series_add(&to->holding_connections, holds.connections - none.connections);
}

static void run_once(struct scene *s, struct figures *to)
{
    struct rates none = rates_while(s, 0), writes = rates_while(s, FOREIGN_PER_S);
    atomic_store(&s->crew.board->foreign_per_s, 0);
    begin_waiting(s);
    struct rates waits = rates_while(s, 0), both = rates_while(s, FOREIGN_PER_S);
    hand_over(s, to);
    end_waiting(s);
    series_add(&to->idle, waits.primary - none.primary);
    series_add(&to->idle_others, waits.others - none.others);
    series_add(&to->more, both.primary - writes.primary - (waits.primary - none.primary));
    series_add(&to->more_others, both.others - writes.others - (waits.others - none.others));
    series_add(&to->writes, writes.primary - none.primary);
    series_add(&to->foreign, both.foreign);
    series_add(&to->connections, waits.connections - none.connections);
    series_add(&to->resident_mib, waits.resident_mib - none.resident_mib);
    run_holding(s, none, to);
}

static void print(const struct figures *f)
{
    static const char waiting[] = "100 processes that wait, each for a lock of its own";
    static const char holding[] = "100 processes that hold a lock each";
    table_row(&f->idle, AT_MOST(30), "%s: processor time of the primary, ms/s", waiting);
    table_row(&f->idle_others, NO_GOAL, "the same: of the other servers");
    table_row(&f->connections, NO_GOAL, "the same: connections to the primary");
    table_row(&f->resident_mib, NO_GOAL, "the same: memory of the primary, MiB");
    table_row(&f->more, AT_MOST(10), "the same: more of the primary beside 2,000 foreign writes/s");
    table_row(&f->more_others, NO_GOAL, "the same: more of the other servers");
    table_row(&f->writes, NO_GOAL, "the foreign writes alone: of the primary");
    table_row(&f->foreign, NO_GOAL, "foreign writes/s that were made beside the waiters");
    table_ratio(&f->handed_over, &f->one_write, AT_MOST(1.8),
                "hand-over beside them, from the start of the release, median ms / one write");
    table_row(&f->holding, NO_GOAL, "%s: of the primary, ms/s", holding);
    table_row(&f->holding_others, NO_GOAL, "%s: of the other servers", holding);
    table_row(&f->holding_connections, NO_GOAL, "%s: connections to the primary", holding);
}

void measure_busy(const struct bench *bench)
{
    const char *why;
    struct figures figures = {.idle.n = 0};
    struct scene s = {.bench = bench, .server = server_open(&bench->place, &why)};
    if (!s.server) {
        table_note(why, "100 waiting processes beside foreign writes");
        return;
    }
    s.raw = raw_open(&bench->place);
    s.client = client_open(&bench->place, 0);
    crew_open(&s.crew, &bench->place);
    crew_start(&s.crew, "own", WORKERS);
    crew_start(&s.crew, "foreign", 1);
    for (int run = 0; run < bench->runs; run++)
        run_once(&s, &figures);
    atomic_store(&s.crew.board->phase, END);
    crew_join(&s.crew);
    crew_close(&s.crew);
    hf_close(s.client);
    raw_close(s.raw);
    server_close(s.server);
    print(&figures);
}
