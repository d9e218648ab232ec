/* SPDX-License-Identifier: Apache-2.0 */
/* waits_graph.h: the wait-for graph: who can never be granted, because they wait for each other. It
 * is fed with records, and with what sessions say of their long waits (waits.h); the client reads
 * those, and decides who gives up (client/deadlock.c).
 *
 * Found by reduction, as for resources of which there are several: a waiter that can be granted
 * goes on, and gives back what it holds; what is left when nothing moves any more is stuck. A
 * waiter that said nothing holds nothing that matters, and is taken for one that goes away. So what
 * is found is a deadlock; not every one is found in one go. */
#ifndef CORE_WAITS_GRAPH_H
#define CORE_WAITS_GRAPH_H

#include "core/waits.h"

/* A waiter that said so. */
typedef struct waits_node {
    waits_entry wait;
    hf_id session;
    int64_t beat, seen; /* of its session, when it was read: hf_waits */
    char who[HF_TEXT_MAX + 1];
    const hf_record *record; /* that it waits in, and: */
    const hf_entry *entry;   /* its own there; NULL: it does not wait, as far as is known */
    bool is_stuck, is_reached, is_in_deadlock;
} waits_node;

struct waits_graph {
    hf_record *records;
    size_t n_records;
    waits_node *nodes;
    size_t n_nodes;
};

void waits_graph_done(struct waits_graph *graph);

void waits_graph_add_record(struct waits_graph *graph, const hf_record *record); /* a copy */
const hf_record *waits_graph_record(const struct waits_graph *graph,
                                    const char *name); /* NULL: not added */
void waits_graph_add_waits(struct waits_graph *graph, const hf_waits *waits, const char *who);

/* Finds all that are stuck, once everything was added; nothing is to be added after it. */
void waits_graph_reduce(struct waits_graph *graph);

/* Those that wait for the one with this ticket, and that it waits for, itself included, are
 * is_in_deadlock. Returns how many they are; 0: it is in none. */
size_t waits_graph_mark(struct waits_graph *graph, hf_id ticket);

/* The youngest in the deadlock that was marked, the last to enter, of those that others in it wait
 * for: one that merely stands in the queue between them would not help by giving up. */
const waits_node *waits_graph_youngest(const struct waits_graph *graph);

/* "A waits for x, held by B; B waits for y, held by A": the shortest way around, from the node of
 * this ticket, in a deadlock that was marked for it. */
void waits_graph_describe(const struct waits_graph *graph, hf_id ticket, char *out, size_t size);

#endif
