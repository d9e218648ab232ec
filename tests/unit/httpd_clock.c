/* SPDX-License-Identifier: Apache-2.0 */
/* httpd_clock.c: see httpd_clock.h. */
#include "httpd_clock.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#define SLEEPERS_MOST 8

typedef struct sleeper {
    const pthread_cond_t *on; /* NULL: a free place */
    int64_t until_ms;
    bool is_woken;
} sleeper;

/* Taken after the mutex of whatever the thread sleeps on. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int64_t now_ms = 1000000;
static sleeper sleepers[SLEEPERS_MOST];

int __real_clock_gettime(clockid_t id, struct timespec *out);
int __real_pthread_cond_broadcast(pthread_cond_t *cond);
int __wrap_clock_gettime(clockid_t id, struct timespec *out);
int __wrap_pthread_cond_broadcast(pthread_cond_t *cond);
int __wrap_pthread_cond_clockwait(pthread_cond_t *cond, pthread_mutex_t *held, clockid_t id,
                                  const struct timespec *end);

int64_t clock_get(void)
{
    pthread_mutex_lock(&mutex);
    int64_t ms = now_ms;
    pthread_mutex_unlock(&mutex);
    return ms;
}

void clock_set(int64_t ms)
{
    pthread_mutex_lock(&mutex);
    now_ms = ms;
    pthread_mutex_unlock(&mutex);
}

static sleeper *find_locked(const pthread_cond_t *on)
{
    for (size_t i = 0; i < SLEEPERS_MOST; i++)
        if (sleepers[i].on == on)
            return &sleepers[i];
    return NULL;
}

static void wake_locked(const pthread_cond_t *on)
{
    sleeper *s = find_locked(on);
    if (s)
        s->is_woken = true;
    __real_pthread_cond_broadcast(&changed);
}

int64_t clock_await_sleep(const pthread_cond_t *on)
{
    sleeper *s;
    pthread_mutex_lock(&mutex);
    while (!(s = find_locked(on)) || s->is_woken)
        pthread_cond_wait(&changed, &mutex);
    int64_t until_ms = s->until_ms;
    pthread_mutex_unlock(&mutex);
    return until_ms;
}

void clock_wake(const pthread_cond_t *on, int64_t at_ms)
{
    clock_await_sleep(on);
    pthread_mutex_lock(&mutex);
    now_ms = at_ms;
    wake_locked(on);
    pthread_mutex_unlock(&mutex);
}

/* ---- In the place of the machine's ---- */

int __wrap_clock_gettime(clockid_t id, struct timespec *out)
{
    if (id != CLOCK_MONOTONIC)
        return __real_clock_gettime(id, out);
    int64_t ms = clock_get();
    *out = (struct timespec){.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    return 0;
}

int __wrap_pthread_cond_broadcast(pthread_cond_t *cond)
{
    pthread_mutex_lock(&mutex);
    wake_locked(cond);
    pthread_mutex_unlock(&mutex);
    return __real_pthread_cond_broadcast(cond);
}

/* Returns whether its time has come. */
static bool sleep_locked(const pthread_cond_t *on, int64_t until_ms)
{
    sleeper *s = find_locked(NULL);
    if (!s)
        abort();
    *s = (sleeper){on, until_ms, false};
    __real_pthread_cond_broadcast(&changed);
    while (!s->is_woken)
        pthread_cond_wait(&changed, &mutex);
    s->on = NULL;
    return now_ms >= until_ms;
}

int __wrap_pthread_cond_clockwait(pthread_cond_t *cond, pthread_mutex_t *held, clockid_t id,
                                  const struct timespec *end)
{
    (void)id;
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(held);
    bool is_over = sleep_locked(cond, end->tv_sec * 1000 + end->tv_nsec / 1000000);
    pthread_mutex_unlock(&mutex);
    pthread_mutex_lock(held);
    return is_over ? ETIMEDOUT : 0;
}
