/* SPDX-License-Identifier: Apache-2.0 */
/* bench.c: time and failing, and a client of the store that is measured; see bench.h. */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

_Noreturn void fail(const char *doing, const char *text)
{
    fflush(stdout);
    fprintf(stderr, "holdfast-bench: %s: %s\n", doing, text);
    exit(1);
}

void must(hf_code code, const hf_error *err)
{
    if (code)
        fail(hf_code_text(code), err->text);
}

int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void pause_ms(int64_t ms)
{
    struct timespec left = {ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&left, &left) != 0)
        continue;
}

hf_client *client_open(const struct place *place, int64_t ttl_ms)
{
    hf_client *client;
    hf_error err;
    hf_options options = {.ttl_ms = ttl_ms, .app = place->prefix};
    must(hf_open(place->uri, &options, &client, &err), &err);
    return client;
}

hf_lock *client_acquire(hf_client *client, const struct place *place, const char *name)
{
    char full[PLACE_NAME_MAX];
    hf_lock *lock;
    hf_error err;
    place_name(place, name, full);
    must(hf_lock_acquire(client, full, NULL, &lock, &err), &err);
    return lock;
}
