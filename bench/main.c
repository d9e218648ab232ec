/* SPDX-License-Identifier: Apache-2.0 */
/* main.c: holdfast-bench, which `holdfast bench` starts with the store in HOLDFAST_STORE: measures
 * part after part in a child, and removes what that has made there, however it ends. */
#include <argp.h>
#include <mongoc/mongoc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "crew.h"
#include "noise.h"
#include "raw.h"
#include "series.h"
#include "table.h"

/* The first one forks, and what we have in memory would count in its children. */
static const struct part {
    const char *name;
    part_fn *measure;
} parts[] = {
    {"process", measure_process},     {"pairs", measure_pairs}, {"threads", measure_threads},
    {"handover", measure_handover},   {"work", measure_work},   {"heartbeat", measure_heartbeat},
    {"recovery", measure_recovery},   {"crowd", measure_crowd}, {"waiting", measure_waiting},
    {"protocols", measure_protocols}, {"busy", measure_busy},   {"service", measure_service},
};
#define N_PARTS (sizeof parts / sizeof *parts)

/* What a worker process does. */
static const struct role {
    const char *name;
    role_fn *work;
} roles[] = {
    {"turns", role_turns}, {"poll", role_poll},       {"crowd", role_crowd},
    {"hold", role_hold},   {"wait", role_wait},       {"two-writes", role_two_writes},
    {"own", role_own},     {"foreign", role_foreign},
};

/* ---- Options ---- */

enum { KEY_JSON = 1000, KEY_ONLY, KEY_RUNS, KEY_SECONDS, KEY_CLIENTS };

#define PARTS                                                                                      \
    "process, pairs, threads, handover, work, heartbeat, recovery, crowd, waiting, protocols, "    \
    "busy, service"

static const struct argp_option list[] = {
    {"json", KEY_JSON, NULL, 0, "the rows as JSON on standard output, the table on standard error",
     0},
    {"only", KEY_ONLY, "PART,...", 0, "of " PARTS, 0},
    {"runs", KEY_RUNS, "N", 0, "measure each figure so often; default 5", 0},
    {"seconds", KEY_SECONDS, "N", 0, "how long the crowd takes its turns; default 20", 0},
    {"clients", KEY_CLIENTS, "N", 0, "so many wait at the service; default 10000", 0},
    {NULL, 0, NULL, 0, NULL, 0},
};

struct asked {
    struct bench bench;
    bool is_json;
    bool has[N_PARTS];
};

static void choose(struct asked *out, const char *names)
{
    for (size_t length; *names; names += length + (names[length] == ',')) {
        size_t i = 0;
        length = strcspn(names, ",");
        while (i < N_PARTS &&
               (strlen(parts[i].name) != length || strncmp(parts[i].name, names, length) != 0))
            i++;
        if (i == N_PARTS)
            fail(EX_DATAERR, names, "there is no such part; there are " PARTS);
        out->has[i] = true;
    }
}

static int number(const char *option, const char *text, long most)
{
    char *end;
    long value = strtol(text, &end, 10);
    if (*end || value < 1 || value > most) {
        char wanted[60];
        snprintf(wanted, sizeof wanted, "wants a whole number from 1 to %ld", most);
        fail(EX_DATAERR, option, wanted);
    }
    return (int)value;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct asked *out = state->input;
    switch (key) {
    case KEY_JSON:
        out->is_json = true;
        return 0;
    case KEY_ONLY:
        choose(out, arg);
        return 0;
    case KEY_RUNS:
        out->bench.runs = number("--runs", arg, 20);
        return 0;
    case KEY_SECONDS:
        out->bench.crowd_s = number("--seconds", arg, 3600);
        return 0;
    case KEY_CLIENTS:
        out->bench.clients = number("--clients", arg, 12000);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp bench_argp = {
    list, parse, "", "Measures Holdfast on the store that HOLDFAST_STORE names.", NULL, NULL, NULL};

/* ---- Measuring ---- */

static bool is_chosen(const struct asked *asked, size_t part)
{
    static const bool nothing[N_PARTS];
    return asked->has[part] || memcmp(asked->has, nothing, sizeof nothing) == 0;
}

static void measure(const struct asked *asked)
{
    raw_check_rights(&asked->bench.place);
    table_begin(asked->is_json);
    table_part("noise");
    noise_rows("before");
    for (size_t i = 0; i < N_PARTS; i++) {
        table_part(parts[i].name);
        if (is_chosen(asked, i))
            parts[i].measure(&asked->bench);
    }
    table_part("noise");
    noise_rows("after");
    table_part("notices");
    client_notices_rows(&asked->bench.place);
    table_end();
}

/* Without a word of the driver's to standard error. */
static void quiet(mongoc_log_level_t level, const char *domain, const char *message, void *ctx)
{
    (void)level;
    (void)domain;
    (void)message;
    (void)ctx;
}

/* Signals that would end this process are for the child; then there is still something to be
 * removed. */
static int await_child(pid_t child, const sigset_t *awaited)
{
    int status, number;
    for (sigwait(awaited, &number); number != SIGCHLD; sigwait(awaited, &number))
        kill(child, number);
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int measure_in_child(const struct asked *asked)
{
    sigset_t awaited, before;
    sigemptyset(&awaited);
    sigaddset(&awaited, SIGINT);
    sigaddset(&awaited, SIGTERM);
    sigaddset(&awaited, SIGHUP);
    sigaddset(&awaited, SIGQUIT);
    sigaddset(&awaited, SIGCHLD);
    sigprocmask(SIG_BLOCK, &awaited, &before);
    pid_t child = fork();
    if (child < 0)
        fail(EX_SOFTWARE, "fork", "no more processes");
    if (child == 0) {
        sigprocmask(SIG_SETMASK, &before, NULL);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        mongoc_init(); /* what is measured by hand opens no store */
        measure(asked);
        exit(0);
    }
    return await_child(child, &awaited);
}

static int work_as(const char *role, const char *board_fd, const char *number)
{
    mongoc_init();
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (strcmp(role, roles[i].name) == 0) {
            crew_work(roles[i].work, board_fd, number);
            return 0;
        }
    fail(EX_SOFTWARE, role, "there is no such role");
}

int main(int argc, char **argv)
{
    struct asked asked = {
        .bench = {
            .runs = 5, .crowd_s = 20, .clients = 10000, .command = getenv("HOLDFAST_COMMAND")}};
    mongoc_log_set_handler(quiet, NULL);
    if (argc == 5 && strcmp(argv[1], "worker") == 0)
        return work_as(argv[2], argv[3], argv[4]);
    argp_parse(&bench_argp, argc, argv, 0, NULL, &asked);
    const char *store = getenv("HOLDFAST_STORE");
    if (!store)
        fail(EX_USAGE, "HOLDFAST_STORE", "names no store");
    place_read(&asked.bench.place, store);
    int status = measure_in_child(&asked);
    mongoc_init();
    place_remove(&asked.bench.place);
    mongoc_cleanup();
    return status;
}
