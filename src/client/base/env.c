/* SPDX-License-Identifier: Apache-2.0 */
/* env.c: this machine's clocks and randomness, for every client that was not given others. */
#include "client/base/env.h"

#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

static int64_t read_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static hf_mono mono(void *ctx)
{
    (void)ctx;
    return (hf_mono){read_ns(CLOCK_BOOTTIME)};
}

static hf_wall wall(void *ctx)
{
    (void)ctx;
    return (hf_wall){read_ns(CLOCK_REALTIME) / 1000000};
}

static void fill_random(void *ctx, void *bytes, size_t n)
{
    (void)ctx;
    if (getrandom(bytes, n, 0) != (ssize_t)n)
        abort();
}

static void pause_ms(void *ctx, int64_t ms)
{
    (void)ctx;
    nanosleep(&(struct timespec){ms / 1000, (long)(ms % 1000) * 1000000}, NULL);
}

const hf_env env_linux = {NULL, mono, wall, fill_random, pause_ms};
