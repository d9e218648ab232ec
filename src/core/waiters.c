/* SPDX-License-Identifier: Apache-2.0 */
/* waiters.c: remembers the tickets of this process that wait, and what they were told. */
#include "core/waiters.h"

#include "core/id.h"

void waiters_add(struct waiters *waiters, struct waiter *waiter)
{
    waiter->next = waiters->first;
    waiter->link = &waiters->first;
    if (waiter->next)
        waiter->next->link = &waiter->next;
    waiters->first = waiter;
}

void waiters_remove(struct waiter *waiter)
{
    if (!waiter->link)
        return;
    *waiter->link = waiter->next;
    if (waiter->next)
        waiter->next->link = waiter->link;
    waiter->link = NULL;
    waiter->next = NULL;
}

struct waiter *waiters_find(const struct waiters *waiters, hf_id ticket)
{
    for (struct waiter *w = waiters->first; w; w = w->next)
        if (id_equal(w->ticket, ticket))
            return w;
    return NULL;
}

void waiter_tell(struct waiter *waiter, hf_stamp stamp)
{
    waiter->is_told = true;
    if (stamp.value > waiter->stamp.value)
        waiter->stamp = stamp;
}

bool waiter_take(struct waiter *waiter)
{
    bool told = waiter->is_told;
    waiter->is_told = false;
    return told;
}
