/* SPDX-License-Identifier: Apache-2.0 */
/* excerpt.c: keeps the latest texts of stream.c for the next follower; see excerpt.h. */
#include "httpd/excerpt.h"

#include <stdlib.h>
#include <string.h>

#include "show/text.h"

static bool is_same(const excerpt_key *a, const excerpt_key *b)
{
    return a->from == b->from && a->to == b->to && a->at_ms == b->at_ms && a->in_use == b->in_use &&
           a->is_first == b->is_first && strcmp(a->prefix, b->prefix) == 0;
}

excerpt *excerpts_find(excerpts *all, const excerpt_key *key)
{
    for (size_t i = 0; i < EXCERPTS_KEPT; i++)
        if (all->kept[i] && is_same(&all->kept[i]->key, key))
            return all->kept[i];
    return NULL;
}

excerpt *excerpts_add(excerpts *all, const excerpt_key *key, uint64_t next, char *text, size_t size)
{
    excerpt *one = text_alloc(sizeof *one);
    *one = (excerpt){.key = *key, .next = next, .text = text, .size = size};
    one->key.prefix = one->prefix = text_copy(key->prefix);
    excerpt_leave(all->kept[all->oldest]);
    all->kept[all->oldest] = excerpt_use(one);
    all->oldest = (all->oldest + 1) % EXCERPTS_KEPT;
    return one;
}

excerpt *excerpt_use(excerpt *one)
{
    one->n_users++;
    return one;
}

void excerpt_leave(excerpt *one)
{
    if (!one || --one->n_users)
        return;
    free(one->prefix);
    free(one->text);
    free(one);
}

void excerpts_done(excerpts *all)
{
    for (size_t i = 0; i < EXCERPTS_KEPT; i++)
        excerpt_leave(all->kept[i]);
    *all = (excerpts){.oldest = 0};
}
