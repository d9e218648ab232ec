/* SPDX-License-Identifier: Apache-2.0 */
/* crew.h: worker processes: this program again, each in a role, and a board that all of them see.
 * They end with the process that started them. */
#ifndef BENCH_CREW_H
#define BENCH_CREW_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

#include "place.h"

#define MOST_WORKERS 104
#define MOST_TURNS 8192

struct turn {
    int64_t token, got_ns, left_ns;
};

struct seat {
    atomic_size_t n; /* turns that are written below */
    struct turn turns[MOST_TURNS];
    atomic_llong took, longest_ns, errors; /* of a crowd: turns, and the longest wait for one */
};

struct board {
    struct place place;
    int64_t ttl_ms, hold_ms;
    int threads; /* of each worker */
    atomic_int foreign_per_s;
    atomic_int phase;    /* what the workers do now; each role has its own */
    atomic_int ready;    /* how many are where the one that started them waits for them */
    atomic_int last;     /* who had the last turn */
    atomic_llong passes; /* how often it went to another process */
    struct seat seats[MOST_WORKERS];
};

typedef void role_fn(struct board *board, int number);

role_fn role_turns, role_poll, role_crowd, role_hold, role_wait, role_two_writes, role_own,
    role_foreign;

struct crew {
    struct board *board;
    int board_fd;
    const char *role;
    int n;
    pid_t pids[MOST_WORKERS];
};

/* A board without workers; crew_start() adds them. */
void crew_open(struct crew *out, const struct place *place);
void crew_start(struct crew *crew, const char *role, int workers);
void crew_await_ready(const struct crew *crew, int n);
/* Waits for their end; fails if one failed. */
void crew_join(struct crew *crew);
void crew_close(struct crew *crew);

/* A worker's main(). */
void crew_work(role_fn *role, const char *board_fd, const char *number);
/* The words that make this program one; they live until the next call. */
char *const *crew_words(const struct crew *crew, const char *role, int number);

#endif
