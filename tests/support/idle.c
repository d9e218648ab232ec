/* SPDX-License-Identifier: Apache-2.0 */
/* idle.c: counts how often a thread has slept for a millisecond. */
#include "support/idle.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

static atomic_llong ticks;

static void *tick(void *unused)
{
    (void)unused;
    for (;; ticks++)
        poll(NULL, 0, 1);
    return NULL;
}

static void start_ticking(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, tick, NULL);
    pthread_detach(thread);
}

int64_t idle_ms(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, start_ticking);
    return ticks;
}
