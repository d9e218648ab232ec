/* SPDX-License-Identifier: Apache-2.0 */
/* door.h: who is connected, and until when each must have done its next part: who sends a request,
 * or reads its answer, too slowly is cut off. */
#ifndef HTTPD_DOOR_H
#define HTTPD_DOOR_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A connection. */
typedef struct guest {
    int fd;
    int64_t deadline_ms; /* 0: none, it waits for us */
    struct guest *next, *previous;
} guest;

typedef struct door {
    pthread_mutex_t mutex;
    pthread_cond_t closing, quiet; /* no request is being served */
    pthread_t thread;
    guest *guests;
    size_t n_guests, n_requests; /* those that are being served */
    int64_t patience_ms;
    bool is_closing;
} door;

/* Starts the thread. False: none is to be had. */
bool door_open(door *d, int64_t patience_ms);

/* Ends it; nobody must be connected any more. */
void door_close(door *d);

/* A connection comes, and goes: before its descriptor is closed. */
guest *door_enter(door *d, int fd);
void door_leave(door *d, guest *g);

/* It is the client's turn, for the door's patience from now on; or ours. */
void door_expect(door *d, guest *g);
void door_relax(door *d, guest *g);

/* Counts the requests that are being served. */
void door_request(door *d, int more);

void door_count(door *d, size_t *guests, size_t *requests);

/* Waits until none is, for so long at most; then cuts off who is left. */
void door_clear(door *d, int64_t wait_ms);

#endif
