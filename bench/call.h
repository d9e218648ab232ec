/* SPDX-License-Identifier: Apache-2.0 */
/* call.h: very many HTTP connections to one service, all driven by one thread. Each has one call at
 * a time. */
#ifndef BENCH_CALL_H
#define BENCH_CALL_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct call call;

/* status: of the answer; 0: the connection has ended, before an answer where it is busy. `c->text`
 * is the answer, as far as there is room for it, until the next call_send(). */
typedef void call_fn(call *c, int status);

/* In the caller's memory, in place, from call_open() to call_close(). */
struct call {
    int fd;
    bool is_connected, is_busy; /* a request was sent, or will be when it is connected */
    call_fn *done;
    void *ctx;
    char *text; /* the request, then the answer */
    size_t room, n;
    size_t size, got; /* of the whole answer, 0: not known; and how much of it came */
};

typedef struct calls {
    int epoll;
    struct sockaddr_in to;
} calls;

void calls_open(calls *all, int port); /* of 127.0.0.1 */
void calls_close(calls *all);

/* A new connection; done() is told of each answer. room: for a request, and for what is wanted of
 * an answer. */
void call_open(calls *all, call *c, size_t room, call_fn *done, void *ctx);
void call_close(call *c);

/* body NULL: none. An answer without a length, a stream of events, is read and forgotten, and
 * done() told of its end. */
void call_send(call *c, const char *method, const char *path, const char *body);

/* Reads and writes until that time. */
void calls_serve(calls *all, int64_t until_ns);

#endif
