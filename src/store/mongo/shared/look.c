/* SPDX-License-Identifier: Apache-2.0 */
/* look.c: looks at locks, in the shape of the store's protocol; the client calls it through the
 * store interface. */
#include "store/mongo/shared/look.h"
#include "core/alloc.h"
#include "core/record.h"
#include "store/mongo/driver/command.h"
#include "store/mongo/driver/fault.h"
#include "store/mongo/driver/reply.h"
#include "store/mongo/driver/server.h"
#include "store/mongo/shared/protocol.h"

#define UNNAMED_MOST 1000 /* documents with tickets in doubt */

/* ---- Look ---- */

/* Names that are still to be read; a name that was read is NULL. */
typedef struct wanted {
    const char **names;
    size_t n, left;
} wanted;

static bool is_named(const char *name)
{
    return name && name[0];
}

/* {_id: {$in: [names]}} */
static void append_in(const mongo_store *store, bson_t *filter, const wanted *want)
{
    bson_t id, in;
    char key[16];
    size_t used = 0;
    BSON_APPEND_DOCUMENT_BEGIN(filter, "_id", &id);
    BSON_APPEND_ARRAY_BEGIN(&id, "$in", &in);
    for (size_t i = 0; i < want->n; i++) {
        if (!is_named(want->names[i]))
            continue;
        const char *at = mongo_key(used++, key);
        if (store->protocol->append_key)
            store->protocol->append_key(&in, at, want->names[i]);
        else
            BSON_APPEND_UTF8(&in, at, want->names[i]);
    }
    bson_append_array_end(&id, &in);
    bson_append_document_end(filter, &id);
}

/* {$or: [a query for each name]}; false: there is none. */
static bool append_each(const mongo_store *store, bson_t *filter, const wanted *want)
{
    bson_t any = BSON_INITIALIZER, each;
    char key[16];
    size_t used = 0;
    for (size_t i = 0; i < want->n; i++) {
        if (!is_named(want->names[i]))
            continue;
        const char *at = mongo_key(used++, key);
        BSON_APPEND_DOCUMENT_BEGIN(&any, at, &each);
        store->protocol->append_name(store, &each, want->names[i]);
        bson_append_document_end(&any, &each);
    }
    if (used)
        BSON_APPEND_ARRAY(filter, "$or", &any);
    bson_destroy(&any);
    return used;
}

static void append_named(const mongo_store *store, bson_t *filter, const wanted *want)
{
    if (!store->protocol->append_name || !append_each(store, filter, want))
        append_in(store, filter, want);
}

static bool wants_unnamed(const mongo_store *store, const wanted *want)
{
    for (size_t i = 0; i < want->n && store->protocol->append_doubtful; i++)
        if (want->names[i] && !want->names[i][0])
            return true;
    return false;
}

static void append_filter(mongo_store *store, bson_t *filter, const wanted *want)
{
    bson_t any, each;
    if (!wants_unnamed(store, want)) {
        append_named(store, filter, want);
        return;
    }
    BSON_APPEND_ARRAY_BEGIN(filter, "$or", &any);
    BSON_APPEND_DOCUMENT_BEGIN(&any, "0", &each);
    append_named(store, &each, want);
    bson_append_document_end(&any, &each);
    BSON_APPEND_DOCUMENT_BEGIN(&any, "1", &each);
    store->protocol->append_doubtful(store, &each);
    bson_append_document_end(&any, &each);
    bson_append_array_end(filter, &any);
}

static void append_find(mongo_store *store, const wanted *want, bson_t *command)
{
    bson_t filter;
    mongo_begin(command, "find", store->uri.collection);
    BSON_APPEND_DOCUMENT_BEGIN(command, "filter", &filter);
    append_filter(store, &filter, want);
    bson_append_document_end(command, &filter);
    BSON_APPEND_INT32(command, "batchSize", (int32_t)want->left + 1);
    BSON_APPEND_BOOL(command, "singleBatch", true);
}

/* Adds what is left of the lease, by the server's clock. */
static void append_aggregate(mongo_store *store, const wanted *want, bson_t *command)
{
    bson_t filter = BSON_INITIALIZER, stages, cursor;
    size_t n = 0;
    append_filter(store, &filter, want);
    mongo_begin(command, "aggregate", store->uri.collection);
    BSON_APPEND_ARRAY_BEGIN(command, "pipeline", &stages);
    mongo_append_stage(&stages, &n, "$match", &filter);
    store->protocol->append_left(store, &stages, n, &filter);
    bson_append_array_end(command, &stages);
    BSON_APPEND_DOCUMENT_BEGIN(command, "cursor", &cursor);
    int32_t unnamed = wants_unnamed(store, want) ? UNNAMED_MOST : 0;
    BSON_APPEND_INT32(&cursor, "batchSize", (int32_t)want->left + 1 + unnamed);
    bson_append_document_end(command, &cursor);
    bson_destroy(&filter);
}

static void append_look(mongo_store *store, const wanted *want, hf_stamp after, bool linearizable,
                        bson_t *command)
{
    if (store->protocol->append_left)
        append_aggregate(store, want, command);
    else
        append_find(store, want, command);
    if (linearizable)
        mongo_append_linearizable(store, command);
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

/* A batch holds 16 MB; a further one reads what did not fit. An empty batch proves that the rest is
 * absent. */
static hf_code look(mongo_store *store, const mongo_call *call, wanted *want, hf_stamp after,
                    bool linearizable, hf_record_fn each, void *ctx, hf_error *err)
{
    hf_code code = HF_OK;
    bool stopped = false, got_some = true;
    while (!code && !stopped && got_some && want->left) {
        bson_t command = BSON_INITIALIZER, batch;
        mongo_reply reply;
        size_t before = want->left;
        append_look(store, want, after, linearizable, &command);
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
    mongo_call call = {
        .what = "looking at", .name = n == 1 ? names[0] : "several locks", .can_wait = true};
    wanted want = {.names = alloc_array(NULL, n, sizeof *want.names), .n = n, .left = n};
    memcpy(want.names, names, n * sizeof *names);
    hf_code code = mongo_ready(store, err);
    if (!code)
        code = look(store, &call, &want, after, linearizable, each, ctx, err);
    free(want.names);
    return code;
}

static bool keep(void *ctx, const hf_record *record)
{
    record_copy(ctx, record);
    return false;
}

hf_code mongo_look_at(mongo_store *store, const char *name, hf_stamp after, hf_record *out,
                      hf_error *err)
{
    return mongo_look(&store->base, &name, 1, after, false, keep, out, err);
}
