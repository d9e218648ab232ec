/* SPDX-License-Identifier: Apache-2.0 */
/* watch.h: listens to a client until it ends, and waits for what its process has left behind. */
#ifndef CLIENT_GUARDIAN_WATCH_H
#define CLIENT_GUARDIAN_WATCH_H

#include "client/guardian/estate.h"

typedef enum watch_end {
    WATCH_CLOSED, /* the client was closed in order */
    WATCH_DIED,   /* its process is gone, as the kernel says */
    WATCH_LEFT,   /* its process lives, but says nothing any more: the lease decides */
} watch_end;

/* Listens on the socket, and notes all that it is told. Unless it died, nothing may be given back
 * but what the client itself has handed over. */
watch_end watch_client(int fd, struct estate *estate);

#endif
