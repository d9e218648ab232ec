/* SPDX-License-Identifier: Apache-2.0 */
/* look.c: looks at locks and lists them, in the shape of the store's protocol; the client calls it
 * through the store interface. */
#include "core/alloc.h"
#include "core/record.h"
#include "store/mongo/parts.h"

#define SCAN_MS 60000 /* a list may take longer than a look */

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
        hf_code code = store->protocol->read(store, &doc, &record, err);
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
    if (store->protocol->read(store, doc, &record, &shape)) {
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
