/* SPDX-License-Identifier: Apache-2.0 */
/* waker.h: what a thread sleeps on while it waits for a lock. Wakers belong to the client, which
 * keeps them for later waiters. So a waker may be woken after its waiter has gone; the next waiter
 * then wakes, looks, and sleeps on. For that reason, waking needs no mutex. */
#ifndef CLIENT_BASE_WAKER_H
#define CLIENT_BASE_WAKER_H

#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>

/* Constant once made, except for next, which the client's mutex guards. */
struct waker {
    struct waker *next;
    bool by_fd; /* sleeps on fd, so that it can wait for a cancel too; otherwise on sem */
    int fd;
    sem_t sem;
};

/* Unused wakers, by whether they sleep on a descriptor; guarded by the client's mutex. */
struct wakers {
    struct waker *idle[2];
};

struct waker *waker_take_locked(struct wakers *wakers, bool by_fd);
void waker_give_locked(struct wakers *wakers, struct waker *waker);
void waker_free_all(struct wakers *wakers);

void waker_wake(struct waker *waker); /* NULL: nobody */
/* Sleeps for at most ms milliseconds, or until cancel_fd is readable (-1: none). */
void waker_sleep(struct waker *waker, int cancel_fd, int64_t ms);
void waker_drain(struct waker *waker); /* forgets earlier wakes */

#endif
