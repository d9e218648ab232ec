/* SPDX-License-Identifier: Apache-2.0 */
/* lock_request.c: finds and wakes the requests for a lock; see lock_request.h. */
#include "client/hold/hold.h"

#include "core/caller.h"

#include <stddef.h>
#include <string.h>

void lock_request_begin(struct lock_request *request)
{
    struct hold *hold = request->client->hold;
    MUTEX_SCOPE(&request->client->mutex);
    request->next = hold->requests;
    request->link = &hold->requests;
    if (request->next)
        request->next->link = &request->next;
    hold->requests = request;
}

void lock_request_end_locked(struct lock_request *request)
{
    hf_client *client = request->client;
    waiters_remove(&request->waiter);
    *request->link = request->next;
    if (request->next)
        request->next->link = request->link;
    if (request->waker)
        waker_give_locked(&client->wakers, request->waker);
    if (client->closing.has_begun)
        pthread_cond_broadcast(&client->changed);
}

void lock_request_set_permits(hf_enter *enter, const hf_lock_options *options)
{
    bool counts = options->permits > 0;
    enter->limit = counts ? options->limit : HF_LIMIT_RW;
    enter->sets_limit = options->sets_limit;
    enter->entry.permits = counts ? options->permits : options->mode == HF_SHARED ? 1 : HF_LIMIT_RW;
}

struct lock_request *lock_request_of(const struct waiter *waiter)
{
    return (struct lock_request *)((char *)waiter - offsetof(struct lock_request, waiter));
}

static void unlist_locked(struct lock_request *request)
{
    if (!request->woken_link)
        return;
    *request->woken_link = request->woken_next;
    if (request->woken_next)
        request->woken_next->woken_link = request->woken_link;
    else
        request->woken->end = request->woken_link;
    request->woken_link = NULL;
}

void lock_request_note_woken_locked(struct lock_request *request)
{
    struct woken *woken = request->woken;
    request->is_woken = true;
    if (!woken || request->woken_link)
        return;
    request->woken_next = NULL;
    request->woken_link = woken->end;
    *woken->end = request;
    woken->end = &request->woken_next;
}

void lock_request_list_wakes_locked(struct lock_request *request, struct woken *woken)
{
    unlist_locked(request);
    request->woken = woken;
}

struct lock_request *lock_request_take_woken_locked(struct woken *woken)
{
    struct lock_request *request = woken->first;
    if (request)
        unlist_locked(request);
    return request;
}

void lock_request_wake_locked(struct lock_request *request)
{
    lock_request_note_woken_locked(request);
    waker_wake(request->waker);
}

void lock_request_wake_all_locked(hf_client *client)
{
    for (struct lock_request *at = client->hold->requests; at; at = at->next)
        lock_request_wake_locked(at);
}

static bool is_actor(const struct hf_lock *lock, const struct lock_request *request)
{
    const char *actor = caller_own_actor(request->enter.entry.actor);
    const char *holder = caller_own_actor(lock->grant.actor);
    if (*actor || *holder)
        return strcmp(actor, holder) == 0;
    return lock->grant.thread == request->thread;
}

uint64_t lock_request_owner(const struct lock_request *request)
{
    return caller_owner(request->enter.entry.actor, request->thread);
}

bool lock_request_holds_locked(const struct lock_request *request, const struct hf_lock *lock)
{
    return lock_is_used_locked(lock) && is_actor(lock, request);
}

const char *lock_request_title(const struct lock_request *request)
{
    return request->claim ? "a document that matches" : request->name;
}
