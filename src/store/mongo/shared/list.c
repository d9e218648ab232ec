/* SPDX-License-Identifier: Apache-2.0 */
/* list.c: lists locks in the order of their names, in the shape of the store's protocol; the client
 * calls it through the store interface. If names are the _id, it reads page by page, each a range
 * of the index that begins behind the page before: a page costs a page, and between pages the
 * server keeps nothing. */
#include "store/mongo/shared/list.h"
#include "core/alloc.h"
#include "core/id.h"
#include "core/record.h"
#include "store/document.h"
#include "store/mongo/driver/command.h"
#include "store/mongo/driver/pool.h"
#include "store/mongo/driver/reply.h"
#include "store/mongo/driver/server.h"
#include "store/mongo/driver/text.h"
#include "store/mongo/shared/protocol.h"
#include "store/mongo/shared/skipped.h"

#define SCAN_MS 60000  /* a page of what is in use may read very many documents */
#define PAGE_FIRST 100 /* documents, if it is not said how many are wanted */
#define PAGE_NEXT 1000
#define END_SIZE (HF_NAME_MAX + 8) /* the last character may become longer */

typedef struct listing {
    mongo_store *store;
    const hf_list_part *part;
    size_t left;       /* records that may still be given */
    size_t page;       /* documents that are read at once; 0: all */
    bson_value_t last; /* the _id of the last document that was read */
    hf_record_fn each;
    void *ctx;
    mongo_skipped skipped;
} listing;

static const mongo_call call = {.what = "listing locks"};

/* ---- Which documents ---- */

/* The first text that comes behind all that begin with prefix. False: there is none. */
static bool end_of(const char *prefix, char end[END_SIZE])
{
    for (size_t n = strlen(prefix); n > 0;) {
        do
            n--;
        while (n > 0 && (prefix[n] & 0xc0) == 0x80);
        uint32_t size, next = bson_utf8_get_char(prefix + n) + 1;
        if (next > 0x10ffff)
            continue;
        memcpy(end, prefix, n);
        bson_utf8_from_unichar(next == 0xd800 ? 0xe000 : next, end + n, &size);
        end[n + size] = '\0';
        return true;
    }
    return false;
}

/* {_id: {$gt: last, $lt: the end of the prefix}} */
static void append_range(bson_t *filter, const listing *l)
{
    bson_t id;
    char end[END_SIZE];
    const hf_list_part *part = l->part;
    BSON_APPEND_DOCUMENT_BEGIN(filter, "_id", &id);
    if (l->last.value_type != BSON_TYPE_EOD)
        BSON_APPEND_VALUE(&id, "$gt", &l->last);
    else if (strcmp(part->after, part->prefix) >= 0 && *part->after)
        BSON_APPEND_UTF8(&id, "$gt", part->after);
    else
        BSON_APPEND_UTF8(&id, "$gte", part->prefix);
    if (end_of(part->prefix, end))
        BSON_APPEND_UTF8(&id, "$lt", end);
    bson_append_document_end(filter, &id);
}

static void append_in_use(const mongo_store *store, bson_t *filter)
{
    bson_t *in_use = pipeline_json(store->protocol->in_use);
    bson_concat(filter, in_use);
    bson_destroy(in_use);
}

static void append_filter(const listing *l, bson_t *filter)
{
    if (l->store->protocol->append_listed)
        l->store->protocol->append_listed(l->store, filter);
    else
        append_range(filter, l);
    if (!id_is_zero(l->part->lock_session))
        document_append_id(filter, l->store->protocol->ticket_field, l->part->lock_session);
    if (l->part->in_use && l->store->protocol->in_use)
        append_in_use(l->store, filter);
}

/* ---- Asking ---- */

static void append_options(const listing *l, bson_t *opts)
{
    bson_t part;
    bool is_alone = mongo_topology_of(l->store) == MONGO_ALONE;
    BSON_APPEND_DOCUMENT_BEGIN(opts, "readConcern", &part);
    BSON_APPEND_UTF8(&part, "level", is_alone ? "local" : "majority");
    bson_append_document_end(opts, &part);
    BSON_APPEND_INT32(opts, "maxTimeMS", SCAN_MS);
    if (l->page)
        BSON_APPEND_INT32(opts, "batchSize", (int32_t)l->page);
}

static mongoc_cursor_t *find(const listing *l, mongoc_collection_t *locks, const bson_t *filter,
                             const mongoc_read_prefs_t *primary)
{
    bson_t opts = BSON_INITIALIZER, part;
    BSON_APPEND_DOCUMENT_BEGIN(&opts, "sort", &part);
    BSON_APPEND_INT32(&part, "_id", 1);
    bson_append_document_end(&opts, &part);
    if (l->page)
        BSON_APPEND_INT64(&opts, "limit", (int64_t)l->page);
    append_options(l, &opts);
    mongoc_cursor_t *cursor = mongoc_collection_find_with_opts(locks, filter, &opts, primary);
    bson_destroy(&opts);
    return cursor;
}

static void append_stages(const listing *l, bson_t *stages, const bson_t *filter)
{
    bson_t stage, part;
    BSON_APPEND_DOCUMENT_BEGIN(stages, "0", &stage);
    BSON_APPEND_DOCUMENT(&stage, "$match", filter);
    bson_append_document_end(stages, &stage);
    BSON_APPEND_DOCUMENT_BEGIN(stages, "1", &stage);
    BSON_APPEND_DOCUMENT_BEGIN(&stage, "$sort", &part);
    BSON_APPEND_INT32(&part, "_id", 1);
    bson_append_document_end(&stage, &part);
    bson_append_document_end(stages, &stage);
    if (l->page) {
        BSON_APPEND_DOCUMENT_BEGIN(stages, "2", &stage);
        BSON_APPEND_INT64(&stage, "$limit", (int64_t)l->page);
        bson_append_document_end(stages, &stage);
    }
    l->store->protocol->append_left(l->store, stages, l->page ? 3 : 2, filter);
}

static mongoc_cursor_t *aggregate(const listing *l, mongoc_collection_t *locks,
                                  const bson_t *filter, const mongoc_read_prefs_t *primary)
{
    bson_t opts = BSON_INITIALIZER, stages = BSON_INITIALIZER;
    append_stages(l, &stages, filter);
    append_options(l, &opts);
    mongoc_cursor_t *cursor =
        mongoc_collection_aggregate(locks, MONGOC_QUERY_NONE, &stages, &opts, primary);
    bson_destroy(&stages);
    bson_destroy(&opts);
    return cursor;
}

static mongoc_cursor_t *open_page(const listing *l, mongoc_client_t *client)
{
    bson_t filter = BSON_INITIALIZER;
    const mongo_uri *uri = &l->store->uri;
    mongoc_read_prefs_t *primary = mongoc_read_prefs_new(MONGOC_READ_PRIMARY);
    mongoc_collection_t *locks =
        mongoc_client_get_collection(client, uri->database, uri->collection);
    append_filter(l, &filter);
    mongoc_cursor_t *cursor = l->store->protocol->append_left
                                  ? aggregate(l, locks, &filter, primary)
                                  : find(l, locks, &filter, primary);
    mongoc_read_prefs_destroy(primary);
    mongoc_collection_destroy(locks);
    bson_destroy(&filter);
    return cursor;
}

/* ---- Giving ---- */

/* False: no more is wanted. */
static bool give(listing *l, const bson_t *doc)
{
    hf_record record;
    hf_error shape;
    if (l->store->protocol->read(l->store, doc, &record, &shape)) {
        mongo_skip(&l->skipped, &shape);
        return true;
    }
    bool is_listed = record_is_listed(&record, l->part);
    bool goes_on = !is_listed || l->each(l->ctx, &record);
    record_done(&record);
    l->left -= is_listed;
    return goes_on && l->left;
}

static bool go_behind(listing *l, const bson_t *doc)
{
    bson_iter_t id;
    if (!bson_iter_init_find(&id, doc, "_id"))
        return false;
    bson_value_destroy(&l->last);
    bson_value_copy(bson_iter_value(&id), &l->last);
    return true;
}

/* *goes_on: there may be more, and it is wanted. */
static hf_code give_page(listing *l, const mongo_connection *connection, mongoc_cursor_t *cursor,
                         bool *goes_on, hf_error *err)
{
    size_t n = 0;
    const bson_t *doc;
    *goes_on = false;
    while (mongoc_cursor_next(cursor, &doc)) {
        n++;
        *goes_on = go_behind(l, doc);
        if (!give(l, doc)) {
            *goes_on = false;
            return HF_OK;
        }
    }
    *goes_on = *goes_on && n == l->page;
    return mongo_cursor_fault(l->store, &call, connection, cursor, err);
}

static hf_code list_page(listing *l, bool *goes_on, hf_error *err)
{
    mongo_connection *connection;
    hf_code code = mongo_pool_take(l->store, &l->store->work, &call, &connection, err);
    if (code)
        return code;
    mongoc_cursor_t *cursor = open_page(l, connection->client);
    code = give_page(l, connection, cursor, goes_on, err);
    mongoc_cursor_destroy(cursor);
    mongo_pool_give(l->store, &l->store->work, &call, connection, code != HF_OK);
    return code;
}

static hf_code list_pages(listing *l, hf_error *err)
{
    hf_code code = HF_OK;
    bool goes_on = true;
    l->page = l->left < PAGE_NEXT ? l->left : PAGE_FIRST;
    while (goes_on && !code) {
        code = list_page(l, &goes_on, err);
        l->page = l->left < PAGE_NEXT ? l->left : PAGE_NEXT;
    }
    bson_value_destroy(&l->last);
    mongo_skipped_tell(l->store, &l->skipped);
    return code;
}

/* ---- If names are not the _id itself, the server's order is not the order of names ---- */

typedef struct records {
    hf_record *of;
    size_t n;
} records;

static bool add_record(void *ctx, const hf_record *record)
{
    records *all = ctx;
    all->of = alloc_array(all->of, all->n + 1, sizeof *all->of);
    record_copy(&all->of[all->n++], record);
    return true;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const hf_record *)a)->name, ((const hf_record *)b)->name);
}

static hf_code list_sorted(const listing *wanted, hf_error *err)
{
    bool goes_on;
    records all = {NULL, 0};
    listing l = {.store = wanted->store,
                 .part = wanted->part,
                 .left = SIZE_MAX,
                 .each = add_record,
                 .ctx = &all};
    hf_code code = list_page(&l, &goes_on, err);
    bson_value_destroy(&l.last);
    mongo_skipped_tell(l.store, &l.skipped);
    if (all.n)
        qsort(all.of, all.n, sizeof *all.of, by_name);
    goes_on = !code;
    for (size_t i = 0; i < all.n; i++) {
        goes_on = goes_on && i < wanted->left && wanted->each(wanted->ctx, &all.of[i]);
        record_done(&all.of[i]);
    }
    free(all.of);
    return code;
}

hf_code mongo_list(hf_store *base, const hf_list_part *part, hf_record_fn each, void *ctx,
                   hf_error *err)
{
    mongo_store *store = (mongo_store *)base;
    listing l = {.store = store,
                 .part = part,
                 .left = part->limit ? part->limit : SIZE_MAX,
                 .each = each,
                 .ctx = ctx};
    hf_code code = mongo_ready(store, err);
    if (code)
        return code;
    return store->protocol->append_listed ? list_sorted(&l, err) : list_pages(&l, err);
}
