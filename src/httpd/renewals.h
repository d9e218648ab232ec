/* SPDX-License-Identifier: Apache-2.0 */
/* renewals.h: what is left of leases that were renewed between two looks, by the locks for which
 * they are: a follower of some locks is told of their leases only. */
#ifndef HTTPD_RENEWALS_H
#define HTTPD_RENEWALS_H

#include "httpd/listing.h"

/* One lease, for one lock; the texts are at these places of all texts. */
typedef struct renewal {
    size_t lock, session;
    int64_t left_ms;
} renewal;

/* In byte order of the locks. */
typedef struct renewals {
    size_t n;
    renewal *all;
    char *texts;
} renewals;

/* Finds the leases that were renewed since `before`, and those of sessions that have come to a
 * lock. In new memory; NULL: there are none. */
renewals *renewals_between(const listing *before, const listing *after);

/* Those for locks whose names begin with prefix, by session. A new reference; NULL: there are none.
 */
json_t *renewals_of(const renewals *r, const char *prefix);

void renewals_free(renewals *r); /* NULL: none */

#endif
