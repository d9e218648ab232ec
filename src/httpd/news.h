/* SPDX-License-Identifier: Apache-2.0 */
/* news.h: the events for followers: the changes that `holdfast watch` prints, and what else the
 * page needs. */
#ifndef HTTPD_NEWS_H
#define HTTPD_NEWS_H

#include "show/changes.h"

typedef enum news {
    NEWS_LOCK = CHANGE_LEFT +
                1, /* the lock's present state; the values before it are the kinds of change */
    NEWS_GONE,     /* its record was pruned */
    NEWS_LEASES,   /* what is left of leases that were renewed */
    NEWS_STORE,    /* whether the store is reached */
    N_NEWS,
} news;

const char *news_name(news kind);

#endif
