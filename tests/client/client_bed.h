/* SPDX-License-Identifier: Apache-2.0 */
/* client_bed.h: what the tests of the client against a faulty store share. */
#ifndef TESTS_CLIENT_BED_H
#define TESTS_CLIENT_BED_H

#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "support/faulty.h"

static inline void pause_ms(int ms)
{
    poll(NULL, 0, ms);
}

static inline int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static inline hf_client *open_client(const char *uri, int64_t ttl_ms)
{
    hf_client *client;
    hf_error err;
    hf_options options = {.ttl_ms = ttl_ms};
    assert_int_equal(hf_open(uri, &options, &client, &err), HF_OK);
    return client;
}

static inline hf_lock *take(hf_client *client, const char *name)
{
    hf_lock *lock;
    hf_error err;
    assert_int_equal(hf_lock_acquire(client, name, NULL, &lock, &err), HF_OK);
    return lock;
}

static inline hf_code try_take(hf_client *client, const char *name, int64_t wait_ms)
{
    hf_lock *lock;
    hf_error err;
    hf_lock_options options = {.wait_ms = wait_ms};
    hf_code code = hf_lock_acquire(client, name, &options, &lock, &err);
    if (!code)
        hf_lock_close(lock);
    return code;
}

static inline bool is_enter(faulty_call call, const void *arg)
{
    return call == FAULTY_STEP && ((const struct faulty_step *)arg)->step->enter != NULL;
}

static inline bool is_leave(faulty_call call, const void *arg)
{
    return call == FAULTY_STEP && ((const struct faulty_step *)arg)->step->n_leaves > 0;
}

#endif
