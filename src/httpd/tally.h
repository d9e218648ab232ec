/* SPDX-License-Identifier: Apache-2.0 */
/* tally.h: how many there are of each text, such as requests of each client. The caller's mutex
 * guards it. */
#ifndef HTTPD_TALLY_H
#define HTTPD_TALLY_H

#include <stddef.h>

typedef struct tally_row tally_row;

/* All 0: nothing is counted yet. */
typedef struct tally {
    tally_row **rows;
    size_t n_rows, n; /* lists of rows; texts */
} tally;

void tally_add(tally *t, const char *text);    /* one more; the text is copied */
void tally_remove(tally *t, const char *text); /* one less of those that were added */
size_t tally_of(const tally *t, const char *text);
void tally_done(tally *t);

#endif
