/* SPDX-License-Identifier: Apache-2.0 */
/* dog.c: decides when a lock is lost because its worker is stuck: it was not fed, or was held for
 * too long; lock.c asks it wherever it asks whether a lease still runs. */
#include "client/dog.h"

#include "client/client.h"

#include <stdio.h>

static hf_mono after(hf_mono now, int64_t ms)
{
    return ms ? mono_add_ms(now, ms) : MONO_NEVER;
}

void dog_begin(struct dog *dog, const hf_lock_options *options, hf_mono now)
{
    *dog = (struct dog){.feed_ms = options->feed_ms,
                        .max_hold_ms = options->max_hold_ms,
                        .feed_by = after(now, options->feed_ms),
                        .hold_until = after(now, options->max_hold_ms)};
}

hf_mono dog_due(const struct dog *dog)
{
    return mono_min(dog->feed_by, dog->hold_until);
}

void dog_reason(const struct dog *dog, char reason[HF_TEXT_MAX + 1])
{
    if (dog->hold_until.ns <= dog->feed_by.ns)
        snprintf(reason, HF_TEXT_MAX + 1, "it was held for longer than %lld ms",
                 (long long)dog->max_hold_ms);
    else
        snprintf(reason, HF_TEXT_MAX + 1, "it was not fed for %lld ms", (long long)dog->feed_ms);
}

hf_code hf_lock_feed(hf_lock *lock, hf_error *err)
{
    hf_client *client = lock->client;
    int64_t left_ms;
    hf_code code = client_usable(client, err);
    if (code)
        return code;
    pthread_mutex_lock(&client->mutex);
    hf_mono now = client_now(client);
    code = lock_check_locked(lock, &left_ms, now, err);
    if (!code)
        lock->dog.feed_by = after(now, lock->dog.feed_ms);
    pthread_mutex_unlock(&client->mutex);
    return code;
}
