/* SPDX-License-Identifier: Apache-2.0 */
/* changes.h: what happened to a lock between two listings. */
#ifndef HTTPD_CHANGES_H
#define HTTPD_CHANGES_H

#include <jansson.h>

/* What is told to those who follow; the names are those of the events. */
#define NEWS_TABLE(X)                                                                              \
    X(NEWS_GRANT, "grant", "has the lock")                                                         \
    X(NEWS_RELEASE, "release", "gave it back")                                                     \
    X(NEWS_LOSS, "loss", "lost it: died, or it was broken")                                        \
    X(NEWS_WAIT, "wait", "waits in the queue")                                                     \
    X(NEWS_LEAVE, "leave", "waits no more, without having had it")                                 \
    X(NEWS_LOCK, "lock", "what the lock is like now")                                              \
    X(NEWS_GONE, "gone", "the record was pruned")                                                  \
    X(NEWS_LEASES, "leases", "what is left of leases that were renewed")                           \
    X(NEWS_STORE, "store", "whether the store is reached")

typedef enum news {
#define X(kind, name, help) kind,
    NEWS_TABLE(X)
#undef X
        N_NEWS
} news;

const char *news_name(news kind);

/* name: the lock's; data: borrowed. */
typedef void news_fn(void *ctx, news kind, const char *name, const json_t *data);

/* Tells what came between before and after, which are locks as in listings but without their
 * leases; NULL: there was none such. What began and ended in between is told as its end only. */
void changes_tell(const char *name, const json_t *before, const json_t *after, news_fn *tell,
                  void *ctx);

#endif
