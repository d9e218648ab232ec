/* SPDX-License-Identifier: Apache-2.0 */
/* strangers.c: finds documents that a new TTL index would delete though nobody wants that: data
 * that is no lock, and locks of other programs that lasted for ever until then. Sees how seldom
 * other programs renew. Called before the index is made. */
#include "core/error.h"
#include "store/mongo/driver/command.h"
#include "store/mongo/driver/reply.h"
#include "store/mongo/driver/text.h"
#include "store/mongo/shared/id_text.h"
#include "store/mongo/ttl/text.h"
#include "store/mongo/ttl/ttl.h"

#include <stdio.h>

/* MongoDB goes by the least date of an array. */
static const char stranger_text[] = "{'$or': [{'$not': [" TTL_IS_LOCK "]},"
                                    " {'$eq': [{'$type': '$@'}, 'array']}]}";

/* One of ours says how long it lasts. */
static const char passed_text[] =
    "{'$and': [{'$not': [" TTL_IS_OURS "]}, {'$eq': [{'$type': '$@'}, 'date']},"
    " {'$lte': ['$@', {'$subtract': ['$$NOW', {'$numberLong': '%lld'}]}]}]}";

static void append_filter(const mongo_store *store, int64_t seconds, bson_t *command)
{
    char passed[600], both[2000];
    bson_t filter;
    snprintf(passed, sizeof passed, passed_text, (long long)seconds * 1000);
    snprintf(both, sizeof both, "{'$or': [%s, %s]}", stranger_text, passed);
    char *text = mongo_ttl_text(store, both);
    bson_t *expr = pipeline_json(text);
    BSON_APPEND_DOCUMENT_BEGIN(command, "filter", &filter);
    BSON_APPEND_DOCUMENT(&filter, "$expr", expr);
    bson_append_document_end(command, &filter);
    bson_destroy(expr);
    free(text);
}

static hf_code refuse(const mongo_store *store, const bson_t *doc, int64_t seconds, hf_error *err)
{
    char id[HF_NAME_MAX + 1];
    bool is_lock = mongo_ttl_is_lock(store, doc);
    mongo_id_show(doc, id);
    return error_set(
        err, HF_SHAPE,
        "%.120s.%.120s has documents that the TTL index which protocol ttl needs would "
        "%s: _id \"%.80s\" %s. Lock in another collection (hfCollection), or have an "
        "administrator run db.%.120s.createIndex({%.100s: 1}, {expireAfterSeconds: "
        "%lld})%s",
        store->uri.database, store->uri.collection, is_lock ? "delete at once" : "delete some day",
        id,
        is_lock ? "is another program's lock, and its time is over"
                : "is no lock: it has other fields, and none that names an owner",
        store->uri.collection, store->uri.time_field, (long long)seconds,
        is_lock ? "" : " if all may be deleted");
}

hf_code mongo_ttl_refuse_strangers(mongo_store *store, int64_t seconds, hf_error *err)
{
    static const mongo_call call = {.what = "looking for documents that are no locks"};
    bson_t command = BSON_INITIALIZER, doc;
    mongo_reply reply;
    mongo_begin(&command, "find", store->uri.collection);
    append_filter(store, seconds, &command);
    mongo_append_first(store, &command);
    hf_code code = mongo_run(store, &call, &command, &reply, err);
    if (!code && mongo_first(&reply.doc, &doc))
        code = refuse(store, &doc, seconds, err);
    bson_destroy(&reply.doc);
    bson_destroy(&command);
    return code;
}

/* ---- How seldom other programs renew ---- */

static const char renewals_text[] =
    "{'pipeline': [{'$match': {'$expr': {'$and': [{'$not': [" TTL_IS_OURS "]},"
    " {'$eq': [{'$type': '$@'}, 'date']}]}}},"
    " {'$group': {'_id': null, 'first': {'$min': '$@'}}},"
    " {'$project': {'age': {'$subtract': ['$$NOW', '$first']}}}], 'cursor': {}}";

hf_code mongo_ttl_longest_gap(mongo_store *store, int64_t *gap_ms, hf_error *err)
{
    static const mongo_call call = {.what = "looking when locks were renewed"};
    bson_t command = BSON_INITIALIZER, doc;
    mongo_reply reply;
    char *text = mongo_ttl_text(store, renewals_text);
    bson_t *rest = pipeline_json(text);
    mongo_begin(&command, "aggregate", store->uri.collection);
    bson_concat(&command, rest);
    mongo_append_read_concern(store, &command, (hf_stamp){0});
    hf_code code = mongo_run(store, &call, &command, &reply, err);
    *gap_ms = !code && mongo_first(&reply.doc, &doc) ? mongo_int_at(&doc, "age", 0) : 0;
    bson_destroy(&reply.doc);
    bson_destroy(&command);
    bson_destroy(rest);
    free(text);
    return code;
}
