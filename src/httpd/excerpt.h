/* SPDX-License-Identifier: Apache-2.0 */
/* excerpt.h: texts that followers of the events are sent. Most are sent the same, so each text is
 * made once, and kept while somebody sends it. The watcher's mutex guards all. */
#ifndef HTTPD_EXCERPT_H
#define HTTPD_EXCERPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXCERPTS_KEPT 4

/* What a text tells. */
typedef struct excerpt_key {
    const char *prefix;
    bool in_use, is_first; /* is_first: begins the stream */
    uint64_t from, to;     /* events; from 0: all locks */
    int64_t at_ms;         /* of the listing that they are from */
} excerpt_key;

typedef struct excerpt {
    excerpt_key key;
    size_t n_users;
    uint64_t next; /* the event to go on with */
    char *prefix, *text;
    size_t size;
} excerpt;

/* All 0: none is kept. */
typedef struct excerpts {
    excerpt *kept[EXCERPTS_KEPT];
    size_t oldest;
} excerpts;

/* Finds one that somebody has made; NULL: none. */
excerpt *excerpts_find(excerpts *all, const excerpt_key *key);

/* Keeps a new one, in place of the oldest; takes the text. */
excerpt *excerpts_add(excerpts *all, const excerpt_key *key, uint64_t next, char *text,
                      size_t size);

/* The caller uses it; and does no more. */
excerpt *excerpt_use(excerpt *one);
void excerpt_leave(excerpt *one); /* NULL: none */

void excerpts_done(excerpts *all);

#endif
