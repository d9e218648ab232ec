/* SPDX-License-Identifier: Apache-2.0 */
/* peer.h: the user at the other end of a Unix socket. */
#ifndef HTTPD_PEER_H
#define HTTPD_PEER_H

typedef struct peer {
    char name[128]; /* "alice"; "uid 1000" if the number has no name */
    char id[32];    /* "uid 1000" */
} peer;

/* In new memory; NULL: this is no Unix socket. Asks the host's table of users, so it may wait for
 * that. */
peer *peer_find(int fd);

#endif
