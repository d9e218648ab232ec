/* SPDX-License-Identifier: Apache-2.0 */
/* knot.h: the wait-for graph: who can never be granted, because they wait for each other. It is fed
 * with records, and with what sessions say of their long waits (waits.h); the client reads those,
 * and decides who gives up (client/deadlock.c).
 *
 * Found by reduction, as for resources of which there are several: whoever can be granted goes on,
 * and gives back what it holds; what is left when nothing moves any more is stuck. A waiter that
 * said nothing holds nothing that matters, and is taken for one that goes away. So what is found is
 * a deadlock; not every one is found in one go. */
#ifndef CORE_KNOT_H
#define CORE_KNOT_H

#include "core/waits.h"

/* A waiter that said so. */
typedef struct knot_node {
    waits_entry wait;
    hf_id session;
    int64_t beat, seen; /* of its session, when it was read: hf_waits */
    char who[HF_TEXT_MAX + 1];
    const hf_record *record; /* that it waits in, and: */
    const hf_entry *entry;   /* its own there; NULL: it does not wait, as far as is known */
    bool is_stuck, is_reached, is_knotted;
} knot_node;

struct knot {
    hf_record *records;
    size_t n_records;
    knot_node *nodes;
    size_t n_nodes;
};

void knot_done(struct knot *knot);

void knot_add_record(struct knot *knot, const hf_record *record);        /* a copy */
const hf_record *knot_record(const struct knot *knot, const char *name); /* NULL: not added */
void knot_add_waits(struct knot *knot, const hf_waits *waits, const char *who);

/* Finds all that are stuck, once everything was added; nothing is to be added after it. */
void knot_reduce(struct knot *knot);

/* Those that wait for the one with this ticket, and that it waits for, itself included, are
 * is_knotted; returns how many, 0: it is in no deadlock. */
size_t knot_tie(struct knot *knot, hf_id ticket);

/* The youngest in the knot that was tied, the last to enter, of those that others in it wait for:
 * whoever merely stands in the queue between them does not help by giving up. */
const knot_node *knot_youngest(const struct knot *knot);

/* "A waits for x, held by B; B waits for y, held by A": the shortest way around, from the node of
 * this ticket, in a knot that was tied for it. */
void knot_describe(const struct knot *knot, hf_id ticket, char *out, size_t size);

#endif
