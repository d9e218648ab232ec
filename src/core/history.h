/* SPDX-License-Identifier: Apache-2.0 */
/* history.h: turns that have ended, as the history of locks keeps them: copies, what makes two of
 * them the same turn, and how their ends are called in databases. Used by the client and stores. */
#ifndef CORE_HISTORY_H
#define CORE_HISTORY_H

#include <holdfast/store.h>

/* A copy in one piece of memory: the note's texts point behind it. Its owner frees it with free().
 */
struct history_turn {
    struct history_turn *next; /* the owner's */
    hf_turn_note note;
    char texts[];
};

struct history_turn *history_copy(const hf_turn_note *note);

/* Whether both tell of one turn. Several may tell: its holder, and the client that took its ticket
 * out. */
bool history_is_same(const hf_turn_note *a, const hf_turn_note *b);

/* What tells the turns of a ticket apart: the token; where there is none, the time of the grant,
 * or of the end. */
int64_t history_number(const hf_turn_note *note);

/* For qsort() of pointers to turns: the one that ended last first; of those that ended in the same
 * moment the one with the highest token. */
int history_newest_first(const void *a, const void *b);

/* The turn of a holder that was there `before` the step and was taken out by its deaths or leaves,
 * if the record says so afterwards (last). Its texts live as long as `before` and `step`. */
bool history_of_taken(const hf_record *before, const hf_entry *holder, const hf_step *step,
                      const hf_last_mark *last, hf_turn_note *out);

const char *history_end_text(hf_turn_end end); /* "released" ... */
/* False: it is none of these. */
bool history_end_read(const char *text, hf_turn_end *out);

#endif
