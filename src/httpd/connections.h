/* SPDX-License-Identifier: Apache-2.0 */
/* connections.h: the open connections, and the time by which each client must have sent its request
 * or read its answer. A client that is too slow is cut off. */
#ifndef HTTPD_CONNECTIONS_H
#define HTTPD_CONNECTIONS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct connection {
    int fd;
    int64_t deadline_ms; /* 0: none, the service is at work */
    struct connection *next, *previous;
} connection;

typedef struct connections {
    pthread_mutex_t mutex;
    pthread_cond_t closing, quiet; /* no request is being served */
    pthread_t thread;
    connection *first;
    size_t n_connections, n_requests; /* requests that are being served */
    int64_t patience_ms;
    bool is_closing;
} connections;

/* Starts the thread. False: there are no threads left. */
bool connections_open(connections *all, int64_t patience_ms);

/* Ends the thread; all connections must be closed. */
void connections_close(connections *all);

/* Adds a new connection; removes one whose descriptor is about to be closed. */
connection *connections_add(connections *all, int fd);
void connections_remove(connections *all, connection *one);

/* From now on, the client has patience_ms to send or to read; or the service is at work. */
void connections_set_deadline(connections *all, connection *one);
void connections_clear_deadline(connections *all, connection *one);

/* Counts the requests that are being served. */
void connections_count_request(connections *all, int more);

void connections_count(connections *all, size_t *n_connections, size_t *n_requests);

/* Waits up to wait_ms for requests to finish; then cuts off all connections. */
void connections_drain(connections *all, int64_t wait_ms);

#endif
