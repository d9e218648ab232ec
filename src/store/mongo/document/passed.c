/* SPDX-License-Identifier: Apache-2.0 */
/* passed.c: protocol `document`: counts what a claim passes by although it is stale, because its
 * lockId is of another type; claim.c calls it. */
#include "store/mongo/document/document.h"
#include "store/mongo/document/element.h"
#include "store/mongo/document/filter.h"
#include "store/mongo/document/lock_id.h"
#include "store/mongo/driver/command.h"
#include "store/mongo/driver/reply.h"
#include "store/mongo/driver/text.h"

/* The user's filter, and the type. */
static hf_code append_filter(mongo_store *store, const hf_claim *wanted, bson_t *filter)
{
    bool is_element = store->uri.array;
    mongo_builder text = builder_begin("{'$expr': ");
    bson_t all;
    builder_add(&text, is_element ? "{'$let': {'vars': {'e': '$*'}, 'in': " : "");
    mongo_document_write_other_type(&store->uri, &text);
    builder_add(&text, is_element ? "}}}" : "}");
    BSON_APPEND_ARRAY_BEGIN(filter, "$and", &all);
    hf_code code =
        mongo_filter_append(&all, "0", "filter", wanted->filter ? wanted->filter : "{}", NULL);
    mongo_document_append_text(store, &all, "1", text.text);
    bson_append_array_end(filter, &all);
    builder_done(&text);
    return code;
}

/* {n: how many, one: a lockId of theirs} */
static void append_count(const mongo_store *store, bson_t *stages, size_t *n)
{
    char path[MONGO_DOCUMENT_PATH];
    mongo_builder text = builder_begin("");
    builder_add_format(&text, "{'_id': null, 'n': {'$sum': 1}, 'one': {'$first': '$%s'}}",
                       mongo_document_path(store, ".", store->uri.lock_field, path));
    bson_t *group = pipeline_json(text.text);
    mongo_append_stage(stages, n, "$group", group);
    bson_destroy(group);
    builder_done(&text);
}

static hf_code append_stages(mongo_store *store, const hf_claim *wanted, bson_t *stages)
{
    bson_t filter = BSON_INITIALIZER;
    size_t n = 0;
    hf_code code = append_filter(store, wanted, &filter);
    if (store->uri.array)
        n = mongo_element_append_unwind(store, stages, n, &filter);
    else
        mongo_append_stage(stages, &n, "$match", &filter);
    append_count(store, stages, &n);
    bson_destroy(&filter);
    return code;
}

static void tell(mongo_store *store, const bson_t *reply)
{
    bson_t counted;
    bson_iter_t one;
    mongo_lock_id id;
    if (mongo_first(reply, &counted) && bson_iter_init_find(&one, &counted, "one") &&
        mongo_lock_id_read(&store->uri, &one, &id))
        mongo_document_note_passed(store, mongo_int_at(&counted, "n", 0), id.type);
}

/* Nobody waits for it, so an error is none of the claim's. */
void mongo_document_tell_passed(mongo_store *store, const hf_claim *wanted)
{
    static const mongo_call call = {.what = "counting what a claim passes by"};
    bson_t command = BSON_INITIALIZER, stages, cursor;
    mongo_reply reply;
    if (!mongo_document_is_to_count(store))
        return;
    mongo_begin(&command, "aggregate", store->uri.collection);
    BSON_APPEND_ARRAY_BEGIN(&command, "pipeline", &stages);
    hf_code code = append_stages(store, wanted, &stages);
    bson_append_array_end(&command, &stages);
    BSON_APPEND_DOCUMENT_BEGIN(&command, "cursor", &cursor);
    bson_append_document_end(&command, &cursor);
    mongo_append_read_concern(store, &command, (hf_stamp){0});
    if (!code) {
        code = mongo_run(store, &call, &command, &reply, NULL);
        if (!code)
            tell(store, &reply.doc);
        bson_destroy(&reply.doc);
    }
    bson_destroy(&command);
}
