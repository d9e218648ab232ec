/* SPDX-License-Identifier: Apache-2.0 */
/* parts.h: the parts of commands of protocol `document`. */
#ifndef STORE_MONGO_DOCUMENT_PARTS_H
#define STORE_MONGO_DOCUMENT_PARTS_H

#include "store/mongo/document/document.h"
#include "store/mongo/shared/held.h"

/* To a query: the document of this name. */
void mongo_document_append_id(bson_t *query, const char *name);
/* To a query: the lock of this name (any, for ""), as long as it carries this ticket. */
void mongo_document_append_own(const mongo_store *store, bson_t *query, const char *name,
                               hf_id ticket);
/* `query`: the lock of this name, if it is free, stale, or has a ticket of this step. */
void mongo_document_append_query(const mongo_store *store, const char *name, const hf_step *step,
                                 bson_t *command);
/* Pipelines. Taken: lockId is the ticket, lockTs is now, the token is raised. Renewed: lockTs is
 * now. */
void mongo_document_append_taken(const mongo_store *store, bson_t *to, const char *field,
                                 const char *name, hf_id ticket);
void mongo_document_append_renewed(const mongo_store *store, bson_t *to, const char *field,
                                   hf_id ticket);
/* `u`: both fields become null. */
void mongo_document_append_set_free(const mongo_store *store, bson_t *update);
/* `updates`: renews all of these; n counts locks in the answer. */
void mongo_document_append_renewals(const mongo_store *store, bson_t *command,
                                    const mongo_held *all, size_t n);

#endif
