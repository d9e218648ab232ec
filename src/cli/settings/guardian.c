/* SPDX-License-Identifier: Apache-2.0 */
/* guardian.c: forks the guardian of this command; see guardian.h. Called before a store is opened.
 */
#include "guardian.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <holdfast/holdfast.h>

#define ITS_FD 3

static char *words, *words_end; /* where those of this process stand */

void guardian_note_words(int argc, char **argv)
{
    words = argc > 0 ? argv[0] : NULL;
    words_end = argc > 0 ? argv[argc - 1] + strlen(argv[argc - 1]) : NULL;
}

/* They may name a lock, or a password. Somebody who kills the command by its words does not mean
 * its guardian. */
static void hide_words(void)
{
    size_t room = (size_t)(words_end - words);
    memset(words, 0, room);
    snprintf(words, room, "holdfast guardian");
}

/* Nothing of the command's stays open, and no signal is blocked or ignored. */
static void leave_all(int its_end)
{
    sigset_t none;
    sigemptyset(&none);
    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setsid();
    dup2(its_end, ITS_FD);
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        close(fd);
        open("/dev/null", O_RDWR);
    }
    closefrom(ITS_FD + 1);
}

static _Noreturn void guard(int its_end)
{
    if (words)
        hide_words();
    leave_all(its_end);
    _exit(hf_guardian(ITS_FD));
}

const char *guardian_fork(void)
{
    static char out[32];
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return "/proc/self/exe";
    pid_t pid = fork();
    if (pid == 0)
        guard(ends[1]);
    close(ends[1]);
    snprintf(out, sizeof out, "fd:%d", ends[0]);
    if (pid < 0)
        close(ends[0]);
    return pid < 0 ? "/proc/self/exe" : out;
}
