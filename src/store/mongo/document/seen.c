/* SPDX-License-Identifier: Apache-2.0 */
/* seen.c: finds the lockId of a lock that is broken, as it stands. Other programs' lockIds are
 * longer than a ticket, which is a hash of them and leads to no filter. document.c calls it. */
#include "store/mongo/document/seen.h"
#include "core/id.h"
#include "store/mongo/document/element.h"
#include "store/mongo/document/lock_id.h"
#include "store/mongo/document/parts.h"
#include "store/mongo/driver/command.h"
#include "store/mongo/driver/path.h"
#include "store/mongo/driver/reply.h"

static bool find_lock_id(const mongo_store *store, const bson_t *doc, hf_id ticket,
                         bson_iter_t *out)
{
    mongo_lock_id id;
    if (store->uri.array)
        return mongo_element_find_lock_id(store, doc, ticket, out);
    return mongo_path_find(doc, store->uri.lock_field, out) &&
           mongo_lock_id_read(&store->uri, out, &id) && id_equal(id.ticket, ticket);
}

static void append_lock(const mongo_store *store, bson_t *query, const char *name,
                        const bson_iter_t *lock_id)
{
    if (store->uri.array) {
        mongo_element_append_seen(store, query, name, lock_id);
        return;
    }
    mongo_document_append_id(query, name);
    mongo_lock_id_append_seen(&store->uri, query, lock_id);
}

static bool append_from(const mongo_store *store, const mongo_reply *reply, const char *name,
                        hf_id ticket, bson_t *query)
{
    bson_t doc;
    bson_iter_t lock_id;
    bool is_there = mongo_first(&reply->doc, &doc) && find_lock_id(store, &doc, ticket, &lock_id);
    if (is_there)
        append_lock(store, query, name, &lock_id);
    return is_there;
}

bool mongo_document_append_seen(mongo_store *store, bson_t *query, const char *name, hf_id ticket)
{
    static const mongo_call call = {.what = "looking at what is broken"};
    bson_t command = BSON_INITIALIZER, filter;
    mongo_reply reply;
    hf_error err;
    mongo_begin(&command, "find", store->uri.collection);
    BSON_APPEND_DOCUMENT_BEGIN(&command, "filter", &filter);
    if (store->uri.array)
        mongo_element_append_name(store, &filter, name);
    else
        mongo_document_append_id(&filter, name);
    bson_append_document_end(&command, &filter);
    mongo_append_first(store, &command);
    bool is_seen = !mongo_run(store, &call, &command, &reply, &err) &&
                   append_from(store, &reply, name, ticket, query);
    bson_destroy(&reply.doc);
    bson_destroy(&command);
    return is_seen;
}
