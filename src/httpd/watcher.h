/* SPDX-License-Identifier: Apache-2.0 */
/* watcher.h: follows events in the store, once for all followers. One thread lists the locks while
 * anybody listens, and keeps the last events for followers that come back. While only /metrics is
 * asked for, it lists more rarely. A second thread, the guard, tells the followers when a look gets
 * no answer for long. */
#ifndef HTTPD_WATCHER_H
#define HTTPD_WATCHER_H

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>

#include "httpd/excerpt.h"
#include "httpd/listing.h"
#include "httpd/metrics.h"
#include "httpd/renewals.h"
#include "show/census.h"

#define EVENTS_KEPT 1024

/* A follower of the events. Its connection is suspended while it sleeps. In the caller's memory,
 * from watcher_join() to watcher_leave(). */
typedef struct follower {
    struct MHD_Connection *mhd;
    const char *who; /* its client */
    bool in_use;     /* wants only locks that somebody uses */
    bool is_asleep;
    struct follower *before, *after;
} follower;

typedef struct event {
    char *name;         /* of the lock; NULL: it is about all */
    char *text;         /* as it is sent; NULL: the leases, of which each follower is told some */
    renewals *renewals; /* NULL: it is not about leases */
} event;

typedef struct watcher {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    pthread_cond_t looking; /* a look has begun, or the watcher closes */
    pthread_t thread, guard;
    hf_client *client;
    waits *waits;
    metrics *metrics;
    listing now;
    char *trouble;     /* why the store is not reached; NULL: it is */
    bool is_reading;   /* a look is under way, and was not told as trouble */
    board_heard heard; /* when it began, or the store last gave a lock */
    board_pace pace;
    event events[EVENTS_KEPT]; /* number n at n % EVENTS_KEPT */
    uint64_t first, next;      /* the numbers of those that are kept */
    uint64_t epoch;           /* event numbers go on within one watch; a new id means a new watch */
    int64_t wanted_until_ms;  /* a client that comes back by then has missed nothing */
    int64_t counted_until_ms; /* somebody reads the counts of locks */
    int64_t free_until_ms;    /* the same, for one that wants free locks, too */
    int64_t crowded_until_ms; /* they were too many, and are not read again before */
    uint64_t free_since;      /* from this number on, events are of free locks, too */
    int64_t beat_at_ms;
    uint64_t beats; /* something is sent at least this often, so that a dead connection shows */
    follower *followers;
    size_t n_followers;
    bool has_rest;     /* one was woken, and comes for the others */
    tally of_client;   /* the followers */
    excerpts excerpts; /* stream.c: what they are sent */
    bool is_closing;
} watcher;

bool watcher_open(watcher *w, hf_client *client, waits *requests, metrics *m);

/* Only while of its client, and of all, fewer follow than p says. */
admission watcher_join(watcher *w, follower *f, const places *p);
/* part: what it was being sent; NULL: nothing */
void watcher_leave(watcher *w, follower *f, excerpt *part);
size_t watcher_count_followers(watcher *w);

/* What the last look counted. From now on, and for some minutes, looks are made for it. */
typedef struct watcher_counts {
    census of;                  /* where is_known */
    bool is_known, is_troubled; /* before the first look: neither */
    int64_t age_ms;             /* of the look */
} watcher_counts;
watcher_counts watcher_count(watcher *w);

/* Wakes all followers so that they end, and ends the thread. */
void watcher_close(watcher *w);
void watcher_done(watcher *w);

/* ---- For those that follow, with the mutex locked ---- */

/* Wakes those that stayed asleep when one of many was woken. */
void watcher_wake_rest_locked(watcher *w);

/* Whether there is a listing for it to begin with. */
bool watcher_is_ready_locked(const watcher *w, const follower *f);

/* Where a follower goes on that has seen everything up to this id; false: it must begin anew. */
bool watcher_find_locked(const watcher *w, const follower *f, const char *id, uint64_t *next);

/* Writes what is news for a follower of the locks whose names begin with prefix; number: of an
 * event that is kept. */
void watcher_write_locked(const watcher *w, uint64_t number, const char *prefix, FILE *out);

/* Writes the locks whose names begin with prefix as an event; in_use: without those that nobody
 * holds or waits for. */
void watcher_snapshot_locked(const watcher *w, const char *prefix, bool in_use, FILE *out);

#endif
