/* SPDX-License-Identifier: Apache-2.0 */
/* history.c: keeps the turns that have ended, in a capped collection that the first client makes.
 * Nothing depends on them: a write waits for the primary alone, and a failover may undo it.
 *
 *   {_id: {ticket: ObjectId, number: int64, block: true}, name, session: ObjectId, who, actor, why,
 *    permits: int32, limit: int32, token: int64, granted_at: date, ended_at: date, end: "released",
 *    reason, exit_status: int32, more: int64}
 *
 * `number` is the token, or, where there is none, the time of the grant, or of the end. A field is
 * missing where it would be empty. Called by the client through the store interface. */
#include "store/mongo/shared/history.h"
#include "core/error.h"
#include "core/history.h"
#include "store/document.h"
#include "store/mongo/driver/command.h"
#include "store/mongo/driver/fault.h"
#include "store/mongo/driver/reply.h"
#include "store/mongo/driver/server.h"
#include "store/mongo/driver/text.h"

#include <string.h>

enum { NOT_CAPPED = 2, EXISTS = 48, BAD_ID = 53 };

bool mongo_history_is_kept(const mongo_uri *uri)
{
    return uri->history == MONGO_HISTORY_ON && strcmp(uri->database, "config") != 0;
}

/* ---- The collection ---- */

static hf_code run(mongo_store *store, const mongo_call *call, bson_t *command, mongo_reply *reply,
                   hf_error *err)
{
    hf_code code = mongo_run(store, call, command, reply, err);
    bson_destroy(command);
    return code;
}

static hf_code refuse(const mongo_store *store, const char *why, hf_error *err)
{
    return error_set(err, HF_SHAPE,
                     "collection %.130s in database %.64s %s: it is left alone; rename it, or drop "
                     "it, or put hfHistory=0 into the URI",
                     store->uri.names.history, store->uri.database, why);
}

/* A tailable cursor exists on capped collections only. It has its one document, and is closed. */
static void begin_look(const mongo_store *store, bson_t *command)
{
    bson_t *rest = pipeline_json("{'limit': 1, 'tailable': true}");
    mongo_begin(command, "find", store->uri.names.history);
    bson_concat(command, rest);
    BSON_APPEND_INT32(command, "maxTimeMS", (int32_t)store->work.limits.wait_ms);
    bson_destroy(rest);
}

static hf_code judge_look(const mongo_store *store, const mongo_reply *reply, hf_code code,
                          bool *is_made, hf_error *err)
{
    bson_t first;
    hf_id ticket;
    *is_made = !code && mongo_first(&reply->doc, &first);
    if (reply->server_code == NOT_CAPPED)
        return refuse(store, "is there, and is not capped", err);
    if (*is_made && !mongo_id_at(&first, "_id.ticket", &ticket))
        return refuse(store, "has documents that Holdfast did not write", err);
    return code;
}

/* Whether the collection can take turns; *is_made: it has some. */
static hf_code look(mongo_store *store, bool *is_made, hf_error *err)
{
    static const mongo_call call = {.what = "looking for the history", .can_wait = true};
    bson_t command = BSON_INITIALIZER;
    mongo_reply reply;
    begin_look(store, &command);
    hf_code code = run(store, &call, &command, &reply, err);
    code = judge_look(store, &reply, code, is_made, err);
    bson_destroy(&reply.doc);
    return code;
}

static hf_code create(mongo_store *store, int32_t *server_code, hf_error *err)
{
    static const mongo_call call = {.what = "making the history", .writes = true};
    bson_t command = BSON_INITIALIZER;
    mongo_reply reply;
    mongo_begin(&command, "create", store->uri.names.history);
    BSON_APPEND_BOOL(&command, "capped", true);
    BSON_APPEND_INT64(&command, "size", MONGO_HISTORY_BYTES);
    mongo_append_quick_write_concern(&command);
    hf_code code = run(store, &call, &command, &reply, err);
    *server_code = reply.server_code;
    bson_destroy(&reply.doc);
    return code;
}

/* Without the index, the turns of one lock are found more slowly. */
static void make_index(mongo_store *store)
{
    static const mongo_call call = {.what = "making the history's index", .writes = true};
    bson_t command = BSON_INITIALIZER;
    bson_t *rest = pipeline_json("{'indexes': [{'name': 'name_1_ended_at_-1',"
                                 " 'key': {'name': 1, 'ended_at': -1}}]}");
    mongo_reply reply;
    mongo_begin(&command, "createIndexes", store->uri.names.history);
    bson_concat(&command, rest);
    BSON_APPEND_INT32(&command, "maxTimeMS", (int32_t)store->work.limits.wait_ms);
    mongo_append_quick_write_concern(&command);
    run(store, &call, &command, &reply, NULL);
    bson_destroy(&reply.doc);
    bson_destroy(rest);
}

/* One without a turn may be there already. */
static hf_code make(mongo_store *store, hf_error *err)
{
    int32_t server_code = 0;
    hf_code code = create(store, &server_code, err);
    if (!code)
        make_index(store);
    return server_code == EXISTS ? HF_OK : code;
}

static hf_code prepare(mongo_store *store, hf_error *err)
{
    bool is_made = false;
    hf_code code = mongo_ready(store, err);
    if (!code)
        code = look(store, &is_made, err);
    return code || is_made ? code : make(store, err);
}

/* Once for each client. If the collection is dropped later, the next turn makes one that is not
 * capped: the doctor tells. */
static hf_code be_ready(mongo_store *store, hf_error *err)
{
    if (atomic_load(&store->has_history))
        return HF_OK;
    hf_code code = prepare(store, err);
    if (!code)
        atomic_store(&store->has_history, true);
    return code;
}

/* ---- Adding ---- */

static void append_text(bson_t *doc, const char *field, const char *text)
{
    if (*text)
        bson_append_utf8(doc, field, -1, text, -1);
}

static void append_id(bson_t *doc, const hf_turn_note *turn)
{
    bson_t id;
    BSON_APPEND_DOCUMENT_BEGIN(doc, "_id", &id);
    document_append_id(&id, "ticket", turn->ticket);
    BSON_APPEND_INT64(&id, "number", history_number(turn));
    if (turn->is_block)
        BSON_APPEND_BOOL(&id, "block", true);
    bson_append_document_end(doc, &id);
}

static void append_holder(bson_t *doc, const hf_turn_note *turn)
{
    BSON_APPEND_UTF8(doc, "name", turn->name);
    document_append_id(doc, "session", turn->session);
    append_text(doc, "who", turn->who);
    append_text(doc, "actor", turn->actor);
    append_text(doc, "why", turn->why);
    BSON_APPEND_INT32(doc, "permits", turn->permits);
    BSON_APPEND_INT32(doc, "limit", turn->limit);
    if (turn->token)
        BSON_APPEND_INT64(doc, "token", turn->token);
    if (turn->granted_at.ms)
        BSON_APPEND_DATE_TIME(doc, "granted_at", turn->granted_at.ms);
}

static void append_end(bson_t *doc, const hf_turn_note *turn)
{
    BSON_APPEND_DATE_TIME(doc, "ended_at", turn->ended_at.ms);
    BSON_APPEND_UTF8(doc, "end", history_end_text(turn->end));
    append_text(doc, "reason", turn->reason);
    if (turn->has_exit_status)
        BSON_APPEND_INT32(doc, "exit_status", turn->exit_status);
    if (turn->more)
        BSON_APPEND_INT64(doc, "more", turn->more);
}

static void append_turns(bson_t *command, const hf_turn_note *turns, size_t n)
{
    bson_t documents, doc;
    char key[16];
    BSON_APPEND_ARRAY_BEGIN(command, "documents", &documents);
    for (size_t i = 0; i < n; i++) {
        bson_append_document_begin(&documents, mongo_key(i, key), -1, &doc);
        append_id(&doc, &turns[i]);
        append_holder(&doc, &turns[i]);
        append_end(&doc, &turns[i]);
        bson_append_document_end(&documents, &doc);
    }
    bson_append_array_end(command, &documents);
}

/* Those that are there already stay as they are. Anything else is tried again. */
static hf_code judge(const mongo_reply *reply, hf_code code, hf_error *err)
{
    bson_t errors, each;
    bson_iter_t it;
    if (reply->server_code != MONGO_DUPLICATE || !mongo_view(&reply->doc, "writeErrors", &errors) ||
        !bson_iter_init(&it, &errors))
        return code;
    while (mongo_next(&it, &each))
        if (!mongo_is_duplicate_id(&each))
            return error_set(err, HF_UNKNOWN, "of the turns some were not written: %.300s",
                             mongo_text_at(&each, "errmsg", "no message"));
    return HF_OK;
}

hf_code mongo_history_add(hf_store *base, const hf_turn_note *turns, size_t n, hf_error *err)
{
    static const mongo_call call = {
        .what = "writing the history", .can_wait = true, .writes = true};
    mongo_store *store = (mongo_store *)base;
    bson_t command = BSON_INITIALIZER;
    mongo_reply reply;
    hf_code code = be_ready(store, err);
    if (code)
        return code;
    mongo_begin(&command, "insert", store->uri.names.history);
    append_turns(&command, turns, n);
    BSON_APPEND_BOOL(&command, "ordered", false);
    mongo_append_quick_write_concern(&command);
    code = run(store, &call, &command, &reply, err);
    code = judge(&reply, code, err);
    bson_destroy(&reply.doc);
    return code;
}

/* The server refuses such an _id, but only to those who may insert. */
static hf_code try_insert(mongo_store *store, hf_error *err)
{
    static const mongo_call call = {
        .what = "writing the history", .can_wait = true, .writes = true};
    bson_t command = BSON_INITIALIZER;
    bson_t *rest = pipeline_json("{'documents': [{'_id': []}]}");
    mongo_reply reply;
    mongo_begin(&command, "insert", store->uri.names.history);
    bson_concat(&command, rest);
    mongo_append_quick_write_concern(&command);
    hf_code code = run(store, &call, &command, &reply, err);
    bool is_bad_id = reply.server_code == BAD_ID;
    bson_destroy(&reply.doc);
    bson_destroy(rest);
    return is_bad_id ? HF_OK : code;
}

hf_code mongo_history_try(mongo_store *store, hf_error *err)
{
    hf_code code = prepare(store, err);
    return code ? code : try_insert(store, err);
}

/* ---- Reading ---- */

/* Names that begin with the prefix, byte by byte. */
static void append_prefix(bson_t *filter, const char *prefix)
{
    bson_t *is_prefix = BCON_NEW("$eq", "[", "{", "$indexOfBytes", "[", "$name", "{", "$literal",
                                 BCON_UTF8(prefix), "}", "]", "}", BCON_INT32(0), "]");
    BSON_APPEND_DOCUMENT(filter, "$expr", is_prefix);
    bson_destroy(is_prefix);
}

/* What is missing has no name. */
static void append_name(bson_t *filter, const hf_history_part *part)
{
    bson_t name, either;
    BSON_APPEND_DOCUMENT_BEGIN(filter, "name", &name);
    BSON_APPEND_ARRAY_BEGIN(&name, "$in", &either);
    BSON_APPEND_UTF8(&either, "0", "");
    BSON_APPEND_UTF8(&either, "1", part->name);
    bson_append_array_end(&name, &either);
    bson_append_document_end(filter, &name);
}

static void append_not_missing(bson_t *filter)
{
    bson_t name;
    BSON_APPEND_DOCUMENT_BEGIN(filter, "name", &name);
    BSON_APPEND_UTF8(&name, "$ne", "");
    bson_append_document_end(filter, &name);
}

static void append_prefix_or_missing(bson_t *filter, const hf_history_part *part)
{
    bson_t either, one;
    if (!part->tells_missing) {
        append_prefix(filter, part->prefix);
        return;
    }
    BSON_APPEND_ARRAY_BEGIN(filter, "$or", &either);
    BSON_APPEND_DOCUMENT_BEGIN(&either, "0", &one);
    append_prefix(&one, part->prefix);
    bson_append_document_end(&either, &one);
    BSON_APPEND_DOCUMENT_BEGIN(&either, "1", &one);
    BSON_APPEND_UTF8(&one, "name", "");
    bson_append_document_end(&either, &one);
    bson_append_array_end(filter, &either);
}

static void append_filter(bson_t *command, const hf_history_part *part)
{
    bson_t filter, since;
    BSON_APPEND_DOCUMENT_BEGIN(command, "filter", &filter);
    if (*part->name && part->tells_missing)
        append_name(&filter, part);
    else if (*part->name)
        BSON_APPEND_UTF8(&filter, "name", part->name);
    else if (!part->tells_missing)
        append_not_missing(&filter);
    if (part->since.ms) {
        BSON_APPEND_DOCUMENT_BEGIN(&filter, "ended_at", &since);
        BSON_APPEND_DATE_TIME(&since, "$gte", part->since.ms);
        bson_append_document_end(&filter, &since);
    }
    if (*part->prefix && !*part->name)
        append_prefix_or_missing(&filter, part);
    bson_append_document_end(command, &filter);
}

/* Those that ended last, which are not those that were written last. Of one lock the index has them
 * in that order. A local read, so that a turn that was just written is seen. */
static void append_options(const mongo_store *store, bson_t *command, const hf_history_part *part)
{
    bson_t options;
    BSON_APPEND_DOCUMENT_BEGIN(command, "sort", &options);
    BSON_APPEND_INT32(&options, "ended_at", -1);
    if (!*part->name)
        BSON_APPEND_INT32(&options, "token", -1);
    bson_append_document_end(command, &options);
    BSON_APPEND_INT64(command, "limit", (int64_t)part->limit);
    BSON_APPEND_INT64(command, "batchSize", (int64_t)part->limit);
    BSON_APPEND_BOOL(command, "singleBatch", true);
    BSON_APPEND_DOCUMENT_BEGIN(command, "readConcern", &options);
    BSON_APPEND_UTF8(&options, "level", "local");
    bson_append_document_end(command, &options);
    BSON_APPEND_INT32(command, "maxTimeMS", (int32_t)store->work.limits.wait_ms);
}

/* False: it is none of ours. */
static bool read_turn(const bson_t *doc, hf_turn_note *out)
{
    bson_iter_t it;
    *out = (hf_turn_note){.name = mongo_text_at(doc, "name", ""),
                          .who = mongo_text_at(doc, "who", ""),
                          .actor = mongo_text_at(doc, "actor", ""),
                          .why = mongo_text_at(doc, "why", ""),
                          .reason = mongo_text_at(doc, "reason", ""),
                          .token = mongo_int_at(doc, "token", 0),
                          .permits = (int32_t)mongo_int_at(doc, "permits", 0),
                          .limit = (int32_t)mongo_int_at(doc, "limit", 0),
                          .has_exit_status = bson_iter_init_find(&it, doc, "exit_status"),
                          .exit_status = (int32_t)mongo_int_at(doc, "exit_status", 0),
                          .more = mongo_int_at(doc, "more", 0)};
    mongo_id_at(doc, "session", &out->session);
    mongo_date_at(doc, "granted_at", &out->granted_at.ms);
    return mongo_id_at(doc, "_id.ticket", &out->ticket) &&
           mongo_date_at(doc, "ended_at", &out->ended_at.ms) &&
           history_end_read(mongo_text_at(doc, "end", ""), &out->end);
}

static void give_all(const bson_t *reply, hf_turn_note_fn each, void *ctx)
{
    bson_t batch, doc;
    bson_iter_t it;
    hf_turn_note turn;
    bool goes_on = mongo_view(reply, "cursor.firstBatch", &batch) && bson_iter_init(&it, &batch);
    while (goes_on && mongo_next(&it, &doc))
        goes_on = !read_turn(&doc, &turn) || each(ctx, &turn);
}

hf_code mongo_history(hf_store *base, const hf_history_part *part, hf_turn_note_fn each, void *ctx,
                      hf_error *err)
{
    mongo_call call = {.what = "reading the history", .name = *part->name ? part->name : NULL};
    mongo_store *store = (mongo_store *)base;
    bson_t command = BSON_INITIALIZER;
    mongo_reply reply;
    hf_code code = mongo_ready(store, err);
    if (code)
        return code;
    mongo_begin(&command, "find", store->uri.names.history);
    append_filter(&command, part);
    append_options(store, &command, part);
    code = run(store, &call, &command, &reply, err);
    if (!code)
        give_all(&reply.doc, each, ctx);
    bson_destroy(&reply.doc);
    return code;
}
