/* SPDX-License-Identifier: Apache-2.0 */
/* waits_graph.h: the waits-for graph: finds waiters that can never be granted because they wait for
 * each other. Its input is records and wait reports (waits.h). The client reads those, and decides
 * which waiter gives up (client/wait/deadlock.c).
 *
 * A wait outside the queue, with a number, stands where it will stand once it comes in, but keeps
 * nobody else up.
 *
 * It reduces the graph, as one does for resources with several units: a waiter that can be granted
 * goes on and gives back what it holds. Whatever is left when nothing moves any more is stuck. A
 * waiter without a wait report counts as one that leaves and holds nothing. So whatever is found is
 * a deadlock, but one search may not find all. */
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
    const hf_entry *entry;   /* its own there; NULL: it does not wait, as far as is known. That of
                              * one outside the queue says only what its report says */
    bool is_outside, is_stuck, is_reached, is_in_deadlock;
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

/* Whether the actor that waits has this place in a record, or a process has it that waits for it.
 */
bool waits_graph_holds(const waits_node *node, const hf_entry *holder);

/* Finds all waiters that are stuck. Add everything before, and nothing after: it puts those that
 * wait outside into the graph's records. */
void waits_graph_reduce(struct waits_graph *graph);

/* Sets is_in_deadlock for every waiter that the one with this ticket waits for and that waits for
 * it, itself included. Returns how many; 0: it is in no deadlock. */
size_t waits_graph_mark(struct waits_graph *graph, hf_id ticket);

/* In the marked deadlock, the last to enter among those that hold what others wait for; those
 * outside come after all that have entered. One that merely stands in the queue between them would
 * not help by giving up. */
const waits_node *waits_graph_youngest(const struct waits_graph *graph);

/* "A waits for x, held by B; B waits for y, held by A": the shortest cycle from this ticket's node,
 * in a deadlock that was marked for it. */
void waits_graph_describe(const struct waits_graph *graph, hf_id ticket, char *out, size_t size);

#endif
