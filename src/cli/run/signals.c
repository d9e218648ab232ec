/* SPDX-License-Identifier: Apache-2.0 */
/* signals.c: the signals that run, elect and watch take as events, and stopping as a job; called by
 * those verbs and their parts. */
#include "signals.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/signalfd.h>
#include <unistd.h>

static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM};
#define N_ENDS (sizeof ends / sizeof ends[0])

bool signals_is_end(int signal)
{
    for (size_t i = 0; i < N_ENDS; i++)
        if (ends[i] == signal)
            return true;
    return false;
}

bool signals_is_final(int signal)
{
    return signal == SIGINT || signal == SIGTERM || signal == SIGQUIT;
}

/* A blocked signal comes through a signalfd even if it is ignored. */
static void add_unless_ignored(sigset_t *set, int signal)
{
    struct sigaction now;
    if (!sigaction(signal, NULL, &now) && now.sa_handler != SIG_IGN)
        sigaddset(set, signal);
}

static sigset_t ends_that_count(void)
{
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < N_ENDS; i++)
        add_unless_ignored(&set, ends[i]);
    return set;
}

/* Returns 0 or errno. */
static int open_fd(signals *s, const sigset_t *events, const sigset_t *blocked)
{
    pthread_sigmask(SIG_BLOCK, blocked, &s->before);
    s->fd = signalfd(-1, events, SFD_CLOEXEC | SFD_NONBLOCK);
    return s->fd < 0 ? errno : 0;
}

int signals_open_ends(signals *s)
{
    sigset_t events = ends_that_count();
    return open_fd(s, &events, &events);
}

/* With SIGCHLD ignored, nobody could wait for a child that ended. */
static void expect_children(signals *s)
{
    struct sigaction standard = {.sa_handler = SIG_DFL};
    sigaction(SIGCHLD, &standard, &s->child_before);
}

int signals_open(signals *s)
{
    sigset_t events = ends_that_count(), blocked;
    expect_children(s);
    add_unless_ignored(&events, SIGTSTP);
    sigaddset(&events, SIGCONT);
    sigaddset(&events, SIGCHLD);
    blocked = events;
    sigaddset(&blocked, SIGTTOU); /* so that tcsetpgrp() can be called from the background */
    sigaddset(&blocked, SIGPIPE); /* if the reader of stderr goes away, the command must not end */
    return open_fd(s, &events, &blocked);
}

int signals_next(const signals *s)
{
    struct signalfd_siginfo info;
    ssize_t n = read(s->fd, &info, sizeof info);
    return n == (ssize_t)sizeof info ? (int)info.ssi_signo : 0;
}

void signals_follow(const signals *s)
{
    int number = signals_next(s);
    if (!number)
        return;
    signal(number, SIG_DFL); /* curses has its own, which exits with 1 */
    raise(number);
    pthread_sigmask(SIG_SETMASK, &s->before, NULL);
}

void signals_restore(const signals *s)
{
    sigaction(SIGCHLD, &s->child_before, NULL);
    pthread_sigmask(SIG_SETMASK, &s->before, NULL);
}

/* The kernel ignores SIGTSTP where no shell is left that could continue the job. */
bool signals_stop_job(void)
{
    sigset_t stop, pending;
    sigemptyset(&stop);
    sigaddset(&stop, SIGTSTP);
    kill(0, SIGTSTP);
    pthread_sigmask(SIG_UNBLOCK, &stop, NULL); /* here it stops */
    pthread_sigmask(SIG_BLOCK, &stop, NULL);
    return !sigpending(&pending) && sigismember(&pending, SIGCONT) == 1;
}
