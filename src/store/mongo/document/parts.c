/* SPDX-License-Identifier: Apache-2.0 */
/* parts.c: the parts of commands on the user's documents: which document, and what changes in it;
 * document.c and claim.c send them. Where locks are in the elements of an array, element.c says
 * which element. */
#include "store/mongo/document/parts.h"
#include "store/mongo/document/element.h"
#include "store/mongo/document/lock_id.h"
#include "store/mongo/driver/command.h"
#include "store/mongo/driver/text.h"
#include "store/mongo/shared/id_text.h"

/* ---- Which document ---- */

void mongo_document_append_id(bson_t *query, const char *name)
{
    bson_t equal;
    BSON_APPEND_DOCUMENT_BEGIN(query, "_id", &equal);
    mongo_id_append(&equal, "$eq", name);
    bson_append_document_end(query, &equal);
}

void mongo_document_append_own(const mongo_store *store, bson_t *query, const char *name,
                               hf_id ticket)
{
    if (store->uri.array) {
        mongo_element_append_own(store, query, name, ticket);
        return;
    }
    if (name[0])
        mongo_document_append_id(query, name);
    mongo_lock_id_append_is(&store->uri, query, ticket);
}

/* {lockId: {$in: [ours, those that this step leaves]}} */
static void append_any_ticket(const mongo_store *store, const hf_step *step, bson_t *to)
{
    bson_t field;
    bson_append_document_begin(to, store->uri.lock_field, -1, &field);
    mongo_lock_id_append_all(&store->uri, &field, "$in", step);
    bson_append_document_end(to, &field);
    mongo_lock_id_append_no_array(&store->uri, to);
}

static void append_takeable(const mongo_store *store, const char *name, const hf_step *step,
                            bson_t *query)
{
    bson_t all, any, each;
    mongo_document_append_id(query, name);
    BSON_APPEND_ARRAY_BEGIN(query, "$and", &all);
    mongo_document_append_sound(store, &all, "0");
    BSON_APPEND_DOCUMENT_BEGIN(&all, "1", &each);
    BSON_APPEND_ARRAY_BEGIN(&each, "$or", &any);
    mongo_document_append_free(store, &any, "0");
    bson_t ours = BSON_INITIALIZER;
    append_any_ticket(store, step, &ours);
    BSON_APPEND_DOCUMENT(&any, "1", &ours);
    bson_destroy(&ours);
    bson_append_array_end(&each, &any);
    bson_append_document_end(&all, &each);
    bson_append_array_end(query, &all);
}

void mongo_document_append_query(const mongo_store *store, const char *name, const hf_step *step,
                                 bson_t *command)
{
    bson_t query;
    BSON_APPEND_DOCUMENT_BEGIN(command, "query", &query);
    if (store->uri.array)
        mongo_element_append_takeable(store, name, step, &query);
    else
        append_takeable(store, name, step, &query);
    bson_append_document_end(command, &query);
}

/* ---- What changes ---- */

static void append_token(const mongo_store *store, bson_t *set)
{
    mongo_document_append_text(store, set, store->uri.token_field,
                               "{'$add': [{'$toLong': {'$ifNull': ['$%', 0]}}, {'$toLong': 1}]}");
}

/* lockTs: "$$NOW", or when that becomes stale. */
static void append_time(const mongo_store *store, bson_t *set)
{
    bson_t sum, terms;
    if (store->uri.time_means == MONGO_TIME_REFRESHED) {
        bson_append_utf8(set, store->uri.time_field, -1, "$$NOW", -1);
        return;
    }
    bson_append_document_begin(set, store->uri.time_field, -1, &sum);
    BSON_APPEND_ARRAY_BEGIN(&sum, "$add", &terms);
    BSON_APPEND_UTF8(&terms, "0", "$$NOW");
    BSON_APPEND_INT64(&terms, "1", mongo_document_stale_ms(&store->uri));
    bson_append_array_end(&sum, &terms);
    bson_append_document_end(set, &sum);
}

/* [{$set: set}], of the document or of the elements that are meant; destroys both. */
static void append_stages(const mongo_store *store, bson_t *to, const char *field, bson_t *set,
                          bson_t *which)
{
    bson_t stages, stage;
    bson_append_array_begin(to, field, -1, &stages);
    BSON_APPEND_DOCUMENT_BEGIN(&stages, "0", &stage);
    if (store->uri.array)
        mongo_element_append_set(store, &stage, set, which);
    else
        BSON_APPEND_DOCUMENT(&stage, "$set", set);
    bson_append_document_end(&stages, &stage);
    bson_append_array_end(to, &stages);
    bson_destroy(set);
    bson_destroy(which);
}

void mongo_document_append_taken(const mongo_store *store, bson_t *to, const char *field,
                                 const char *name, hf_id ticket)
{
    bson_t set = BSON_INITIALIZER, which = BSON_INITIALIZER;
    mongo_lock_id_append(&store->uri, &set, store->uri.lock_field, ticket);
    append_time(store, &set);
    if (store->uri.token_field)
        append_token(store, &set);
    if (store->uri.array)
        mongo_element_append_is(store, &which, name);
    append_stages(store, to, field, &set, &which);
}

void mongo_document_append_renewed(const mongo_store *store, bson_t *to, const char *field,
                                   hf_id ticket)
{
    bson_t set = BSON_INITIALIZER, which = BSON_INITIALIZER;
    append_time(store, &set);
    if (store->uri.array)
        mongo_element_append_has(store, &which, ticket);
    append_stages(store, to, field, &set, &which);
}

void mongo_document_append_set_free(const mongo_store *store, bson_t *update)
{
    bson_t change, set;
    char lock[MONGO_DOCUMENT_PATH], time[MONGO_DOCUMENT_PATH];
    BSON_APPEND_DOCUMENT_BEGIN(update, "u", &change);
    BSON_APPEND_DOCUMENT_BEGIN(&change, "$set", &set);
    bson_append_null(&set, mongo_document_path(store, ".$.", store->uri.lock_field, lock), -1);
    bson_append_null(&set, mongo_document_path(store, ".$.", store->uri.time_field, time), -1);
    bson_append_document_end(&change, &set);
    bson_append_document_end(update, &change);
}

/* ---- Renewing what is held ---- */

/* {_id: {$in: names}, lockId: {$in: tickets}} */
static void append_held(const mongo_store *store, const mongo_held *all, size_t n, bson_t *query)
{
    bson_t part, in;
    char key[16];
    BSON_APPEND_DOCUMENT_BEGIN(query, "_id", &part);
    BSON_APPEND_ARRAY_BEGIN(&part, "$in", &in);
    for (size_t i = 0; i < n; i++)
        mongo_id_append(&in, mongo_key(i, key), all[i].name);
    bson_append_array_end(&part, &in);
    bson_append_document_end(query, &part);
    bson_append_document_begin(query, store->uri.lock_field, -1, &part);
    BSON_APPEND_ARRAY_BEGIN(&part, "$in", &in);
    for (size_t i = 0; i < n; i++)
        mongo_lock_id_append(&store->uri, &in, mongo_key(i, key), all[i].ticket);
    bson_append_array_end(&part, &in);
    bson_append_document_end(query, &part);
    mongo_lock_id_append_no_array(&store->uri, query);
}

static void append_renewal(const mongo_store *store, bson_t *updates, const char *at,
                           const mongo_held *all, size_t n)
{
    bson_t update, query;
    bson_append_document_begin(updates, at, -1, &update);
    BSON_APPEND_DOCUMENT_BEGIN(&update, "q", &query);
    if (store->uri.array)
        mongo_element_append_own(store, &query, all->name, all->ticket);
    else
        append_held(store, all, n, &query);
    bson_append_document_end(&update, &query);
    mongo_document_append_renewed(store, &update, "u", all->ticket);
    BSON_APPEND_BOOL(&update, "multi", true);
    bson_append_document_end(updates, &update);
}

/* Documents in one update. Two elements may be in one document, which an update changes and counts
 * once, so each has one of its own. */
void mongo_document_append_renewals(const mongo_store *store, bson_t *command,
                                    const mongo_held *all, size_t n)
{
    bson_t updates;
    char key[16];
    size_t each = store->uri.array ? 1 : n;
    BSON_APPEND_ARRAY_BEGIN(command, "updates", &updates);
    for (size_t i = 0; i < n; i += each)
        append_renewal(store, &updates, mongo_key(i, key), all + i, each);
    bson_append_array_end(command, &updates);
}
