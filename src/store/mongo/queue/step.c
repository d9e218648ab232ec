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
#include "store/mongo/driver/text.h"
#include "store/mongo/queue/pipeline.h"
#include "store/mongo/queue/state.h"
#include "store/mongo/shared/look.h"

#include <stdio.h>

#define WIRE_5_1 14 /* the first server with $tsSecond and $tsIncrement */

pipeline_clock mongo_clock_of(mongo_store *store)
{
    if (mongo_topology_of(store) == MONGO_ALONE)
        return PIPELINE_WALL;
    return atomic_load(&store->wire) < WIRE_5_1 ? PIPELINE_SECONDS : PIPELINE_CLUSTER;
}

/* {holders: {$exists: true}}: a record of ours. Another document of this _id, such as the bare one
 * of the first article's first program, is not matched, so that it is never taken over: an upsert
 * ends in MONGO_DUPLICATE beside it, and explain() names it. */
static void append_ours(bson_t *query)
{
    bson_t exists;
    BSON_APPEND_DOCUMENT_BEGIN(query, "holders", &exists);
    BSON_APPEND_BOOL(&exists, "$exists", true);
    bson_append_document_end(query, &exists);
}

void mongo_append_steps(mongo_store *store, const pipeline_item *items, size_t n, bool demands,
                        bson_t *statement)
{
    bson_t query, id, in;
    char key[16];
    BSON_APPEND_DOCUMENT_BEGIN(statement, "q", &query);
    BSON_APPEND_DOCUMENT_BEGIN(&query, "_id", &id);
    BSON_APPEND_ARRAY_BEGIN(&id, "$in", &in);
    for (size_t i = 0; i < n; i++)
        BSON_APPEND_UTF8(&in, mongo_key(i, key), items[i].name);
    bson_append_array_end(&id, &in);
    bson_append_document_end(&query, &id);
    append_ours(&query);
    bson_append_document_end(statement, &query);
    if (demands)
        pipeline_append_demand(items, n, statement, "u");
    else
        pipeline_append_each(&store->queue->texts, mongo_clock_of(store), items, n, statement, "u");
    BSON_APPEND_BOOL(statement, "multi", true);
}

static bool changes_only(const hf_step *step, const hf_record *out)
{
    return !out && !step->enter && !step->n_deaths && !step->pass;
}

/* {field: {$in: tickets}} as one alternative. */
static void append_tickets(bson_t *any, const char *key, const char *field, const hf_step *step)
{
    bson_t one, in, tickets;
    char at[16];
    BSON_APPEND_DOCUMENT_BEGIN(any, key, &one);
    BSON_APPEND_DOCUMENT_BEGIN(&one, field, &in);
    BSON_APPEND_ARRAY_BEGIN(&in, "$in", &tickets);
    for (size_t i = 0; i < step->n_leaves; i++)
        document_append_id(&tickets, mongo_key(i, at), step->leaves[i].ticket);
    bson_append_array_end(&in, &tickets);
    bson_append_document_end(&one, &in);
    bson_append_document_end(any, &one);
}

/* {holders: {$elemMatch: {ticket, permits: {$gt: permits}}}} as one alternative. */
static void append_lowered(bson_t *any, const char *key, const hf_change *change)
{
    bson_t one, holders, match, more;
    BSON_APPEND_DOCUMENT_BEGIN(any, key, &one);
    BSON_APPEND_DOCUMENT_BEGIN(&one, "holders", &holders);
    BSON_APPEND_DOCUMENT_BEGIN(&holders, "$elemMatch", &match);
    document_append_id(&match, "ticket", change->ticket);
    BSON_APPEND_DOCUMENT_BEGIN(&match, "permits", &more);
    BSON_APPEND_INT32(&more, "$gt", change->permits);
    bson_append_document_end(&match, &more);
    bson_append_document_end(&holders, &match);
    bson_append_document_end(&one, &holders);
    bson_append_document_end(any, &one);
}

/* The record, if the step changes it: one of its tickets is there. */
static void append_changed(const char *name, const hf_step *step, bson_t *command)
{
    bson_t query, any;
    BSON_APPEND_DOCUMENT_BEGIN(command, "query", &query);
    BSON_APPEND_UTF8(&query, "_id", name);
    BSON_APPEND_ARRAY_BEGIN(&query, "$or", &any);
    append_tickets(&any, "0", "holders.ticket", step);
    append_tickets(&any, "1", "queue.ticket", step);
    if (step->change)
        append_lowered(&any, "2", step->change);
    bson_append_array_end(&query, &any);
    bson_append_document_end(command, &query);
}

static void append_change(mongo_store *store, const char *name, const hf_step *step,
                          bson_t *command)
{
    bson_t *fields = pipeline_json(MONGO_TOLD_FIELDS);
    mongo_begin(command, "findAndModify", store->uri.collection);
    append_changed(name, step, command);
    pipeline_append(&store->queue->texts, mongo_clock_of(store), name, step, command, "update");
    BSON_APPEND_BOOL(command, "new", true);
    BSON_APPEND_DOCUMENT(command, "fields", fields);
    mongo_append_write_concern(store, command, false);
    bson_destroy(fields);
}

static void append_find_and_modify(mongo_store *store, const char *name, const hf_step *step,
                                   bson_t *command)
{
    bson_t query;
    mongo_begin(command, "findAndModify", store->uri.collection);
    BSON_APPEND_DOCUMENT_BEGIN(command, "query", &query);
    BSON_APPEND_UTF8(&query, "_id", name);
    append_ours(&query);
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

/* Only leaves or a change, and nobody wants the record: the answer has only what says whom to ring.
 * If a majority acknowledged a change of the document, it is certain; "no such ticket" may come
 * from a deposed primary. */
static hf_code change(mongo_store *store, const mongo_call *call, const hf_step *step,
                      hf_step_reply *reply, hf_error *err)
{
    bson_t command = BSON_INITIALIZER, value;
    mongo_reply answer;
    append_change(store, call->name, step, &command);
    hf_code code = mongo_run(store, call, &command, &answer, err);
    reply->stamp = answer.stamp;
    reply->confirmed = !code && mongo_view(&answer.doc, "value", &value);
    if (reply->confirmed)
        mongo_bells_tell_document(store, &value, call->name, step, answer.stamp);
    bson_destroy(&answer.doc);
    bson_destroy(&command);
    return code;
}

/* By a collation the server finds another name's record. What stands in it now is left again. */
static hf_code refuse_other_name(const mongo_store *store, const char *name, hf_record *out,
                                 hf_error *err)
{
    char other[HF_NAME_MAX + 1];
    snprintf(other, sizeof other, "%s", out->name);
    record_done(out);
    return error_set(err, HF_SHAPE,
                     "%.120s.%.120s has a collation by which the names \"%.80s\" and \"%.80s\" "
                     "are one: use a collection without one (hfCollection)",
                     store->uri.database, store->uri.collection, name, other);
}

static hf_code read_value(mongo_store *store, const char *name, const bson_t *answer,
                          hf_record *out, hf_error *err)
{
    bson_t value;
    if (!mongo_view(answer, "value", &value)) {
        record_init(out, name);
        return HF_OK;
    }
    hf_code code = document_to_record(&value, store->uri.collection, out, err);
    return code || strcmp(out->name, name) == 0 ? code : refuse_other_name(store, name, out, err);
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
    if (!code)
        mongo_bells_tell(store, out, step, answer.stamp);
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
        code = change(store, &call, step, &answer, err);
    } else {
        code = find_and_modify(store, &call, step, out ? out : &unwanted, &answer, err);
        if (!code && !out)
            record_done(&unwanted);
    }
    if (reply)
        *reply = answer;
    return explain(store, name, code, err);
}
