/* SPDX-License-Identifier: Apache-2.0 */
/* coroutine.h: functions that stop and go on, each on a stack of its own. One thread runs them all.
 * The thread itself is one, too: a coroutine of zeros. */
#ifndef SUPPORT_COROUTINE_H
#define SUPPORT_COROUTINE_H

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <ucontext.h>

typedef struct coroutine {
    bool is_new;
    ucontext_t first; /* while it is new */
    jmp_buf at;       /* where it stopped */
} coroutine;

/* body begins with the first switch to it, and must not return. */
void coroutine_make(coroutine *it, void *stack, size_t size, void (*body)(void));

/* Stops the one that runs, and lets the other go on. Returns when somebody switches back. */
void coroutine_switch(coroutine *from, coroutine *to);

/* The one that runs is over. */
_Noreturn void coroutine_leave(coroutine *to);

#endif
