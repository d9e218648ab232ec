/* SPDX-License-Identifier: Apache-2.0 */
/* element.h: locks in the elements of an array of the user's documents (hfElement=ARRAY.KEY). Such
 * a lock's name is a JSON array of the document's _id and the element's key: ["A17",7]. */
#ifndef STORE_MONGO_DOCUMENT_ELEMENT_H
#define STORE_MONGO_DOCUMENT_ELEMENT_H

#include "store/mongo/document/document.h"

/* ---- Names (element_name.c) ---- */

typedef struct mongo_element_name {
    bson_t *doc; /* has both values; mongo_element_name_done() destroys it */
    bson_iter_t id, key;
} mongo_element_name;

/* False: the text is no such name, and there is nothing to destroy. */
bool mongo_element_name_read(const char *text, mongo_element_name *out);
void mongo_element_name_done(mongo_element_name *name);
/* The one name of an element; false: it is too long, or one of the two can be no name. */
bool mongo_element_name_write(const bson_iter_t *id, const bson_iter_t *key,
                              char name[HF_NAME_MAX + 1]);
/* The same for an array of both, as a look gives it for the _id. */
bool mongo_element_name_of(const bson_iter_t *both, char name[HF_NAME_MAX + 1]);

hf_code mongo_element_check(const mongo_uri *uri, hf_error *err);
hf_code mongo_element_canonical(const mongo_uri *uri, const char *given, char name[HF_NAME_MAX + 1],
                                hf_error *err);

/* ---- Parts of commands (element.c) ---- */

/* To a query, on documents and on what $unwind makes of them: that document and that key. */
void mongo_element_append_name(const mongo_store *store, bson_t *query, const char *name);
/* To a query: the element of this name (any, for ""), as long as it carries this ticket. */
void mongo_element_append_own(const mongo_store *store, bson_t *query, const char *name,
                              hf_id ticket);
/* The same, as long as it carries this lockId as it stands. */
void mongo_element_append_seen(const mongo_store *store, bson_t *query, const char *name,
                               const bson_iter_t *lock_id);
void mongo_element_append_takeable(const mongo_store *store, const char *name, const hf_step *step,
                                   bson_t *query);
/* To a query on what $unwind gives: the element is free, and its fields can be written. */
void mongo_element_append_free(const mongo_store *store, bson_t *query);

/* Which element changes, as an expression: that of the name, or those with the ticket. */
void mongo_element_append_is(const mongo_store *store, bson_t *to, const char *name);
void mongo_element_append_has(const mongo_store *store, bson_t *to, hf_id ticket);
/* A stage that sets these fields there. */
void mongo_element_append_set(const mongo_store *store, bson_t *stage, const bson_t *set,
                              const bson_t *which);

/* To n stages that begin with this filter: documents become elements. Returns how many stages there
 * are now. */
size_t mongo_element_append_unwind(const mongo_store *store, bson_t *stages, size_t n,
                                   const bson_t *filter);
/* The call of `mongo_protocol`. */
void mongo_element_append_left(mongo_store *store, bson_t *stages, size_t n, const bson_t *filter);
/* To a query, on both: everything that is held, by any program. */
void mongo_element_append_listed(const mongo_store *store, bson_t *query);

/* Among the elements of a document: the lockId that is this ticket. */
bool mongo_element_find_lock_id(const mongo_store *store, const bson_t *doc, hf_id ticket,
                                bson_iter_t *out);
/* The lock of this name; HF_SHAPE: several elements have its key. */
hf_code mongo_element_see(mongo_store *store, const char *name, hf_stamp after, hf_record *out,
                          hf_error *err);

/* What a taking gave: the record of the element, whose document is the user's with this one element
 * in place of the array. */
hf_code mongo_element_read_taken(mongo_store *store, const bson_t *doc, const hf_entry *entry,
                                 hf_record *out, hf_error *err);

/* ---- Claims (element_claim.c) ---- */

hf_code mongo_element_claim(mongo_store *store, const hf_claim *wanted, const hf_enter *entrant,
                            hf_record *out, hf_step_reply *reply, hf_error *err);

#endif
