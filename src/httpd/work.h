/* SPDX-License-Identifier: Apache-2.0 */
/* work.h: the few threads that call the store for requests, which stand in line for them. */
#ifndef HTTPD_WORK_H
#define HTTPD_WORK_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#define WORKERS 8
#define WORKERS_SLOW 4 /* so many may be at what takes long */

struct request;

typedef struct work {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct request *first, *last;
    void (*serve)(struct request *req);
    size_t n_threads, n_slow;
    bool is_closing;
    pthread_t threads[WORKERS];
} work;

/* Starts the threads, each of which calls serve() for one request after the other. False: there are
 * no threads left. */
bool work_open(work *w, void (*serve)(struct request *req));

/* Takes a suspended request, which is resumed when it has its answer. False: it is over. */
bool work_give(work *w, struct request *req);

/* The same for one that a worker has had before, also when it is over: its service waits for it. */
void work_again(work *w, struct request *req);

/* Ends the threads, when all that were given have their answer; nothing is taken any more. */
void work_close(work *w);

#endif
