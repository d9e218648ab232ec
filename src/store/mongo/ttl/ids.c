/* SPDX-License-Identifier: Apache-2.0 */
/* ids.c: finds a document of protocol `ttl` whose _id is not a string. Names of locks are strings,
 * so 5 and "5" are two locks that do not exclude each other. Called at the first acquire and by the
 * doctor. */
#include "store/mongo/driver/command.h"
#include "store/mongo/driver/log.h"
#include "store/mongo/driver/reply.h"
#include "store/mongo/shared/id_text.h"
#include "store/mongo/ttl/ttl.h"

/* All types of an _id except string: a query for these needs only the index on _id. */
static const char *const types[] = {
    "number",     "object",    "binData", "objectId",  "bool",   "date",   "null",
    "javascript", "timestamp", "symbol",  "dbPointer", "minKey", "maxKey",
};

/* {_id: {$type: types}} */
static void append_filter(bson_t *command)
{
    bson_t filter, id, in;
    char key[16];
    BSON_APPEND_DOCUMENT_BEGIN(command, "filter", &filter);
    BSON_APPEND_DOCUMENT_BEGIN(&filter, "_id", &id);
    BSON_APPEND_ARRAY_BEGIN(&id, "$type", &in);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        const char *at = mongo_key(i, key);
        BSON_APPEND_UTF8(&in, at, types[i]);
    }
    bson_append_array_end(&id, &in);
    bson_append_document_end(&filter, &id);
    bson_append_document_end(command, &filter);
}

static bool read_id(const mongo_reply *reply, char out[HF_NAME_MAX + 1])
{
    bson_t doc;
    bool is_there = mongo_first(&reply->doc, &doc);
    if (is_there)
        mongo_id_show(&doc, out);
    return is_there;
}

bool mongo_ttl_find_odd_id(mongo_store *store, char out[HF_NAME_MAX + 1])
{
    static const mongo_call call = {.what = "looking at the names of locks"};
    bson_t command = BSON_INITIALIZER, fields;
    mongo_reply reply;
    mongo_begin(&command, "find", store->uri.collection);
    append_filter(&command);
    BSON_APPEND_DOCUMENT_BEGIN(&command, "projection", &fields);
    BSON_APPEND_INT32(&fields, "_id", 1);
    bson_append_document_end(&command, &fields);
    mongo_append_first(store, &command);
    bool is_found = !mongo_run(store, &call, &command, &reply, NULL) && read_id(&reply, out);
    bson_destroy(&reply.doc);
    bson_destroy(&command);
    return is_found;
}

void mongo_ttl_warn_of_odd_id(mongo_store *store)
{
    char id[HF_NAME_MAX + 1];
    if (mongo_ttl_find_odd_id(store, id))
        mongo_log(
            store, HF_LOG_WARNING,
            "%.120s has a document whose _id is not a string: %.100s. The names of locks here "
            "are strings, so a program that locks by another type and one that locks by the "
            "same name from here do not exclude each other",
            store->uri.collection, id);
}
