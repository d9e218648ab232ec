/* SPDX-License-Identifier: Apache-2.0 */
/* process.c: runs two commands in turn and compares their time and peak memory:
 * bench_process TITLE RUNS OURS... --with OTHER...
 * (In C, because the peak of the one that forks counts in its child.) */
#include "bench.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

struct cost {
    series ms, mib;
};

static _Noreturn void become(char **command)
{
    int null = open("/dev/null", O_RDWR);
    dup2(null, 0);
    dup2(null, 1);
    execvp(command[0], command);
    perror(command[0]);
    _exit(127);
}

static void run(char **command, struct cost *cost)
{
    int status;
    struct rusage usage;
    int64_t from = now_ns();
    pid_t child = fork();
    if (child == 0)
        become(command);
    if (child < 0 || wait4(child, &status, 0, &usage) < 0 || status != 0)
        fail(command[0], "failed");
    series_add(&cost->ms, (double)(now_ns() - from) / 1e6);
    series_add(&cost->mib, (double)usage.ru_maxrss / 1024);
}

static void print(const char *title, const char *what, const series *ours, const series *other)
{
    char text[128];
    snprintf(text, sizeof text, "%s, %s", title, what);
    row(text, ours, other, NO_GOAL);
}

int main(int argc, char **argv)
{
    int split = 3;
    while (split < argc && strcmp(argv[split], "--with") != 0)
        split++;
    if (argc < 6 || split + 1 >= argc)
        fail("usage", "bench_process TITLE RUNS OURS... --with OTHER...");
    argv[split] = NULL;
    struct cost ours = {.ms.n = 0}, other = {.ms.n = 0}, unused = {.ms.n = 0};
    run(&argv[3], &unused);
    run(&argv[split + 1], &unused);
    for (int i = 0; i < atoi(argv[2]); i++) {
        run(&argv[3], &ours);
        run(&argv[split + 1], &other);
    }
    print(argv[1], "ms", &ours.ms, &other.ms);
    print(argv[1], "peak MiB", &ours.mib, &other.mib);
}
