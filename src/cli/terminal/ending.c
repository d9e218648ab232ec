/* SPDX-License-Identifier: Apache-2.0 */
/* ending.c: signals that end a program which draws on the terminal; see ending.h. curses would
 * restore it, too, but then exit with status 1. */
#include "ending.h"

#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/signalfd.h>
#include <unistd.h>

static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

int ending_open(void)
{
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        struct sigaction now;
        if (!sigaction(ends[i], NULL, &now) && now.sa_handler != SIG_IGN)
            sigaddset(&set, ends[i]);
    }
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

void ending_follow(int fd)
{
    struct signalfd_siginfo info;
    sigset_t one;
    if (read(fd, &info, sizeof info) != (ssize_t)sizeof info)
        return;
    int number = (int)info.ssi_signo;
    signal(number, SIG_DFL);
    raise(number);
    sigemptyset(&one);
    sigaddset(&one, number);
    pthread_sigmask(SIG_UNBLOCK, &one, NULL);
}
