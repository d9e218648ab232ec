/* SPDX-License-Identifier: Apache-2.0 */
/* waits.h: what a session says with its beats about its long waits, as text: which of its tickets
 * wait, for which locks, and what their actors hold meanwhile. Others find deadlocks from this.
 *
 * One line a wait: "TICKET LENGTH:NAME N" and N times " TICKET LENGTH:NAME". If the wait stands
 * outside the queue, with a number, "+NUMBER PERMITS " comes before that. */
#ifndef CORE_WAITS_H
#define CORE_WAITS_H

#include <holdfast/store.h>

#define WAITS_TEXT_MAX 16384 /* bytes; what does not fit is not said */
#define WAITS_HOLDS_MAX 32   /* of one wait */

/* A ticket, and the lock it waits for, or holds. */
typedef struct waits_item {
    hf_id ticket;
    char name[HF_NAME_MAX + 1];
} waits_item;

typedef struct waits_entry {
    waits_item on;
    waits_item *holds; /* of the same actor */
    size_t n_holds;
    int64_t number;  /* outside the queue; 0: it stands there, or its place is not known */
    int32_t permits; /* that it wants; only with a number */
} waits_entry;

/* What a process tells those that it starts and waits for: it holds these as long as they run. */
typedef struct waits_items {
    waits_item *of;
    size_t n;
} waits_items;

/* "TICKET LENGTH:NAME", one behind the other with a space between: the caller's to free. */
char *waits_items_write(const waits_items *items);

/* Up to the first that is none, WAITS_HOLDS_MAX at most; free `of`. */
waits_items waits_items_read(const char *text);

/* The text goes to *text, which is NULL at first and the caller's to free. false: it was full. */
bool waits_write(char **text, const waits_entry *entry);

/* The entries of a text, up to the first that is none: the caller's, for waits_free(). */
size_t waits_read(const char *text, waits_entry **out);
void waits_free(waits_entry *entries, size_t n);

#endif
