/* SPDX-License-Identifier: Apache-2.0 */
/* element_claim.c: claims of elements: the first free one that matches, of all arrays. claim.c
 * calls it.
 *
 * A query on documents cannot say which element fits, so a claim looks first: filter and sort order
 * are about what $unwind gives, one element in place of the array. It takes what it saw by its
 * name, and then looks whether the element still matches: the work of another may have come in
 * between. */
#include "core/record.h"
#include "store/mongo/document/element.h"
#include "store/mongo/document/filter.h"
#include "store/mongo/document/parts.h"
#include "store/mongo/driver/command.h"
#include "store/mongo/driver/fault.h"
#include "store/mongo/driver/reply.h"

#define SEEN_MOST 16   /* elements of one look */
#define ROUNDS_MOST 10 /* looks of one claim, while others are always faster */
#define AGAIN_MS 500   /* between two looks of a waiting claim, at least */

typedef struct seen {
    char names[SEEN_MOST][HF_NAME_MAX + 1];
    size_t n;
} seen;

/* A claim under way. */
typedef struct claim {
    mongo_store *store;
    const hf_claim *wanted;
    const hf_enter *entrant;
    bson_t passed; /* an array of queries: elements that cannot be taken, or match no longer */
} claim;

/* ---- Looking ---- */

static void append_limit(bson_t *stages, size_t *n)
{
    bson_t stage;
    char key[16];
    bson_append_document_begin(stages, mongo_key((*n)++, key), -1, &stage);
    BSON_APPEND_INT32(&stage, "$limit", SEEN_MOST);
    bson_append_document_end(stages, &stage);
}

/* {_id: [the document's, the element's]} */
static void append_names(const claim *c, bson_t *stages, size_t *n)
{
    bson_t fields = BSON_INITIALIZER, both;
    char key[MONGO_DOCUMENT_PATH];
    snprintf(key, sizeof key, "$%s", c->store->uri.element);
    BSON_APPEND_ARRAY_BEGIN(&fields, "_id", &both);
    BSON_APPEND_UTF8(&both, "0", "$_id");
    BSON_APPEND_UTF8(&both, "1", key);
    bson_append_array_end(&fields, &both);
    mongo_append_stage(stages, n, "$project", &fields);
    bson_destroy(&fields);
}

/* first: about documents, before $unwind; also: about elements, beside the user's filter. */
static hf_code append_stages(const claim *c, bson_t *stages, const bson_t *first,
                             const bson_t *also, hf_error *err)
{
    bson_t filter = BSON_INITIALIZER, sort = BSON_INITIALIZER, all, by;
    const char *given = c->wanted->filter ? c->wanted->filter : "{}";
    size_t n = 0;
    BSON_APPEND_ARRAY_BEGIN(&filter, "$and", &all);
    hf_code code = mongo_filter_append(&all, "0", "filter", given, err);
    BSON_APPEND_DOCUMENT(&all, "1", also);
    bson_append_array_end(&filter, &all);
    if (!code && c->wanted->sort)
        code = mongo_filter_append(&sort, "by", "sort order", c->wanted->sort, err);
    mongo_append_stage(stages, &n, "$match", first);
    n = mongo_element_append_unwind(c->store, stages, n, &filter);
    if (mongo_view(&sort, "by", &by))
        mongo_append_stage(stages, &n, "$sort", &by);
    append_limit(stages, &n);
    append_names(c, stages, &n);
    bson_destroy(&filter);
    bson_destroy(&sort);
    return code;
}

static void read_names(const bson_t *batch, seen *out)
{
    bson_iter_t it, id;
    bson_t doc;
    out->n = 0;
    bson_iter_init(&it, batch);
    while (out->n < SEEN_MOST && mongo_next(&it, &doc))
        if (bson_iter_init_find(&id, &doc, "_id") && mongo_element_name_of(&id, out->names[out->n]))
            out->n++;
}

static hf_code look(const claim *c, const bson_t *first, const bson_t *also, hf_stamp after,
                    seen *out, hf_error *err)
{
    static const mongo_call call = {.what = "looking for an element"};
    bson_t command = BSON_INITIALIZER, stages, cursor, batch;
    mongo_reply reply;
    mongo_begin(&command, "aggregate", c->store->uri.collection);
    BSON_APPEND_ARRAY_BEGIN(&command, "pipeline", &stages);
    hf_code code = append_stages(c, &stages, first, also, err);
    bson_append_array_end(&command, &stages);
    BSON_APPEND_DOCUMENT_BEGIN(&command, "cursor", &cursor);
    BSON_APPEND_INT32(&cursor, "batchSize", SEEN_MOST + 1);
    bson_append_document_end(&command, &cursor);
    mongo_append_read_concern(c->store, &command, after);
    if (code) {
        bson_destroy(&command);
        return code;
    }
    code = mongo_run_behind(c->store, &call, &command, &reply, err);
    if (!code && mongo_view(&reply.doc, "cursor.firstBatch", &batch))
        read_names(&batch, out);
    else if (!code)
        code = mongo_odd_reply(c->store, &call, err);
    bson_destroy(&reply.doc);
    bson_destroy(&command);
    return mongo_filter_explain(code, reply.server_code, err);
}

/* Elements that are free, have a name, and were not passed by. */
static hf_code look_for_free(const claim *c, seen *out, hf_error *err)
{
    bson_t first = BSON_INITIALIZER, also = BSON_INITIALIZER, key;
    mongo_element_append_free(c->store, &also);
    bson_append_document_begin(&also, c->store->uri.element, -1, &key);
    BSON_APPEND_NULL(&key, "$ne");
    bson_append_document_end(&also, &key);
    if (!bson_empty(&c->passed))
        BSON_APPEND_ARRAY(&also, "$nor", &c->passed);
    hf_code code = look(c, &first, &also, (hf_stamp){0}, out, err);
    bson_destroy(&first);
    bson_destroy(&also);
    return code;
}

/* Whether what was just taken matches the user's filter. */
static hf_code still_matches(const claim *c, const char *name, hf_stamp taken, bool *matches,
                             hf_error *err)
{
    bson_t first = BSON_INITIALIZER;
    seen one;
    mongo_element_append_name(c->store, &first, name);
    hf_code code = look(c, &first, &first, taken, &one, err);
    *matches = !code && one.n > 0;
    bson_destroy(&first);
    return code;
}

/* ---- Taking ---- */

static void pass_by(claim *c, const char *name)
{
    bson_t query;
    char key[16];
    BSON_APPEND_DOCUMENT_BEGIN(&c->passed, mongo_key(bson_count_keys(&c->passed), key), &query);
    mongo_element_append_name(c->store, &query, name);
    bson_append_document_end(&c->passed, &query);
}

static hf_code give_back(const claim *c, const char *name, hf_error *err)
{
    const mongo_call call = {.what = "giving back", .name = name, .writes = true};
    const hf_leave leave = {.ticket = c->entrant->entry.ticket};
    hf_step_reply reply;
    return c->store->protocol->leave(c->store, &call, &(hf_step){.leaves = &leave, .n_leaves = 1},
                                     &reply, err);
}

/* It is held now; if it has to be given back, the record is empty again. */
static hf_code keep_or_give_back(claim *c, const char *name, hf_record *out, hf_step_reply *reply,
                                 hf_error *err)
{
    bool matches;
    hf_code code = still_matches(c, name, reply->stamp, &matches, err);
    if (matches)
        return HF_OK;
    hf_code left = give_back(c, name, code ? NULL : err);
    pass_by(c, name);
    record_done(out);
    record_init(out, "");
    reply->confirmed = false;
    return code ? code : left;
}

static hf_code take(claim *c, const char *name, hf_record *out, hf_step_reply *reply, hf_error *err)
{
    const mongo_call call = {.what = "claiming", .name = name, .writes = true};
    const hf_step step = {.enter = c->entrant};
    record_init(out, name);
    hf_code code = c->store->protocol->take(c->store, &call, &step, out, reply, err);
    if (code == HF_SHAPE || code == HF_NOT_FOUND) {
        pass_by(c, name);
        code = HF_OK;
    } else if (!code && reply->confirmed) {
        return keep_or_give_back(c, name, out, reply, err);
    } else if (!code) {
        record_done(out);
    }
    record_init(out, "");
    return code;
}

/* One look, and tries in its order until one is taken; *n_seen: how many it saw. */
static hf_code round_of(claim *c, hf_record *out, hf_step_reply *reply, size_t *n_seen,
                        hf_error *err)
{
    seen all = {.n = 0};
    hf_code code = look_for_free(c, &all, err);
    for (size_t i = 0; i < all.n && !code && !reply->confirmed; i++)
        code = take(c, all.names[i], out, reply, err);
    *n_seen = all.n;
    return code;
}

hf_code mongo_element_claim(mongo_store *store, const hf_claim *wanted, const hf_enter *entrant,
                            hf_record *out, hf_step_reply *reply, hf_error *err)
{
    claim c = {store, wanted, entrant, BSON_INITIALIZER};
    size_t n_seen = 1;
    hf_code code = HF_OK;
    *reply = (hf_step_reply){.confirmed = false};
    for (int i = 0; i < ROUNDS_MOST && n_seen && !code && !reply->confirmed; i++)
        code = round_of(&c, out, reply, &n_seen, err);
    reply->again_ms = store->uri.poll_ms > AGAIN_MS ? store->uri.poll_ms : AGAIN_MS;
    bson_destroy(&c.passed);
    return code;
}
