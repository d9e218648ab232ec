/* SPDX-License-Identifier: Apache-2.0 */
/* table.c: finds things by a hash; see table.h. The client finds its locks and releases with it. */
#include "core/table.h"

#include "core/alloc.h"
#include "core/id.h"

#include <stdlib.h>
#include <string.h>

#define LEAST_BUCKETS 16

static void link_in(struct table *table, struct table_node *node)
{
    struct table_node **bucket = &table->buckets[node->hash & (table->n_buckets - 1)];
    node->next = *bucket;
    node->link = bucket;
    if (node->next)
        node->next->link = &node->next;
    *bucket = node;
}

/* Those of one hash keep their order: the bucket's last is moved first. */
static void move_all(struct table *table, struct table_node *first)
{
    struct table_node *reversed = NULL;
    for (struct table_node *node = first, *next; node; node = next) {
        next = node->next;
        node->next = reversed;
        reversed = node;
    }
    for (struct table_node *node = reversed, *next; node; node = next) {
        next = node->next;
        link_in(table, node);
    }
}

static void grow(struct table *table)
{
    struct table_node **former = table->buckets;
    size_t n = table->n_buckets;
    table->n_buckets = n ? 2 * n : LEAST_BUCKETS;
    table->buckets = alloc_zeroed(table->n_buckets * sizeof *table->buckets);
    for (size_t i = 0; i < n; i++)
        move_all(table, former[i]);
    free(former);
}

void table_add(struct table *table, struct table_node *node, uint64_t hash)
{
    if (table->n >= table->n_buckets)
        grow(table);
    node->hash = hash;
    link_in(table, node);
    table->n++;
}

void table_remove(struct table *table, struct table_node *node)
{
    if (!node->link)
        return;
    *node->link = node->next;
    if (node->next)
        node->next->link = node->link;
    node->next = NULL;
    node->link = NULL;
    table->n--;
}

static struct table_node *from(struct table_node *node, uint64_t hash)
{
    while (node && node->hash != hash)
        node = node->next;
    return node;
}

struct table_node *table_first(const struct table *table, uint64_t hash)
{
    return table->n ? from(table->buckets[hash & (table->n_buckets - 1)], hash) : NULL;
}

struct table_node *table_next(const struct table_node *node)
{
    return from(node->next, node->hash);
}

void table_done(struct table *table)
{
    free(table->buckets);
    *table = (struct table){.n = 0};
}

uint64_t table_hash_id(hf_id id)
{
    return id_hash(ID_HASH, id.bytes, sizeof id.bytes);
}

uint64_t table_hash_text(const char *text)
{
    return id_hash(ID_HASH, text, strlen(text));
}
