/* SPDX-License-Identifier: Apache-2.0 */
/* main.c: the table of verbs, and the choice of one. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/run/init.h"
#include "cli/settings/guardian.h"
#include "cli/settings/options.h"
#include "cli/settings/status.h"
#include "cli/terminal/terminal.h"
#include "cli/verbs/verbs.h"
#include "show/text.h"

static verb_fn help, version, complete;

static const struct argp help_argp = {.args_doc = "[VERB]"};

static const verb verbs[] = {
    {"run", "run a command under one or more locks", cmd_run, &run_argp},
    {"elect", "run a command while leader; or follow who leads", cmd_elect, &elect_argp},
    {"acquire", "take a lock that a script holds over many commands", cmd_acquire, &acquire_argp},
    {"renew", "renew the lease of a lock that was acquired", cmd_renew, &renew_argp},
    {"release", "release a lock that was acquired", cmd_release, &release_argp},
    {"list", "list locks: who holds them, who waits", cmd_list, &list_argp},
    {"show", "show one lock: holders, queue, how it was left", cmd_show, &show_argp},
    {"why", "say why a lock is waited for: from its holder to the root", cmd_why, &why_argp},
    {"history", "say who had a lock lately, and how that ended", cmd_history, &history_argp},
    {"watch", "follow locks on the screen, or as events", cmd_watch, &watch_argp},
    {"sessions", "list the processes that hold or wait", cmd_sessions, &sessions_argp},
    {"break", "take a lock from its holders", cmd_break, &break_argp},
    {"unlock-all", "unlock what a process that is gone has left locked", cmd_unlock_all,
     &unlock_all_argp},
    {"doctor", "check what the locks depend on", cmd_doctor, &doctor_argp},
    {"bench", "measure how fast locks are on the store", cmd_bench, &bench_argp},
    {"serve", "serve locks over HTTP", cmd_serve, &serve_argp},
    {"config", "show the settings, and where each one comes from", cmd_config, &config_argp},
    {"help", "say how a command is used", help, &help_argp},
    {"version", NULL, version, NULL},
    {"complete", NULL, complete, NULL},
    {"guardian", NULL, cmd_guardian, NULL},
    {NULL, NULL, NULL, NULL},
};

const char *argp_program_version = "holdfast " HF_VERSION;

typedef struct words {
    settings given;
    int n;
    char **verb; /* the verb and what follows it */
} words;

static error_t parse(int key, char *arg, struct argp_state *state)
{
    words *all = state->input;
    options_inherit(key, state, &all->given);
    (void)arg;
    if (key != ARGP_KEY_ARG)
        return key == ARGP_KEY_INIT ? 0 : ARGP_ERR_UNKNOWN;
    all->verb = &state->argv[state->next - 1];
    all->n = state->argc - state->next + 1;
    state->next = state->argc;
    return 0;
}

/* Prints the verbs below the options. */
static char *with_verbs(int key, const char *text, void *ctx)
{
    (void)ctx;
    if (key != ARGP_KEY_HELP_POST_DOC)
        return (char *)(uintptr_t)text;
    char *out = text_copy("Commands:\n");
    for (const verb *v = verbs; v->name; v++) {
        char *longer =
            v->help ? text_print("%s  %-12s%s\n", out, v->name, v->help) : text_copy(out);
        free(out);
        out = longer;
    }
    char *whole =
        text_print("%s\nholdfast COMMAND --help says more of each; so does holdfast(1).", out);
    free(out);
    return whole;
}

static const struct argp main_argp = {
    NULL,
    parse,
    "COMMAND [ARG...]",
    "Distributed locks, kept in a database that you already run.\v ",
    options_children,
    with_verbs,
    NULL};

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* How many letters must be added, dropped or changed to make b of a; both are short. */
static size_t distance(const char *a, const char *b)
{
    if (!*a || !*b)
        return strlen(a) + strlen(b);
    if (*a == *b)
        return distance(a + 1, b + 1);
    return 1 + least(distance(a + 1, b + 1), least(distance(a + 1, b), distance(a, b + 1)));
}

static bool is_near(const char *word, const char *name)
{
    size_t n = strlen(word);
    return n <= 10 && n > 1 && (!strncmp(word, name, n) || distance(word, name) <= 2);
}

/* What other tools call it. */
static const char *known_as(const char *word)
{
    static const char *const others[][2] = {{"exec", "run"},       {"lock", "acquire"},
                                            {"unlock", "release"}, {"ls", "list"},
                                            {"status", "list"},    {"ps", "sessions"}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(word, others[i][0]) == 0)
            return others[i][1];
    return NULL;
}

static int unknown(const char *word)
{
    const char *meant = known_as(word);
    for (const verb *v = verbs; v->name && !meant; v++)
        if (v->help && is_near(word, v->name))
            meant = v->name;
    if (meant)
        terminal_error("there is no command \"%s\"; do you mean \"%s\"?", word, meant);
    else
        terminal_error("there is no command \"%s\"; \"holdfast help\" lists them", word);
    return STATUS_USAGE;
}

static int run_verb(const verb *v, settings *given, int argc, char **argv)
{
    char *name = text_print("holdfast %s", v->name);
    argv[0] = name;
    given->is_verb = true;
    int status = v->run(given, argc, argv);
    free(name);
    return status;
}

/* "help VERB" is "VERB --help"; "help --help" is "help". */
static int help(settings *given, int argc, char **argv)
{
    bool asks_for_verb = argc > 1 && argv[1][0] != '-';
    const verb *v = asks_for_verb ? verb_named(verbs, argv[1]) : NULL;
    if (asks_for_verb && !v)
        return unknown(argv[1]);
    char ask[] = "--help", program[] = "holdfast";
    char *asked[] = {program, ask, NULL};
    if (v && v->help && v->run != help)
        return run_verb(v, given, 2, asked);
    words none = {0};
    argp_parse(&main_argp, 2, asked, ARGP_IN_ORDER, NULL, &none);
    return 0;
}

static int version(settings *given, int argc, char **argv)
{
    (void)given;
    (void)argc;
    (void)argv;
    puts(argp_program_version);
    return 0;
}

static int complete(settings *given, int argc, char **argv)
{
    return cmd_complete(verbs, &main_argp, given, argc, argv);
}

/* A file or a connection to the store must not become standard input or output where that is
 * closed: the next message would be written into it. What is opened instead fails as a closed one
 * does, and the command that runs finds it closed. */
static void guard_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            open("/dev/null", (fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
}

/* Runs at exit, because argp exits by itself after --help and --version. */
static void write_output(int status, void *ctx)
{
    (void)ctx;
    if (!fflush(stdout) && !ferror(stdout))
        return;
    terminal_error("cannot write the output");
    _exit(status ? status : STATUS_OUTPUT);
}

int main(int argc, char **argv)
{
    char program[] = "holdfast";
    words all = {0};
    init_tend();
    guardian_note_words(argc, argv);
    if (argc > 0)
        argv[0] = program;
    guard_streams();
    text_init();
    on_exit(write_output, NULL);
    argp_parse(&main_argp, argc, argv, ARGP_IN_ORDER, NULL, &all);
    if (!all.verb) {
        argp_help(&main_argp, stderr, ARGP_HELP_STD_HELP, program);
        return STATUS_USAGE;
    }
    const verb *v = verb_named(verbs, all.verb[0]);
    return v ? run_verb(v, &all.given, all.n, all.verb) : unknown(all.verb[0]);
}
