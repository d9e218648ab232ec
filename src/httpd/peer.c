/* SPDX-License-Identifier: Apache-2.0 */
/* peer.c: asks the kernel who has connected to a Unix socket; connections.c asks once for each
 * connection. */
#include "httpd/peer.h"

#include <pwd.h>
#include <stdio.h>
#include <sys/socket.h>

#include "show/text.h"

#define ENTRY_SIZE 16384

peer *peer_find(int fd)
{
    int domain;
    char entry[ENTRY_SIZE];
    struct ucred at;
    struct passwd user, *found = NULL;
    socklen_t domain_size = sizeof domain, size = sizeof at;
    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &domain_size) || domain != AF_UNIX ||
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &at, &size))
        return NULL;
    peer *out = text_alloc(sizeof *out);
    snprintf(out->id, sizeof out->id, "uid %u", at.uid);
    getpwuid_r(at.uid, &user, entry, sizeof entry, &found);
    snprintf(out->name, sizeof out->name, "%s", found ? found->pw_name : out->id);
    return out;
}
