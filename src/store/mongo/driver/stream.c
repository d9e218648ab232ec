/* SPDX-License-Identifier: Apache-2.0 */
/* stream.c: carries the bytes between the driver and one member. The driver asks all members at
 * once (connection.c), but would wait until each has answered or its time is over. These streams
 * end that as soon as enough was heard (scan.c). And a read that gets no answer asks from time to
 * time whether its server is still the one to wait for. tries.c connects. */
#include "store/mongo/driver/stream.h"
#include "core/alloc.h"
#include "store/kernel_time.h"
#include "store/mongo/driver/checked.h"
#include "store/mongo/driver/set.h"
#include "store/mongo/driver/store.h"
#include "store/mongo/driver/tls.h"
#include "store/mongo/driver/tries.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_MS 100   /* between two looks at whether the server is given up */
#define REST_MS 500   /* between two before that: whether it has been given up already */
#define OUR_TYPE 4711 /* no type of the driver's */

typedef struct stream {
    mongoc_stream_t base;
    mongo_connection *of;
    tries tries;             /* until one has answered */
    mongoc_socket_t *socket; /* the one that answered; NULL until then */
    mongoc_stream_t *tls;    /* around this stream, until its handshake is done; or NULL */
    char *name;              /* of the host, which its certificate must have */
    char *host;              /* with its port */
    int shake_events;        /* what the handshake waits for */
    int error;               /* errno of the last call */
} stream;

static stream *stream_of(mongoc_stream_t *base)
{
    return (stream *)base;
}

static int64_t now_ms(void)
{
    return kernel_ms(CLOCK_MONOTONIC);
}

static int error_of(const stream *s)
{
    return s->socket ? s->error : s->tries.error;
}

/* ---- Waiting for several members at once ---- */

typedef struct poller {
    mongoc_stream_poll_t *streams;
    size_t n;
    mongoc_socket_poll_t *sockets;
    size_t n_sockets;
    mongoc_socket_t *watched; /* an answer there ends the scan; or NULL */
    bool is_answered;
    bool has_failed; /* a stream of them has no way left */
    int64_t next_ms; /* when the next address of one is to be tried */
} poller;

static void add_socket(poller *p, mongoc_socket_t *socket, int events)
{
    p->sockets[p->n_sockets++] = (mongoc_socket_poll_t){.socket = socket, .events = events};
}

static void add_stream(poller *p, mongoc_stream_poll_t *one)
{
    stream *s = stream_of(one->stream);
    one->revents = 0;
    tries *t = &s->tries;
    if (!s->socket && !tries_go_on(t)) {
        if (t->error)
            mongo_scan_misses(&s->of->scan, s->host, strerror(t->error));
        one->revents = POLLERR;
        p->has_failed = true;
        return;
    }
    if (s->socket)
        add_socket(p, s->socket, s->tls ? s->shake_events : one->events);
    for (size_t i = 0; i < t->n_begun; i++)
        if (t->sockets[i])
            add_socket(p, t->sockets[i], POLLOUT);
    if (!s->socket && t->n_begun < t->n && t->next_ms < p->next_ms)
        p->next_ms = t->next_ms;
}

/* The driver has one code for all errors of a handshake. OpenSSL says "certificate verify failed"
 * of one that no authority has signed or that has expired, the driver "Failed certificate
 * verification" of another name. */
static bool is_of_certificate(const bson_error_t *error)
{
    return strcasestr(error->message, "certificate verif");
}

/* The driver leaves the handshake to what opens its streams. Returns what it is told. */
static int shake(stream *s, int wanted)
{
    bson_error_t error = {0};
    int events = 0;
    if (mongoc_stream_tls_handshake(s->tls, s->name, 0, &events, &error)) {
        s->tls = NULL;
        return wanted & POLLOUT;
    }
    s->shake_events = events;
    if (events)
        return 0;
    if (is_of_certificate(&error))
        mongo_scan_distrusts(&s->of->scan, s->host, error.message);
    else
        mongo_scan_misses(&s->of->scan, s->host, error.message);
    return POLLERR;
}

/* Returns whether the driver has something to do with it. */
static bool take_result(mongoc_stream_poll_t *one, const mongoc_socket_poll_t **at)
{
    stream *s = stream_of(one->stream);
    if (one->revents)
        return true;
    if (s->socket) {
        one->revents = (*at)++->revents;
        if (s->tls && one->revents)
            one->revents = shake(s, one->events);
        return one->revents;
    }
    bool is_polled[TRIES_MOST];
    for (size_t i = 0; i < s->tries.n_begun; i++)
        is_polled[i] = s->tries.sockets[i];
    for (size_t i = 0; i < s->tries.n_begun; i++) {
        if (!is_polled[i])
            continue;
        int revents = (*at)++->revents;
        if (!s->socket) /* another one of them may have answered, too */
            s->socket = tries_hear(&s->tries, i, revents);
    }
    one->revents = s->socket && !s->tls ? one->events & POLLOUT : 0;
    return one->revents;
}

static ssize_t poll_once(poller *p, int64_t until_ms)
{
    ssize_t n_ready = 0;
    p->n_sockets = 0;
    p->has_failed = false;
    p->next_ms = until_ms;
    for (size_t i = 0; i < p->n; i++)
        add_stream(p, &p->streams[i]);
    size_t n = p->n_sockets;
    if (p->watched)
        add_socket(p, p->watched, POLLIN);
    int64_t left_ms = p->has_failed ? 0 : p->next_ms - now_ms();
    if (p->n_sockets &&
        mongoc_socket_poll(p->sockets, p->n_sockets, left_ms > 0 ? (int32_t)left_ms : 0) < 0 &&
        errno != EINTR)
        return -1;
    p->is_answered = p->watched && p->sockets[n].revents;
    const mongoc_socket_poll_t *at = p->sockets;
    for (size_t i = 0; i < p->n; i++)
        n_ready += take_result(&p->streams[i], &at);
    return n_ready;
}

/* Enough was heard: the driver takes the silent ones for lost. */
static ssize_t hang_up(poller *p)
{
    for (size_t i = 0; i < p->n; i++)
        p->streams[i].revents = POLLERR;
    return (ssize_t)p->n;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* All streams are of one connection, which looks for a primary. */
static ssize_t poll_streams(mongoc_stream_poll_t *streams, size_t n, int32_t timeout_ms)
{
    mongo_connection *connection = stream_of(streams[0].stream)->of;
    int64_t until_ms = timeout_ms < 0 ? INT64_MAX : now_ms() + timeout_ms;
    poller p = {.streams = streams, .n = n, .watched = connection->watched};
    p.sockets = alloc_array(NULL, n * TRIES_MOST + 1, sizeof *p.sockets);
    ssize_t ready = 0;
    for (;;) {
        int64_t now = now_ms(), ends_ms = mongo_scan_ends_ms(&connection->scan);
        bool is_over = now >= ends_ms || p.is_answered ||
                       mongo_is_hurried(connection->store, connection->hurried) ||
                       mongo_bound_is_cancelled(connection->bound);
        if (is_over)
            ready = hang_up(&p);
        else
            ready = poll_once(&p, least(least(until_ms, ends_ms), now + LOOK_MS));
        if (ready || now_ms() >= until_ms)
            break;
    }
    free(p.sockets);
    return ready;
}

/* ---- Reading and writing ---- */

static bool fail(stream *s, int error)
{
    s->error = errno = error;
    return false;
}

/* The listener is answered seldom. Nobody waits for that when the store is being closed, or another
 * call has found another primary. */
static bool is_over_early(const stream *s, int64_t now)
{
    return now >= s->of->began_ms + MONGO_QUIET_MS &&
           (mongo_is_hurried(s->of->store, s->of->hurried) ||
            mongo_set_is_former(s->of->store, s->of->primary));
}

static bool is_given_up(stream *s, int64_t until_ms)
{
    return mongo_bound_is_cancelled(s->of->bound) || s->of->is_given_up(s->of, until_ms);
}

/* Until there is something to read. False: s->error says why not. */
static bool await_input(stream *s, int64_t until_ms)
{
    mongoc_socket_poll_t one = {.socket = s->socket, .events = POLLIN};
    until_ms = least(until_ms, s->of->until_ms);
    for (;;) {
        int64_t now = now_ms(), doubt_ms = s->of->doubt_ms;
        if (now >= until_ms)
            return fail(s, ETIMEDOUT);
        s->of->unanswered = s->socket;
        if (is_over_early(s, now) || (now >= doubt_ms && is_given_up(s, until_ms)))
            return fail(s, ECONNRESET);
        int64_t look_ms = doubt_ms > now ? least(doubt_ms, now + REST_MS) : now + LOOK_MS;
        int n = (int)mongoc_socket_poll(&one, 1, (int32_t)(least(until_ms, look_ms) - now));
        if (n > 0)
            return true;
        if (n < 0 && errno != EINTR)
            return fail(s, errno);
    }
}

/* As recv() does, but waits. until_ms 0: does not. */
static ssize_t receive(stream *s, void *to, size_t size, int64_t until_ms)
{
    for (;;) {
        s->error = 0;
        ssize_t n = mongoc_socket_recv(s->socket, to, size, 0, 0);
        if (n >= 0)
            return n;
        s->error = mongoc_socket_errno(s->socket);
        bool is_early = s->error == EAGAIN || s->error == EWOULDBLOCK || s->error == EINTR;
        if (!is_early || !until_ms || !await_input(s, until_ms))
            return -1;
    }
}

/* At least min_bytes, and no more than there is room for. */
static ssize_t read_from(mongoc_stream_t *base, mongoc_iovec_t *iov, size_t n_iov, size_t min_bytes,
                         int32_t timeout_ms)
{
    stream *s = stream_of(base);
    int64_t until_ms = timeout_ms < 0 ? INT64_MAX : timeout_ms ? now_ms() + timeout_ms : 0;
    size_t got = 0;
    for (size_t i = 0; i < n_iov; i++) {
        char *at = iov[i].iov_base;
        for (size_t left = iov[i].iov_len; left;) {
            ssize_t n = s->socket ? receive(s, at, left, until_ms) : -1;
            if (n <= 0) {
                errno = error_of(s);
                return got >= min_bytes ? (ssize_t)got : -1;
            }
            at += n;
            left -= (size_t)n;
            got += (size_t)n;
            if (left && got >= min_bytes)
                return (ssize_t)got;
        }
    }
    return (ssize_t)got;
}

static ssize_t write_to(mongoc_stream_t *base, mongoc_iovec_t *iov, size_t n_iov,
                        int32_t timeout_ms)
{
    stream *s = stream_of(base);
    int64_t until_us = timeout_ms < 0 ? -1 : 0, left_ms = s->of->until_ms - now_ms();
    if (!s->socket)
        return -1;
    if (timeout_ms > 0)
        until_us = bson_get_monotonic_time() + least(timeout_ms, left_ms > 0 ? left_ms : 0) * 1000;
    ssize_t n = mongoc_socket_sendv(s->socket, iov, n_iov, until_us);
    s->error = errno = mongoc_socket_errno(s->socket);
    return n;
}

/* ---- Its end, and the rest of what the driver asks ---- */

static int close_stream(mongoc_stream_t *base)
{
    stream *s = stream_of(base);
    return s->socket ? mongoc_socket_close(s->socket) : 0;
}

static void destroy(mongoc_stream_t *base)
{
    stream *s = stream_of(base);
    tries_done(&s->tries);
    if (s->socket)
        mongoc_socket_destroy(s->socket);
    free(s->name);
    free(s->host);
    free(s);
}

static int flush(mongoc_stream_t *base)
{
    (void)base;
    return 0;
}

static int set_option(mongoc_stream_t *base, int level, int name, void *value,
                      mongoc_socklen_t length)
{
    stream *s = stream_of(base);
    return s->socket ? mongoc_socket_setsockopt(s->socket, level, name, value, length) : -1;
}

static bool is_closed(mongoc_stream_t *base)
{
    stream *s = stream_of(base);
    return !s->socket || mongoc_socket_check_closed(s->socket);
}

static bool is_timed_out(mongoc_stream_t *base)
{
    return error_of(stream_of(base)) == ETIMEDOUT;
}

static bool is_early(mongoc_stream_t *base)
{
    int error = error_of(stream_of(base));
    return error == EAGAIN || error == EWOULDBLOCK || error == EINPROGRESS || error == EINTR;
}

static const mongoc_stream_t functions = {.type = OUR_TYPE,
                                          .destroy = destroy,
                                          .close = close_stream,
                                          .flush = flush,
                                          .writev = write_to,
                                          .readv = read_from,
                                          .setsockopt = set_option,
                                          .check_closed = is_closed,
                                          .poll = poll_streams,
                                          .failed = destroy,
                                          .timed_out = is_timed_out,
                                          .should_retry = is_early};

/* ---- Opening ---- */

/* A member that cannot be asked gets a stream without an address, which fails when the driver looks
 * at it: the driver's scan stands still for ever if it gets none for a member of which it has just
 * learned (libmongoc 1.23: it locks a mutex twice). */
static mongoc_stream_t *open_unchecked(const mongoc_uri_t *uri, const mongoc_host_list_t *host,
                                       mongo_connection *connection)
{
    mongo_scan *scan = &connection->scan;
    stream *s = alloc_zeroed(sizeof *s);
    s->base = functions;
    s->of = connection;
    s->host = alloc_text(host->host_and_port);
    if (scan->is_found && !scan->wants_all)
        return &s->base;
    int64_t before_ms = now_ms();
    const char *why = tries_find(&s->tries, host);
    scan->began_ms +=
        now_ms() - before_ms; /* a name server that is slow costs no member its time */
    mongoc_stream_t *tls =
        !why && mongoc_uri_get_tls(uri) ? mongo_tls_around(&s->base, uri, host->host) : NULL;
    if (!why && !tls && mongoc_uri_get_tls(uri))
        why = "TLS cannot be set up: can the URI's certificate files be read?";
    if (why) {
        mongo_scan_misses(scan, host->host_and_port, why);
        s->tries.n = 0;
    }
    if (!tls)
        return &s->base;
    s->tls = tls;
    s->name = alloc_text(host->host);
    s->shake_events = POLLOUT;
    return tls;
}

mongoc_stream_t *mongo_stream_open(const mongoc_uri_t *uri, const mongoc_host_list_t *host,
                                   void *ctx, bson_error_t *error)
{
    (void)error;
    return mongo_checked_around(open_unchecked(uri, host, ctx), ctx);
}
