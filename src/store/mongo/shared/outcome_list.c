/* SPDX-License-Identifier: Apache-2.0 */
/* outcome_list.c: lists locks together with those that have no document of their own now, but of
 * which it is known how they were left; in the order of their names, as in protocol `queue`. The
 * protocols' lists call it. */
#include "store/mongo/shared/outcome_list.h"
#include "core/alloc.h"
#include "core/id.h"
#include "core/record.h"
#include "store/mongo/driver/command.h"
#include "store/mongo/driver/reply.h"
#include "store/mongo/driver/server.h"
#include "store/mongo/shared/list.h"
#include "store/mongo/shared/outcome_document.h"

#define PAGE 1000 /* names that are read at once, at most */

/* One listing. */
typedef struct merging {
    mongo_store *store;
    const hf_list_part *part;
    char *names[PAGE]; /* a page of those in the collection of outcomes */
    size_t n, at;      /* how many, and the next one */
    char *last;        /* that was read; NULL: none yet */
    bool has_more;     /* there may be another page */
    size_t left;       /* records that may still be given */
    bool is_over;      /* no more are wanted */
    hf_record_fn each;
    void *ctx;
    hf_code code; /* of reading the names */
    hf_error *err;
} merging;

/* ---- Names ---- */

/* {_id: {$gt: the last one}}; the first page begins where the part does. */
static void append_range(const merging *m, bson_t *filter)
{
    const hf_list_part *part = m->part;
    bool is_behind = m->last || strcmp(part->after, part->prefix) >= 0;
    const char *from = m->last ? m->last : is_behind ? part->after : part->prefix;
    bson_t id;
    BSON_APPEND_DOCUMENT_BEGIN(filter, "_id", &id);
    bson_append_utf8(&id, is_behind ? "$gt" : "$gte", -1, from, -1);
    bson_append_document_end(filter, &id);
}

static size_t page_of(const merging *m)
{
    return m->left < PAGE ? m->left : PAGE;
}

static void append_find(const merging *m, bson_t *command)
{
    bson_t part;
    mongo_begin(command, "find", m->store->uri.names.done);
    BSON_APPEND_DOCUMENT_BEGIN(command, "filter", &part);
    append_range(m, &part);
    bson_append_document_end(command, &part);
    BSON_APPEND_DOCUMENT_BEGIN(command, "projection", &part);
    BSON_APPEND_INT32(&part, "_id", 1);
    bson_append_document_end(command, &part);
    BSON_APPEND_DOCUMENT_BEGIN(command, "sort", &part);
    BSON_APPEND_INT32(&part, "_id", 1);
    bson_append_document_end(command, &part);
    BSON_APPEND_INT32(command, "limit", (int32_t)page_of(m));
    BSON_APPEND_INT32(command, "batchSize", (int32_t)page_of(m));
    BSON_APPEND_BOOL(command, "singleBatch", true);
    mongo_append_read_concern(m->store, command, (hf_stamp){0});
}

static void drop_names(merging *m)
{
    for (size_t i = 0; i < m->n; i++)
        free(m->names[i]);
    m->n = m->at = 0;
}

/* Names behind those of the prefix end the listing. */
static void keep_names(merging *m, const bson_t *batch)
{
    bson_iter_t it;
    bson_t doc;
    size_t read = 0, prefix = strlen(m->part->prefix);
    bool is_behind = false;
    bson_iter_init(&it, batch);
    while (!is_behind && mongo_next(&it, &doc)) {
        const char *name = mongo_text_at(&doc, "_id", "");
        read++;
        free(m->last);
        m->last = alloc_text(name);
        is_behind = strncmp(name, m->part->prefix, prefix) != 0;
        if (name[0] && strlen(name) <= HF_NAME_MAX && !is_behind)
            m->names[m->n++] = alloc_text(name);
    }
    m->has_more = read == page_of(m) && !is_behind;
}

/* Without the right to read them, the others are listed. */
static void read_page(merging *m)
{
    static const mongo_call call = {.what = "listing how locks were left"};
    bson_t command = BSON_INITIALIZER, batch;
    mongo_reply reply;
    drop_names(m);
    append_find(m, &command);
    hf_code code = mongo_run(m->store, &call, &command, &reply, m->err);
    m->has_more = false;
    if (!code && mongo_view(&reply.doc, "cursor.firstBatch", &batch))
        keep_names(m, &batch);
    m->code = code == HF_DENIED ? HF_OK : code;
    bson_destroy(&reply.doc);
    bson_destroy(&command);
}

/* The next name; NULL: there is none. */
static const char *next_name(merging *m)
{
    if (m->at == m->n && m->has_more)
        read_page(m);
    return m->at < m->n ? m->names[m->at] : NULL;
}

/* ---- Giving ---- */

static void give(merging *m, const hf_record *record)
{
    m->left--;
    m->is_over = !m->each(m->ctx, record) || !m->left;
}

static void give_free(merging *m, const char *name)
{
    hf_record record;
    record_init(&record, name);
    record.exists = true;
    record.limit = HF_LIMIT_RW;
    give(m, &record);
}

/* Those whose names come before this one, or all. */
static void give_before(merging *m, const char *name)
{
    const char *next = next_name(m);
    while (next && !m->is_over && !m->code && (!name || strcmp(next, name) < 0)) {
        give_free(m, next);
        m->at++;
        next = next_name(m);
    }
    if (next && name && strcmp(next, name) == 0)
        m->at++;
}

static bool merge(void *ctx, const hf_record *record)
{
    merging *m = ctx;
    give_before(m, record->name);
    if (!m->is_over && !m->code)
        give(m, record);
    return !m->is_over && !m->code;
}

static hf_code list_all(merging *m)
{
    hf_code code = mongo_list(&m->store->base, m->part, merge, m, m->err);
    if (!code && !m->is_over && !m->code)
        give_before(m, NULL);
    drop_names(m);
    free(m->last);
    return code ? code : m->code;
}

hf_code mongo_outcome_list(hf_store *base, const hf_list_part *part, hf_record_fn each, void *ctx,
                           hf_error *err)
{
    if (part->in_use || !id_is_zero(part->lock_session)) /* what has no document has no id either */
        return mongo_list(base, part, each, ctx, err);
    merging *m = alloc_zeroed(sizeof *m);
    *m = (merging){.store = (mongo_store *)base,
                   .part = part,
                   .has_more = true,
                   .left = part->limit ? part->limit : SIZE_MAX,
                   .each = each,
                   .ctx = ctx,
                   .err = err};
    hf_code code = mongo_ready(m->store, err);
    if (!code)
        code = list_all(m);
    free(m);
    return code;
}
