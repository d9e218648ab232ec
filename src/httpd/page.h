/* SPDX-License-Identifier: Apache-2.0 */
/* page.h: a listing in parts, each of which says where the next begins. */
#ifndef HTTPD_PAGE_H
#define HTTPD_PAGE_H

#include <jansson.h>

#include "httpd/request.h"

/* The request for a part of a listing, and the part. */
typedef struct page {
    char *after; /* begin behind this key; "": at the beginning */
    size_t room; /* for so many more */
    json_t *items;
    char *last;    /* the key of the last item */
    bool has_more; /* there are more than there was room for */
} page;

/* Reads cursor and limit. False: that was answered. */
bool page_begin(page *p, request *req);

/* Whether an item with this key belongs here; items come in the order of their keys. */
bool page_wants(page *p, const char *key);
void page_add(page *p, const char *key, json_t *item); /* takes the reference */

/* {NAME: items, "next": the cursor of the next part, or null}; ends the page. */
json_t *page_end(page *p, const char *name);
void page_done(page *p);

#endif
