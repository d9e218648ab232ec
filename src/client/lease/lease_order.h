/* SPDX-License-Identifier: Apache-2.0 */
/* lease_order.h: waits for leases that have not entered yet. Those of one name enter one after the
 * other, in the order in which they were begun. The client's mutex guards it. */
#ifndef CLIENT_LEASE_LEASE_ORDER_H
#define CLIENT_LEASE_LEASE_ORDER_H

#include "client/lease/lease.h"

#include "core/schedule.h"

#define NEWCOMER_LISTS 256

/* One that has not entered yet; in its wait, in place. */
struct newcomer {
    const char *name;                /* the wait's; NULL: it is none, or no more */
    struct newcomer *before, *after; /* of its name, while it may not enter beside that one */
    struct newcomer *list_next, **list_link; /* if it is the last of its name */
};

/* All 0: there are none. */
struct newcomers {
    struct newcomer *lists[NEWCOMER_LISTS]; /* the last of each name, by a hash of that */
};

/* Puts it behind the last of its name, which is returned; NULL: it may enter now. */
struct newcomer *newcomers_join(struct newcomers *all, struct newcomer *one, const char *name);

/* It has entered, or is none any more. Returns the one that may enter now; NULL: none. */
struct newcomer *newcomers_leave(struct newcomer *one);

/* It need not wait any longer for the one before it. */
void newcomers_let_go(struct newcomer *one);

bool newcomer_is_behind(const struct newcomer *one);
struct newcomer *newcomer_behind(const struct newcomer *one); /* the next behind it; NULL: none */

#endif
