/* SPDX-License-Identifier: Apache-2.0 */
/* claim.c: protocol `document`: takes the first free document of many in one command; the
 * client calls it through the store interface. */
#include "core/record.h"
#include "store/mongo/document/document.h"
#include "store/mongo/document/element.h"
#include "store/mongo/document/filter.h"
#include "store/mongo/driver/command.h"
#include "store/mongo/driver/reply.h"
#include "store/mongo/driver/server.h"
#include "store/mongo/driver/text.h"
#include "store/mongo/shared/held.h"
#include "store/mongo/shared/id_text.h"
#include "store/mongo/shared/watch.h"

#define PASSED_MOST 100 /* documents that one claim takes and gives back */

/* Longer texts have no name. */
static const char short_text[] =
    "{'$expr': {'$lte': [{'$cond': [{'$eq': [{'$type': '$_id'}, 'string']},"
    " {'$strLenBytes': '$_id'}, 0]}, 512]}}";
_Static_assert(HF_NAME_MAX == 512, "short_text");

/* A filter: the _id is short enough, and is none of those that were passed by. */
static void append_nameable(bson_t *all, const bson_t *passed)
{
    bson_t *is_short = pipeline_json(short_text);
    bson_t each, id;
    BSON_APPEND_DOCUMENT(all, "3", is_short);
    BSON_APPEND_DOCUMENT_BEGIN(all, "4", &each);
    BSON_APPEND_DOCUMENT_BEGIN(&each, "_id", &id);
    BSON_APPEND_ARRAY(&id, "$nin", passed);
    bson_append_document_end(&each, &id);
    bson_append_document_end(all, &each);
    bson_destroy(is_short);
}

static hf_code append_claim(const mongo_store *store, const hf_claim *claim, const bson_t *passed,
                            bson_t *command, hf_error *err)
{
    bson_t query, all;
    mongo_begin(command, "findAndModify", store->uri.collection);
    BSON_APPEND_DOCUMENT_BEGIN(command, "query", &query);
    BSON_APPEND_ARRAY_BEGIN(&query, "$and", &all);
    hf_code code =
        mongo_filter_append(&all, "0", "filter", claim->filter ? claim->filter : "{}", err);
    mongo_document_append_free(store, &all, "1");
    mongo_document_append_sound(store, &all, "2");
    append_nameable(&all, passed);
    bson_append_array_end(&query, &all);
    bson_append_document_end(command, &query);
    if (!code && claim->sort)
        code = mongo_filter_append(command, "sort", "sort order", claim->sort, err);
    return code;
}

/* Until now it was known without a name. */
static void name_held(mongo_store *store, const char *name, const hf_enter *enter)
{
    mongo_held_drop(store, enter->entry.ticket);
    mongo_document_expect(store, name, enter);
}

/* The document was given back, because it has no name or cannot be read. */
static void pass_by(const bson_t *answer, bson_t *passed)
{
    bson_t doc;
    bson_iter_t id;
    char key[16];
    if (mongo_view(answer, "value", &doc) && bson_iter_init_find(&id, &doc, "_id"))
        bson_append_iter(passed, mongo_key(bson_count_keys(passed), key), -1, &id);
}

static hf_code send_claim(mongo_store *store, const bson_t *command, const hf_enter *enter,
                          bson_t *passed, hf_record *out, hf_step_reply *reply, hf_error *err)
{
    static const mongo_call call = {.what = "claiming a document", .writes = true};
    mongo_reply answer;
    bool is_taken = false;
    mongo_document_expect(store, "", enter);
    hf_code code = mongo_run(store, &call, command, &answer, err);
    if (!code)
        code = mongo_document_read_answer(store, &answer.doc, enter, out, &is_taken, err);
    if (code == HF_SHAPE)
        pass_by(&answer.doc, passed);
    if (!code && is_taken)
        name_held(store, out->name, enter);
    else
        mongo_document_settle(store, enter, code, false);
    if (!is_taken && !enter->try_only)
        mongo_watch_all(store);
    *reply = (hf_step_reply){
        .stamp = answer.stamp, .confirmed = is_taken, .again_ms = store->uri.poll_ms};
    bson_destroy(&answer.doc);
    return mongo_filter_explain(code, answer.server_code, err);
}

static hf_code claim_once(mongo_store *store, const hf_claim *wanted, const hf_enter *entrant,
                          bson_t *passed, hf_record *out, hf_step_reply *reply, hf_error *err)
{
    bson_t command = BSON_INITIALIZER;
    hf_code code = append_claim(store, wanted, passed, &command, err);
    if (!code) {
        mongo_document_append_taking(store, "", entrant, &command);
        code = send_claim(store, &command, entrant, passed, out, reply, err);
    }
    bson_destroy(&command);
    return code;
}

/* If only the taking shows that a document is foreign, the claim gives it back and takes the next
 * one. */
static hf_code claim_document(mongo_store *store, const hf_claim *wanted, const hf_enter *entrant,
                              hf_record *out, hf_step_reply *reply, hf_error *err)
{
    bson_t passed = BSON_INITIALIZER;
    hf_code code = claim_once(store, wanted, entrant, &passed, out, reply, err);
    for (uint32_t n = 1; code == HF_SHAPE && n <= PASSED_MOST && bson_count_keys(&passed) == n;
         n++) {
        record_init(out, "");
        code = claim_once(store, wanted, entrant, &passed, out, reply, err);
    }
    bson_destroy(&passed);
    return code;
}

hf_code mongo_document_claim(hf_store *base, const hf_claim *wanted, const hf_enter *entrant,
                             hf_record *out, hf_step_reply *reply, hf_error *err)
{
    mongo_store *store = (mongo_store *)base;
    record_init(out, "");
    hf_code code = mongo_ready(store, err);
    if (code)
        return code;
    code = store->uri.array ? mongo_element_claim(store, wanted, entrant, out, reply, err)
                            : claim_document(store, wanted, entrant, out, reply, err);
    if (!code && !reply->confirmed)
        mongo_document_tell_passed(store, wanted);
    return code;
}
