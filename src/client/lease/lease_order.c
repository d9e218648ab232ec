/* SPDX-License-Identifier: Apache-2.0 */
/* lease_order.c: keeps the newcomers of each name in a row, and finds the last of a name by a hash;
 * see lease_order.h. */
#include "client/lease/lease_order.h"

#include <string.h>

/* FNV-1a. */
static struct newcomer **list_of(struct newcomers *all, const char *name)
{
    uint32_t hash = UINT32_C(2166136261);
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * UINT32_C(16777619);
    return &all->lists[hash % NEWCOMER_LISTS];
}

static void link_last(struct newcomer **list, struct newcomer *one)
{
    one->list_link = list;
    one->list_next = *list;
    if (one->list_next)
        one->list_next->list_link = &one->list_next;
    *list = one;
}

static void unlink_last(struct newcomer *one)
{
    if (!one->list_link)
        return;
    *one->list_link = one->list_next;
    if (one->list_next)
        one->list_next->list_link = one->list_link;
    one->list_link = NULL;
}

struct newcomer *newcomers_join(struct newcomers *all, struct newcomer *one, const char *name)
{
    struct newcomer **list = list_of(all, name), *last = *list;
    while (last && strcmp(last->name, name) != 0)
        last = last->list_next;
    *one = (struct newcomer){.name = name, .before = last};
    if (last) {
        last->after = one;
        unlink_last(last);
    }
    link_last(list, one);
    return last;
}

void newcomers_let_go(struct newcomer *one)
{
    if (one->before)
        one->before->after = NULL;
    one->before = NULL;
}

struct newcomer *newcomers_leave(struct newcomer *one)
{
    struct newcomer *next = one->after;
    if (!one->name)
        return NULL;
    newcomers_let_go(one);
    if (next)
        newcomers_let_go(next);
    unlink_last(one);
    one->name = NULL;
    return next;
}

bool newcomer_is_behind(const struct newcomer *one)
{
    return one->before;
}

struct newcomer *newcomer_behind(const struct newcomer *one)
{
    return one->after;
}
