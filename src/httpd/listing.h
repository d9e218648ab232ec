/* SPDX-License-Identifier: Apache-2.0 */
/* listing.h: all locks of the store at one moment, apart from their leases, which always change. */
#ifndef HTTPD_LISTING_H
#define HTTPD_LISTING_H

#include <holdfast/holdfast.h>
#include <jansson.h>

#include "httpd/changes.h"

typedef struct listing {
    json_t *locks;  /* by name, in the order of names; NULL: there is no listing */
    json_t *leases; /* session: what is left of its lease, in ms */
    int64_t at_ms;  /* by clock.h */
} listing;

hf_code listing_read(hf_client *client, listing *out, hf_error *err);
void listing_done(listing *l);

/* Tells what happened since before. */
void listing_compare(const listing *before, const listing *after, news_fn *tell, void *ctx);

#endif
