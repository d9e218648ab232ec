/* SPDX-License-Identifier: Apache-2.0 */
/* crew.c: starts worker processes and waits for them; see crew.h. */
#include "crew.h"

#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

static struct board *map_board(int fd)
{
    void *at = mmap(NULL, sizeof(struct board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        fail(EX_SOFTWARE, "mmap", "no shared memory");
    return at;
}

void crew_work(role_fn *role, const char *board_fd, const char *number)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    role(map_board(atoi(board_fd)), atoi(number));
}

void crew_open(struct crew *out, const struct place *place)
{
    *out = (struct crew){.board_fd = memfd_create("board", 0)};
    if (out->board_fd < 0 || ftruncate(out->board_fd, sizeof(struct board)))
        fail(EX_SOFTWARE, "memfd_create", "no shared memory");
    out->board = map_board(out->board_fd);
    out->board->place = *place;
    out->board->threads = 1;
}

char *const *crew_words(const struct crew *crew, const char *role, int number)
{
    static char program[] = "holdfast-bench", worker[] = "worker";
    static char of_role[16], of_fd[16], of_number[16];
    static char *const words[] = {program, worker, of_role, of_fd, of_number, NULL};
    snprintf(of_role, sizeof of_role, "%s", role);
    snprintf(of_fd, sizeof of_fd, "%d", crew->board_fd);
    snprintf(of_number, sizeof of_number, "%d", number);
    return words;
}

void crew_start(struct crew *crew, const char *role, int workers)
{
    for (int i = 0; i < workers; i++) {
        char *const *words = crew_words(crew, role, crew->n);
        if (posix_spawn(&crew->pids[crew->n++], "/proc/self/exe", NULL, NULL, words, environ))
            fail(EX_SOFTWARE, "spawn", "no more processes");
    }
}

/* Nobody who failed would ever be ready. */
static void check_workers(const struct crew *crew)
{
    siginfo_t ended = {.si_pid = 0};
    if (waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid &&
        ended.si_status != 0)
        fail(EX_UNAVAILABLE, crew->board->place.prefix, "a worker failed");
}

void crew_await_ready(const struct crew *crew, int n)
{
    while (atomic_load(&crew->board->ready) < n) {
        check_workers(crew);
        pause_ms(1);
    }
}

void crew_join(struct crew *crew)
{
    int status;
    for (int i = 0; i < crew->n; i++)
        if (waitpid(crew->pids[i], &status, 0) < 0 || status != 0)
            fail(EX_UNAVAILABLE, crew->board->place.prefix, "a worker failed");
    crew->n = 0;
}

void crew_close(struct crew *crew)
{
    munmap(crew->board, sizeof(struct board));
    close(crew->board_fd);
}
