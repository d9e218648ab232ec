/* SPDX-License-Identifier: Apache-2.0 */
/* resumes.c: collects connections, and resumes them from a thread of its own; see resumes.h. */
#include "httpd/resumes.h"

#include <microhttpd.h>
#include <stdlib.h>

#include "httpd/clock.h"
#include "show/text.h"

static void append_locked(resumes *r, struct MHD_Connection *mhd)
{
    if (r->n == r->room) {
        r->room = r->room ? 2 * r->room : 64;
        r->due = realloc(r->due, r->room * sizeof *r->due);
        if (!r->due)
            text_no_memory();
    }
    r->due[r->n++] = mhd;
}

void resumes_add(resumes *r, struct MHD_Connection *mhd)
{
    if (connections_count(r->connections).connections < RESUMES_FEW) {
        MHD_resume_connection(mhd);
        return;
    }
    pthread_mutex_lock(&r->mutex);
    append_locked(r, mhd);
    if (r->n == 1)
        pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->mutex);
}

/* From one time to the next. */
static int64_t pace_us(const resumes *r)
{
    int64_t us = (int64_t)connections_count(r->connections).connections;
    return us < RESUMES_MOST_US ? us : RESUMES_MOST_US;
}

static size_t take_locked(resumes *r, struct MHD_Connection ***out)
{
    size_t n = r->n;
    int64_t now_us = clock_now_us();
    bool is_time = r->is_rung || now_us >= r->last_us + pace_us(r);
    r->is_rung = false;
    if (!n || !is_time)
        return 0;
    *out = r->due;
    r->due = NULL;
    r->n = r->room = 0;
    r->last_us = now_us;
    return n;
}

void resumes_flush(resumes *r)
{
    struct MHD_Connection **due = NULL;
    pthread_mutex_lock(&r->mutex);
    size_t n = take_locked(r, &due);
    pthread_mutex_unlock(&r->mutex);
    for (size_t i = 0; i < n; i++)
        MHD_resume_connection(due[i]);
    free(due);
}

/* The others follow when microhttpd has come to this one; or the next does, should it be gone. */
static void resume_one_locked(resumes *r)
{
    struct MHD_Connection *mhd = r->due[--r->n];
    r->last_us = clock_now_us();
    r->is_rung = true;
    pthread_mutex_unlock(&r->mutex);
    MHD_resume_connection(mhd);
    pthread_mutex_lock(&r->mutex);
}

/* Later than microhttpd's thread, if that has to do with requests all the time. */
static void go_on_locked(resumes *r)
{
    int64_t due_us = r->last_us + pace_us(r) * 5 / 4;
    struct timespec due = {due_us / 1000000, (long)(due_us % 1000000 * 1000)};
    if (!r->n && !r->is_closing)
        pthread_cond_wait(&r->changed, &r->mutex);
    else if (!r->is_closing && clock_now_us() < due_us)
        pthread_cond_clockwait(&r->changed, &r->mutex, CLOCK_MONOTONIC, &due);
    else
        resume_one_locked(r);
}

static void *run(void *ctx)
{
    resumes *r = ctx;
    pthread_mutex_lock(&r->mutex);
    while (!r->is_closing || r->n)
        go_on_locked(r);
    pthread_mutex_unlock(&r->mutex);
    return NULL;
}

bool resumes_open(resumes *r, connections *all)
{
    r->connections = all;
    pthread_mutex_init(&r->mutex, NULL);
    pthread_cond_init(&r->changed, NULL);
    return pthread_create(&r->thread, NULL, run, r) == 0;
}

void resumes_close(resumes *r)
{
    pthread_mutex_lock(&r->mutex);
    r->is_closing = true;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->mutex);
    pthread_join(r->thread, NULL);
    free(r->due);
    pthread_cond_destroy(&r->changed);
    pthread_mutex_destroy(&r->mutex);
}
