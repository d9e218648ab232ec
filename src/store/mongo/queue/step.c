/* SPDX-License-Identifier: Apache-2.0 */
/* step.c: protocol `queue` on records: one step as one command; called by batcher.c. */
#include "store/mongo/queue/step.h"
#include "core/alloc.h"
#include "core/error.h"
#include "core/record.h"
#include "store/document.h"
#include "store/mongo/driver/command.h"
#include "store/mongo/driver/reply.h"
#include "store/mongo/driver/server.h"
#include "store/mongo/queue/pipeline.h"
#include "store/mongo/queue/state.h"
#include "store/mongo/shared/look.h"

#define WIRE_5_1 14 /* the first server with $tsSecond and $tsIncrement */

pipeline_clock mongo_clock_of(mongo_store *store)
{
    if (mongo_topology_of(store) == MONGO_ALONE)
        return PIPELINE_WALL;
    return atomic_load(&store->wire) < WIRE_5_1 ? PIPELINE_SECONDS : PIPELINE_CLUSTER;
}

static bool changes_only(const hf_step *step, const hf_record *out)
{
    return !out && !step->enter && !step->n_deaths;
}

static void append_update(mongo_store *store, const char *name, const hf_step *step,
                          bson_t *command)
{
    bson_t updates, update, query;
    mongo_begin(command, "update", store->uri.collection);
    BSON_APPEND_ARRAY_BEGIN(command, "updates", &updates);
    BSON_APPEND_DOCUMENT_BEGIN(&updates, "0", &update);
    BSON_APPEND_DOCUMENT_BEGIN(&update, "q", &query);
    BSON_APPEND_UTF8(&query, "_id", name);
    bson_append_document_end(&update, &query);
    pipeline_append(&store->queue->texts, mongo_clock_of(store), name, step, &update, "u");
    bson_append_document_end(&updates, &update);
    bson_append_array_end(command, &updates);
    mongo_append_write_concern(store, command, false);
}

static void append_find_and_modify(mongo_store *store, const char *name, const hf_step *step,
                                   bson_t *command)
{
    bson_t query;
    mongo_begin(command, "findAndModify", store->uri.collection);
    BSON_APPEND_DOCUMENT_BEGIN(command, "query", &query);
    BSON_APPEND_UTF8(&query, "_id", name);
    bson_append_document_end(command, &query);
    pipeline_append(&store->queue->texts, mongo_clock_of(store), name, step, command, "update");
    BSON_APPEND_BOOL(command, "new", true);
    BSON_APPEND_BOOL(command, "upsert", record_makes(step));
    mongo_append_write_concern(store, command, false);
}

static bool ignore(void *ctx, const hf_record *record)
{
    (void)ctx;
    (void)record;
    return true;
}

/* The pipeline failed on something inside the document: name it, instead of repeating the server's
 * words. */
static hf_code explain(mongo_store *store, const char *name, hf_code code, hf_error *err)
{
    hf_error shape;
    if (code != HF_UNUSABLE ||
        mongo_look(&store->base, &name, 1, (hf_stamp){0}, false, ignore, NULL, &shape) != HF_SHAPE)
        return code;
    return error_set(err, HF_SHAPE, "%s", shape.text);
}

/* Only leaves or a change, and nobody wants the record: an update returns no document. If a
 * majority acknowledged a change of the document, it is certain; "nothing changed" may come from a
 * deposed primary. */
static hf_code update(mongo_store *store, const mongo_call *call, const hf_step *step,
                      hf_step_reply *reply, hf_error *err)
{
    bson_t command = BSON_INITIALIZER;
    mongo_reply answer;
    append_update(store, call->name, step, &command);
    hf_code code = mongo_run(store, call, &command, &answer, err);
    reply->stamp = answer.stamp;
    reply->confirmed = !code && mongo_int_at(&answer.doc, "nModified", 0) > 0;
    bson_destroy(&answer.doc);
    bson_destroy(&command);
    return code;
}

static hf_code read_value(mongo_store *store, const char *name, const bson_t *answer,
                          hf_record *out, hf_error *err)
{
    bson_t value;
    if (mongo_view(answer, "value", &value))
        return document_to_record(&value, store->uri.collection, out, err);
    record_init(out, name);
    return HF_OK;
}

/* This step, or an earlier copy of it, wrote the ticket that the document shows. */
static bool shows(const hf_record *record, const hf_step *step)
{
    if (step->enter || step->pass)
        return record_find(record, step->enter ? step->enter->entry.ticket : step->pass->to);
    return step->n_leaves == 0 && !step->change;
}

static hf_code find_and_modify(mongo_store *store, const mongo_call *call, const hf_step *step,
                               hf_record *out, hf_step_reply *reply, hf_error *err)
{
    bson_t command = BSON_INITIALIZER;
    mongo_reply answer;
    append_find_and_modify(store, call->name, step, &command);
    hf_code code = mongo_run_repeated(store, call, &command, &answer, err);
    if (!code)
        code = read_value(store, call->name, &answer.doc, out, err);
    reply->stamp = answer.stamp;
    reply->confirmed = !code && shows(out, step);
    bson_destroy(&answer.doc);
    bson_destroy(&command);
    return code;
}

static const char *what(const hf_step *step)
{
    if (step->enter)
        return record_makes(step) ? "acquiring" : "upgrading";
    return step->change ? "downgrading" : step->pass ? "making it a lease" : "releasing";
}

hf_code mongo_step_alone(mongo_store *store, const char *name, const hf_step *step, hf_record *out,
                         hf_step_reply *reply, hf_error *err)
{
    mongo_call call = {.what = what(step), .name = name, .writes = true};
    hf_record unwanted;
    hf_step_reply answer = {.confirmed = false};
    hf_code code = HF_OK;
    if (changes_only(step, out)) {
        code = update(store, &call, step, &answer, err);
    } else {
        code = find_and_modify(store, &call, step, out ? out : &unwanted, &answer, err);
        if (!code && !out)
            record_done(&unwanted);
    }
    if (reply)
        *reply = answer;
    return explain(store, name, code, err);
}
