/* SPDX-License-Identifier: Apache-2.0 */
/* table.h: finds things by a hash, in a time that does not depend on how many there are. The nodes
 * stand in the things themselves. */
#ifndef CORE_TABLE_H
#define CORE_TABLE_H

#include <holdfast/store.h>
#include <stddef.h>

/* In one table at most; all zero: in none. */
struct table_node {
    struct table_node *next, **link;
    uint64_t hash;
};

/* All zero: empty. */
struct table {
    struct table_node **buckets;
    size_t n, n_buckets;
};

void table_add(struct table *table, struct table_node *node, uint64_t hash);
void table_remove(struct table *table, struct table_node *node); /* also one that is in none */
/* Those with that hash, the one that was added last first: others may have it too, so the caller
 * compares. */
struct table_node *table_first(const struct table *table, uint64_t hash);
struct table_node *table_next(const struct table_node *node);
void table_done(struct table *table); /* the nodes are the caller's */

uint64_t table_hash_id(hf_id id);
uint64_t table_hash_text(const char *text);

/* What a node stands in. */
#define TABLE_OWNER(node, type, member) ((type *)(void *)((char *)(node)-offsetof(type, member)))

#endif
