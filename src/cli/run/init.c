/* SPDX-License-Identifier: Apache-2.0 */
/* init.c: what the first process of a container (process 1) owes the others; called by main().
 *
 * The kernel gives it all processes whose parents have ended. Unless it waits for them, they stay
 * zombies, until no process can be started. No verb waits for children that it does not know, so
 * each goes on in a child, and process 1 does nothing else. Both stay in one process group: it is
 * an orphaned one, so a terminal cannot stop it where nobody could continue it. */
#include "init.h"

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/settings/status.h"

/* What a terminal sends has reached the child, too, but for a hang-up. */
static bool is_for_child(const siginfo_t *info)
{
    return info->si_code != SI_KERNEL || info->si_signo == SIGHUP;
}

static void reap(pid_t child)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG | __WALL)) > 0)
        if (pid == child)
            _exit(WIFEXITED(status) ? WEXITSTATUS(status) : STATUS_SIGNAL + WTERMSIG(status));
}

static _Noreturn void tend(pid_t child, const sigset_t *all)
{
    siginfo_t info;
    for (;;) {
        int number = sigwaitinfo(all, &info);
        if (number == SIGCHLD)
            reap(child);
        else if (number > 0 && is_for_child(&info))
            kill(child, number);
    }
}

void init_tend(void)
{
    sigset_t all, mask;
    struct sigaction standard = {.sa_handler = SIG_DFL}, before;
    if (getpid() != 1)
        return;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &mask);
    sigaction(SIGCHLD, &standard, &before); /* where it is ignored, no status is kept */
    pid_t child = fork();
    if (child > 0)
        tend(child, &all);
    sigaction(SIGCHLD, &before, NULL);
    sigprocmask(SIG_SETMASK, &mask, NULL);
}
