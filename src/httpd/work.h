/* SPDX-License-Identifier: Apache-2.0 */
/* work.h: the few threads that call the store for requests, and the lines of requests that wait for
 * them: renewals and releases, which somebody's lease depends on, come before all others. */
#ifndef HTTPD_WORK_H
#define HTTPD_WORK_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

/* So many may be busy with requests that are not urgent, and with those that take long. */
#define WORKERS 10
#define WORKERS_OTHER 8
#define WORKERS_SLOW 4

struct request;

typedef struct work_line {
    struct request *first, *last;
} work_line;

typedef struct work {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    work_line urgent, other;
    void (*serve)(struct request *req);
    size_t n_threads, n_other, n_slow; /* busy with others; with slow ones among them */
    bool is_closing;
    pthread_t threads[WORKERS];
} work;

/* Starts the threads, each of which calls serve() for one request after the other. False: there are
 * no threads left. */
bool work_open(work *w, void (*serve)(struct request *req));

/* Takes a suspended request, and resumes it when it has its answer. False: the workers have ended.
 */
bool work_give(work *w, struct request *req);

/* The same for a request that a worker has had before; also accepted at the end, because the
 * service waits for it. */
void work_again(work *w, struct request *req);

/* Takes no more requests, waits until all have their answers, and ends the threads. */
void work_close(work *w);

#endif
