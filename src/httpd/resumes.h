/* SPDX-License-Identifier: Apache-2.0 */
/* resumes.h: resumes suspended connections. For each time that some are resumed, microhttpd goes
 * through all that are suspended; so where there are very many, they are resumed together, a few ms
 * apart: by microhttpd's own thread where it comes by in time. */
#ifndef HTTPD_RESUMES_H
#define HTTPD_RESUMES_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "httpd/connections.h"

#define RESUMES_FEW 1000 /* of fewer connections, each is resumed at once */
#define RESUMES_MOST_US 10000

struct MHD_Connection;

typedef struct resumes {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    pthread_t thread;
    connections *connections;
    struct MHD_Connection **due;
    size_t n, room;
    int64_t last_us; /* when some were resumed */
    bool is_rung;    /* one was resumed so that microhttpd's thread comes for the others */
    bool is_closing;
} resumes;

/* Starts the thread; of so many connections, a microsecond apart for each. False: there are no
 * threads left. */
bool resumes_open(resumes *r, connections *all);

/* Resumes it, soon. From any thread. */
void resumes_add(resumes *r, struct MHD_Connection *mhd);

/* Resumes all if it is time for it. From microhttpd's own thread, whenever it has to do with a
 * request, so that it goes through the connections once. */
void resumes_flush(resumes *r);

/* Resumes what is left, and ends the thread. */
void resumes_close(resumes *r);

#endif
