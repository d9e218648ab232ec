/* SPDX-License-Identifier: Apache-2.0 */
/* outcome_document.c: the document that says how a lock was left: reads it, writes it by comparing
 * and setting its version, and applies to it what happens. core/record.c decides what that does to
 * `last` and `done`. outcome.c calls it.
 *
 *   {... as a record of protocol `queue` ..., version: int64, who, left: ticket, at: date} */
#include "store/mongo/shared/outcome_document.h"
#include "core/error.h"
#include "core/id.h"
#include "core/record.h"
#include "store/document.h"
#include "store/mongo/driver/command.h"
#include "store/mongo/driver/fault.h"
#include "store/mongo/driver/reply.h"
#include "store/mongo/driver/text.h"

#include <stdio.h>

void mongo_outcome_done(mongo_outcome *outcome)
{
    record_done(&outcome->record);
}

void mongo_outcome_copy(mongo_outcome *to, const mongo_outcome *from)
{
    *to = *from;
    record_copy(&to->record, &from->record);
}

/* ---- Reading ---- */

static hf_code refuse(const char *collection, const char *name, hf_error *err)
{
    return error_set(err, HF_SHAPE,
                     "document \"%.150s\" in collection %.130s is not Holdfast's: field version "
                     "should be a whole number from 1 on; it was left alone: move it away",
                     name, collection);
}

static hf_code read_document(const mongo_store *store, const bson_t *doc, mongo_outcome *out,
                             hf_error *err)
{
    const char *collection = store->uri.names.done;
    *out = (mongo_outcome){.version = mongo_int_at(doc, "version", 0)};
    hf_code code = document_to_record(doc, collection, &out->record, err);
    if (!code && out->version < 1) {
        code = refuse(collection, out->record.name, err);
        record_done(&out->record);
    }
    mongo_id_at(doc, "left", &out->left);
    snprintf(out->who, sizeof out->who, "%s", mongo_text_at(doc, "who", ""));
    return code;
}

/* Behind the $match: adds the store's clock. */
static void append_clock(bson_t *stages)
{
    bson_t *stage = pipeline_json("{'$addFields': {'hf_now': '$$NOW'}}");
    BSON_APPEND_DOCUMENT(stages, "1", stage);
    bson_destroy(stage);
}

/* Without its read concern, which is the last field. */
static void begin_read(const mongo_store *store, const bson_t *match, int32_t n, bson_t *command)
{
    bson_t stages, cursor;
    size_t n_stages = 0;
    mongo_begin(command, "aggregate", store->uri.names.done);
    BSON_APPEND_ARRAY_BEGIN(command, "pipeline", &stages);
    mongo_append_stage(&stages, &n_stages, "$match", match);
    append_clock(&stages);
    bson_append_array_end(command, &stages);
    BSON_APPEND_DOCUMENT_BEGIN(command, "cursor", &cursor);
    BSON_APPEND_INT32(&cursor, "batchSize", n);
    bson_append_document_end(command, &cursor);
}

static void begin_none(const mongo_store *store, const char *name, mongo_outcome *out)
{
    *out = (mongo_outcome){.now = {mongo_wall(store).ms}};
    record_init(&out->record, name);
}

hf_code mongo_outcome_read(mongo_store *store, const char *name, mongo_outcome *out, hf_error *err)
{
    mongo_call call = {.what = "reading how the last holder left", .name = name};
    bson_t command = BSON_INITIALIZER, match = BSON_INITIALIZER, batch, doc;
    bson_iter_t it;
    mongo_reply reply;
    BSON_APPEND_UTF8(&match, "_id", name);
    begin_read(store, &match, 2, &command);
    mongo_append_linearizable(store, &command);
    hf_code code = mongo_run(store, &call, &command, &reply, err);
    if (!code && !mongo_view(&reply.doc, "cursor.firstBatch", &batch))
        code = mongo_odd_reply(store, &call, err);
    if (!code && bson_iter_init(&it, &batch) && mongo_next(&it, &doc)) {
        code = read_document(store, &doc, out, err);
        mongo_date_at(&doc, "hf_now", &out->now.ms);
    } else if (!code) {
        begin_none(store, name, out);
    }
    bson_destroy(&reply.doc);
    bson_destroy(&command);
    bson_destroy(&match);
    return code;
}

static void append_names(const hf_record *records, size_t n, bson_t *match)
{
    bson_t id, in;
    char key[16];
    BSON_APPEND_DOCUMENT_BEGIN(match, "_id", &id);
    BSON_APPEND_ARRAY_BEGIN(&id, "$in", &in);
    for (size_t i = 0; i < n; i++)
        BSON_APPEND_UTF8(&in, mongo_key(i, key), records[i].name);
    bson_append_array_end(&id, &in);
    bson_append_document_end(match, &id);
}

/* One that is not ours is skipped: another says how its lock was left. */
static void give(const mongo_store *store, const bson_t *batch, mongo_outcome_fn each, void *ctx)
{
    bson_iter_t it;
    bson_t doc;
    mongo_outcome outcome;
    bson_iter_init(&it, batch);
    while (mongo_next(&it, &doc)) {
        if (read_document(store, &doc, &outcome, NULL))
            continue;
        mongo_date_at(&doc, "hf_now", &outcome.now.ms);
        each(ctx, &outcome);
        mongo_outcome_done(&outcome);
    }
}

hf_code mongo_outcomes_find(mongo_store *store, const hf_record *records, size_t n,
                            mongo_outcome_fn each, void *ctx, hf_error *err)
{
    static const mongo_call call = {.what = "reading how the last holders left"};
    bson_t command = BSON_INITIALIZER, match = BSON_INITIALIZER, batch;
    mongo_reply reply;
    append_names(records, n, &match);
    begin_read(store, &match, (int32_t)n + 1, &command);
    mongo_append_read_concern(store, &command, (hf_stamp){0});
    hf_code code = mongo_run(store, &call, &command, &reply, err);
    if (!code && mongo_view(&reply.doc, "cursor.firstBatch", &batch))
        give(store, &batch, each, ctx);
    bson_destroy(&reply.doc);
    bson_destroy(&command);
    bson_destroy(&match);
    return code;
}

/* ---- Writing ---- */

static void append_new(const mongo_outcome *outcome, bson_t *x)
{
    bson_t doc;
    document_of_record(&outcome->record, &doc);
    BSON_APPEND_INT64(&doc, "version", outcome->version + 1);
    if (outcome->record.holders)
        BSON_APPEND_UTF8(&doc, "who", outcome->who);
    if (!id_is_zero(outcome->left))
        document_append_id(&doc, "left", outcome->left);
    BSON_APPEND_DOCUMENT(x, "new", &doc);
    bson_destroy(&doc);
}

/* The first version is made by an upsert, which fails (11000) if another has made it. */
static void append_swap(const mongo_store *store, const mongo_outcome *outcome, bson_t *command)
{
    bson_t query, x = BSON_INITIALIZER;
    mongo_begin(command, "findAndModify", store->uri.names.done);
    BSON_APPEND_DOCUMENT_BEGIN(command, "query", &query);
    BSON_APPEND_UTF8(&query, "_id", outcome->record.name);
    BSON_APPEND_INT64(&query, "version", outcome->version);
    bson_append_document_end(command, &query);
    append_new(outcome, &x);
    pipeline_append_text(command, "update", "{'$mergeObjects': ['$$x.new', {'at': '$$NOW'}]}", &x);
    BSON_APPEND_BOOL(command, "new", true);
    if (!outcome->version)
        BSON_APPEND_BOOL(command, "upsert", true);
    mongo_append_write_concern(store, command, false);
    bson_destroy(&x);
}

hf_code mongo_outcome_swap(mongo_store *store, mongo_outcome *outcome, bool *is_done, hf_error *err)
{
    mongo_call call = {
        .what = "noting how the holder left", .name = outcome->record.name, .writes = true};
    bson_t command = BSON_INITIALIZER, value;
    mongo_reply reply;
    append_swap(store, outcome, &command);
    hf_code code = mongo_run(store, &call, &command, &reply, err);
    *is_done = !code && mongo_view(&reply.doc, "value", &value);
    if (*is_done) {
        outcome->version++;
        mongo_date_at(&value, "at", &outcome->now.ms);
    } else if (code && reply.server_code == MONGO_DUPLICATE) {
        code = HF_OK;
    }
    bson_destroy(&reply.doc);
    bson_destroy(&command);
    return code;
}

/* ---- What happens to it ---- */

bool mongo_outcome_notes(const mongo_outcome *outcome, hf_id ticket)
{
    return record_find(&outcome->record, ticket) != NULL;
}

void mongo_outcome_bury(mongo_outcome *outcome, hf_id ticket)
{
    hf_record *record = &outcome->record;
    if (!record->holders || mongo_outcome_notes(outcome, ticket))
        return;
    hf_death death = {.session = record->entries[0].session};
    snprintf(death.who, sizeof death.who, "%s", outcome->who);
    record_step(record, &(hf_step){.deaths = &death, .n_deaths = 1}, outcome->now, 1);
}

/* Where the lock has no tokens, they are counted here; core/record.c wants them to rise. A token
 * may be lower than the last one if the user's document was made anew. */
void mongo_outcome_note(mongo_outcome *outcome, const hf_entry *holder, const char *who)
{
    hf_record *record = &outcome->record;
    hf_entry entry = *holder;
    entry.token = holder->token > 0 ? holder->token : record->token + 1;
    entry.ttl_ms = holder->ttl_ms > 0 ? holder->ttl_ms : 1;
    entry.permits = record->limit = HF_LIMIT_RW;
    entry.since = entry.granted_at = outcome->now;
    record->token = entry.token;
    if (record->last.token >= entry.token)
        record->last.token = entry.token - 1;
    record_append(record, &entry, true);
    snprintf(outcome->who, sizeof outcome->who, "%s", who);
}

void mongo_outcome_leave(mongo_outcome *outcome, const hf_leave *leave)
{
    hf_leave one = *leave;
    one.used_token = 0;
    if (!one.who[0])
        snprintf(one.who, sizeof one.who, "%s", outcome->who);
    record_step(&outcome->record, &(hf_step){.leaves = &one, .n_leaves = 1}, outcome->now, 1);
    outcome->left = leave->ticket;
}
