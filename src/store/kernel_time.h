/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_time.h: the kernel's clock, for waits in the kernel (poll(), sem_clockwait(),
 * pthread_cond_clockwait()) and for waits until another process has written to a database.
 * Everything else in a store asks hf_env (docs/rationale/waiting.md says why). */
#ifndef STORE_KERNEL_TIME_H
#define STORE_KERNEL_TIME_H

#include <stdint.h>
#include <time.h>

static inline int64_t kernel_ms(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* On CLOCK_MONOTONIC. */
static inline struct timespec kernel_time_in(int64_t ms)
{
    struct timespec then;
    clock_gettime(CLOCK_MONOTONIC, &then);
    then.tv_sec += ms / 1000;
    then.tv_nsec += (long)(ms % 1000) * 1000000;
    then.tv_sec += then.tv_nsec / 1000000000;
    then.tv_nsec %= 1000000000;
    return then;
}

/* Less than a second. */
static inline void kernel_pause_us(long us)
{
    nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
}

#endif
