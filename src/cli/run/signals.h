/* SPDX-License-Identifier: Apache-2.0 */
/* signals.h: the signals that run, elect and watch take as events, and stopping as a job. */
#ifndef HOLDFAST_CLI_SIGNALS_H
#define HOLDFAST_CLI_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

typedef struct signals {
    int fd;                        /* readable when one has come */
    sigset_t before;               /* the mask that the program was started with */
    struct sigaction child_before; /* what it did on SIGCHLD */
} signals;

/* From here on signals come through fd. Before any thread is started, so that all block them. Those
 * that are ignored (nohup) stay so. Returns 0 or errno. */
int signals_open(signals *s);

/* The same for those alone that ask to end: for a program that has no command, and draws on the
 * terminal. */
int signals_open_ends(signals *s);

/* Ends this process by the next signal that has come, if one has. */
void signals_follow(const signals *s);

/* The next signal that has come, 0 for none. */
int signals_next(const signals *s);

/* Restores what a program expects; for the forked child, before exec. */
void signals_restore(const signals *s);

/* A signal that asks to end: it is passed on to the command, or ends the wait for a lock. */
bool signals_is_end(int signal);

/* A signal that can mean nothing but the end. */
bool signals_is_final(int signal);

/* Stops this job as ^Z does; returns when it goes on. false: it did not stop, as nobody could
 * continue it. */
bool signals_stop_job(void);

#endif
