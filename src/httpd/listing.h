/* SPDX-License-Identifier: Apache-2.0 */
/* listing.h: the locks of the store at one moment, and the changes since the moment before. */
#ifndef HTTPD_LISTING_H
#define HTTPD_LISTING_H

#include <holdfast/holdfast.h>
#include <jansson.h>

#include "httpd/news.h"
#include "httpd/waits.h"
#include "show/board.h"

#define LISTING_MOST 50000 /* locks that are kept with the free ones; one takes some 4 KiB */

typedef struct listing {
    board board;
    bool has_free;   /* all locks are in it, also those that nobody uses */
    bool is_crowded; /* the free ones were wanted, and are too many */
    json_t *locks;   /* by name, without their leases, which always change; NULL: no listing */
    json_t *leases;  /* session: what is left of its lease, in ms */
    int64_t at_ms;   /* by clock.h */
} listing;

/* name: the lock's; data: borrowed. */
typedef void news_fn(void *ctx, news kind, const char *name, const json_t *data);

/* Adds to json_of_lock() how many requests of this service wait for it. */
void listing_add_waits(json_t *lock, waits *w);

/* With free locks, unless there are more than LISTING_MOST in all; or without, but for those that
 * were in use in `before`. heard: is written as long as it goes on. */
hf_code listing_read(listing *out, const listing *before, bool has_free, hf_client *client,
                     waits *w, board_heard *heard, hf_error *err);
void listing_done(listing *l);

/* {locks: [], leases: {}}: those whose names begin with prefix, in_use: without those that nobody
 * uses; and the leases of their sessions. A new reference. */
json_t *listing_of_some(const listing *l, const char *prefix, bool in_use);

/* Reports what happened to the locks since `before`; renewals.h has what did to the leases. */
void listing_compare(const listing *before, const listing *after, news_fn *tell, void *ctx);

#endif
