/* SPDX-License-Identifier: Apache-2.0 */
/* child.h: the command that runs under the locks: a process group of its own. */
#ifndef HOLDFAST_CLI_CHILD_H
#define HOLDFAST_CLI_CHILD_H

#include <stdbool.h>
#include <sys/types.h>
#include <termios.h>

#include "signals.h"

typedef struct child {
    pid_t pid; /* of the process that was started, and of its group */
    bool has_ended;
    bool asked_to_end;    /* a signal that asks for it was passed on */
    int status;           /* then: its exit status, or 128 and the signal's number */
    int tty;              /* the controlling terminal, or -1 */
    bool uses_terminal;   /* its group was in front once */
    struct termios modes; /* the terminal's before it began */
} child;

/* Starts the command; it is killed when this process ends.
 * Call it from the main thread: the kernel kills it when the thread that started it ends. input:
 * what it reads, -1: what this process reads. Returns 0, or errno: of exec, too. */
int child_start(child *c, char **command, char **environment, int input, const signals *events);

/* Checks whether it has ended (0) or stopped (the signal that stopped it). */
int child_look(child *c);

/* Sends a signal to its whole group. */
void child_signal(const child *c, int signal);

/* Whether processes of its group are left after it has ended. */
bool child_has_group(const child *c);

/* Puts its group in the foreground, if this process's own is there; says whether it is. */
bool child_give_terminal(child *c);

/* Puts this process's group back in the foreground, if the child's is there. */
void child_take_terminal(child *c);

/* Restores the terminal's modes after the child was killed. */
void child_reset_terminal(const child *c);

void child_done(child *c);

#endif
