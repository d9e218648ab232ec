/* SPDX-License-Identifier: Apache-2.0 */
/* crowd.c: 1,000 threads of 50 processes that all want one lock, against 10 threads of two: what a
 * turn costs, whether anybody starves, and whether all give up cleanly. */
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bench.h"
#include "crew.h"
#include "table.h"

#define MOST_CROWD_THREADS 64
#define GIVE_UP_MS 1000
#define EMPTY_NS INT64_C(1000000000)

/* Each phase but the first begins when all threads are ready for it. */
enum { TAKE_TURNS, REST, GIVE_UP, END };

/* ---- A worker: many threads of one client ---- */

struct member {
    struct board *board;
    hf_client *client;
    int number; /* of its process */
};

static void add_longest(atomic_llong *longest, int64_t ns)
{
    long long before = atomic_load(longest);
    while (ns > before && !atomic_compare_exchange_weak(longest, &before, ns))
        continue;
}

static void take_turn(const struct member *m)
{
    struct seat *seat = &m->board->seats[m->number];
    int64_t from = now_ns();
    hf_lock *lock = client_acquire(m->client, &m->board->place, "crowd");
    add_longest(&seat->longest_ns, now_ns() - from);
    atomic_fetch_add(&seat->took, 1);
    if (atomic_exchange(&m->board->last, m->number) != m->number)
        atomic_fetch_add(&m->board->passes, 1);
    hf_lock_close(lock);
}

/* Asleep: a thousand that look each millisecond would be all that the machine does. */
static void await_phase(struct board *board, int phase)
{
    atomic_fetch_add(&board->ready, 1);
    for (int now; (now = atomic_load(&board->phase)) < phase;)
        syscall(SYS_futex, &board->phase, FUTEX_WAIT, now, NULL, NULL, 0);
}

static void begin_phase(struct board *board, int phase)
{
    atomic_store(&board->phase, phase);
    syscall(SYS_futex, &board->phase, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* Somebody else has the lock meanwhile. */
static void give_up(const struct member *m)
{
    char name[PLACE_NAME_MAX];
    hf_lock *lock;
    hf_error err;
    place_name(&m->board->place, "crowd", name);
    hf_lock_options options = {.wait_ms = GIVE_UP_MS};
    if (hf_lock_acquire(m->client, name, &options, &lock, &err) != HF_TIMEOUT)
        atomic_fetch_add(&m->board->seats[m->number].errors, 1);
}

static void *run_member(void *arg)
{
    const struct member *m = arg;
    take_turn(m);
    atomic_fetch_add(&m->board->ready, 1);
    while (atomic_load(&m->board->phase) == TAKE_TURNS)
        take_turn(m);
    await_phase(m->board, GIVE_UP);
    give_up(m);
    await_phase(m->board, END);
    return NULL;
}

void role_crowd(struct board *board, int number)
{
    pthread_t threads[MOST_CROWD_THREADS];
    struct member member = {board, client_open(&board->place, board->ttl_ms), number};
    for (int i = 0; i < board->threads; i++)
        pthread_create(&threads[i], NULL, run_member, &member);
    for (int i = 0; i < board->threads; i++)
        pthread_join(threads[i], NULL);
    hf_close(member.client);
}

/* ---- A while ---- */

typedef struct outcome {
    double turn_ms, pass_ms, fewest, most, longest_ms, not_timed_out, left;
} outcome;

static void count_turns(const struct crew *crew, double out[MOST_WORKERS])
{
    for (int i = 0; i < crew->n; i++)
        out[i] = (double)atomic_load(&crew->board->seats[i].took);
}

static void forget_longest(const struct crew *crew)
{
    for (int i = 0; i < crew->n; i++)
        atomic_store(&crew->board->seats[i].longest_ns, 0);
}

static void watch(const struct crew *crew, int64_t ms, outcome *out)
{
    double before[MOST_WORKERS], turns[MOST_WORKERS], all = 0, longest = 0;
    forget_longest(crew);
    count_turns(crew, before);
    long long passes = atomic_load(&crew->board->passes);
    int64_t from = now_ns();
    pause_ms(ms);
    double took_ms = (double)(now_ns() - from) / 1e6;
    passes = atomic_load(&crew->board->passes) - passes;
    count_turns(crew, turns);
    for (int i = 0; i < crew->n; i++) {
        double of_one = (double)atomic_load(&crew->board->seats[i].longest_ns);
        all += turns[i] -= before[i];
        longest = of_one > longest ? of_one : longest;
    }
    spread s = spread_of(turns, (size_t)crew->n);
    *out = (outcome){.turn_ms = took_ms / all,
                     .pass_ms = took_ms / (double)passes,
                     .fewest = s.min,
                     .most = s.max,
                     .longest_ms = longest / 1e6};
}

static bool count_entries(void *ctx, const hf_lock_info *info)
{
    *(double *)ctx = (double)(info->n_holders + info->n_queue);
    return true;
}

/* What could not be taken back at once is in the background, for a moment. */
static double await_empty(hf_client *client, const struct place *place)
{
    char name[PLACE_NAME_MAX];
    hf_error err;
    double left = 1;
    place_name(place, "crowd", name);
    for (int64_t until = now_ns() + EMPTY_NS; left > 0 && now_ns() < until; pause_ms(10))
        must(hf_show(client, name, count_entries, &left, &err), &err);
    return left;
}

/* Takes the lock, lets all wait for it in vain, and looks at what is left of them. */
static void disperse(const struct bench *bench, struct crew *crew, int threads, outcome *out)
{
    hf_error err;
    hf_client *client = client_open(&bench->place, 0);
    begin_phase(crew->board, REST);
    crew_await_ready(crew, 2 * threads);
    hf_lock *lock = client_acquire(client, &bench->place, "crowd");
    begin_phase(crew->board, GIVE_UP);
    crew_await_ready(crew, 3 * threads);
    must(hf_lock_release(lock, &err), &err);
    hf_lock_close(lock);
    out->left = await_empty(client, &bench->place);
    for (int i = 0; i < crew->n; i++)
        out->not_timed_out += (double)atomic_load(&crew->board->seats[i].errors);
    begin_phase(crew->board, END);
    hf_close(client);
}

static outcome gather(const struct bench *bench, int processes, int threads_each, int64_t ms)
{
    struct crew crew;
    outcome out;
    int threads = processes * threads_each;
    crew_open(&crew, &bench->place);
    crew.board->threads = threads_each;
    crew_start(&crew, "crowd", processes);
    crew_await_ready(&crew, threads);
    watch(&crew, ms, &out);
    disperse(bench, &crew, threads, &out);
    crew_join(&crew);
    crew_close(&crew);
    return out;
}

/* ---- The table ---- */

#define CROWD "1,000 waiters (50 processes x 20 threads)"

static series one(double value)
{
    return (series){.values = {value}, .n = 1};
}

static void print_ratio(const char *figure, double ours, double before, double after, goal aim)
{
    series crowd = one(ours), few = one((before + after) / 2);
    table_ratio(&crowd, &few, aim, "%s, 1,000 waiters / 10 (2 processes x 5)", figure);
}

static void print(const outcome *few, const outcome *crowd, const outcome *after)
{
    series per_s = one(1000 / crowd->turn_ms), longest = one(crowd->longest_ms),
           not_timed_out = one(crowd->not_timed_out), left = one(crowd->left),
           fewest = one(crowd->fewest), most = one(crowd->most);
    print_ratio("ms per turn", crowd->turn_ms, few->turn_ms, after->turn_ms, NO_GOAL);
    print_ratio("ms from process to process", crowd->pass_ms, few->pass_ms, after->pass_ms,
                AT_MOST(1.2));
    table_row(&per_s, NO_GOAL, CROWD ", turns/s");
    table_ratio(&fewest, &most, AT_LEAST(0.8), "the same, fewest / most turns of a process");
    table_row(&longest, NO_GOAL, "the same, longest wait, ms");
    table_row(&not_timed_out, AT_MOST(0),
              "the same, waiters that did not time out when told to give up");
    table_row(&left, AT_MOST(0), "the same, tickets left a second later");
}

void measure_crowd(const struct bench *bench)
{
    int64_t ms = bench->crowd_s * INT64_C(1000);
    if (bench->place.kind == PLACE_MEMORY) {
        table_note("needs a store that other processes see", CROWD);
        return;
    }
    outcome few = gather(bench, 2, 5, ms / 4);
    outcome crowd = gather(bench, 50, 20, ms);
    outcome after = gather(bench, 2, 5, ms / 4);
    print(&few, &crowd, &after);
}
