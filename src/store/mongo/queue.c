/* SPDX-License-Identifier: Apache-2.0 */
/* queue.c: protocol `queue` on records: the step as one command, looks and the list; the client
 * calls it through the store interface. */
#include "core/alloc.h"
#include "core/error.h"
#include "core/plant.h"
#include "core/record.h"
#include "store/document.h"
#include "store/mongo/parts.h"

#define REPEATS 8       /* of a command that lost a race */
#define DUPLICATE 11000 /* two upserts at once: the other one won */
#define SCAN_MS 60000   /* a list may take longer than a look */

/* ---- Step ---- */

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
    pipeline_append(&store->texts, mongo_clock_of(store), name, step, &update, "u");
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
    pipeline_append(&store->texts, mongo_clock_of(store), name, step, command, "update");
    BSON_APPEND_BOOL(command, "new", true);
    BSON_APPEND_BOOL(command, "upsert", step->enter != NULL);
    mongo_append_write_concern(store, command, false);
}

/* A repeat finds the record that the other upsert made. */
static hf_code run_repeated(mongo_store *store, const mongo_call *call, const bson_t *command,
                            mongo_reply *reply, hf_error *err)
{
    hf_code code = mongo_run(store, call, command, reply, err);
    for (int i = 0; code && reply->server_code == DUPLICATE && i < REPEATS; i++) {
        bson_destroy(&reply->doc);
        code = mongo_run(store, call, command, reply, err);
    }
    return code;
}

static bool ignore(void *ctx, const hf_record *record)
{
    (void)ctx;
    (void)record;
    return true;
}

/* The pipeline stumbled over something inside the document: say what, rather than the server's
 * words. */
static hf_code explain(mongo_store *store, const char *name, hf_code code, hf_error *err)
{
    hf_error shape;
    if (code != HF_UNUSABLE ||
        mongo_look(&store->base, &name, 1, (hf_stamp){0}, false, ignore, NULL, &shape) != HF_SHAPE)
        return code;
    return error_set(err, HF_SHAPE, "%s", shape.text);
}

/* Nothing but leaves, and nobody wants the record: an update gives back no document. A change that
 * a majority acknowledged is sure; no change may come from a deposed primary. */
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

static bool adopt(void *ctx, const hf_record *record)
{
    record_copy(ctx, record);
    return false;
}

static hf_code find_and_modify(mongo_store *store, const mongo_call *call, const hf_step *step,
                               hf_record *out, hf_step_reply *reply, hf_error *err)
{
    bson_t command = BSON_INITIALIZER;
    mongo_reply answer;
    append_find_and_modify(store, call->name, step, &command);
    hf_code code = run_repeated(store, call, &command, &answer, err);
    if (!code)
        code = read_value(store, call->name, &answer.doc, out, err);
    else if (PLANTED(LOCAL_READ_BACK) && code == HF_UNKNOWN)
        code = mongo_look(&store->base, &call->name, 1, (hf_stamp){0}, false, adopt, out, err);
    reply->stamp = answer.stamp;
    /* The ticket that it shows was written in the same step, or by an earlier copy of it. */
    reply->confirmed = !code && (step->enter ? record_find(out, step->enter->entry.ticket) != NULL
                                             : step->n_leaves == 0);
    bson_destroy(&answer.doc);
    bson_destroy(&command);
    return code;
}

static hf_code mongo_step(hf_store *base, const char *name, const hf_step *step, hf_record *out,
                          hf_step_reply *reply, hf_error *err)
{
    mongo_store *store = (mongo_store *)base;
    mongo_call call = {
        .what = step->enter ? "acquiring" : "releasing", .name = name, .writes = true};
    hf_record unwanted;
    hf_step_reply answer = {.confirmed = false};
    hf_code code = mongo_ready(store, err);
    if (!code && changes_only(step, out)) {
        code = update(store, &call, step, &answer, err);
    } else if (!code) {
        code = find_and_modify(store, &call, step, out ? out : &unwanted, &answer, err);
        if (!code && !out)
            record_done(&unwanted);
    }
    if (reply)
        *reply = answer;
    return explain(store, name, code, err);
}

/* ---- Look ---- */

/* Names that are still to be read; a name that was read is NULL. */
typedef struct wanted {
    const char **names;
    size_t n, left;
} wanted;

static void append_names(bson_t *command, const wanted *want)
{
    bson_t filter, id, in;
    char key[16];
    size_t used = 0;
    BSON_APPEND_DOCUMENT_BEGIN(command, "filter", &filter);
    BSON_APPEND_DOCUMENT_BEGIN(&filter, "_id", &id);
    BSON_APPEND_ARRAY_BEGIN(&id, "$in", &in);
    for (size_t i = 0; i < want->n; i++) {
        if (!want->names[i])
            continue;
        const char *at = mongo_key(used++, key);
        BSON_APPEND_UTF8(&in, at, want->names[i]);
    }
    bson_append_array_end(&id, &in);
    bson_append_document_end(&filter, &id);
    bson_append_document_end(command, &filter);
}

/* A linearizable read is by _id, in no session, and refuses afterClusterTime (R8). */
static void append_linearizable(mongo_store *store, bson_t *command)
{
    bson_t concern;
    if (mongo_topology_of(store) == MONGO_ALONE) {
        mongo_append_read_concern(store, command, (hf_stamp){0});
        return;
    }
    BSON_APPEND_DOCUMENT_BEGIN(command, "readConcern", &concern);
    BSON_APPEND_UTF8(&concern, "level", "linearizable");
    bson_append_document_end(command, &concern);
    BSON_APPEND_INT32(command, "maxTimeMS", MONGO_READ_MS);
}

static void append_find(mongo_store *store, const wanted *want, hf_stamp after, bool linearizable,
                        bson_t *command)
{
    mongo_begin(command, "find", store->uri.collection);
    append_names(command, want);
    BSON_APPEND_INT32(command, "batchSize", (int32_t)want->left + 1);
    BSON_APPEND_BOOL(command, "singleBatch", true);
    if (linearizable)
        append_linearizable(store, command);
    else
        mongo_append_read_concern(store, command, after);
}

static void strike_out(wanted *want, const char *name)
{
    for (size_t i = 0; i < want->n; i++)
        if (want->names[i] && strcmp(want->names[i], name) == 0) {
            want->names[i] = NULL;
            want->left--;
        }
}

/* Gives the records of one batch. *stopped: each has had enough. */
static hf_code give_batch(mongo_store *store, const bson_t *batch, wanted *want, bool *stopped,
                          hf_record_fn each, void *ctx, hf_error *err)
{
    bson_iter_t it;
    hf_record record;
    bson_t doc;
    bson_iter_init(&it, batch);
    while (!*stopped && mongo_next(&it, &doc)) {
        hf_code code = document_to_record(&doc, store->uri.collection, &record, err);
        if (code)
            return code;
        strike_out(want, record.name);
        *stopped = !each(ctx, &record);
        record_done(&record);
    }
    return HF_OK;
}

static void give_absent(wanted *want, hf_record_fn each, void *ctx)
{
    hf_record record;
    bool goes_on = true;
    for (size_t i = 0; i < want->n && goes_on; i++) {
        if (!want->names[i])
            continue;
        record_init(&record, want->names[i]);
        goes_on = each(ctx, &record);
    }
}

/* One batch holds 16 MB: what did not fit is read with a further one. An empty batch proves that
 * the rest is absent. */
static hf_code look(mongo_store *store, const mongo_call *call, wanted *want, hf_stamp after,
                    bool linearizable, hf_record_fn each, void *ctx, hf_error *err)
{
    hf_code code = HF_OK;
    bool stopped = false, got_some = true;
    while (!code && !stopped && got_some && want->left) {
        bson_t command = BSON_INITIALIZER, batch;
        mongo_reply reply;
        size_t before = want->left;
        append_find(store, want, after, linearizable, &command);
        code = mongo_run_behind(store, call, &command, &reply, err);
        if (!code)
            code = mongo_view(&reply.doc, "cursor.firstBatch", &batch)
                       ? give_batch(store, &batch, want, &stopped, each, ctx, err)
                       : mongo_odd_reply(store, call, err);
        got_some = want->left < before && reply.doc.len > (1u << 23);
        bson_destroy(&reply.doc);
        bson_destroy(&command);
    }
    if (!code && !stopped)
        give_absent(want, each, ctx);
    return code;
}

hf_code mongo_look(hf_store *base, const char *const *names, size_t n, hf_stamp after,
                   bool linearizable, hf_record_fn each, void *ctx, hf_error *err)
{
    mongo_store *store = (mongo_store *)base;
    mongo_call call = {.what = "looking at", .name = n == 1 ? names[0] : "several locks"};
    wanted want = {.names = alloc_array(NULL, n, sizeof *want.names), .n = n, .left = n};
    memcpy(want.names, names, n * sizeof *names);
    hf_code code = mongo_ready(store, err);
    if (!code)
        code = look(store, &call, &want, after, linearizable, each, ctx, err);
    free(want.names);
    return code;
}

/* ---- List ---- */

/* {_id: {$regex: "^prefix"}}, which is a range of the index; other than letters and digits is
 * escaped. */
static void append_prefix(bson_t *filter, const char *prefix)
{
    bson_t id;
    bson_string_t *pattern = bson_string_new("^");
    for (const char *c = prefix ? prefix : ""; *c; c++) {
        bool plain =
            (*c & 0x80) || (*c >= '0' && *c <= '9') || ((*c | 32) >= 'a' && (*c | 32) <= 'z');
        if (!plain)
            bson_string_append_c(pattern, '\\');
        bson_string_append_c(pattern, *c);
    }
    BSON_APPEND_DOCUMENT_BEGIN(filter, "_id", &id);
    BSON_APPEND_UTF8(&id, "$regex", pattern->str);
    bson_append_document_end(filter, &id);
    bson_string_free(pattern, true);
}

/* One foreign document does not hide all locks: it is skipped, with a warning. */
static bool give_listed(mongo_store *store, const bson_t *doc, hf_record_fn each, void *ctx)
{
    hf_record record;
    hf_error shape;
    if (document_to_record(doc, store->uri.collection, &record, &shape)) {
        mongo_log(store, HF_LOG_WARNING, "%s", shape.text);
        return true;
    }
    bool goes_on = each(ctx, &record);
    record_done(&record);
    return goes_on;
}

static hf_code list(mongo_store *store, mongoc_cursor_t *cursor, const mongo_call *call,
                    hf_record_fn each, void *ctx, hf_error *err)
{
    const bson_t *doc, *reply;
    bson_error_t error;
    while (mongoc_cursor_next(cursor, &doc))
        if (!give_listed(store, doc, each, ctx))
            return HF_OK;
    if (mongoc_cursor_error_document(cursor, &error, &reply))
        return mongo_fault(store, call, &error, reply, err);
    return HF_OK;
}

static mongoc_cursor_t *open_list(mongo_store *store, mongoc_client_t *client, const char *prefix)
{
    bson_t filter = BSON_INITIALIZER, opts = BSON_INITIALIZER, part;
    mongoc_read_prefs_t *primary = mongoc_read_prefs_new(MONGOC_READ_PRIMARY);
    mongoc_collection_t *locks =
        mongoc_client_get_collection(client, store->uri.database, store->uri.collection);
    append_prefix(&filter, prefix);
    BSON_APPEND_DOCUMENT_BEGIN(&opts, "sort", &part);
    BSON_APPEND_INT32(&part, "_id", 1);
    bson_append_document_end(&opts, &part);
    BSON_APPEND_DOCUMENT_BEGIN(&opts, "readConcern", &part);
    BSON_APPEND_UTF8(&part, "level",
                     mongo_topology_of(store) == MONGO_ALONE ? "local" : "majority");
    bson_append_document_end(&opts, &part);
    BSON_APPEND_INT32(&opts, "maxTimeMS", SCAN_MS);
    mongoc_cursor_t *cursor = mongoc_collection_find_with_opts(locks, &filter, &opts, primary);
    mongoc_read_prefs_destroy(primary);
    mongoc_collection_destroy(locks);
    bson_destroy(&opts);
    bson_destroy(&filter);
    return cursor;
}

hf_code mongo_list(hf_store *base, const char *prefix, hf_record_fn each, void *ctx, hf_error *err)
{
    static const mongo_call call = {.what = "listing locks"};
    mongo_store *store = (mongo_store *)base;
    hf_code code = mongo_ready(store, err);
    if (code)
        return code;
    mongoc_client_t *client;
    code = mongo_take(store, &store->work, &call, &client, err);
    if (code)
        return code;
    mongoc_cursor_t *cursor = open_list(store, client, prefix);
    code = list(store, cursor, &call, each, ctx, err);
    mongoc_cursor_destroy(cursor);
    mongo_give(&store->work, client, code != HF_OK);
    return code;
}

const hf_store_ops mongo_queue_ops = {
    .scheme = "mongodb",
    .close = mongo_close,
    .session_begin = mongo_session_begin,
    .session_beat = mongo_session_beat,
    .session_mark = mongo_session_mark,
    .session_end = mongo_session_end,
    .sessions_look = mongo_sessions_look,
    .step = mongo_step,
    .look = mongo_look,
    .list = mongo_list,
    .list_sessions = mongo_list_sessions,
    .ask = mongo_session_ask,
    .await = mongo_await,
    .wake = mongo_wake,
    .sweep = mongo_sweep,
    .doctor = mongo_doctor,
};
