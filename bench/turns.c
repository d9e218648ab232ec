/* SPDX-License-Identifier: Apache-2.0 */
/* turns.c: worker processes that all want one lock, ours or one made by hand that is polled, and
 * what their turns were like; see turns.h. */
#include "turns.h"

#include <stdlib.h>

#include "crew.h"
#include "raw.h"

#define HOLD_MS 2
#define POLL_MS 100
#define TURNS_LEAST 2 /* one hand-over */
#define AWAITED_NS INT64_C(60000000000)
#define TTL_MS 60000 /* so that beats do not count among the writes of a hand-over */

enum { GO_ON, STOP };

/* ---- A worker ---- */

static struct turn take_turn(hf_client *client, const struct board *board)
{
    hf_lock *lock = client_acquire(client, &board->place, "hand-over");
    struct turn turn = {.token = hf_lock_token(lock), .got_ns = now_ns()};
    pause_ms(HOLD_MS);
    turn.left_ns = now_ns();
    hf_lock_close(lock);
    return turn;
}

/* As it is done by hand: tried again and again, with a pause. The one that has had it pauses too,
 * or no other would get it. */
static struct turn poll_turn(struct raw *raw)
{
    while (!raw_try(raw, -1))
        pause_ms(POLL_MS);
    struct turn turn = {.got_ns = now_ns()};
    pause_ms(HOLD_MS);
    turn.token = turn.left_ns = now_ns();
    raw_remove(raw, -1);
    pause_ms(POLL_MS);
    return turn;
}

static void add_turn(struct board *board, int number, const struct turn *turn)
{
    struct seat *seat = &board->seats[number];
    size_t n = atomic_load(&seat->n);
    seat->turns[n] = *turn;
    atomic_store(&seat->n, n + 1);
}

static bool goes_on(struct board *board, int number)
{
    return atomic_load(&board->phase) == GO_ON && atomic_load(&board->seats[number].n) < MOST_TURNS;
}

void role_turns(struct board *board, int number)
{
    hf_client *client = client_open(&board->place, board->ttl_ms);
    for (bool is_first = true; goes_on(board, number); is_first = false) {
        struct turn turn = take_turn(client, board);
        add_turn(board, number, &turn);
        if (is_first)
            atomic_fetch_add(&board->ready, 1);
    }
    hf_close(client);
}

void role_poll(struct board *board, int number)
{
    struct raw *raw = raw_open(&board->place);
    raw_connect(raw);
    atomic_fetch_add(&board->ready, 1); /* with 64 of them some would never have a turn */
    while (goes_on(board, number)) {
        struct turn turn = poll_turn(raw);
        add_turn(board, number, &turn);
    }
    raw_close(raw);
}

/* ---- What came of it ---- */

static int by_token(const void *a, const void *b)
{
    const struct turn *x = a, *y = b;
    return (x->token > y->token) - (x->token < y->token);
}

/* All turns that lie between two moments, in their order. */
static size_t collect(const struct crew *crew, int64_t from_ns, int64_t to_ns, struct turn *out,
                      struct passing *passing)
{
    size_t n = 0;
    double count[MOST_WORKERS] = {0};
    for (int w = 0; w < crew->n; w++) {
        const struct seat *seat = &crew->board->seats[w];
        for (size_t i = 0; i < seat->n; i++)
            if (seat->turns[i].got_ns >= from_ns && seat->turns[i].left_ns <= to_ns) {
                out[n++] = seat->turns[i];
                count[w]++;
            }
    }
    qsort(out, n, sizeof *out, by_token);
    spread turns = spread_of(count, (size_t)crew->n);
    passing->fewest = turns.min;
    passing->most = turns.max;
    return n;
}

static size_t evaluate(const struct crew *crew, int64_t from_ns, int64_t to_ns, struct passing *out)
{
    struct turn *turns = calloc(MOST_WORKERS * MOST_TURNS, sizeof *turns);
    double *ms = calloc(MOST_WORKERS * MOST_TURNS, sizeof *ms);
    if (!turns || !ms)
        fail(EX_SOFTWARE, "turns", "out of memory");
    size_t n = collect(crew, from_ns, to_ns, turns, out);
    if (n < 2)
        fail(EX_UNAVAILABLE, "hand-over", "there was none");
    for (size_t i = 1; i < n; i++)
        ms[i - 1] = (double)(turns[i].got_ns - turns[i - 1].left_ns) / 1e6;
    spread s = spread_of(ms, n - 1);
    out->median_ms = s.median;
    out->p90_ms = s.p90;
    free(ms);
    free(turns);
    return n;
}

static size_t count_since(const struct crew *crew, int64_t from_ns)
{
    size_t n = 0;
    for (int w = 0; w < crew->n; w++) {
        const struct seat *seat = &crew->board->seats[w];
        size_t last = atomic_load(&seat->n);
        for (size_t i = 0; i < last; i++)
            n += seat->turns[i].got_ns >= from_ns;
    }
    return n;
}

/* A set with a silent member may acknowledge nothing for seconds. */
static void await_turns(const struct crew *crew, int64_t from_ns)
{
    while (count_since(crew, from_ns) < TURNS_LEAST && now_ns() < from_ns + AWAITED_NS)
        pause_ms(10);
}

struct passing turns_measure(const struct bench *bench, const char *role, int workers, int64_t ms,
                             struct server *server, struct costs *costs)
{
    struct crew crew;
    struct passing out;
    counts before, after;
    crew_open(&crew, &bench->place);
    crew.board->ttl_ms = TTL_MS;
    crew_start(&crew, role, workers);
    crew_await_ready(&crew, workers);
    if (server)
        before = server_count(server);
    int64_t from_ns = now_ns();
    pause_ms(ms);
    await_turns(&crew, from_ns);
    int64_t to_ns = now_ns();
    if (server)
        after = server_count(server);
    atomic_store(&crew.board->phase, STOP);
    size_t turns = evaluate(&crew, from_ns, to_ns, &out);
    if (server)
        server_add(server, &before, &after, (double)turns, costs);
    crew_join(&crew);
    crew_close(&crew);
    return out;
}
