/* SPDX-License-Identifier: Apache-2.0 */
/* notify.h: the text in which a record says what its last step did. "session:ticket:token" is a
 * grant, with ":block" behind it if it has a block of tokens. "session:recall:ticket" asks a holder
 * to yield to that waiting ticket. "session:look:ticket" tells a waiter that another session stands
 * in its way now. Entries are separated by a space. Written by record.c and by the pipeline, read
 * by the stores that pass it on. */
#ifndef CORE_NOTIFY_H
#define CORE_NOTIFY_H

#include <holdfast/store.h>

#define NOTE_SIZE 80 /* the longest, with a space or the NUL */

typedef enum note_kind { NOTE_GRANT, NOTE_RECALL, NOTE_LOOK } note_kind;

typedef struct notify_note {
    note_kind kind;
    hf_id session; /* whom it is for */
    hf_id ticket;  /* granted, or the one that waits */
    int64_t token; /* of the grant */
    int32_t block; /* tokens kept with it; 0 or 1: none more */
} notify_note;

/* Appends one to a text that has room for it. */
void notify_append(char *text, const notify_note *note);

/* Reads the next one, and moves *at behind it. False: there is none, or it is none of these. */
bool notify_next(const char **at, notify_note *out);

/* The same as a notice about the lock of that name, which the notice points to. */
hf_notice notify_notice(const notify_note *note, hf_stamp stamp, const char *name);

#endif
