/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_run.c: the verb run: takes locks, runs a command under them, and answers with its status. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "document.h"
#include "health.h"
#include "once.h"
#include "options.h"
#include "run.h"
#include "terminal.h"
#include "text.h"

#define MOST_NAME_BYTES 512
#define MOST_APP_BYTES 64
#define LEAST_MARGIN_MS 50
#define MOST_DEFAULT_GRACE_MS 5000

extern char **environ;

/* ---- The words ---- */

enum { KEY_PERMITS = 2000, KEY_LIMIT, KEY_WHY, KEY_LOST_CODE, KEY_GRACE };

static const struct argp_option list[] = {
    {"no-wait", 'n', NULL, 0, "give up at once if it is held", 0},
    {"wait", 'w', "D", 0, "give up after this long; default: never (protocol ttl: 10s)", 0},
    {"shared", 's', NULL, 0, "hold it together with others that share it", 0},
    {"exclusive", 'x', NULL, 0, "hold it alone; the default", 0},
    {"permits", KEY_PERMITS, "K", 0, "a semaphore: take K permits ...", 0},
    {"limit", KEY_LIMIT, "N", 0, "... of N", 0},
    {"why", KEY_WHY, "TEXT", 0, "shown to those who wait", 0},
    {"conflict-exit-code", 'E', "CODE", 0, "the exit status if it was not acquired; default 75", 0},
    {"lost-code", KEY_LOST_CODE, "CODE", 0, "the exit status if a lock was lost; default 76", 0},
    {"grace", KEY_GRACE, "D", 0,
     "from SIGTERM to SIGKILL when a lock is lost; default: a quarter of the ttl, at most 5s", 0},
    {NULL, 0, NULL, 0, NULL, 0},
};

typedef struct words {
    plan plan;
    document_words document;
    once_words once;
    health_words health;
    bool has_try, has_wait, is_shared, is_exclusive;
} words;

/* Before "--" a name, after it the command. */
static void take_word(plan *p, char *word, struct argp_state *state)
{
    if (state->quoted > 0 && state->next > state->quoted) {
        p->command = &state->argv[state->next - 1];
        state->next = state->argc;
    } else {
        p->names[p->n_names++] = word;
    }
}

static void check_usage(words *w, struct argp_state *state)
{
    bool is_exclusive = !w->is_shared && !w->plan.permits && !w->plan.limit;
    document_check_usage(&w->document, w->plan.n_names, is_exclusive, state);
    once_check_usage(&w->once, w->plan.n_names, is_exclusive, state);
    health_check_usage(&w->health, state);
    if (w->has_try && w->has_wait)
        argp_error(state, "-n and -w exclude each other");
    if (w->is_shared && w->is_exclusive)
        argp_error(state, "-s and -x exclude each other");
    if (!w->plan.permits != !w->plan.limit)
        argp_error(state, "--permits and --limit belong together");
    if (w->plan.permits && (w->is_shared || w->is_exclusive))
        argp_error(state, "a semaphore (--permits) is neither shared nor exclusive");
    if (!w->plan.n_names && !w->document.collection)
        argp_error(state, "which lock? Give its name before --");
    if (!w->plan.command)
        argp_error(state, "which command? Give it after --");
}

static error_t parse_rest(int key, char *arg, struct argp_state *state)
{
    words *w = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        w->plan.names = text_alloc((size_t)state->argc * sizeof *w->plan.names);
        state->child_inputs[1] = &w->document;
        state->child_inputs[2] = &w->once;
        state->child_inputs[3] = &w->health;
        return 0;
    case ARGP_KEY_ARG:
        take_word(&w->plan, arg, state);
        return 0;
    case ARGP_KEY_END:
        check_usage(w, state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse_value(int key, char *arg, struct argp_state *state)
{
    plan *p = &((words *)state->input)->plan;
    switch (key) {
    case KEY_PERMITS:
        p->permits = (int32_t)options_number("--permits", arg, 1, HF_LIMIT_RW - 1);
        return 0;
    case KEY_LIMIT:
        p->limit = (int32_t)options_number("--limit", arg, 1, HF_LIMIT_RW - 1);
        return 0;
    case KEY_WHY:
        p->why = arg;
        return 0;
    case 'E':
        p->refused_status = (int)options_number("-E", arg, 0, 255);
        return 0;
    case KEY_LOST_CODE:
        p->lost_status = (int)options_number("--lost-code", arg, 0, 255);
        return 0;
    case KEY_GRACE:
        p->grace_ms = options_duration("--grace", arg);
        return 0;
    default:
        return parse_rest(key, arg, state);
    }
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    words *w = state->input;
    options_inherit(key, state, w->plan.given);
    switch (key) {
    case 'n':
        w->has_try = true;
        w->plan.wait_ms = HF_TRY;
        return 0;
    case 'w':
        w->has_wait = true;
        w->plan.wait_ms = options_duration("-w", arg);
        w->plan.wait_ms = w->plan.wait_ms ? w->plan.wait_ms : HF_TRY;
        return 0;
    case 's':
        w->is_shared = true;
        w->plan.mode = HF_SHARED;
        return 0;
    case 'x':
        w->is_exclusive = true;
        return 0;
    default:
        return parse_value(key, arg, state);
    }
}

static const struct argp_child children[] = {{&options_argp, 0, NULL, 0},
                                             {&document_argp, 0, NULL, 0},
                                             {&once_argp, 0, NULL, 0},
                                             {&health_argp, 0, NULL, 0},
                                             {0}};

static const struct argp run_argp = {
    list,
    parse,
    "NAME... -- COMMAND [ARG...]\n--document COLLECTION -- COMMAND [ARG...]",
    "Runs a command while it holds the locks, and exits with the command's status.\v"
    "Exit status: the command's own, or 128 and the number of the signal that ended it; 75 not "
    "acquired (-E), 76 lost and the command stopped (--lost-code), 69 store, 64 usage, 65 bad name "
    "or value, 126 the command cannot be executed, 127 there is no such command. With --each: 0, "
    "or "
    "the first failing command's. With --once-per: 0 (--skip-code) if it has run already.",
    children,
    NULL,
    NULL};

/* ---- The plan ---- */

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The library says so, too, but only when it comes to that name, which may be hours later. */
static void check_name(const char *name)
{
    if (!*name)
        options_bad_value("a lock's name must not be empty");
    if (strlen(name) > MOST_NAME_BYTES)
        options_bad_value("the name \"%.32s...\" is too long: %zu bytes, at most %d are taken",
                          name, strlen(name), MOST_NAME_BYTES);
    if (!text_is_utf8(name))
        options_bad_value("the name \"%s\" is not UTF-8", name);
}

static void check_names(const plan *p)
{
    if (p->document)
        return;
    qsort(p->names, p->n_names, sizeof *p->names, by_bytes);
    for (size_t i = 0; i < p->n_names; i++) {
        check_name(p->names[i]);
        if (i && !strcmp(p->names[i], p->names[i - 1]))
            options_bad_value("the name \"%s\" is given twice", p->names[i]);
    }
}

/* Grace, kill and margin must fit into the notice that comes before the lease ends (R7). */
static void check_grace(plan *p)
{
    int64_t ttl = p->given->ttl_ms;
    int64_t standard = ttl / 4 < MOST_DEFAULT_GRACE_MS ? ttl / 4 : MOST_DEFAULT_GRACE_MS;
    p->margin_ms = ttl / 20 > LEAST_MARGIN_MS ? ttl / 20 : LEAST_MARGIN_MS;
    if (p->grace_ms < 0)
        p->grace_ms = standard;
    if (p->grace_ms + p->margin_ms > ttl / 2)
        options_bad_value("--grace: %" PRId64 "ms does not fit a ttl of %" PRId64
                          "ms, in which the command must have stopped: at most %" PRId64 "ms",
                          p->grace_ms, ttl, ttl / 2 - p->margin_ms);
}

/* ---- Running it ---- */

/* In listings the command stands for holdfast. */
static const char *app_of(const plan *p)
{
    const char *slash = strrchr(p->command[0], '/');
    const char *name = slash ? slash + 1 : p->command[0];
    bool is_fit = *name && strlen(name) <= MOST_APP_BYTES && text_is_utf8(name);
    return is_fit ? name : NULL;
}

static char *joined(const char *variable, const plan *p, hf_lock **locks, bool is_token)
{
    char *out = text_print("%s=", variable);
    for (size_t i = 0; i < p->n_names; i++) {
        int64_t number = hf_lock_token(locks[i]);
        char *token = number ? text_print("%" PRId64, number) : text_copy("");
        const char *name = hf_lock_name(locks[i]);
        char *longer = text_print("%s%s%s", out, i ? "\n" : "", is_token ? token : name);
        free(token);
        free(out);
        out = longer;
    }
    return out;
}

/* Those that a command gets; inherited ones are another run's. */
static const char *const variables[] = {"HOLDFAST_NAME", "HOLDFAST_TOKEN", "HOLDFAST_DOCUMENT_ID"};
#define N_VARIABLES (sizeof variables / sizeof *variables)

static bool is_variable(const char *entry)
{
    for (size_t i = 0; i < N_VARIABLES; i++) {
        size_t n = strlen(variables[i]);
        if (!strncmp(entry, variables[i], n) && entry[n] == '=')
            return true;
    }
    return false;
}

static size_t n_own(const plan *p)
{
    return p->document ? N_VARIABLES : N_VARIABLES - 1;
}

/* This process's environment with the variables, which stand first. */
static char **environment_of(const plan *p, hf_lock **locks)
{
    size_t n = 0, kept = n_own(p);
    while (environ && environ[n])
        n++;
    char **out = text_alloc((n + N_VARIABLES + 1) * sizeof *out);
    for (size_t i = 0; i < kept; i++)
        out[i] = joined(variables[i], p, locks, i == 1);
    for (size_t i = 0; i < n; i++)
        if (!is_variable(environ[i]))
            out[kept++] = environ[i];
    return out;
}

static void free_environment(const plan *p, char **environment)
{
    for (size_t i = 0; i < n_own(p); i++)
        free(environment[i]);
    free(environment);
}

static void note_taken(const plan *p, hf_lock **locks)
{
    for (size_t i = 0; i < p->n_names; i++) {
        hf_last before = hf_lock_previous(locks[i]);
        char *token = text_token(hf_lock_token(locks[i]));
        terminal_note("have \"%s\" after %" PRId64 "ms%s", hf_lock_name(locks[i]),
                      hf_lock_waited_ms(locks[i]), token);
        free(token);
        if (before.outcome != HF_OUTCOME_ABANDONED)
            continue;
        char *when = text_when(before.at_ms);
        terminal_note(
            "\"%s\" was abandoned by %s, token %" PRId64 ", at %s: look what it left half "
            "done",
            hf_lock_name(locks[i]), *before.who ? before.who : "its holder", before.token, when);
        free(when);
    }
}

static int failed_start(const plan *p, int number)
{
    terminal_error("cannot run \"%s\": %s", p->command[0], strerror(number));
    return number == ENOENT ? STATUS_NOT_FOUND : STATUS_NOT_EXECUTABLE;
}

/* What came of one run of the command, or of not getting to it. */
typedef struct turn {
    hf_code code; /* of taking the locks */
    int status;
    bool has_run, is_lost, is_over; /* over: asked to end, or the command cannot be started */
} turn;

static void run_command(const plan *p, hf_client *client, signals *events, hf_lock **locks,
                        turn *out)
{
    child started;
    char **environment = environment_of(p, locks);
    int input = p->document ? document_input(locks[0]) : -1;
    int keep_fd = hf_client_keep_fd(client);
    int failed = p->document && input < 0
                     ? EIO
                     : child_start(&started, p->command, environment, input, events);
    if (keep_fd >= 0)
        close(keep_fd);
    if (input >= 0)
        close(input);
    out->has_run = !failed;
    out->is_lost = failed ? false : watch_run(p, locks, &started, environment, events);
    free_environment(p, environment);
    out->is_over = failed || started.asked_to_end;
    out->status = failed ? failed_start(p, failed) : started.status;
    if (!p->document || input >= 0)
        child_done(&started);
}

/* A lock that was lost is left, too, now that the work has stopped. Once per period: where the
 * command was not run, nothing is said of it, and another may run it. */
static void release_all(const plan *p, hf_lock **locks, const turn *how)
{
    for (size_t i = 0; i < p->n_names; i++) {
        hf_error err = {0};
        if (how->has_run || !p->once)
            hf_lock_set_exit_status(locks[i], how->status);
        if (!how->is_lost && hf_lock_release(locks[i], &err))
            terminal_warn("\"%s\" was not released: %s", hf_lock_name(locks[i]), err.text);
        hf_lock_close(locks[i]);
    }
}

static int refused(const plan *p, hf_code code, int signal, const hf_error *err)
{
    bool has_none = code == HF_NOT_FOUND && p->document && !p->document->id;
    bool is_refusal = has_none || hf_code_exit(code) == STATUS_NOT_ACQUIRED;
    if (code == HF_CANCELLED && signal)
        return STATUS_SIGNAL + signal;
    if (is_refusal)
        terminal_warn("%s", err->text);
    else
        terminal_error("%s", err->text);
    return is_refusal ? p->refused_status : hf_code_exit(code);
}

/* That no document is left is how --each ends. */
static bool is_the_end(const plan *p, hf_code code)
{
    return p->round && (code == HF_NOT_FOUND || code == HF_TIMEOUT);
}

static void run_taken(const plan *p, hf_client *client, signals *events, hf_lock **locks, turn *out)
{
    if (p->round && !document_is_new(p->round, p, locks[0])) {
        hf_lock_close(locks[0]);
        return;
    }
    if (p->once && once_skips(p->once, locks[0])) {
        release_all(p, locks, out);
        out->status = p->once->skip_status > 0 ? p->once->skip_status : 0;
        return;
    }
    note_taken(p, locks);
    run_command(p, client, events, locks, out);
    if (p->round && (out->status || out->is_lost))
        document_failed(p->round, p, locks[0]);
    release_all(p, locks, out);
    if (out->is_lost)
        out->status = p->lost_status;
}

static turn run_locked(const plan *p, hf_client *client, signals *events)
{
    hf_lock **locks = text_alloc(p->n_names * sizeof *locks);
    hf_error err = {0};
    turn out = {0};
    int signal = 0;
    out.code = taking_run(p, client, events, locks, &signal, &err);
    if (!out.code)
        run_taken(p, client, events, locks, &out);
    else if (!is_the_end(p, out.code))
        out.status = refused(p, out.code, signal, &err);
    free(locks);
    return out;
}

/* One document after the other; the first status that is not 0. */
static int run_each(plan *p, hf_client *client, signals *events)
{
    document_round round = {0};
    int first = 0;
    turn each;
    p->round = &round;
    do {
        each = run_locked(p, client, events);
        first = first ? first : each.status;
    } while (!each.code && !each.is_over);
    document_round_done(&round);
    return first;
}

static int run_plan(plan *p)
{
    hf_client *client = NULL;
    hf_options options = {.notice_ms = p->grace_ms + p->margin_ms, .app = app_of(p)};
    signals events;
    int failed = signals_open(&events);
    if (failed) {
        terminal_error("cannot take signals as events: %s", strerror(failed));
        return STATUS_INTERNAL;
    }
    int status = options_open(p->given, &options, &client);
    if (!status)
        status = p->document && p->document->is_each ? run_each(p, client, &events)
                                                     : run_locked(p, client, &events).status;
    hf_close(client);
    close(events.fd);
    return status;
}

static void plan_document(words *w)
{
    plan *p = &w->plan;
    p->document = &w->document;
    p->n_names = 1; /* which has none yet */
    p->given->collection = w->document.collection;
    if (w->document.is_each && !w->has_try && !w->has_wait)
        p->wait_ms = HF_TRY;
}

int cmd_run(settings *given, int argc, char **argv)
{
    words w = {.plan = {.given = given,
                        .wait_ms = HF_WAIT_DEFAULT,
                        .refused_status = STATUS_NOT_ACQUIRED,
                        .lost_status = STATUS_LOST,
                        .grace_ms = -1}};
    argp_parse(&run_argp, argc, argv, ARGP_IN_ORDER, NULL, &w);
    if (w.document.collection)
        plan_document(&w);
    w.plan.health = &w.health;
    if (w.once.period_ms)
        w.plan.once = &w.once;
    check_names(&w.plan);
    check_grace(&w.plan);
    int status = run_plan(&w.plan);
    free(w.plan.names);
    return status;
}
