/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_acquire.c: the verb acquire: takes a lock that a script holds over many commands, prints what
 * the script needs, and, if it is told for how long, leaves a keeper that renews the lease. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/run/ancestor.h"
#include "cli/run/granted.h"
#include "cli/run/interrupt.h"
#include "cli/run/keeper.h"
#include "cli/run/lock_args.h"
#include "cli/settings/options.h"
#include "cli/settings/owner.h"
#include "cli/settings/status.h"
#include "cli/settings/value.h"
#include "cli/terminal/terminal.h"
#include "show/json.h"
#include "show/text.h"
#include "verbs.h"

enum { KEY_WHY = 2000, KEY_OWNER, KEY_WHILE_PID, KEY_FOR };

typedef struct request {
    settings *given;
    lock_args lock_args;
    const char *name, *why, *owner;
    keeper keeper;
    bool is_kept;
    hf_lease lease;
} request;

/* ---- The words ---- */

static const struct argp_option list[] = {
    {"why", KEY_WHY, "TEXT", 0, "shown to those who wait", 0},
    {"owner", KEY_OWNER, "TEXT", 0, "shown as its holder, with this host; default: USER/holdfast",
     0},
    {"while-pid", KEY_WHILE_PID, "PID", 0, "renew it until this process ends; then release it", 0},
    {"for", KEY_FOR, "D", 0, "renew it for this long, then release it", 0},
    {NULL, 0, NULL, 0, NULL, 0},
};

/* ---- What is asked for ---- */

static bool is_for_shell;

/* Before the words are parsed: a wrong one ends the program. */
static bool asks_for_json(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "--json"))
            return true;
    return false;
}

/* If the lock is not granted, a shell that evaluates the output must neither go on nor use an
 * earlier lease. */
static void refuse_shell(int status, void *ctx)
{
    (void)ctx;
    if (status && is_for_shell && !isatty(STDOUT_FILENO))
        printf("unset HOLDFAST_LEASE HOLDFAST_TOKEN HOLDFAST_NAME\n(exit %d)\n", status);
}

static int open_pid(const char *text)
{
    int fd = pidfd_open((pid_t)value_number("--while-pid", text, 1, INT32_MAX), 0);
    if (fd < 0)
        value_refuse("--while-pid: process %s: %s", text, strerror(errno));
    return fd;
}

static error_t parse_keeper(int key, char *arg, request *req)
{
    switch (key) {
    case KEY_WHILE_PID:
        req->keeper.pid_fd = open_pid(arg);
        break;
    case KEY_FOR:
        req->keeper.for_ms = value_duration("--for", arg);
        if (!req->keeper.for_ms)
            value_refuse("--for: 0 is no time to hold a lock");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    req->is_kept = true;
    return 0;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    request *req = state->input;
    options_inherit(key, state, req->given);
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[1] = &req->lock_args;
        return 0;
    case KEY_WHY:
        req->why = arg;
        return 0;
    case KEY_OWNER:
        req->owner = owner_read(arg);
        return 0;
    case ARGP_KEY_ARG:
        options_take(&req->name, arg, "name", state);
        return 0;
    case ARGP_KEY_END:
        if (!req->name)
            argp_error(state, "which lock? Give its name");
        is_for_shell = !req->given->is_json;
        return 0;
    default:
        return parse_keeper(key, arg, req);
    }
}

static const struct argp_child children[] = {
    {&options_argp, 0, NULL, 0}, {&lock_args_argp, 0, NULL, 0}, {NULL, 0, NULL, 0}};

const struct argp acquire_argp = {
    list,
    parse,
    "NAME",
    "Takes a lock that no process holds, and prints lines for a shell: "
    "lease=$(holdfast acquire --while-pid $$ NAME) || exit; eval \"$lease\".\v"
    "Without --while-pid and --for it is not renewed: it ends after the ttl (--ttl), unless "
    "`holdfast renew` comes. `holdfast release` ends it.",
    children,
    NULL,
    NULL};

/* ---- Taking it ---- */

static void show_wait(void *ctx, const hf_wait_info *info)
{
    (void)ctx;
    terminal_wait(info);
}

static hf_code take(request *req, hf_client *client, hf_error *err)
{
    hf_lease_options options = {.struct_size = sizeof options,
                                .lock = {.mode = req->lock_args.mode,
                                         .permits = req->lock_args.permits,
                                         .limit = req->lock_args.limit,
                                         .sets_limit = req->lock_args.sets_limit,
                                         .wait_ms = req->lock_args.wait_ms,
                                         .why = req->why,
                                         .on_wait = terminal_shows_waits() ? show_wait : NULL},
                                .ttl_ms = options_ttl_ms(req->given),
                                .owner = req->owner};
    hf_code code = interrupt_begin(&options.lock.cancel, err);
    if (code)
        return code;
    ancestor_warn(client, &req->lock_args, req->name);
    code = hf_lease_acquire(client, req->name, &options, &req->lease, err);
    terminal_wait_end();
    return code;
}

static void tell(const request *req, hf_code code, const hf_error *err)
{
    const hf_lease *lease = &req->lease;
    if (!code)
        granted_note(req->name, lease->waited_ms, lease->token, &lease->previous);
    if (!code || code == HF_CANCELLED)
        return;
    if (hf_code_exit(code) == STATUS_NOT_ACQUIRED)
        terminal_warn("%s", err->text);
    else
        terminal_error("%s", err->text);
}

static int status_of(const request *req, hf_code code)
{
    int status = interrupt_status(code);
    return status == STATUS_NOT_ACQUIRED ? req->lock_args.refused_status : status;
}

static int acquire(request *req)
{
    hf_client *client;
    hf_error err = {0};
    const hf_options options = {.guardian = OPTIONS_GUARDIAN};
    int status = options_open(req->given, &options, &client);
    if (status)
        return status;
    hf_code code = take(req, client, &err);
    hf_close(client);
    tell(req, code, &err);
    return status_of(req, code);
}

/* ---- Telling it ---- */

/* For a shell: 'it'\''s' */
static void print_quoted(const char *name, const char *value)
{
    printf("export %s='", name);
    for (; *value; value++)
        printf("%s%c", *value == '\'' ? "'\\'" : "", *value);
    puts("'");
}

static void print_json(const request *req, pid_t keeper_pid)
{
    json_t *out = json_object_new();
    json_put_text(out, "lease", req->lease.id);
    json_put_text(out, "name", req->name);
    json_put_token(out, req->lease.token);
    json_put_number(out, "waited_ms", req->lease.waited_ms);
    json_put_number(out, "expires_in_ms", req->lease.left_ms);
    if (keeper_pid)
        json_put_number(out, "keeper", keeper_pid);
    json_print(out);
    json_decref(out);
}

/* Returns whether the report was read. */
static bool print(const request *req, pid_t keeper_pid)
{
    if (req->given->is_json) {
        print_json(req, keeper_pid);
    } else {
        printf("export HOLDFAST_LEASE=%s\n", req->lease.id);
        if (req->lease.token)
            printf("export HOLDFAST_TOKEN=%" PRId64 "\n", req->lease.token);
        else
            puts("unset HOLDFAST_TOKEN"); /* the protocol has none */
        print_quoted("HOLDFAST_NAME", req->name);
    }
    if (!fflush(stdout))
        return true;
    terminal_error("cannot write to standard output: %s; the lock is released", strerror(errno));
    return false;
}

static int release(const request *req)
{
    hf_client *client;
    if (!options_open(req->given, NULL, &client)) {
        hf_lease_release(client, req->lease.id, NULL);
        hf_close(client);
    }
    return STATUS_OUTPUT;
}

/* ---- With a keeper ---- */

/* The keeper takes the lease itself, because a client does not outlive a fork. It dies with its
 * parent until it has reported the lease; then the parent ends. If the parent has already died,
 * nobody reads the report. */
static void keep(request *req, int to_parent)
{
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    int status = acquire(req);
    prctl(PR_SET_PDEATHSIG, 0);
    bool is_told = status == 0 &&
                   write(to_parent, &req->lease, sizeof req->lease) == (ssize_t)sizeof req->lease;
    close(to_parent);
    if (status)
        _exit(status);
    keeper_detach();
    if (is_told)
        keeper_run(&req->keeper, &req->lease);
    else
        release(req);
    _exit(0);
}

static bool read_all(int from, void *to, size_t size)
{
    size_t had = 0;
    ssize_t n = 1;
    while (had < size && (n > 0 || (n < 0 && errno == EINTR))) {
        n = read(from, (char *)to + had, size - had);
        had += n > 0 ? (size_t)n : 0;
    }
    return had == size;
}

static int hear(request *req, pid_t keeper_pid, int from_keeper)
{
    int status;
    if (!read_all(from_keeper, &req->lease, sizeof req->lease)) {
        if (waitpid(keeper_pid, &status, 0) < 0)
            return STATUS_INTERNAL;
        return WIFEXITED(status) ? WEXITSTATUS(status) : STATUS_SIGNAL + WTERMSIG(status);
    }
    if (!interrupt_signal() && print(req, keeper_pid))
        return 0;
    kill(keeper_pid, SIGTERM);
    waitpid(keeper_pid, &status, 0); /* until it has released the lock */
    return interrupt_signal() ? STATUS_SIGNAL + interrupt_signal() : STATUS_OUTPUT;
}

/* A signal that ends the wait must not end this process before it has told the shell. */
static pid_t fork_heard(void)
{
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before);
    pid_t pid = fork();
    if (pid > 0)
        interrupt_pass_on(pid);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return pid;
}

static int acquire_kept(request *req)
{
    int fds[2];
    signal(SIGPIPE, SIG_IGN);
    pid_t pid = pipe(fds) ? -1 : fork_heard();
    if (pid < 0) {
        terminal_error("cannot start a keeper: %s", strerror(errno));
        return STATUS_INTERNAL;
    }
    close(fds[pid ? 1 : 0]);
    if (!pid)
        keep(req, fds[1]);
    return hear(req, pid, fds[0]);
}

int cmd_acquire(settings *given, int argc, char **argv)
{
    request req = {.given = given, .lock_args = LOCK_ARGS_DEFAULT, .keeper = {given, -1, 0}};
    req.lock_args.least_status = 1; /* with 0 the script would go on without the lock */
    is_for_shell = !given->is_json && !asks_for_json(argc, argv);
    on_exit(refuse_shell, NULL);
    argp_parse(&acquire_argp, argc, argv, 0, NULL, &req);
    lock_args_settle(&req.lock_args, given);
    if (req.is_kept)
        return acquire_kept(&req);
    int status = acquire(&req);
    return status || print(&req, 0) ? status : release(&req);
}
