/* SPDX-License-Identifier: Apache-2.0 */
/* indexes.c: makes the indexes of our own collections, unless somebody else has, or they hold what
 * is not ours; called by queue/sweep.c and sharding/indexes.c. */
#include "store/mongo/shared/indexes.h"
#include "core/error.h"
#include "store/mongo/driver/reply.h"
#include "store/mongo/driver/text.h"
#include "store/mongo/shared/id_text.h"

#include <stdio.h>
#include <string.h>

#define TTL "expireAfterSeconds"

/* By its name, which drivers and shells make from the key. */
static bool is_same(const bson_t *wanted, const bson_t *found)
{
    return strcmp(mongo_text_at(wanted, "name", ""), mongo_text_at(found, "name", "?")) == 0 &&
           bson_has_field(wanted, TTL) == bson_has_field(found, TTL);
}

static bool is_among(const bson_t *wanted, const bson_t *reply)
{
    bson_t batch, found;
    bson_iter_t it;
    if (mongo_view(reply, "cursor.firstBatch", &batch) && bson_iter_init(&it, &batch))
        while (mongo_next(&it, &found))
            if (is_same(wanted, &found))
                return true;
    return false;
}

static bool are_all_among(const bson_t *list, const bson_t *reply)
{
    bson_t indexes, wanted;
    bson_iter_t it;
    if (!mongo_view(list, "indexes", &indexes) || !bson_iter_init(&it, &indexes))
        return false;
    while (mongo_next(&it, &wanted))
        if (!is_among(&wanted, reply))
            return false;
    return true;
}

/* False also where the user may not see them. */
static bool are_there(mongo_store *store, const char *collection, const bson_t *list)
{
    static const mongo_call call = {.what = "reading the indexes"};
    bson_t command = BSON_INITIALIZER;
    mongo_reply reply;
    mongo_begin(&command, "listIndexes", collection);
    bool are = !mongo_run(store, &call, &command, &reply, NULL) && are_all_among(list, &reply.doc);
    bson_destroy(&reply.doc);
    bson_destroy(&command);
    return are;
}

static hf_code refuse(const mongo_store *store, const mongo_indexes *wanted, const bson_t *doc,
                      hf_error *err)
{
    char id[HF_NAME_MAX + 1];
    mongo_id_show(doc, id);
    return error_set(err, HF_SHAPE,
                     "collection %.120s in database %.64s has a document that is not Holdfast's, "
                     "_id \"%.80s\", so no index is made there: move it away, or lock in other "
                     "collections (hfCollection)",
                     wanted->collection, store->uri.database, id);
}

static hf_code refuse_strangers(mongo_store *store, const mongo_indexes *wanted, hf_error *err)
{
    static const mongo_call call = {.what = "looking for documents that are not Holdfast's"};
    bson_t command = BSON_INITIALIZER, doc;
    mongo_reply reply;
    char text[400];
    snprintf(text, sizeof text, "{'filter': {'$expr': {'$not': [%s]}}}", wanted->ours);
    bson_t *strangers = pipeline_json(text);
    mongo_begin(&command, "find", wanted->collection);
    bson_concat(&command, strangers);
    mongo_append_first(store, &command);
    hf_code code = mongo_run(store, &call, &command, &reply, err);
    if (!code && mongo_first(&reply.doc, &doc))
        code = refuse(store, wanted, &doc, err);
    bson_destroy(&reply.doc);
    bson_destroy(&command);
    bson_destroy(strangers);
    return code;
}

static hf_code make(mongo_store *store, const mongo_call *call, const mongo_indexes *wanted,
                    const bson_t *list, hf_error *err)
{
    bson_t command = BSON_INITIALIZER;
    mongo_reply reply;
    mongo_begin(&command, "createIndexes", wanted->collection);
    bson_concat(&command, list);
    if (wanted->is_quick)
        mongo_append_quick_write_concern(&command);
    else
        mongo_append_write_concern(store, &command, false);
    hf_code code = mongo_run(store, call, &command, &reply, err);
    bson_destroy(&reply.doc);
    bson_destroy(&command);
    return code;
}

hf_code mongo_make_indexes(mongo_store *store, const mongo_call *call, const mongo_indexes *wanted,
                           hf_error *err)
{
    bson_t *list = pipeline_json(wanted->list);
    hf_code code = HF_OK;
    if (!are_there(store, wanted->collection, list)) {
        code = refuse_strangers(store, wanted, err);
        if (!code)
            code = make(store, call, wanted, list, err);
    }
    bson_destroy(list);
    return code;
}
