/* SPDX-License-Identifier: Apache-2.0 */
/* origins.h: where the connections come from, and which of them makes room for another. It is one
 * whose client is waited for, of the origin that has the most of such: so a client makes room for
 * its own connections before it does for those of others. The caller's mutex guards all. */
#ifndef HTTPD_ORIGINS_H
#define HTTPD_ORIGINS_H

#include <stddef.h>
#include <stdint.h>

#include "httpd/peer.h"

#define ORIGIN_SIZE 64

struct connection;

/* What a client is waited for: the rest of its request; another request, since its last answer was
 * sent; that it reads more of its answer, since it read some. */
typedef enum idle_kind { IDLE_SENDING, IDLE_KEPT, IDLE_READING, N_IDLE_KINDS } idle_kind;

/* Those whose clients are waited for, the longest first. */
typedef struct idle_line {
    struct idler *longest, *latest;
    size_t n;
} idle_line;

/* What a connection is in such a line. */
typedef struct idler {
    struct connection *connection; /* whose it is; constant, and so is its descriptor */
    int fd;
    int64_t since_ms; /* when it came into its line */
    idle_line *line;  /* NULL: it is in none */
    struct idler *next, *previous;
} idler;

/* All of this machine's loopback addresses; an IPv4 address; the /64 of an IPv6 address; a user at
 * a Unix socket. */
typedef struct origin {
    char name[ORIGIN_SIZE];
    size_t n_connections;
    idle_line lines[N_IDLE_KINDS];
    struct origin *next;
} origin;

/* All 0: there are none. */
typedef struct origins {
    origin *first;
} origins;

/* The origin of a connection, which counts from now on; user: at a Unix socket. Forgets it. */
origin *origins_enter(origins *all, int fd, const peer *user);
void origins_leave(origins *all, origin *of);

/* From now on it is the last in this line of its origin, and in no other; or in none. */
void origins_begin_idling(idler *one, origin *of, idle_kind kind);
void origins_end_idling(idler *one);

/* Which one makes room. NULL: none may now. None goes that has just connected, has just sent
 * something that was not read yet, or has read something within a second. */
idler *origins_choose(const origins *all);

#endif
