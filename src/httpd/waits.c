/* SPDX-License-Identifier: Apache-2.0 */
/* waits.c: notices in a thread of its own when a client that waits has hung up. */
#include "httpd/waits.h"
#include "sync/mutex_scope.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define AT_ONCE 32

static wait_entry **list_of(waits *w, uint64_t id)
{
    return &w->lists[id % WAITS_LISTS];
}

/* Finds it by its number, because its memory may belong to another wait by now. */
static wait_entry *find_locked(waits *w, uint64_t id)
{
    wait_entry *e = *list_of(w, id);
    while (e && e->id != id)
        e = e->next;
    return e;
}

static void add_locked(waits *w, wait_entry *e)
{
    struct epoll_event event = {.events = EPOLLRDHUP | EPOLLONESHOT};
    event.data.u64 = e->id = ++w->last_id;
    e->link = list_of(w, e->id);
    e->next = *e->link;
    if (e->next)
        e->next->link = &e->next;
    *e->link = e;
    w->n++;
    if (e->lock) {
        tally_add(&w->of_client, e->who);
        tally_add(&w->of_lock, e->lock);
    }
    epoll_ctl(w->epoll, EPOLL_CTL_ADD, e->fd, &event);
}

admission waits_enter(waits *w, wait_entry *e, size_t most)
{
    MUTEX_SCOPE(&w->mutex);
    if (w->is_closing)
        return ENDING;
    if (e->lock && tally_of(&w->of_client, e->who) >= most)
        return TOO_MANY_OF_ONE;
    if (w->most && w->n >= w->most)
        return TOO_MANY_OF_ALL;
    add_locked(w, e);
    return ADMITTED;
}

void waits_leave(waits *w, wait_entry *e)
{
    pthread_mutex_lock(&w->mutex);
    epoll_ctl(w->epoll, EPOLL_CTL_DEL, e->fd, NULL);
    *e->link = e->next;
    if (e->next)
        e->next->link = e->link;
    if (e->lock) {
        tally_remove(&w->of_client, e->who);
        tally_remove(&w->of_lock, e->lock);
    }
    pthread_mutex_unlock(&w->mutex);
}

void waits_over(waits *w)
{
    pthread_mutex_lock(&w->mutex);
    if (--w->n == 0)
        pthread_cond_broadcast(&w->none);
    pthread_mutex_unlock(&w->mutex);
}

size_t waits_count(waits *w)
{
    MUTEX_SCOPE(&w->mutex);
    return w->n;
}

size_t waits_count_for(waits *w, const char *lock)
{
    MUTEX_SCOPE(&w->mutex);
    return tally_of(&w->of_lock, lock);
}

static void notice(waits *w, uint64_t id)
{
    pthread_mutex_lock(&w->mutex);
    wait_entry *e = find_locked(w, id);
    if (e)
        e->on_gone(e->ctx);
    pthread_mutex_unlock(&w->mutex);
}

/* Number 0 is the descriptor that ends the thread. */
static void *watch(void *ctx)
{
    waits *w = ctx;
    for (;;) {
        struct epoll_event events[AT_ONCE];
        int n = epoll_wait(w->epoll, events, AT_ONCE, -1);
        for (int i = 0; i < n; i++) {
            if (!events[i].data.u64)
                return NULL;
            notice(w, events[i].data.u64);
        }
    }
}

bool waits_open(waits *w)
{
    struct epoll_event event = {.events = EPOLLIN};
    pthread_mutex_init(&w->mutex, NULL);
    pthread_cond_init(&w->none, NULL);
    w->epoll = epoll_create1(EPOLL_CLOEXEC);
    w->wake = eventfd(0, EFD_CLOEXEC);
    if (w->epoll >= 0 && w->wake >= 0 && !epoll_ctl(w->epoll, EPOLL_CTL_ADD, w->wake, &event) &&
        !pthread_create(&w->thread, NULL, watch, w))
        return true;
    close(w->epoll);
    close(w->wake);
    return false;
}

void waits_end(waits *w)
{
    pthread_mutex_lock(&w->mutex);
    w->is_closing = true;
    for (size_t i = 0; i < WAITS_LISTS; i++)
        for (wait_entry *e = w->lists[i]; e; e = e->next)
            e->on_gone(e->ctx);
    while (w->n)
        pthread_cond_wait(&w->none, &w->mutex);
    pthread_mutex_unlock(&w->mutex);
}

void waits_close(waits *w)
{
    eventfd_write(w->wake, 1);
    pthread_join(w->thread, NULL);
    close(w->epoll);
    close(w->wake);
    tally_done(&w->of_client);
    tally_done(&w->of_lock);
}
