/* SPDX-License-Identifier: Apache-2.0 */
/* document.h: records, entries, asks and sessions as BSON, in the shapes of protocol `queue`; used
 * by the mongo store for its documents and by the sqlite store for its rows.
 */
#ifndef STORE_DOCUMENT_H
#define STORE_DOCUMENT_H

#include "store/bson.h"

#include <holdfast/store.h>

/* Writers. `out` is initialised here; the caller destroys it. */
void document_of_record(const hf_record *record, bson_t *out);
void document_of_entry(const hf_entry *entry, bson_t *out);
void document_of_ask(const hf_ask *ask, bson_t *out);
void document_of_session(const hf_session *session, bson_t *out); /* without beat and dates */

void document_append_id(bson_t *to, const char *field, hf_id id);
void document_append_period(bson_t *to, hf_period period);   /* appends nothing if there is none */
void document_append_reason(bson_t *to, const char *reason); /* the same for "" */
const char *document_outcome_text(hf_outcome outcome);       /* "released", "abandoned", "" */

/* Readers. Unknown fields are skipped; any integral number is accepted where a number is expected.
 * HF_SHAPE: the text names collection, _id, field and what was expected there; `out` then holds
 * nothing to free. Otherwise a record is to be freed with record_done(). */
hf_code document_to_record(const bson_t *doc, const char *collection, hf_record *out,
                           hf_error *err);

/* A session; a computed field `left` (ms) becomes lease_left_ms. */
hf_code document_to_state(const bson_t *doc, const char *collection, hf_session_state *out,
                          hf_error *err);

#endif
