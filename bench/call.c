/* SPDX-License-Identifier: Apache-2.0 */
/* call.c: see call.h. */
#include "call.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench.h"

#define AT_ONCE 256
#define SCRATCH 262144
#define END "\r\n\r\n"

void calls_open(calls *all, int port)
{
    *all = (calls){.epoll = epoll_create1(EPOLL_CLOEXEC),
                   .to = {.sin_family = AF_INET,
                          .sin_port = htons((uint16_t)port),
                          .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}};
    if (all->epoll < 0)
        fail(EX_OSERR, "epoll", strerror(errno));
}

void calls_close(calls *all)
{
    close(all->epoll);
}

void call_open(calls *all, call *c, size_t room, call_fn *done, void *ctx)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = c};
    *c = (call){.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0),
                .done = done,
                .ctx = ctx,
                .text = malloc(room),
                .room = room};
    if (!c->text || c->fd < 0 || epoll_ctl(all->epoll, EPOLL_CTL_ADD, c->fd, &event) ||
        (connect(c->fd, (struct sockaddr *)&all->to, sizeof all->to) && errno != EINPROGRESS))
        fail(EX_OSERR, "connect", strerror(errno));
}

void call_close(call *c)
{
    close(c->fd);
    free(c->text);
    *c = (call){.fd = -1};
}

/* A request is far shorter than a socket's buffer. */
static void write_request(call *c)
{
    if (send(c->fd, c->text, c->n, MSG_NOSIGNAL) == (ssize_t)c->n)
        c->n = c->size = c->got = 0;
}

void call_send(call *c, const char *method, const char *path, const char *body)
{
    int n = snprintf(c->text, c->room,
                     "%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                     "Content-Length: %zu" END "%s",
                     method, path, body ? strlen(body) : 0, body ? body : "");
    if (n < 0 || (size_t)n >= c->room)
        fail(EX_SOFTWARE, path, "the request is too long");
    c->n = (size_t)n;
    c->is_busy = true;
    if (c->is_connected)
        write_request(c);
}

static int status_of(const call *c)
{
    int status = 0;
    return sscanf(c->text, "HTTP/1.1 %d", &status) == 1 ? status : 0;
}

/* An answer without a body, or one whose length is not said, ends with its head, or never. */
static size_t size_of(const call *c)
{
    const char *end = strstr(c->text, END), *length = strstr(c->text, "Content-Length: ");
    if (!end)
        return 0;
    size_t head = (size_t)(end - c->text) + strlen(END);
    if (length && length < end)
        return head + strtoul(length + strlen("Content-Length: "), NULL, 10);
    return strstr(c->text, "chunked") ? 0 : head;
}

static void keep(call *c, const char *bytes, size_t size)
{
    size_t room = c->room - 1 - c->n, n = size < room ? size : room;
    memcpy(c->text + c->n, bytes, n);
    c->n += n;
    c->text[c->n] = '\0';
    c->got += size;
    if (!c->size)
        c->size = size_of(c);
}

static void read_answer(call *c)
{
    static char scratch[SCRATCH];
    ssize_t n = 0;
    while (c->fd >= 0 && (n = recv(c->fd, scratch, sizeof scratch, 0)) > 0) {
        keep(c, scratch, (size_t)n);
        if (c->size && c->got >= c->size) {
            c->is_busy = false;
            c->done(c, status_of(c));
        }
    }
    bool has_ended = n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
    if (c->fd >= 0 && has_ended)
        c->done(c, 0);
}

static void serve(call *c, uint32_t events)
{
    if (!c->is_connected && events & EPOLLOUT && !(events & (EPOLLERR | EPOLLHUP))) {
        c->is_connected = true;
        if (c->is_busy)
            write_request(c);
    }
    if (events & (EPOLLIN | EPOLLRDHUP | EPOLLERR | EPOLLHUP))
        read_answer(c);
}

void calls_serve(calls *all, int64_t until_ns)
{
    struct epoll_event events[AT_ONCE];
    int64_t left_ns;
    do {
        left_ns = until_ns - now_ns();
        int n = epoll_wait(all->epoll, events, AT_ONCE,
                           left_ns > 0 ? (int)((left_ns + 999999) / 1000000) : 0);
        for (int i = 0; i < n; i++) {
            call *c = events[i].data.ptr;
            if (c->fd >= 0)
                serve(c, events[i].events);
        }
    } while (left_ns > 0);
}
