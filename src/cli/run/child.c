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

/* In a pipeline, other processes of the job read the terminal, too. There the command gets it when
 * it first asks. */
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

typedef struct beginning {
    const child *c;
    char **command, **environment;
    const signals *events;
    pid_t parent;
    int input;
    volatile int failed; /* errno of the exec, written by the child */
} beginning;

/* In the child, between vfork and exec. It uses the memory and stack of the parent, whose thread
 * stands still meanwhile. */
static _Noreturn void become(beginning *b)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != b->parent)
        _exit(128 + SIGKILL); /* it ended before it could report */
    setpgid(0, 0);
    if (b->c->uses_terminal)
        tcsetpgrp(b->c->tty, getpid());
    signals_restore(b->events);
    if (b->input < 0 || dup2(b->input, STDIN_FILENO) >= 0)
        execvpe(b->command[0], b->command, b->environment);
    b->failed = errno;
    _exit(127);
}

/* Uses vfork: copying this process, with its threads and the stores' memory, would cost more than
 * everything else that running a command needs. */
int child_start(child *c, char **command, char **environment, int input, const signals *events)
{
    beginning b = {c, command, environment, events, getpid(), input, 0};
    *c = (child){.pid = -1, .tty = -1};
    open_terminal(c);
    pid_t pid = vfork();
    if (pid == 0)
        become(&b);
    if (pid < 0)
        return errno;
    c->pid = pid;
    if (b.failed) {
        waitpid(c->pid, NULL, 0);
        child_take_terminal(c);
        c->has_ended = true;
    }
    return b.failed;
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
