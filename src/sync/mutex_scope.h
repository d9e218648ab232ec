/* SPDX-License-Identifier: Apache-2.0 */
/* mutex_scope.h: holds a mutex to the end of a block, so that a function can return from the middle
 * of it. A mutex that is released in between, as for a store call, is locked and unlocked by hand.
 */
#ifndef SYNC_MUTEX_SCOPE_H
#define SYNC_MUTEX_SCOPE_H

#include <pthread.h>

/* Holds a mutex from here to the end of the block. */
#define MUTEX_SCOPE(m)                                                                             \
    pthread_mutex_t *scope_of_mutex __attribute__((cleanup(mutex_scope_end), unused)) =            \
        mutex_scope_begin(m)

static inline pthread_mutex_t *mutex_scope_begin(pthread_mutex_t *mutex)
{
    pthread_mutex_lock(mutex);
    return mutex;
}

static inline void mutex_scope_end(pthread_mutex_t **mutex)
{
    pthread_mutex_unlock(*mutex);
}

#endif
