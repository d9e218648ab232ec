/* SPDX-License-Identifier: Apache-2.0 */
/* process.c: time and peak memory of `holdfast run x -- true`: on MongoDB beside a program that
 * connects and does two writes by hand, on SQLite beside flock(1). */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "crew.h"
#include "raw.h"
#include "table.h"

#define TIMES 3 /* of each, for each run that was asked for */

void role_two_writes(struct board *board, int number)
{
    struct raw *raw = raw_open(&board->place);
    raw_put(raw, number);
    raw_remove(raw, number);
    raw_close(raw);
}

typedef struct cost {
    series ms, mib;
} cost;

static _Noreturn void become(const char *program, char *const *words)
{
    int null = open("/dev/null", O_RDWR);
    dup2(null, 0);
    dup2(null, 1);
    execvp(program, words);
    perror(program);
    _exit(127);
}

/* Forked, as posix_spawn's child would count our own memory as its peak. */
static void run(const char *program, char *const *words, cost *out)
{
    int status;
    struct rusage usage;
    int64_t from = now_ns();
    pid_t child = fork();
    if (child == 0)
        become(program, words);
    if (child < 0 || wait4(child, &status, 0, &usage) < 0 || status != 0)
        fail(EX_UNAVAILABLE, program, "failed");
    series_add(&out->ms, (double)(now_ns() - from) / 1e6);
    series_add(&out->mib, (double)usage.ru_maxrss / 1024);
}

static void compare(const struct bench *bench, char *const *ours, const char *program,
                    char *const *other, const char *title, goal time, goal memory)
{
    cost us = {.ms.n = 0}, them = {.ms.n = 0}, unused = {.ms.n = 0};
    run(bench->command, ours, &unused);
    run(program, other, &unused);
    for (int i = 0; i < bench->runs * TIMES; i++) {
        run(bench->command, ours, &us);
        run(program, other, &them);
    }
    table_ratio(&us.ms, &them.ms, time, "%s, ms", title);
    table_row(&us.mib, memory, "run x -- true, peak MiB");
    table_row(&them.mib, NO_GOAL, "the other, peak MiB");
}

static void beside_two_writes(const struct bench *bench, char *const *ours)
{
    struct crew crew;
    crew_open(&crew, &bench->place);
    compare(bench, ours, "/proc/self/exe", crew_words(&crew, "two-writes", 0),
            "run x -- true / two writes by hand", AT_MOST(1.1), NO_GOAL);
    crew_close(&crew);
}

static void beside_flock(const struct bench *bench, char *const *ours)
{
    static char flock[] = "flock", file[PLACE_URI_MAX], command[] = "true";
    char *const other[] = {flock, file, command, NULL};
    place_raw_path(&bench->place, file);
    compare(bench, ours, flock, other, "run x -- true / flock x true", AT_MOST(2.5), AT_MOST(8));
}

void measure_process(const struct bench *bench)
{
    static char name[PLACE_NAME_MAX], owner[sizeof bench->place.prefix],
        holdfast[] = "holdfast", verb[] = "run", option[] = "--owner", end[] = "--",
        command[] = "true";
    char *const ours[] = {holdfast, verb, option, owner, name, end, command, NULL};
    strcpy(owner, bench->place.prefix); /* its sessions are found by that in the end */
    place_name(&bench->place, "run", name);
    if (!bench->command)
        table_note("needs the command: start this as `holdfast bench`", "run x -- true");
    else if (bench->place.kind == PLACE_MONGO)
        beside_two_writes(bench, ours);
    else if (bench->place.kind == PLACE_SQLITE)
        beside_flock(bench, ours);
    else
        table_note("needs a store that other processes see", "run x -- true");
}
