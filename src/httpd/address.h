/* SPDX-License-Identifier: Apache-2.0 */
/* address.h: where the service listens. */
#ifndef HTTPD_ADDRESS_H
#define HTTPD_ADDRESS_H

#include <sys/socket.h>
#include <sys/types.h>

#include <holdfast/holdfast.h>

struct MHD_Connection;

typedef struct address {
    struct sockaddr_storage sock;
    socklen_t size;
    char host[64]; /* "127.0.0.1", "[::1]" */
    char port[16]; /* "8430" */
    bool is_loopback;
    dev_t device; /* with the inode: which file is our Unix socket, once it listens */
    ino_t inode;
} address;

/* Reads "127.0.0.1:8430", "[::1]:8430", "localhost:8430", "unix:/run/socket". HF_INVALID: what is
 * wrong with it. */
hf_code address_parse(const char *text, address *out, hf_error *err);

/* Opens a socket that listens there, and gives its port. A Unix socket is never for others than
 * its owner and group, as the umask allows; one on which nobody listens any more is replaced. */
hf_code address_listen(address *at, int *fd, int *port, hf_error *err);

/* Removes the Unix socket that address_listen() made. Another service's in its place stays. */
void address_forget(const address *at);

/* The path of a Unix socket; NULL: it is none. */
const char *address_path(const address *at);

/* Whether this is a host, with a port or without: "example.org:8430". */
bool address_is_host(const char *text);

/* Whether the name by which a client calls us, such as "localhost:8430", can only mean this
 * machine. */
bool address_is_here(const char *host);

/* The address of the client at the other end, in numbers and without its port; this host's name, if
 * it came by a Unix socket. */
void address_of_client(struct MHD_Connection *mhd, char *out, size_t size);

#endif
