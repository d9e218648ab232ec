/* SPDX-License-Identifier: Apache-2.0 */
/* waker.h: what a thread that waits for a lock sleeps on. They belong to the client and are kept
 * for the next waiter, so that one may still be woken when its waiter has gone: it wakes another,
 * which looks and sleeps on. So nobody needs the client's mutex to wake somebody. */
#ifndef CLIENT_WAKER_H
#define CLIENT_WAKER_H

#include <holdfast/holdfast.h>
#include <semaphore.h>

struct waker {
    struct waker *next;
    bool
        by_fd; /* sleeps on that, beside a cancel's; as long as it lives: who wakes it reads this */
    int fd;
    sem_t sem;
};

struct waker *waker_take_locked(hf_client *client, bool by_fd);
void waker_give_locked(hf_client *client, struct waker *waker);
void waker_free_all(hf_client *client);

void waker_wake(struct waker *waker); /* NULL: nobody */
/* At most so long. cancel_fd: also when that is readable; -1: none. */
void waker_sleep(struct waker *waker, int cancel_fd, int64_t ms);
void waker_drain(struct waker *waker); /* forgets earlier wakes */

#endif
