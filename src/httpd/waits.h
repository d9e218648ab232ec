/* SPDX-License-Identifier: Apache-2.0 */
/* waits.h: the requests that wait for a lock: how many each client has, and whether the clients are
 * still there. Their connections are suspended, so microhttpd does not look at them. */
#ifndef HTTPD_WAITS_H
#define HTTPD_WAITS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "httpd/places.h"
#include "httpd/tally.h"

#define WAITS_LISTS 1024

/* Called when the client has hung up or the service ends: the wait must end soon. Must not call
 * waits_*. */
typedef void gone_fn(void *ctx);

/* The caller's memory, from waits_enter() to waits_leave(). */
typedef struct wait_entry {
    uint64_t id;
    int fd;
    const char *who;
    const char *lock; /* the lock that it waits for; NULL: a try */
    gone_fn *on_gone;
    void *ctx;
    struct wait_entry *next, **link; /* of its list */
} wait_entry;

typedef struct waits {
    pthread_mutex_t mutex;
    pthread_cond_t none; /* waits any more */
    pthread_t thread;
    int epoll, wake;
    wait_entry *lists[WAITS_LISTS]; /* number n in list n % WAITS_LISTS */
    tally of_client, of_lock;       /* those that wait for a lock */
    uint64_t last_id;
    size_t n;    /* those that were not called over */
    size_t most; /* of all clients together, tries among them; 0: any number. Constant */
    bool is_closing;
} waits;

bool waits_open(waits *w); /* false: a thread or a descriptor could not be made */

/* on_gone is called from another thread until waits_leave(), perhaps twice. Of one `who`, `most`
 * may wait. */
admission waits_enter(waits *w, wait_entry *e, size_t most);
void waits_leave(waits *w, wait_entry *e);

/* The outcome of a wait that has left is with the workers. */
void waits_over(waits *w);

size_t waits_count(waits *w);
size_t waits_count_for(waits *w, const char *lock);

/* Ends all waits, and returns when all are over. No new wait is accepted. */
void waits_end(waits *w);
void waits_close(waits *w);

#endif
