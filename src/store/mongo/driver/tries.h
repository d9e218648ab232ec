/* SPDX-License-Identifier: Apache-2.0 */
/* tries.h: how a member is connected to. A name may stand for several addresses. They are tried one
 * after the other, the next a quarter of a second after the last one, or when that has failed; the
 * first that answers is kept (RFC 8305). */
#ifndef STORE_MONGO_DRIVER_TRIES_H
#define STORE_MONGO_DRIVER_TRIES_H

#include <mongoc/mongoc.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define TRIES_MOST 8 /* addresses of a name */

typedef struct tries_address {
    struct sockaddr_storage at;
    socklen_t length;
} tries_address;

/* Own thread. All 0: it has no address, and fails. */
typedef struct tries {
    tries_address addresses[TRIES_MOST];
    size_t n, n_begun;                    /* addresses, and how many were tried */
    mongoc_socket_t *sockets[TRIES_MOST]; /* NULL: failed, or not begun */
    int64_t next_ms;                      /* when the next one is tried, by CLOCK_MONOTONIC */
    int error;                            /* errno of the last that failed; 0: none */
} tries;

/* Finds the addresses, which may wait for a name server. Returns why there are none, or NULL. */
const char *tries_find(tries *t, const mongoc_host_list_t *host);
void tries_done(tries *t);

/* Begins what is due. False: all have failed. */
bool tries_go_on(tries *t);
/* One of them can be written to, or has failed. Returns its socket, which is the caller's then; the
 * others are given up. NULL: it has failed. */
mongoc_socket_t *tries_hear(tries *t, size_t i, int revents);

#endif
