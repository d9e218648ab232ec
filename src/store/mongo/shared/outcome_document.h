/* SPDX-License-Identifier: Apache-2.0 */
/* outcome_document.h: how a lock was left, in protocols whose own documents have no room for it:
 * one document per lock in the collection `<hfCollection>.done`. */
#ifndef STORE_MONGO_SHARED_OUTCOME_DOCUMENT_H
#define STORE_MONGO_SHARED_OUTCOME_DOCUMENT_H

#include "store/mongo/driver/store.h"

/* Such a document. Its record has one holder, the one that is noted, or none; `last` and `done`
 * are those of protocol `queue`. The caller frees it with mongo_outcome_done(). */
typedef struct mongo_outcome {
    hf_record record;
    char who[HF_TEXT_MAX + 1]; /* the holder that is noted */
    hf_id left;                /* the ticket whose leave came last; 0: none */
    int64_t version;           /* each change raises it; 0: there is no document */
    hf_dbtime now;             /* the store's clock, when it was read or changed */
} mongo_outcome;

void mongo_outcome_done(mongo_outcome *outcome);
void mongo_outcome_copy(mongo_outcome *to, const mongo_outcome *from); /* deep; overwrites `to` */

/* ---- From and to the database ---- */

/* The document as it is now, not as it was (a linearizable read), or one of version 0. */
hf_code mongo_outcome_read(mongo_store *store, const char *name, mongo_outcome *out, hf_error *err);
/* Writes it if nobody has changed it since it was read; *is_done: that is so. Then the version and
 * `now` are the new ones. Never makes a late command undo a later one, because versions rise. */
hf_code mongo_outcome_swap(mongo_store *store, mongo_outcome *outcome, bool *is_done,
                           hf_error *err);

typedef void (*mongo_outcome_fn)(void *ctx, mongo_outcome *outcome);
/* Those of n locks that have one, in any order; a majority read. */
hf_code mongo_outcomes_find(mongo_store *store, const hf_record *records, size_t n,
                            mongo_outcome_fn each, void *ctx, hf_error *err);

/* ---- What happens to it; nothing is sent ---- */

/* The holder that is noted, if it is not this ticket, has left without a word. */
void mongo_outcome_bury(mongo_outcome *outcome, hf_id ticket);
/* Notes a holder; nobody is noted yet. */
void mongo_outcome_note(mongo_outcome *outcome, const hf_entry *holder, const char *who);
void mongo_outcome_leave(mongo_outcome *outcome, const hf_leave *leave);
bool mongo_outcome_notes(const mongo_outcome *outcome, hf_id ticket);

#endif
