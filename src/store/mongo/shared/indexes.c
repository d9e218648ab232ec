/* SPDX-License-Identifier: Apache-2.0 */
/* indexes.c: makes the indexes of our own collections, or finds that somebody else has. */
#include "store/mongo/shared/indexes.h"
#include "store/mongo/driver/reply.h"
#include "store/mongo/driver/text.h"

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

static hf_code make(mongo_store *store, const mongo_call *call, const char *collection,
                    const bson_t *list, bool is_quick, hf_error *err)
{
    bson_t command = BSON_INITIALIZER;
    mongo_reply reply;
    mongo_begin(&command, "createIndexes", collection);
    bson_concat(&command, list);
    if (is_quick)
        mongo_append_quick_write_concern(&command);
    else
        mongo_append_write_concern(store, &command, false);
    hf_code code = mongo_run(store, call, &command, &reply, err);
    bson_destroy(&reply.doc);
    bson_destroy(&command);
    return code;
}

hf_code mongo_make_indexes(mongo_store *store, const mongo_call *call, const char *collection,
                           const char *list, bool is_quick, hf_error *err)
{
    bson_t *indexes = pipeline_json(list);
    hf_code code = make(store, call, collection, indexes, is_quick, err);
    if (code == HF_DENIED && are_there(store, collection, indexes))
        code = HF_OK;
    bson_destroy(indexes);
    return code;
}
