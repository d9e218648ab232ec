/* SPDX-License-Identifier: Apache-2.0 */
/* lease_kept.h: releases of ID leases that got no answer, and are to be sent again. */
#ifndef CLIENT_LEASE_LEASE_KEPT_H
#define CLIENT_LEASE_LEASE_KEPT_H

#include "client/lease/lease.h"

#include "core/schedule.h"
#include "core/table.h"

/* Mutex, except for what is constant. Written by lease_kept.c. */
struct departing {
    struct table_node by_ticket;
    struct slot due; /* while it is not in flight */
    lease_ids ids;   /* constant */
    lease_farewell of;
    bool is_over; /* a call has released it meanwhile */
};

/* Mutex. Written by lease_kept.c. */
struct departures {
    struct table by_ticket;
    struct schedule due;
    hf_mono silent_until; /* after a try without an answer nothing is sent until then */
    unsigned failures;    /* such tries, since there was an answer */
};

/* The one that is due first, which is in flight from now on, and what it is sent with; NULL: none
 * is due. */
struct departing *lease_kept_take(hf_client *client, hf_mono now, lease_farewell *of);
/* It was tried with `tried`. HF_HELD: its owner may still believe in it. */
void lease_kept_settle(hf_client *client, struct departing *one, const lease_farewell *tried,
                       hf_code code);
hf_mono lease_kept_due(hf_client *client); /* when to send the next */

/* At the end, when all threads have ended: the first; NULL: there is none. */
struct departing *lease_kept_first(const hf_client *client);
void lease_kept_drop(hf_client *client, struct departing *one); /* frees it */
size_t lease_kept_free(hf_client *client);                      /* all; how many they were */

#endif
