/* SPDX-License-Identifier: Apache-2.0 */
/* document.h: protocol `document`, the lock inside the user's own document: its calls, and what its
 * files share. */
#ifndef STORE_MONGO_DOCUMENT_H
#define STORE_MONGO_DOCUMENT_H

#include "store/mongo/driver/builder.h"
#include "store/mongo/shared/protocol.h"

extern const mongo_protocol mongo_document;
extern const mongo_protocol mongo_element; /* the same for elements of arrays */

hf_code mongo_document_beat(hf_store *base, hf_id id, const hf_beat *says, hf_session_state *out,
                            hf_error *err);
hf_code mongo_document_refresh(hf_store *base, const char *name, hf_id ticket, hf_error *err);
hf_code mongo_document_canonical(hf_store *base, const char *given, char name[HF_NAME_MAX + 1],
                                 hf_error *err);
hf_code mongo_document_claim(hf_store *base, const hf_claim *wanted, const hf_enter *entrant,
                             hf_record *out, hf_step_reply *reply, hf_error *err);

/* ---- What documents say (shape.c) ---- */

hf_code mongo_document_check(const mongo_uri *uri, int64_t ttl_ms, hf_error *err);
/* Appends the document of a template: @ stands for the field of lockId, # for that of lockTs, % for
 * that of the token, * for the array and & for the key of its elements. */
void mongo_document_append_text(const mongo_store *store, bson_t *to, const char *field,
                                const char *text);
#define MONGO_DOCUMENT_PATH 208
/* A field, or where it is in an array: the array's name, `between`, and the field. Returns out. */
const char *mongo_document_path(const mongo_store *store, const char *between, const char *field,
                                char out[MONGO_DOCUMENT_PATH]);
/* {$and: [... ]}: conditions for a query: the document is unlocked or stale, and its fields can be
 * written without touching any other. */
void mongo_document_append_free(const mongo_store *store, bson_t *to, const char *field);
void mongo_document_append_sound(const mongo_store *store, bson_t *to, const char *field);
/* The same as templates of expressions. */
void mongo_document_write_free(const mongo_uri *uri, mongo_builder *out);
void mongo_document_write_sound(const mongo_uri *uri, mongo_builder *out);
void mongo_document_write_other_type(const mongo_uri *uri, mongo_builder *out);
/* The calls of `mongo_protocol` on documents from a look, which come without the user's own fields.
 */
void mongo_document_append_left(mongo_store *store, bson_t *stages, size_t n, const bson_t *filter);
hf_code mongo_document_read(mongo_store *store, const bson_t *doc, hf_record *out, hf_error *err);
/* The user's document, which has just been locked with this ticket. */
hf_code mongo_document_read_taken(mongo_store *store, const bson_t *doc, const hf_entry *entry,
                                  hf_record *out, hf_error *err);
/* The same, if its name is known. */
hf_code mongo_document_read_named(mongo_store *store, const char *name, const bson_t *doc,
                                  const hf_entry *entry, hf_record *out, hf_error *err);
hf_code mongo_document_unnamed(const mongo_store *store, hf_error *err); /* HF_SHAPE */

/* Extended JSON, for the caller to bson_free(); bytes that are not UTF-8 become U+FFFD. NULL: the
 * document cannot be read to its end (json.c). */
char *mongo_document_json(const bson_t *doc);

/* ---- When they are refreshed (refresh.c) ---- */

void mongo_document_refresh_open(mongo_store *store);
void mongo_document_refresh_close(mongo_store *store, bool is_ours);
int64_t mongo_document_stale_ms(const mongo_uri *uri);
/* Takes in a look at a document that another program holds, and when that was refreshed. Warns if
 * it is refreshed slowly. */
void mongo_document_note_refresh(mongo_store *store, const char *name, hf_id ticket,
                                 int64_t time_ms);
/* Warns, once, of a stale lockId of another type, which is waited for without end. */
void mongo_document_note_other_type(mongo_store *store, const char *name, const char *type);
/* Whether a claim that found nothing is to count what it passes by for its type: at most once a
 * minute, and no more when that has been said. */
bool mongo_document_is_to_count(mongo_store *store);
/* Warns, once, of what a claim has passed by: so many of this type of lockId. */
void mongo_document_note_passed(mongo_store *store, int64_t n, const char *type);

/* ---- What a claim passes by (passed.c) ---- */

/* A claim with this filter found nothing. Warns if a lockId of another type is why. */
void mongo_document_tell_passed(mongo_store *store, const hf_claim *wanted);

/* ---- Taking (document.c) ---- */

/* Remembers an entrant before its enter is sent, so that an enter that arrives without an answer is
 * found. */
void mongo_document_expect(mongo_store *store, const char *name, const hf_enter *enter);
/* The change, and what else a findAndModify has. */
void mongo_document_append_taking(const mongo_store *store, const char *name, const hf_enter *enter,
                                  bson_t *command);
/* Its answer: *is_taken, and the record of what it took. */
hf_code mongo_document_read_answer(mongo_store *store, const bson_t *answer, const hf_enter *enter,
                                   hf_record *out, bool *is_taken, hf_error *err);
void mongo_document_settle(mongo_store *store, const hf_enter *enter, hf_code code, bool is_taken);

#endif
