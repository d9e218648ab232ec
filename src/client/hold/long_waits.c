/* SPDX-License-Identifier: Apache-2.0 */
/* long_waits.c: writes the wait report; see long_waits.h. */
#include "client/hold/long_waits.h"

#include "client/hold/hold.h"

#include <stdio.h>

bool long_waits_are_off(const hf_client *client)
{
    return client->deadlock_ms < 0 || !client->store->ops->waits;
}

static waits_item item_of(const struct hf_lock *lock)
{
    waits_item item = {.ticket = lock->grant.ticket};
    snprintf(item.name, sizeof item.name, "%s", lock->name);
    return item;
}

static size_t add_inherited(const waits_items *inherited, waits_item *out, size_t n)
{
    for (size_t i = 0; i < inherited->n && n < WAITS_HOLDS_MAX; i++)
        out[n++] = inherited->of[i];
    return n;
}

/* By all threads. */
static size_t held_locked(const hf_client *client, waits_item out[WAITS_HOLDS_MAX])
{
    size_t n = 0;
    const struct hf_lock *lock = client->hold->locks;
    for (; lock && n < WAITS_HOLDS_MAX; lock = lock->next)
        if (lock_is_used_locked(lock))
            out[n++] = item_of(lock);
    return n;
}

/* `lock` or the next one that the request's thread, or actor, holds. */
static const struct hf_lock *held_from_locked(const struct lock_request *request,
                                              const struct hf_lock *lock)
{
    while (lock && !lock_request_holds_locked(request, lock))
        lock = lock_next_owned_locked(lock);
    return lock;
}

static const struct hf_lock *first_held_locked(const struct lock_request *request)
{
    return held_from_locked(request,
                            lock_first_owned_locked(request->client, lock_request_owner(request)));
}

static size_t held_by_locked(const struct lock_request *request, waits_item out[WAITS_HOLDS_MAX])
{
    size_t n = 0;
    const struct hf_lock *lock = first_held_locked(request);
    for (; lock && n < WAITS_HOLDS_MAX;
         lock = held_from_locked(request, lock_next_owned_locked(lock)))
        out[n++] = item_of(lock);
    return n;
}

size_t long_waits_holds_locked(const struct lock_request *request, waits_item out[WAITS_HOLDS_MAX])
{
    return add_inherited(request->inherited, out, held_by_locked(request, out));
}

bool long_waits_is_nested_locked(const struct lock_request *request)
{
    return request->inherited->n > 0 || first_held_locked(request);
}

size_t long_waits_all_holds_locked(const hf_client *client, waits_item out[WAITS_HOLDS_MAX])
{
    return add_inherited(&client->inherited, out, held_locked(client, out));
}

static void say_locked(const hf_client *client, hf_mono now, bool holding, char **text)
{
    waits_item holds[WAITS_HOLDS_MAX];
    for (const struct waiter *w = client->hold->waiters.first; w; w = w->next) {
        const struct lock_request *request = lock_request_of(w);
        if (!mono_reached(mono_add_ms(request->started, client->deadlock_ms), now))
            continue;
        waits_entry entry = {.on = {.ticket = w->ticket},
                             .holds = holds,
                             .number = request->outside,
                             .permits = request->enter.entry.permits};
        snprintf(entry.on.name, sizeof entry.on.name, "%s", request->name);
        entry.n_holds = long_waits_holds_locked(request, holds);
        if ((entry.n_holds > 0) == holding && !waits_write(text, &entry))
            return;
    }
}

/* Waits of actors that hold something come first: without them there is no deadlock. */
char *long_waits_say_locked(hf_client *client, hf_mono now)
{
    char *text = NULL;
    if (long_waits_are_off(client))
        return NULL;
    say_locked(client, now, true, &text);
    say_locked(client, now, false, &text);
    return text;
}
