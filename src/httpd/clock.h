/* SPDX-License-Identifier: Apache-2.0 */
/* clock.h: the service's clock, which nobody sets. */
#ifndef HTTPD_CLOCK_H
#define HTTPD_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t clock_now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static inline int64_t clock_now_ms(void)
{
    return clock_now_us() / 1000;
}

/* CLOCK_BOOTTIME, on which leases run: the time that the machine was suspended counts. */
static inline int64_t clock_boot_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* For pthread_cond_clockwait() on CLOCK_MONOTONIC. */
static inline struct timespec clock_at(int64_t ms)
{
    return (struct timespec){.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
}

#endif
