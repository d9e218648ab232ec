/* SPDX-License-Identifier: Apache-2.0 */
/* connections.h: the open connections, and the time by which each client must have sent its first
 * byte and its request, or read its answer. A client that is too slow is cut off. When there are
 * more connections than may be, one whose client is waited for makes room (origins.h): one that is
 * silent, sends its request or reads its answer slowly, or is kept alive. */
#ifndef HTTPD_CONNECTIONS_H
#define HTTPD_CONNECTIONS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "httpd/origins.h"
#include "httpd/peer.h"

typedef struct connection {
    int fd;
    int64_t deadline_ms;      /* 0: none, the service is at work */
    int64_t first_byte_by_ms; /* 0: it was in time, or the connection is cut off */
    bool makes_room;          /* it was cut off for that */
    peer *peer;               /* NULL: it did not come by a Unix socket */
    origin *origin;           /* constant */
    idler idle;
    struct connection *next, *previous;
} connection;

typedef struct connections {
    pthread_mutex_t mutex;
    pthread_cond_t changed, quiet; /* the latter: no request is being served */
    pthread_t thread;
    connection *first;
    origins origins;
    size_t n_connections, n_requests; /* requests that are being served */
    size_t most, n_leaving;           /* that make room */
    uint64_t n_cut;                   /* that ever did */
    int64_t patience_ms;
    bool is_closing;
} connections;

/* At most `most` are to be open. Starts the thread. False: there are no threads left. */
bool connections_open(connections *all, size_t most, int64_t patience_ms);

/* Ends the thread; all connections must be closed. */
void connections_close(connections *all);

/* Adds a new connection, and lets another make room for it if need be; removes one whose descriptor
 * is about to be closed. */
connection *connections_add(connections *all, int fd);
void connections_remove(connections *all, connection *one);

/* The request has arrived whole. From now on, the client has patience_ms to read; or the service is
 * at work. */
void connections_set_deadline(connections *all, connection *one);
void connections_clear_deadline(connections *all, connection *one);

/* A request begins when its head has arrived, and ends when its answer was sent. */
void connections_begin_request(connections *all, connection *one);
void connections_end_request(connections *all, connection *one);

/* What there is now; cut: how many ever made room. */
typedef struct connection_counts {
    size_t connections, requests;
    uint64_t cut;
} connection_counts;
connection_counts connections_count(connections *all);

/* Waits up to wait_ms for requests to finish; then cuts off all connections. */
void connections_drain(connections *all, int64_t wait_ms);

#endif
