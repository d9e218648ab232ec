/* SPDX-License-Identifier: Apache-2.0 */
/* child.c: starts, signals and waits for the command that runs under the locks; called by the verb
 * run. */
#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- The terminal ---- */

static bool is_in_front(const child *c)
{
    return c->tty >= 0 && tcgetpgrp(c->tty) == getpgrp();
}

/* In a pipeline the others of the job read the terminal, too: there the command gets it when it
 * first asks for it. */
static bool wants_terminal_now(const child *c)
{
    return is_in_front(c) && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
}

bool child_give_terminal(child *c)
{
    if (!is_in_front(c) || tcsetpgrp(c->tty, c->pid) < 0)
        return false;
    c->uses_terminal = true;
    return true;
}

void child_take_terminal(child *c)
{
    if (c->tty >= 0 && tcgetpgrp(c->tty) == c->pid)
        tcsetpgrp(c->tty, getpgrp());
}

void child_reset_terminal(const child *c)
{
    if (c->uses_terminal && is_in_front(c))
        tcsetattr(c->tty, TCSANOW, &c->modes);
}

static void open_terminal(child *c)
{
    c->tty = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
    if (c->tty >= 0 && tcgetattr(c->tty, &c->modes) < 0) {
        close(c->tty);
        c->tty = -1;
    }
    c->uses_terminal = wants_terminal_now(c);
}

/* ---- Starting it ---- */

/* In the child, between fork and exec: only what is safe in a copy of a program with threads. */
static void become(const child *c, char **command, char **environment, const signals *events,
                   pid_t parent, int input, int failed_fd)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(128 + SIGKILL); /* it ended before it could be said */
    setpgid(0, 0);
    if (c->uses_terminal)
        tcsetpgrp(c->tty, getpid());
    signals_restore(events);
    if (input < 0 || dup2(input, STDIN_FILENO) >= 0)
        execvpe(command[0], command, environment);
    int failed = errno;
    if (write(failed_fd, &failed, sizeof failed) < 0)
        _exit(126);
    _exit(127);
}

/* Waits for the exec: the pipe closes with it, or brings its errno. */
static int read_failure(int fd)
{
    int failed = 0;
    ssize_t n;
    do
        n = read(fd, &failed, sizeof failed);
    while (n < 0 && errno == EINTR);
    return n == (ssize_t)sizeof failed ? failed : 0;
}

static int await_exec(child *c, int fd)
{
    int failed = read_failure(fd);
    if (failed) {
        waitpid(c->pid, NULL, 0);
        child_take_terminal(c);
        c->has_ended = true;
    }
    return failed;
}

int child_start(child *c, char **command, char **environment, int input, const signals *events)
{
    int ends[2];
    pid_t parent = getpid();
    *c = (child){.pid = -1, .tty = -1};
    open_terminal(c);
    if (pipe2(ends, O_CLOEXEC) < 0)
        return errno;
    c->pid = fork();
    int failed = c->pid < 0 ? errno : 0;
    if (c->pid == 0)
        become(c, command, environment, events, parent, input, ends[1]);
    close(ends[1]);
    if (c->pid > 0) {
        setpgid(c->pid, c->pid);
        failed = await_exec(c, ends[0]);
    }
    close(ends[0]);
    return failed;
}

/* ---- While it runs ---- */

void child_signal(const child *c, int signal)
{
    kill(-c->pid, signal);
}

int child_look(child *c)
{
    int status;
    pid_t pid = waitpid(c->pid, &status, WNOHANG | WUNTRACED);
    if (pid != c->pid)
        return 0;
    if (WIFSTOPPED(status))
        return WSTOPSIG(status);
    c->has_ended = true;
    c->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return 0;
}

/* The number of a group stays taken while it has members. */
bool child_has_group(const child *c)
{
    return !kill(-c->pid, 0) || errno != ESRCH;
}

void child_done(child *c)
{
    if (c->tty >= 0)
        close(c->tty);
    c->tty = -1;
}
