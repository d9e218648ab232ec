/* SPDX-License-Identifier: Apache-2.0 */
/* handover.c: how long a lock takes from its release to its next owner, among processes that all
 * want it, on a replica set (against one majority write, in turn) and on SQLite. */
#include "mongo.h"

#include <spawn.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS 5
#define ROUND_MS 3000
#define HOLD_MS 2
#define MOST_WORKERS 16
#define MOST_TURNS 8192

struct turn {
    int64_t token, got_ns, left_ns;
};

/* Memory that parent and workers share. */
struct board {
    atomic_bool stop;
    struct {
        atomic_size_t n;
        struct turn turns[MOST_TURNS];
    } of[MOST_WORKERS];
};

static struct board *map_board(int fd)
{
    void *at = mmap(NULL, sizeof(struct board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        fail("mmap", "no shared memory");
    return at;
}

/* ---- A worker: this program again ---- */

static struct turn take_turn(hf_client *client)
{
    hf_lock *lock;
    hf_error err;
    must(hf_lock_acquire(client, "handover", NULL, &lock, &err), &err);
    struct turn turn = {.token = hf_lock_token(lock), .got_ns = now_ns()};
    pause_ms(HOLD_MS);
    turn.left_ns = now_ns();
    hf_lock_close(lock);
    return turn;
}

static int work(const char *uri, struct board *board, int number)
{
    hf_client *client;
    hf_error err;
    must(hf_open(uri, NULL, &client, &err), &err);
    for (size_t i = 0; i < MOST_TURNS && !atomic_load(&board->stop); i++) {
        board->of[number].turns[i] = take_turn(client);
        atomic_store(&board->of[number].n, i + 1);
    }
    hf_close(client);
    return 0;
}

/* ---- A round ---- */

struct figures {
    series median_ms, p90_ms, least_turns, most_turns, writes, entries, reads;
    series raw_median_ms, raw_p90_ms;
};

static void spawn(const char *uri, int fd, int number, pid_t *out)
{
    char fd_text[16], number_text[16];
    snprintf(fd_text, sizeof fd_text, "%d", fd);
    snprintf(number_text, sizeof number_text, "%d", number);
    char *args[] = {"bench_handover", "worker", (char *)uri, fd_text, number_text, NULL};
    if (posix_spawn(out, "/proc/self/exe", NULL, NULL, args, environ))
        fail("spawn", "no more processes");
}

static void await_all(struct board *board, int workers)
{
    for (int i = 0; i < workers; i++)
        while (!atomic_load(&board->of[i].n))
            pause_ms(1);
}

static int by_token(const void *a, const void *b)
{
    const struct turn *x = a, *y = b;
    return (x->token > y->token) - (x->token < y->token);
}

/* All turns of the workers that lie between two moments, by token; says who had fewest and most. */
static size_t collect(const struct board *board, int workers, int64_t from_ns, int64_t to_ns,
                      struct turn *out, struct figures *figures)
{
    size_t n = 0;
    double count[MOST_WORKERS] = {0};
    for (int w = 0; w < workers; w++)
        for (size_t i = 0; i < board->of[w].n; i++)
            if (board->of[w].turns[i].got_ns >= from_ns && board->of[w].turns[i].left_ns <= to_ns) {
                out[n++] = board->of[w].turns[i];
                count[w]++;
            }
    qsort(out, n, sizeof *out, by_token);
    spread turns = spread_of(count, (size_t)workers);
    series_add(&figures->least_turns, turns.min);
    series_add(&figures->most_turns, turns.max);
    return n;
}

/* Returns how many turns there were. */
static size_t evaluate(const struct board *board, int workers, int64_t from_ns, int64_t to_ns,
                       struct figures *figures)
{
    static struct turn turns[MOST_WORKERS * MOST_TURNS];
    static double ms[MOST_WORKERS * MOST_TURNS];
    size_t n = collect(board, workers, from_ns, to_ns, turns, figures);
    if (n < 2)
        fail("hand-over", "there was none");
    for (size_t i = 1; i < n; i++)
        ms[i - 1] = (double)(turns[i].got_ns - turns[i - 1].left_ns) / 1e6;
    spread s = spread_of(ms, n - 1);
    series_add(&figures->median_ms, s.median);
    series_add(&figures->p90_ms, s.p90);
    return n;
}

static void count_work(mongoc_client_t *client, const counts *from, const counts *to, size_t turns,
                       struct figures *figures)
{
    double n = (double)turns;
    series_add(&figures->writes, (double)(to->writes - from->writes) / n);
    series_add(&figures->reads, (double)(to->reads - from->reads) / n);
    series_add(&figures->entries, (double)oplog_between(client, from, to) / n);
}

/* server is NULL for SQLite. */
static void hand_over(const char *uri, int workers, mongoc_client_t *server,
                      struct figures *figures)
{
    pid_t pids[MOST_WORKERS];
    counts before = {0}, after = {0};
    int fd = memfd_create("board", 0), status;
    if (fd < 0 || ftruncate(fd, sizeof(struct board)))
        fail("memfd_create", "no shared memory");
    struct board *board = map_board(fd);
    for (int i = 0; i < workers; i++)
        spawn(uri, fd, i, &pids[i]);
    await_all(board, workers);
    if (server)
        before = counts_now(server);
    int64_t from_ns = now_ns();
    pause_ms(ROUND_MS);
    int64_t to_ns = now_ns();
    if (server)
        after = counts_now(server);
    atomic_store(&board->stop, true);
    for (int i = 0; i < workers; i++)
        if (waitpid(pids[i], &status, 0) < 0 || status != 0)
            fail("hand-over", "a worker failed");
    size_t turns = evaluate(board, workers, from_ns, to_ns, figures);
    if (server)
        count_work(server, &before, &after, turns, figures);
    munmap(board, sizeof *board);
    close(fd);
}

static void write_raw(mongoc_client_t *server, struct figures *figures)
{
    static double ms[4096];
    size_t n = 0;
    mongoc_collection_t *raw = raw_open(server);
    int64_t until = now_ns() + 1000000000;
    for (int64_t from; n < 4096 && (from = now_ns()) < until;) {
        raw_put(raw, 0);
        ms[n++] = (double)(now_ns() - from) / 1e6;
    }
    mongoc_collection_destroy(raw);
    spread s = spread_of(ms, n);
    series_add(&figures->raw_median_ms, s.median);
    series_add(&figures->raw_p90_ms, s.p90);
}

/* ---- The table ---- */

static void print(const char *where, int workers, const char *what, const series *ours,
                  const series *other, struct goal goal)
{
    char title[80];
    snprintf(title, sizeof title, "%s, %d processes, hand-over, %s", where, workers, what);
    row(title, ours, other, goal);
}

static void on_mongo(mongoc_client_t *server, int workers)
{
    struct figures f = {.writes.n = 0};
    mongoc_collection_t *raw = raw_open(server);
    raw_put(raw, 0); /* makes the collection */
    mongoc_collection_destroy(raw);
    for (int round = 0; round < ROUNDS; round++) {
        write_raw(server, &f);
        hand_over(bench_uri(), workers, server, &f);
    }
    print("MongoDB", workers, "median ms", &f.median_ms, &f.raw_median_ms, AT_MOST(1.8));
    print("MongoDB", workers, "p90 ms", &f.p90_ms, &f.raw_p90_ms, NO_GOAL);
    print("MongoDB", workers, "write commands each", &f.writes, NULL, AT_MOST(1.2));
    print("MongoDB", workers, "oplog entries each", &f.entries, NULL, AT_MOST(1.2));
    print("MongoDB", workers, "read commands each", &f.reads, NULL, NO_GOAL);
    print("MongoDB", workers, "most / fewest turns", &f.most_turns, &f.least_turns, NO_GOAL);
}

static void on_sqlite(const char *uri, int workers)
{
    struct figures f = {.writes.n = 0};
    for (int round = 0; round < ROUNDS; round++)
        hand_over(uri, workers, NULL, &f);
    print("SQLite", workers, "median ms", &f.median_ms, NULL, AT_MOST(2));
    print("SQLite", workers, "p90 ms", &f.p90_ms, NULL, NO_GOAL);
    print("SQLite", workers, "most / fewest turns", &f.most_turns, &f.least_turns, NO_GOAL);
}

int main(int argc, char **argv)
{
    char uri[4096];
    if (argc == 5)
        return work(argv[2], map_board(atoi(argv[3])), atoi(argv[4]));
    if (argc != 2)
        fail("usage", "bench_handover FOLDER");
    mongoc_init();
    mongoc_client_t *server = mongoc_client_new(bench_uri());
    snprintf(uri, sizeof uri, "sqlite:%s/handover.db", argv[1]);
    on_mongo(server, 2);
    on_mongo(server, 16);
    on_sqlite(uri, 2);
    on_sqlite(uri, 16);
    mongoc_client_destroy(server);
    mongoc_cleanup();
}
