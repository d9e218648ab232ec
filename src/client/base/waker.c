/* SPDX-License-Identifier: Apache-2.0 */
/* waker.c: lets a thread sleep until it is woken or cancelled, or its time has come; see waker.h.
 */
#include "client/base/waker.h"

#include "core/alloc.h"
#include "store/kernel_time.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct waker *waker_take_locked(struct wakers *wakers, bool by_fd)
{
    struct waker **kept = &wakers->idle[by_fd], *waker = *kept;
    if (waker) {
        *kept = waker->next;
        return waker;
    }
    waker = alloc_zeroed(sizeof *waker);
    waker->by_fd = by_fd;
    waker->fd = by_fd ? eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) : -1;
    sem_init(&waker->sem, 0, 0);
    return waker;
}

void waker_give_locked(struct wakers *wakers, struct waker *waker)
{
    waker->next = wakers->idle[waker->by_fd];
    wakers->idle[waker->by_fd] = waker;
}

static void free_list(struct waker *waker)
{
    while (waker) {
        struct waker *next = waker->next;
        if (waker->fd >= 0)
            close(waker->fd);
        sem_destroy(&waker->sem);
        free(waker);
        waker = next;
    }
}

void waker_free_all(struct wakers *wakers)
{
    free_list(wakers->idle[false]);
    free_list(wakers->idle[true]);
}

void waker_wake(struct waker *waker)
{
    if (waker && !waker->by_fd)
        sem_post(&waker->sem);
    else if (waker && eventfd_write(waker->fd, 1) < 0)
        return; /* it is readable already */
}

void waker_drain(struct waker *waker)
{
    eventfd_t count;
    while (!sem_trywait(&waker->sem))
        ;
    if (waker->by_fd && eventfd_read(waker->fd, &count) < 0)
        return; /* nobody has woken it */
}

void waker_sleep(struct waker *waker, int cancel_fd, int64_t ms)
{
    struct pollfd fds[] = {{waker->fd, POLLIN, 0}, {cancel_fd, POLLIN, 0}};
    struct timespec until = kernel_time_in(ms);
    if (waker->by_fd)
        poll(fds, 2, (int)ms);
    else
        while (sem_clockwait(&waker->sem, CLOCK_MONOTONIC, &until) && errno == EINTR)
            ;
}
