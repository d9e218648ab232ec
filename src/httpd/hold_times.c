/* SPDX-License-Identifier: Apache-2.0 */
/* hold_times.c: keeps the times of leases, with one place for each hash of an id; a later lease
 * takes the place over. */
#include "httpd/hold_times.h"

#include "httpd/clock.h"
#include "sync/mutex_scope.h"

void hold_times_init(hold_times *t)
{
    pthread_mutex_init(&t->mutex, NULL);
}

void hold_times_done(hold_times *t)
{
    pthread_mutex_destroy(&t->mutex);
}

/* FNV-1a; never 0. */
static uint64_t hash(const char *id)
{
    uint64_t out = UINT64_C(14695981039346656037);
    for (; *id; id++)
        out = (out ^ (unsigned char)*id) * UINT64_C(1099511628211);
    return out ? out : 1;
}

void hold_times_begin(hold_times *t, const hf_lease *lease)
{
    uint64_t key = hash(lease->id);
    int64_t now = clock_now_us();
    pthread_mutex_lock(&t->mutex);
    t->all[key % HOLD_TIMES] = (hold_time){key, now, now + lease->left_ms * 1000};
    pthread_mutex_unlock(&t->mutex);
}

int64_t hold_times_renew(hold_times *t, const char *id, int64_t left_ms)
{
    uint64_t key = hash(id);
    int64_t now = clock_now_us();
    MUTEX_SCOPE(&t->mutex);
    hold_time *one = &t->all[key % HOLD_TIMES];
    if (one->lease != key)
        return -1;
    int64_t left = one->end_us > now ? one->end_us - now : 0;
    one->end_us = now + left_ms * 1000;
    return left;
}

int64_t hold_times_end(hold_times *t, const char *id)
{
    uint64_t key = hash(id);
    MUTEX_SCOPE(&t->mutex);
    hold_time *one = &t->all[key % HOLD_TIMES];
    if (one->lease != key)
        return -1;
    one->lease = 0;
    int64_t now = clock_now_us();
    return now > one->end_us ? -1 : now - one->since_us;
}
