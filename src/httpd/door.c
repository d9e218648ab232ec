/* SPDX-License-Identifier: Apache-2.0 */
/* door.c: watches over the connections, in a thread of its own. microhttpd's own time-out begins
 * anew with each byte; here a request has one deadline as a whole. */
#include "httpd/door.h"

#include <stdlib.h>
#include <sys/socket.h>

#include "httpd/clock.h"
#include "show/text.h"

#define PARTS 4 /* of the patience: how much later than due a client may be cut off */

guest *door_enter(door *d, int fd)
{
    guest *g = text_alloc(sizeof *g);
    g->fd = fd;
    pthread_mutex_lock(&d->mutex);
    g->next = d->guests;
    if (g->next)
        g->next->previous = g;
    d->guests = g;
    d->n_guests++;
    g->deadline_ms = clock_now_ms() + d->patience_ms;
    pthread_mutex_unlock(&d->mutex);
    return g;
}

void door_leave(door *d, guest *g)
{
    pthread_mutex_lock(&d->mutex);
    if (g->next)
        g->next->previous = g->previous;
    if (g->previous)
        g->previous->next = g->next;
    else
        d->guests = g->next;
    d->n_guests--;
    pthread_mutex_unlock(&d->mutex);
    free(g);
}

static void set_deadline(door *d, guest *g, int64_t deadline_ms)
{
    pthread_mutex_lock(&d->mutex);
    g->deadline_ms = deadline_ms;
    pthread_mutex_unlock(&d->mutex);
}

void door_expect(door *d, guest *g)
{
    set_deadline(d, g, clock_now_ms() + d->patience_ms);
}

void door_relax(door *d, guest *g)
{
    set_deadline(d, g, 0);
}

void door_request(door *d, int more)
{
    pthread_mutex_lock(&d->mutex);
    d->n_requests += (size_t)more;
    if (!d->n_requests)
        pthread_cond_broadcast(&d->quiet);
    pthread_mutex_unlock(&d->mutex);
}

void door_count(door *d, size_t *guests, size_t *requests)
{
    pthread_mutex_lock(&d->mutex);
    *guests = d->n_guests;
    *requests = d->n_requests;
    pthread_mutex_unlock(&d->mutex);
}

/* microhttpd sees the end of the connection, and closes it. */
static void cut_off(const guest *g)
{
    shutdown(g->fd, SHUT_RDWR);
}

static void cut_off_overdue(const door *d, int64_t now_ms)
{
    for (const guest *g = d->guests; g; g = g->next)
        if (g->deadline_ms && g->deadline_ms <= now_ms)
            cut_off(g);
}

static void *watch(void *ctx)
{
    door *d = ctx;
    pthread_mutex_lock(&d->mutex);
    while (!d->is_closing) {
        int64_t now_ms = clock_now_ms();
        cut_off_overdue(d, now_ms);
        struct timespec next = clock_at(now_ms + d->patience_ms / PARTS);
        pthread_cond_clockwait(&d->closing, &d->mutex, CLOCK_MONOTONIC, &next);
    }
    pthread_mutex_unlock(&d->mutex);
    return NULL;
}

void door_clear(door *d, int64_t wait_ms)
{
    struct timespec end = clock_at(clock_now_ms() + wait_ms);
    pthread_mutex_lock(&d->mutex);
    while (d->n_requests && !pthread_cond_clockwait(&d->quiet, &d->mutex, CLOCK_MONOTONIC, &end))
        ;
    for (const guest *g = d->guests; g; g = g->next)
        cut_off(g);
    pthread_mutex_unlock(&d->mutex);
}

bool door_open(door *d, int64_t patience_ms)
{
    d->patience_ms = patience_ms;
    pthread_mutex_init(&d->mutex, NULL);
    pthread_cond_init(&d->closing, NULL);
    pthread_cond_init(&d->quiet, NULL);
    return pthread_create(&d->thread, NULL, watch, d) == 0;
}

void door_close(door *d)
{
    pthread_mutex_lock(&d->mutex);
    d->is_closing = true;
    pthread_cond_broadcast(&d->closing);
    pthread_mutex_unlock(&d->mutex);
    pthread_join(d->thread, NULL);
    pthread_cond_destroy(&d->closing);
    pthread_cond_destroy(&d->quiet);
    pthread_mutex_destroy(&d->mutex);
}
