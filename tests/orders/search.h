/* SPDX-License-Identifier: Apache-2.0 */
/* search.h: which order comes next. Two orders are equivalent if one becomes the other by
 * exchanging neighbours that touch nothing in common: then both end alike, and one of them is
 * enough. */
#ifndef TESTS_ORDERS_SEARCH_H
#define TESTS_ORDERS_SEARCH_H

#include <stdbool.h>
#include <stdint.h>

#define PARTIES_MOST 8 /* those that take turns */

/* What a turn touched, as bits. Two reads of a thing can be exchanged, and two additions to it. */
typedef struct footprint {
    uint64_t reads, adds, writes;
} footprint;

/* All orders that are not equivalent, or random ones, without end. */
void search_begin(bool is_random);

/* The next order; false: that was the last. */
bool search_next(void);

/* The order begins with these n turns. */
void search_follow(const int *turns, int n);

/* Whose turn it is, of those in the mask, which is not 0; -1: there were too many turns. */
int search_choose(unsigned ready);

/* What that turn touched. */
void search_touched(const footprint *touched);

/* The order is equivalent to one that was there before. */
bool search_is_repeat(void);

/* Of random orders: 1 divided by the probability of this one. The mean is the number of all orders,
 * equivalent ones too. */
double search_weight(void);

/* Whose turn was the nth; -1: none. */
int search_turn(int nth);

#endif
