/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_bench.c: the verb bench: becomes the program holdfast-bench, which stands beside this one
 * where both were built, and under libexec where they are installed; it gets the store and this
 * program's path in the environment. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/settings/options.h"
#include "cli/settings/status.h"
#include "cli/terminal/terminal.h"
#include "show/text.h"
#include "verbs.h"

#define PROGRAM "holdfast-bench"

enum { KEY_ONLY = 2000, KEY_RUNS, KEY_SECONDS, KEY_CLIENTS, N_KEYS = 4 };

typedef struct asked {
    settings *given;
    char *words[N_KEYS + 3]; /* of the program's */
    size_t n;
} asked;

static const struct argp_option list[] = {
    {"only", KEY_ONLY, "PART,...", 0,
     "measure these parts only: pairs, threads, handover, work, heartbeat, recovery, crowd, "
     "waiting, process, protocols, busy, service",
     0},
    {"runs", KEY_RUNS, "N", 0, "how often to measure each figure: 1 to 20, default 5", 0},
    {"seconds", KEY_SECONDS, "N", 0, "how long the crowd takes its turns; default 20", 0},
    {"clients", KEY_CLIENTS, "N", 0, "so many wait at the service; default 10000", 0},
    {NULL, 0, NULL, 0, NULL, 0},
};

/* The last of several options counts, as elsewhere. */
static void pass_on(asked *a, const char *option, const char *value)
{
    char *word = text_print("--%s=%s", option, value);
    size_t known = strlen(option) + 3, i = 1;
    while (i < a->n && strncmp(a->words[i], word, known) != 0)
        i++;
    free(a->words[i]);
    a->words[i] = word;
    if (i == a->n)
        a->n++;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    asked *a = state->input;
    options_inherit(key, state, a->given);
    for (const struct argp_option *option = list; option->name; option++)
        if (option->key == key) {
            pass_on(a, option->name, arg);
            return 0;
        }
    return key == ARGP_KEY_INIT ? 0 : ARGP_ERR_UNKNOWN;
}

const struct argp bench_argp = {
    list,
    parse,
    "",
    "Measures how fast locks are on the store, and in the same run how fast writes by hand are. It "
    "uses names of its own, and removes them at the end. All parts together take about ten minutes "
    "and keep the store busy.",
    options_children,
    NULL,
    NULL};

/* The folder that this program stands in, in new memory. */
static char *own_folder(const char *own)
{
    char *folder = text_copy(own);
    char *slash = strrchr(folder, '/');
    if (slash)
        *slash = '\0';
    return folder;
}

static char *find_program(const char *own)
{
    char *folder = own_folder(own);
    char *path = text_print("%s/" PROGRAM, folder);
    if (access(path, X_OK) != 0) {
        free(path);
        path = text_print("%s/" BIN_TO_LIBEXEC "/holdfast/" PROGRAM, folder);
    }
    free(folder);
    return path;
}

/* Returns only when it fails. */
static int become(asked *a, char *store)
{
    char own[4096];
    ssize_t n = readlink("/proc/self/exe", own, sizeof own - 1);
    own[n > 0 ? n : 0] = '\0';
    char *path = find_program(own);
    setenv("HOLDFAST_STORE", store, 1);
    setenv("HOLDFAST_COMMAND", own, 1);
    setenv("HOLDFAST_CONFIG", "/dev/null", 1); /* what it starts must follow its own options */
    setenv("MONGOC_DISABLE_SHM", "1", 0); /* else the driver warns of what killed processes left */
    execv(path, a->words);
    terminal_error("cannot start the benchmark %s: %s", path, strerror(errno));
    free(path);
    return STATUS_NOT_FOUND;
}

int cmd_bench(settings *given, int argc, char **argv)
{
    asked a = {.given = given, .words = {text_copy(PROGRAM)}, .n = 1};
    argp_parse(&bench_argp, argc, argv, 0, NULL, &a);
    if (given->is_json)
        a.words[a.n++] = text_copy("--json");
    char *store = options_store(given);
    int status = store ? become(&a, store) : STATUS_STORE;
    for (size_t i = 0; i < a.n; i++)
        free(a.words[i]);
    free(store);
    return status;
}
