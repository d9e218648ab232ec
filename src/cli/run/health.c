/* SPDX-License-Identifier: Apache-2.0 */
/* health.c: `holdfast run --health-cmd`: checks from time to time whether the command is healthy,
 * and feeds its locks only then. A thread of the library checks that they are fed. */
#include "health.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/settings/value.h"
#include "cli/terminal/terminal.h"
#include "clock.h"

#define DEFAULT_INTERVAL_MS 10000
#define LEAST_INTERVAL_MS                                                                          \
    1000             /* while it waits for further locks they are fed as often as that             \
                      */
#define REAP_MS 1000 /* at the end: for one that was killed */
#define LOOK_MS 10
#define INTERVALS 3 /* without a success, until the command counts as stuck */

/* ---- The words ---- */

enum { KEY_COMMAND = 5000, KEY_INTERVAL, KEY_MAX_HOLD };

static const struct argp_option list[] = {
    {NULL, 0, NULL, 0, "Stopping a command that is stuck, as when its lock is lost:", 45},
    {"health-cmd", KEY_COMMAND, "CMD", 0,
     "run this with /bin/sh from time to time; three intervals without a success stop the command",
     45},
    {"health-interval", KEY_INTERVAL, "D", 0, "how often; default 10s", 45},
    {"max-hold", KEY_MAX_HOLD, "D", 0, "stop the command after it has held the lock for this long",
     45},
    {NULL, 0, NULL, 0, NULL, 0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    health_words *w = state->input;
    switch (key) {
    case KEY_COMMAND:
        w->command = arg;
        return 0;
    case KEY_INTERVAL:
        w->interval_ms = value_duration("--health-interval", arg);
        if (w->interval_ms < LEAST_INTERVAL_MS)
            value_refuse("--health-interval: %s is too short: at least 1s", arg);
        return 0;
    case KEY_MAX_HOLD:
        w->max_hold_ms = value_duration("--max-hold", arg);
        if (!w->max_hold_ms)
            value_refuse("--max-hold: %s leaves no time to work", arg);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

const struct argp health_argp = {list, parse, NULL, NULL, NULL, NULL, NULL};

void health_check_usage(health_words *w, struct argp_state *state)
{
    if (w->interval_ms && !w->command)
        argp_error(state, "--health-interval belongs to --health-cmd");
    if (!w->interval_ms)
        w->interval_ms = DEFAULT_INTERVAL_MS;
}

/* ---- Feeding ---- */

int64_t health_feed_ms(const health_words *w)
{
    return w->command ? INTERVALS * w->interval_ms : 0;
}

/* A lost lock is no longer fed; the watch over the locks notices the loss. */
void health_feed(const health_words *w, hf_lock **locks, size_t n)
{
    for (size_t i = 0; w->command && i < n && locks[i]; i++)
        hf_lock_feed(locks[i], NULL);
}

/* ---- One check ---- */

/* In the child: only what is safe in a copy of a program with threads. */
static void become(const health *h, pid_t parent)
{
    const char *const words[] = {"sh", "-c", h->words->command, NULL};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(128 + SIGKILL);
    setpgid(0, 0);
    int null = open("/dev/null", O_RDWR);
    dup2(null, STDIN_FILENO);
    dup2(null, STDOUT_FILENO);
    signals_restore(h->events);
    execve("/bin/sh", (char *const *)words, h->environment);
    _exit(127);
}

static void start(health *h)
{
    pid_t parent = getpid();
    h->is_killed = false;
    h->pid = fork();
    if (h->pid == 0)
        become(h, parent);
    if (h->pid > 0)
        setpgid(h->pid, h->pid);
    else
        terminal_warn("cannot run the health command: %s", strerror(errno));
    h->pid = h->pid > 0 ? h->pid : 0;
}

static void judge(const health *h, int status)
{
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        health_feed(h->words, h->locks, h->n);
    else if (WIFEXITED(status))
        terminal_warn("the health command failed with exit status %d", WEXITSTATUS(status));
    else
        terminal_warn("the health command was ended by signal %d", WTERMSIG(status));
}

/* Does not wait for it: it can hang where no signal reaches it. */
static void kill_check(health *h)
{
    h->is_killed = true;
    kill(-h->pid, SIGKILL);
}

static bool has_ended(health *h, int *status)
{
    if (!h->pid || waitpid(h->pid, status, WNOHANG) != h->pid)
        return false;
    h->pid = 0;
    return true;
}

void health_look(health *h)
{
    int status;
    if (!has_ended(h, &status))
        return;
    if (!h->is_killed)
        judge(h, status);
    else if (h->due_ms != INT64_MAX)
        start(h);
}

/* ---- All of them ---- */

void health_begin(health *h, const health_words *w, hf_lock **locks, size_t n, char **environment,
                  const signals *events)
{
    *h = (health){.words = w,
                  .locks = locks,
                  .n = n,
                  .environment = environment,
                  .events = events,
                  .due_ms = w->command ? clock_boot_ms() + w->interval_ms : INT64_MAX};
    health_feed(w, locks, n);
}

void health_tick(health *h)
{
    int64_t now = clock_boot_ms(), interval = h->words->interval_ms;
    if (now < h->due_ms)
        return;
    h->due_ms = h->due_ms + interval > now ? h->due_ms + interval : now + interval;
    health_look(h);
    if (h->pid) {
        terminal_warn("the health command has not ended within its interval");
        kill_check(h);
    } else {
        start(h);
    }
}

void health_stop(health *h)
{
    h->due_ms = INT64_MAX;
    if (h->pid)
        kill_check(h);
}

void health_end(health *h)
{
    int status, looks = REAP_MS / LOOK_MS;
    health_stop(h);
    while (h->pid && !has_ended(h, &status) && looks--)
        poll(NULL, 0, LOOK_MS);
}
