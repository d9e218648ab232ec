/* SPDX-License-Identifier: Apache-2.0 */
/* lock_id.h: protocol `document`: a ticket as the lockId of a document, in the type that the URI
 * says (hfLockIdType), and back. */
#ifndef STORE_MONGO_DOCUMENT_LOCK_ID_H
#define STORE_MONGO_DOCUMENT_LOCK_ID_H

#include "store/mongo/driver/builder.h"
#include "store/mongo/driver/store.h"

void mongo_lock_id_append(const mongo_uri *uri, bson_t *to, const char *field, hf_id ticket);

/* To a query: lockId is this ticket, and no array that has it. */
void mongo_lock_id_append_is(const mongo_uri *uri, bson_t *query, hf_id ticket);
/* The same for one as it stands in a document. */
void mongo_lock_id_append_seen(const mongo_uri *uri, bson_t *query, const bson_iter_t *lock_id);
void mongo_lock_id_append_no_array(const mongo_uri *uri, bson_t *query);

/* The tickets of a step's enter and leaves, as an array. */
void mongo_lock_id_append_all(const mongo_uri *uri, bson_t *to, const char *field,
                              const hf_step *step);

/* An expression that says whether a field, "$path", is of the type that the URI says. */
void mongo_lock_id_append_test(const mongo_uri *uri, mongo_builder *out, const char *path);

/* What a lockId says. */
typedef struct mongo_lock_id {
    hf_id ticket;  /* that it was made of, or else a hash of it */
    bool is_exact; /* no hash: its first bytes are the time when it was made */
    bool is_our_type;
    const char *type; /* as hfLockIdType names it */
} mongo_lock_id;

/* False: it is in none of the forms that programs use. A text is one only if the URI says so. */
bool mongo_lock_id_read(const mongo_uri *uri, const bson_iter_t *it, mongo_lock_id *out);
bool mongo_lock_id_is_one(const mongo_uri *uri, const bson_iter_t *it);

#define MONGO_LOCK_ID_TEXT 61
/* For people. */
void mongo_lock_id_text(const bson_iter_t *it, char out[MONGO_LOCK_ID_TEXT]);

#endif
