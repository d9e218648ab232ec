/* SPDX-License-Identifier: Apache-2.0 */
/* tries.c: connects to the addresses of a member; stream.c waits for what becomes of that. */
#include "store/mongo/driver/tries.h"
#include "store/kernel_time.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#define NEXT_MS 250 /* after the last address that was tried */

static int64_t now_ms(void)
{
    return kernel_ms(CLOCK_MONOTONIC);
}

/* ---- Addresses ---- */

static void add_address(tries *t, const struct sockaddr *at, socklen_t length)
{
    if (t->n == TRIES_MOST || length > sizeof t->addresses[0].at)
        return;
    memcpy(&t->addresses[t->n].at, at, length);
    t->addresses[t->n++].length = length;
}

static const char *find_by_path(tries *t, const mongoc_host_list_t *host)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    if (strlen(host->host) >= sizeof at.sun_path)
        return "its path is too long";
    strcpy(at.sun_path, host->host);
    add_address(t, (const struct sockaddr *)&at, sizeof at);
    return NULL;
}

static const char *find_by_name(tries *t, const mongoc_host_list_t *host)
{
    struct addrinfo hints = {.ai_family = host->family, .ai_socktype = SOCK_STREAM}, *found;
    char port[16];
    snprintf(port, sizeof port, "%u", host->port);
    int code = getaddrinfo(host->host, port, &hints, &found);
    if (code)
        return gai_strerror(code);
    for (const struct addrinfo *each = found; each; each = each->ai_next)
        add_address(t, each->ai_addr, each->ai_addrlen);
    freeaddrinfo(found);
    return NULL;
}

const char *tries_find(tries *t, const mongoc_host_list_t *host)
{
    return host->family == AF_UNIX ? find_by_path(t, host) : find_by_name(t, host);
}

/* ---- Connecting ---- */

static bool is_under_way(int error)
{
    return error == EINPROGRESS || error == EAGAIN || error == EWOULDBLOCK || error == ETIMEDOUT;
}

/* NULL: it failed at once; t->error says why. */
static mongoc_socket_t *connect_to(tries *t, const tries_address *to)
{
    mongoc_socket_t *socket = mongoc_socket_new(to->at.ss_family, SOCK_STREAM, 0);
    t->error = errno;
    if (!socket || !mongoc_socket_connect(socket, (const struct sockaddr *)&to->at, to->length, 0))
        return socket;
    t->error = mongoc_socket_errno(socket);
    if (is_under_way(t->error))
        return socket;
    mongoc_socket_destroy(socket);
    return NULL;
}

static void try_next(tries *t)
{
    mongoc_socket_t *socket = connect_to(t, &t->addresses[t->n_begun]);
    t->sockets[t->n_begun++] = socket;
    t->next_ms = now_ms() + NEXT_MS;
}

static bool has_try(const tries *t)
{
    for (size_t i = 0; i < t->n_begun; i++)
        if (t->sockets[i])
            return true;
    return false;
}

bool tries_go_on(tries *t)
{
    while (t->n_begun < t->n && (!has_try(t) || now_ms() >= t->next_ms))
        try_next(t);
    return has_try(t);
}

/* A socket says why it is not connected when it is read. */
static int why_not(mongoc_socket_t *socket)
{
    char none;
    ssize_t n = mongoc_socket_recv(socket, &none, 1, 0, 0);
    return n < 0 ? mongoc_socket_errno(socket) : ECONNRESET;
}

static void give_up(tries *t, size_t i)
{
    mongoc_socket_destroy(t->sockets[i]);
    t->sockets[i] = NULL;
    t->next_ms = 0; /* no need to wait before the next */
}

void tries_done(tries *t)
{
    for (size_t i = 0; i < t->n_begun; i++)
        if (t->sockets[i])
            give_up(t, i);
}

mongoc_socket_t *tries_hear(tries *t, size_t i, int revents)
{
    mongoc_socket_t *socket = t->sockets[i];
    if (revents & (POLLERR | POLLHUP)) {
        t->error = why_not(socket);
        give_up(t, i);
        return NULL;
    }
    if (!(revents & POLLOUT))
        return NULL;
    t->sockets[i] = NULL;
    tries_done(t);
    t->error = 0;
    return socket;
}
