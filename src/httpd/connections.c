/* SPDX-License-Identifier: Apache-2.0 */
/* connections.c: cuts off slow clients, in a thread of its own. microhttpd's own time-out begins
 * anew with each byte; here a request has one deadline as a whole. */
#include "httpd/connections.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "httpd/clock.h"
#include "show/text.h"
#include "sync/mutex_scope.h"

#define FIRST_BYTE_MS 2000 /* for a client that has just connected */
#define PARTS 4            /* it is cut off late by at most this part of the time that it has */
#define CROWDED_MS 25      /* how often there may be room, where there is too little */

/* microhttpd sees the end of the connection, and closes it. */
static void cut_off(const connection *one)
{
    shutdown(one->fd, SHUT_RDWR);
}

/* ---- Making room ---- */

static bool is_crowded(const connections *all)
{
    return all->n_connections - all->n_leaving > all->most;
}

static void let_go(connections *all, connection *one)
{
    origins_end_idling(&one->idle);
    one->makes_room = true;
    all->n_leaving++;
    all->n_cut++;
    cut_off(one);
}

/* False: nobody may go for it yet. */
static bool make_room_locked(connections *all)
{
    idler *found;
    while (is_crowded(all) && (found = origins_choose(&all->origins)))
        let_go(all, found->connection);
    return !is_crowded(all);
}

/* The thread tries again soon. */
static void make_room_soon_locked(connections *all)
{
    if (!make_room_locked(all))
        pthread_cond_broadcast(&all->changed);
}

static void begin_idling(connection *one, idle_kind kind)
{
    if (!one->makes_room)
        origins_begin_idling(&one->idle, one->origin, kind);
}

/* ---- All of them ---- */

static void link_locked(connections *all, connection *one)
{
    one->next = all->first;
    if (one->next)
        one->next->previous = one;
    all->first = one;
    all->n_connections++;
}

static void unlink_locked(connections *all, const connection *one)
{
    if (one->next)
        one->next->previous = one->previous;
    if (one->previous)
        one->previous->next = one->next;
    else
        all->first = one->next;
    all->n_connections--;
}

/* The newcomer itself is not the one that goes. */
connection *connections_add(connections *all, int fd)
{
    connection *one = text_alloc(sizeof *one);
    one->fd = fd;
    one->peer = peer_find(fd);
    one->idle.connection = one;
    one->idle.fd = fd;
    pthread_mutex_lock(&all->mutex);
    one->origin = origins_enter(&all->origins, fd, one->peer);
    link_locked(all, one);
    make_room_soon_locked(all);
    begin_idling(one, IDLE_SENDING);
    int64_t now_ms = clock_now_ms();
    one->deadline_ms = now_ms + all->patience_ms;
    one->first_byte_by_ms = now_ms + FIRST_BYTE_MS;
    pthread_mutex_unlock(&all->mutex);
    return one;
}

void connections_remove(connections *all, connection *one)
{
    pthread_mutex_lock(&all->mutex);
    unlink_locked(all, one);
    origins_end_idling(&one->idle);
    origins_leave(&all->origins, one->origin);
    all->n_leaving -= one->makes_room;
    pthread_mutex_unlock(&all->mutex);
    free(one->peer);
    free(one);
}

void connections_set_deadline(connections *all, connection *one)
{
    pthread_mutex_lock(&all->mutex);
    begin_idling(one, IDLE_READING);
    one->deadline_ms = clock_now_ms() + all->patience_ms;
    pthread_mutex_unlock(&all->mutex);
}

void connections_clear_deadline(connections *all, connection *one)
{
    pthread_mutex_lock(&all->mutex);
    origins_end_idling(&one->idle);
    one->deadline_ms = 0;
    pthread_mutex_unlock(&all->mutex);
}

void connections_begin_request(connections *all, connection *one)
{
    pthread_mutex_lock(&all->mutex);
    if (one->idle.line == &one->origin->lines[IDLE_KEPT])
        begin_idling(one, IDLE_SENDING);
    one->first_byte_by_ms = 0;
    all->n_requests++;
    pthread_mutex_unlock(&all->mutex);
}

void connections_end_request(connections *all, connection *one)
{
    pthread_mutex_lock(&all->mutex);
    begin_idling(one, IDLE_KEPT);
    one->deadline_ms = clock_now_ms() + all->patience_ms;
    if (!--all->n_requests)
        pthread_cond_broadcast(&all->quiet);
    make_room_soon_locked(all);
    pthread_mutex_unlock(&all->mutex);
}

connection_counts connections_count(connections *all)
{
    MUTEX_SCOPE(&all->mutex);
    return (connection_counts){all->n_connections, all->n_requests, all->n_cut};
}

/* ---- Those that are late ---- */

/* A Unix socket does not tell. There, the head itself must have begun its request by now: it never
 * takes long within a machine. */
static bool has_received(int fd)
{
    struct tcp_info info = {0};
    socklen_t size = sizeof info;
    return !getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) && info.tcpi_bytes_received > 0;
}

static bool is_silent(connection *one, int64_t now_ms)
{
    if (!one->first_byte_by_ms || one->first_byte_by_ms > now_ms)
        return false;
    one->first_byte_by_ms = 0;
    return !has_received(one->fd);
}

static void cut_off_overdue_locked(const connections *all, int64_t now_ms)
{
    for (connection *one = all->first; one; one = one->next)
        if (is_silent(one, now_ms) || (one->deadline_ms && one->deadline_ms <= now_ms))
            cut_off(one);
}

static int64_t rest_ms(const connections *all)
{
    if (is_crowded(all))
        return CROWDED_MS;
    return (all->patience_ms < FIRST_BYTE_MS ? all->patience_ms : FIRST_BYTE_MS) / PARTS;
}

static void *watch(void *ctx)
{
    connections *all = ctx;
    pthread_mutex_lock(&all->mutex);
    while (!all->is_closing) {
        int64_t now_ms = clock_now_ms();
        cut_off_overdue_locked(all, now_ms);
        make_room_locked(all);
        struct timespec next = clock_at(now_ms + rest_ms(all));
        pthread_cond_clockwait(&all->changed, &all->mutex, CLOCK_MONOTONIC, &next);
    }
    pthread_mutex_unlock(&all->mutex);
    return NULL;
}

/* ---- From the first to the last ---- */

void connections_drain(connections *all, int64_t wait_ms)
{
    struct timespec end = clock_at(clock_now_ms() + wait_ms);
    pthread_mutex_lock(&all->mutex);
    while (all->n_requests &&
           !pthread_cond_clockwait(&all->quiet, &all->mutex, CLOCK_MONOTONIC, &end))
        ;
    for (const connection *one = all->first; one; one = one->next)
        cut_off(one);
    pthread_mutex_unlock(&all->mutex);
}

bool connections_open(connections *all, size_t most, int64_t patience_ms)
{
    all->most = most;
    all->patience_ms = patience_ms;
    pthread_mutex_init(&all->mutex, NULL);
    pthread_cond_init(&all->changed, NULL);
    pthread_cond_init(&all->quiet, NULL);
    return pthread_create(&all->thread, NULL, watch, all) == 0;
}

void connections_close(connections *all)
{
    pthread_mutex_lock(&all->mutex);
    all->is_closing = true;
    pthread_cond_broadcast(&all->changed);
    pthread_mutex_unlock(&all->mutex);
    pthread_join(all->thread, NULL);
    pthread_cond_destroy(&all->changed);
    pthread_cond_destroy(&all->quiet);
    pthread_mutex_destroy(&all->mutex);
}
