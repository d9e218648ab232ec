/* SPDX-License-Identifier: Apache-2.0 */
/* coroutine.c: begins on a stack by ucontext; after that it jumps, because swapcontext() makes a
 * system call for the signal mask each time. */
#undef _FORTIFY_SOURCE /* which takes a jump to another stack for a mistake */
#include "support/coroutine.h"

void coroutine_make(coroutine *it, void *stack, size_t size, void (*body)(void))
{
    it->is_new = true;
    getcontext(&it->first);
    it->first.uc_stack.ss_sp = stack;
    it->first.uc_stack.ss_size = size;
    it->first.uc_link = NULL;
    makecontext(&it->first, body, 0);
}

_Noreturn void coroutine_leave(coroutine *to)
{
    if (!to->is_new)
        _longjmp(to->at, 1);
    to->is_new = false;
    setcontext(&to->first);
    __builtin_unreachable();
}

void coroutine_switch(coroutine *from, coroutine *to)
{
    if (!_setjmp(from->at))
        coroutine_leave(to);
}
