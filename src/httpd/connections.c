/* SPDX-License-Identifier: Apache-2.0 */
/* connections.c: cuts off slow clients, in a thread of its own. microhttpd's own time-out begins
 * anew with each byte; here a request has one deadline as a whole. */
#include "httpd/connections.h"

#include <stdlib.h>
#include <sys/socket.h>

#include "httpd/clock.h"
#include "show/text.h"
#include "sync/mutex_scope.h"

#define PARTS 4 /* a client is cut off late by at most this part of its patience */

/* microhttpd sees the end of the connection, and closes it. */
static void cut_off(const connection *one)
{
    shutdown(one->fd, SHUT_RDWR);
}

/* ---- Those without a request, the longest first ---- */

static void begin_idling_locked(connections *all, connection *one)
{
    one->is_idle = true;
    one->idle_next = NULL;
    one->idle_previous = all->latest_idle;
    if (all->latest_idle)
        all->latest_idle->idle_next = one;
    else
        all->longest_idle = one;
    all->latest_idle = one;
}

static void end_idling_locked(connections *all, connection *one)
{
    if (!one->is_idle)
        return;
    one->is_idle = false;
    if (one->idle_next)
        one->idle_next->idle_previous = one->idle_previous;
    else
        all->latest_idle = one->idle_previous;
    if (one->idle_previous)
        one->idle_previous->idle_next = one->idle_next;
    else
        all->longest_idle = one->idle_next;
}

static void make_room_locked(connections *all)
{
    connection *one = all->longest_idle;
    if (!one || all->n_connections - all->n_leaving <= all->most)
        return;
    end_idling_locked(all, one);
    one->makes_room = true;
    all->n_leaving++;
    all->n_cut++;
    cut_off(one);
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
    pthread_mutex_lock(&all->mutex);
    link_locked(all, one);
    make_room_locked(all);
    begin_idling_locked(all, one);
    one->deadline_ms = clock_now_ms() + all->patience_ms;
    pthread_mutex_unlock(&all->mutex);
    return one;
}

void connections_remove(connections *all, connection *one)
{
    pthread_mutex_lock(&all->mutex);
    unlink_locked(all, one);
    end_idling_locked(all, one);
    all->n_leaving -= one->makes_room;
    pthread_mutex_unlock(&all->mutex);
    free(one->peer);
    free(one);
}

static void set_deadline(connections *all, connection *one, int64_t deadline_ms)
{
    pthread_mutex_lock(&all->mutex);
    one->deadline_ms = deadline_ms;
    pthread_mutex_unlock(&all->mutex);
}

void connections_set_deadline(connections *all, connection *one)
{
    set_deadline(all, one, clock_now_ms() + all->patience_ms);
}

void connections_clear_deadline(connections *all, connection *one)
{
    set_deadline(all, one, 0);
}

void connections_begin_request(connections *all, connection *one)
{
    pthread_mutex_lock(&all->mutex);
    end_idling_locked(all, one);
    all->n_requests++;
    pthread_mutex_unlock(&all->mutex);
}

void connections_end_request(connections *all, connection *one)
{
    pthread_mutex_lock(&all->mutex);
    if (!one->makes_room)
        begin_idling_locked(all, one);
    one->deadline_ms = clock_now_ms() + all->patience_ms;
    if (!--all->n_requests)
        pthread_cond_broadcast(&all->quiet);
    make_room_locked(all);
    pthread_mutex_unlock(&all->mutex);
}

connection_counts connections_count(connections *all)
{
    MUTEX_SCOPE(&all->mutex);
    return (connection_counts){all->n_connections, all->n_requests, all->n_cut};
}

static void cut_off_overdue(const connections *all, int64_t now_ms)
{
    for (const connection *one = all->first; one; one = one->next)
        if (one->deadline_ms && one->deadline_ms <= now_ms)
            cut_off(one);
}

static void *watch(void *ctx)
{
    connections *all = ctx;
    pthread_mutex_lock(&all->mutex);
    while (!all->is_closing) {
        int64_t now_ms = clock_now_ms();
        cut_off_overdue(all, now_ms);
        struct timespec next = clock_at(now_ms + all->patience_ms / PARTS);
        pthread_cond_clockwait(&all->closing, &all->mutex, CLOCK_MONOTONIC, &next);
    }
    pthread_mutex_unlock(&all->mutex);
    return NULL;
}

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
    pthread_cond_init(&all->closing, NULL);
    pthread_cond_init(&all->quiet, NULL);
    return pthread_create(&all->thread, NULL, watch, all) == 0;
}

void connections_close(connections *all)
{
    pthread_mutex_lock(&all->mutex);
    all->is_closing = true;
    pthread_cond_broadcast(&all->closing);
    pthread_mutex_unlock(&all->mutex);
    pthread_join(all->thread, NULL);
    pthread_cond_destroy(&all->closing);
    pthread_cond_destroy(&all->quiet);
    pthread_mutex_destroy(&all->mutex);
}
