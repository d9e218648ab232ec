/* SPDX-License-Identifier: Apache-2.0 */
/* watcher.h: follows what happens in the store, once for all who want to know: one thread lists the
 * locks while somebody listens, and keeps the last events for those who come back. */
#ifndef HTTPD_WATCHER_H
#define HTTPD_WATCHER_H

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>

#include "httpd/listing.h"
#include "httpd/metrics.h"

#define EVENTS_KEPT 1024

/* One that follows the events, over a connection that is suspended while it sleeps; in the caller's
 * memory from watcher_join() to watcher_leave(). */
typedef struct follower {
    struct MHD_Connection *mhd;
    bool is_asleep;
    struct follower *before, *after;
} follower;

typedef struct event {
    char *name; /* of the lock; NULL: it is about all */
    char *text; /* as it is sent */
} event;

typedef struct watcher {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    pthread_t thread;
    hf_client *client;
    waits *waits;
    metrics *metrics;
    listing now;
    char *trouble;             /* why the store is not reached; NULL: it is */
    event events[EVENTS_KEPT]; /* number n at n % EVENTS_KEPT */
    uint64_t first, next;      /* the numbers of those that are kept */
    uint64_t epoch;            /* within one, numbers go on; another one is another watch */
    int64_t wanted_until_ms;   /* a client that is back by then has missed nothing */
    int64_t beat_at_ms;
    uint64_t beats; /* something is sent at least so often, so that a dead end shows */
    follower *followers;
    size_t n_followers;
    bool is_closing;
} watcher;

bool watcher_open(watcher *w, hf_client *client, waits *requests, metrics *m);

void watcher_join(watcher *w, follower *f);
void watcher_leave(watcher *w, follower *f);

/* Wakes all that follow, for their end, and ends the thread. */
void watcher_close(watcher *w);
void watcher_done(watcher *w);

/* ---- For those that follow, with the mutex locked ---- */

/* Whether there is anything to begin with. */
bool watcher_is_ready_locked(const watcher *w);

/* Where one goes on that has seen all up to this id; false: it has to begin anew. */
bool watcher_find_locked(const watcher *w, const char *id, uint64_t *next);

/* Writes the locks whose names begin with prefix as an event. */
void watcher_snapshot_locked(const watcher *w, const char *prefix, FILE *out);

#endif
