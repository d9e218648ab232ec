/* SPDX-License-Identifier: Apache-2.0 */
/* document.h: `holdfast run --document`: which document to take, and what the command gets of it.
 */
#ifndef HOLDFAST_CLI_DOCUMENT_H
#define HOLDFAST_CLI_DOCUMENT_H

#include "plan.h"

/* What the options said; collection is NULL without --document. */
typedef struct document_words {
    const char *collection, *id, *filter, *sort;
    char *element;   /* "lines.id"; NULL: the document itself */
    const char *key; /* what an element has there; NULL: any */
    bool is_each;
} document_words;

/* The parser of these options; its input is the words. */
extern const struct argp document_argp;

/* Ends the program with a message if the options contradict each other or other options. */
void document_check_usage(const document_words *w, size_t n_names, bool is_exclusive,
                          struct argp_state *state);

/* Takes it: for taking.c. */
hf_code document_take(const plan *p, hf_client *client, const hf_lock_options *options,
                      hf_lock **out, hf_error *err);

/* An open file with the document as one line, at its beginning; -1 after a message. */
int document_input(const hf_lock *lock);

/* ---- --each: which documents this run has had ---- */

typedef struct document_round {
    char **had; /* a query for each, as JSON */
    bool *is_out;
    size_t n;
    char *filter; /* the user's, without those that are out; NULL: as it is */
} document_round;

/* Whether it comes for the first time. A document that comes back unchanged is not asked for again.
 */
bool document_is_new(document_round *round, const plan *p, const hf_lock *lock);

/* The command failed for it: it is not asked for again in this run. */
void document_failed(document_round *round, const plan *p, const hf_lock *lock);

void document_round_done(document_round *round);

#endif
