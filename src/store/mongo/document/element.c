/* SPDX-License-Identifier: Apache-2.0 */
/* element.c: which element of an array is meant, taken, and changed; parts.c, document.c and
 * element_claim.c call it.
 *
 * The server's clock can only be asked for in expressions, and those see an array as a whole. So a
 * taking asks whether the element fits, and changes it by mapping the array. A command changes one
 * document as a whole: no other program comes in between. */
#include "store/mongo/document/element.h"
#include "core/error.h"
#include "core/id.h"
#include "core/record.h"
#include "store/mongo/document/lock_id.h"
#include "store/mongo/driver/builder.h"
#include "store/mongo/driver/command.h"
#include "store/mongo/driver/text.h"
#include "store/mongo/shared/look.h"

/* ---- Which element ---- */

static void append_equal(bson_t *query, const char *field, const bson_iter_t *value)
{
    bson_t equal;
    bson_append_document_begin(query, field, -1, &equal);
    bson_append_iter(&equal, "$eq", -1, value);
    bson_append_document_end(query, &equal);
}

/* Any other text names nothing. */
static void append_nothing(bson_t *query)
{
    bson_t id, none;
    BSON_APPEND_DOCUMENT_BEGIN(query, "_id", &id);
    BSON_APPEND_ARRAY_BEGIN(&id, "$in", &none);
    bson_append_array_end(&id, &none);
    bson_append_document_end(query, &id);
}

void mongo_element_append_name(const mongo_store *store, bson_t *query, const char *name)
{
    mongo_element_name parsed;
    if (!mongo_element_name_read(name, &parsed)) {
        append_nothing(query);
        return;
    }
    append_equal(query, "_id", &parsed.id);
    append_equal(query, store->uri.element, &parsed.key);
    mongo_element_name_done(&parsed);
}

/* A lockId: that of a ticket, or one as it stands in a document. */
typedef struct lock_id_sought {
    hf_id ticket;
    const bson_iter_t *seen; /* NULL: the ticket's */
} lock_id_sought;

/* {lines: {$elemMatch: {id: key, lockId: ...}}}: the update finds it as `lines.$`. */
static void append_match(const mongo_store *store, bson_t *query, const bson_iter_t *key,
                         const lock_id_sought *sought)
{
    bson_t array, one;
    bson_append_document_begin(query, store->uri.array, -1, &array);
    BSON_APPEND_DOCUMENT_BEGIN(&array, "$elemMatch", &one);
    if (key)
        append_equal(&one, store->uri.element_key, key);
    if (sought->seen)
        mongo_lock_id_append_seen(&store->uri, &one, sought->seen);
    else
        mongo_lock_id_append_is(&store->uri, &one, sought->ticket);
    bson_append_document_end(&array, &one);
    bson_append_document_end(query, &array);
}

static void append_named(const mongo_store *store, bson_t *query, const char *name,
                         const lock_id_sought *sought)
{
    mongo_element_name parsed;
    if (!mongo_element_name_read(name, &parsed)) {
        append_nothing(query);
        return;
    }
    append_equal(query, "_id", &parsed.id);
    append_match(store, query, &parsed.key, sought);
    mongo_element_name_done(&parsed);
}

void mongo_element_append_own(const mongo_store *store, bson_t *query, const char *name,
                              hf_id ticket)
{
    const lock_id_sought own = {.ticket = ticket};
    if (name[0])
        append_named(store, query, name, &own);
    else
        append_match(store, query, NULL, &own);
}

void mongo_element_append_seen(const mongo_store *store, bson_t *query, const char *name,
                               const bson_iter_t *lock_id)
{
    append_named(store, query, name, &(lock_id_sought){.seen = lock_id});
}

/* ---- Taking ---- */

/* One element has this key, and it is free, stale, or ours. ~ and ! are what mongo_document_sound
 * and _free write. */
static const char fits_text[] =
    "{'$and': [{'$eq': [1, {'$size': {'$filter': {'input': '$$all', 'as': 'e',"
    " 'cond': {'$eq': ['$$e.&', '$$key']}}}}]},"
    " {'$anyElementTrue': [{'$map': {'input': '$$all', 'as': 'e', 'in': {'$and': ["
    "{'$eq': ['$$e.&', '$$key']}, ~, {'$or': [!, {'$in': ['$@', '$$tickets']}]}]}}}]}]}";
static const char all_text[] = "{'$cond': [{'$isArray': ['$*']}, '$*', []]}";

static void write_conditions(const mongo_uri *uri, mongo_builder *out, const char *text)
{
    for (; *text; text++)
        if (*text == '~')
            mongo_document_write_sound(uri, out);
        else if (*text == '!')
            mongo_document_write_free(uri, out);
        else
            builder_add_char(out, *text);
}

static void append_conditions(const mongo_store *store, bson_t *to, const char *field,
                              const char *text)
{
    mongo_builder whole = builder_begin("");
    write_conditions(&store->uri, &whole, text);
    mongo_document_append_text(store, to, field, whole.text);
    builder_done(&whole);
}

static void append_literal(bson_t *to, const char *field, const bson_iter_t *value)
{
    bson_t literal;
    bson_append_document_begin(to, field, -1, &literal);
    bson_append_iter(&literal, "$literal", -1, value);
    bson_append_document_end(to, &literal);
}

static void append_fits(const mongo_store *store, const bson_iter_t *key, const hf_step *step,
                        bson_t *query)
{
    bson_t expr, let, vars;
    BSON_APPEND_DOCUMENT_BEGIN(query, "$expr", &expr);
    BSON_APPEND_DOCUMENT_BEGIN(&expr, "$let", &let);
    BSON_APPEND_DOCUMENT_BEGIN(&let, "vars", &vars);
    append_literal(&vars, "key", key);
    mongo_lock_id_append_all(&store->uri, &vars, "tickets", step);
    mongo_document_append_text(store, &vars, "all", all_text);
    bson_append_document_end(&let, &vars);
    append_conditions(store, &let, "in", fits_text);
    bson_append_document_end(&expr, &let);
    bson_append_document_end(query, &expr);
}

void mongo_element_append_takeable(const mongo_store *store, const char *name, const hf_step *step,
                                   bson_t *query)
{
    mongo_element_name parsed;
    if (!mongo_element_name_read(name, &parsed)) {
        append_nothing(query);
        return;
    }
    append_equal(query, "_id", &parsed.id);
    append_fits(store, &parsed.key, step, query);
    mongo_element_name_done(&parsed);
}

void mongo_element_append_free(const mongo_store *store, bson_t *query)
{
    append_conditions(store, query, "$expr",
                      "{'$let': {'vars': {'e': '$*'}, 'in': {'$and': [~, !]}}}");
}

/* ---- What changes ---- */

void mongo_element_append_is(const mongo_store *store, bson_t *to, const char *name)
{
    mongo_element_name parsed;
    bson_t equal;
    char field[MONGO_DOCUMENT_PATH];
    if (!mongo_element_name_read(name, &parsed))
        return;
    snprintf(field, sizeof field, "$$e.%s", store->uri.element_key);
    BSON_APPEND_ARRAY_BEGIN(to, "$eq", &equal);
    BSON_APPEND_UTF8(&equal, "0", field);
    append_literal(&equal, "1", &parsed.key);
    bson_append_array_end(to, &equal);
    mongo_element_name_done(&parsed);
}

void mongo_element_append_has(const mongo_store *store, bson_t *to, hf_id ticket)
{
    bson_t equal;
    char field[MONGO_DOCUMENT_PATH];
    snprintf(field, sizeof field, "$$e.%s", store->uri.lock_field);
    BSON_APPEND_ARRAY_BEGIN(to, "$eq", &equal);
    BSON_APPEND_UTF8(&equal, "0", field);
    mongo_lock_id_append(&store->uri, &equal, "1", ticket);
    bson_append_array_end(to, &equal);
}

/* {$cond: [which, {$mergeObjects: ["$$e", set]}, "$$e"]} */
static void append_changed(bson_t *to, const bson_t *set, const bson_t *which)
{
    bson_t in, cond, then, both;
    BSON_APPEND_DOCUMENT_BEGIN(to, "in", &in);
    BSON_APPEND_ARRAY_BEGIN(&in, "$cond", &cond);
    BSON_APPEND_DOCUMENT(&cond, "0", which);
    BSON_APPEND_DOCUMENT_BEGIN(&cond, "1", &then);
    BSON_APPEND_ARRAY_BEGIN(&then, "$mergeObjects", &both);
    BSON_APPEND_UTF8(&both, "0", "$$e");
    BSON_APPEND_DOCUMENT(&both, "1", set);
    bson_append_array_end(&then, &both);
    bson_append_document_end(&cond, &then);
    BSON_APPEND_UTF8(&cond, "2", "$$e");
    bson_append_array_end(&in, &cond);
    bson_append_document_end(to, &in);
}

void mongo_element_append_set(const mongo_store *store, bson_t *stage, const bson_t *set,
                              const bson_t *which)
{
    bson_t fields, array, map;
    char input[MONGO_DOCUMENT_PATH];
    snprintf(input, sizeof input, "$%s", store->uri.array);
    BSON_APPEND_DOCUMENT_BEGIN(stage, "$set", &fields);
    bson_append_document_begin(&fields, store->uri.array, -1, &array);
    BSON_APPEND_DOCUMENT_BEGIN(&array, "$map", &map);
    BSON_APPEND_UTF8(&map, "input", input);
    BSON_APPEND_UTF8(&map, "as", "e");
    append_changed(&map, set, which);
    bson_append_document_end(&array, &map);
    bson_append_document_end(&fields, &array);
    bson_append_document_end(stage, &fields);
}

/* ---- Looking ---- */

/* What is no array would be taken for its only element. */
size_t mongo_element_append_unwind(const mongo_store *store, bson_t *stages, size_t n,
                                   const bson_t *filter)
{
    char path[MONGO_DOCUMENT_PATH];
    bson_t is_array = BSON_INITIALIZER, unwind = BSON_INITIALIZER;
    mongo_document_append_text(store, &is_array, store->uri.array, "{'$type': 'array'}");
    mongo_append_stage(stages, &n, "$match", &is_array);
    snprintf(path, sizeof path, "$%s", store->uri.array);
    BSON_APPEND_UTF8(&unwind, "path", path);
    mongo_append_stage(stages, &n, "$unwind", &unwind);
    mongo_append_stage(stages, &n, "$match", filter);
    bson_destroy(&is_array);
    bson_destroy(&unwind);
    return n;
}

/* {$ne: null} would ask for arrays without any free element, so all other types are named. */
void mongo_element_append_listed(const mongo_store *store, bson_t *query)
{
    static const int32_t types[] = {-1, 1, 2, 3, 4, 5, 7, 8, 9, 11, 13, 14, 16, 17, 18, 19, 127};
    bson_t field, any;
    char key[16], path[MONGO_DOCUMENT_PATH];
    bson_append_document_begin(query, mongo_document_path(store, ".", store->uri.lock_field, path),
                               -1, &field);
    BSON_APPEND_ARRAY_BEGIN(&field, "$type", &any);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        BSON_APPEND_INT32(&any, mongo_key(i, key), types[i]);
    bson_append_array_end(&field, &any);
    bson_append_document_end(query, &field);
}

void mongo_element_append_left(mongo_store *store, bson_t *stages, size_t n, const bson_t *filter)
{
    n = mongo_element_append_unwind(store, stages, n, filter);
    mongo_document_append_left(store, stages, n, filter);
}

typedef struct sight {
    hf_record *out;
    size_t n;
} sight;

static bool keep_first(void *ctx, const hf_record *record)
{
    sight *to = ctx;
    if (!to->n++)
        record_copy(to->out, record);
    return true;
}

hf_code mongo_element_see(mongo_store *store, const char *name, hf_stamp after, hf_record *out,
                          hf_error *err)
{
    sight seen = {out, 0};
    hf_code code = mongo_look(&store->base, &name, 1, after, false, keep_first, &seen, err);
    if (code || seen.n == 1)
        return code;
    record_done(out);
    return error_set(err, HF_SHAPE,
                     "%.120s, _id and %.80s %.200s: %zu elements have this key: it is left alone, "
                     "give each a key of its own",
                     store->uri.collection, store->uri.element, name, seen.n);
}

/* ---- What was taken ---- */

static bool carries(const mongo_store *store, const bson_iter_t *element, hf_id ticket)
{
    bson_iter_t lock;
    mongo_lock_id id;
    return BSON_ITER_HOLDS_DOCUMENT(element) && bson_iter_recurse(element, &lock) &&
           bson_iter_find(&lock, store->uri.lock_field) &&
           mongo_lock_id_read(&store->uri, &lock, &id) && id_equal(id.ticket, ticket);
}

static bool find_own(const mongo_store *store, const bson_t *doc, hf_id ticket, bson_iter_t *out)
{
    bson_iter_t array;
    if (!bson_iter_init_find(&array, doc, store->uri.array) || !bson_iter_recurse(&array, out))
        return false;
    while (bson_iter_next(out))
        if (carries(store, out, ticket))
            return true;
    return false;
}

bool mongo_element_find_lock_id(const mongo_store *store, const bson_t *doc, hf_id ticket,
                                bson_iter_t *out)
{
    bson_iter_t element;
    return find_own(store, doc, ticket, &element) && bson_iter_recurse(&element, out) &&
           bson_iter_find(out, store->uri.lock_field);
}

/* The document with the element in place of the array, as $unwind gives it. */
static void unwind(const mongo_store *store, const bson_t *doc, const bson_iter_t *element,
                   bson_t *out)
{
    bson_iter_t it;
    bson_iter_init(&it, doc);
    while (bson_iter_next(&it)) {
        bool is_array = strcmp(bson_iter_key(&it), store->uri.array) == 0;
        bson_append_iter(out, bson_iter_key(&it), -1, is_array ? element : &it);
    }
}

hf_code mongo_element_read_taken(mongo_store *store, const bson_t *doc, const hf_entry *entry,
                                 hf_record *out, hf_error *err)
{
    bson_iter_t id, element, key;
    char name[HF_NAME_MAX + 1];
    bool is_named = find_own(store, doc, entry->ticket, &element) &&
                    bson_iter_init_find(&id, doc, "_id") && bson_iter_recurse(&element, &key) &&
                    bson_iter_find(&key, store->uri.element_key) &&
                    mongo_element_name_write(&id, &key, name);
    if (!is_named)
        return mongo_document_unnamed(store, err);
    bson_t one = BSON_INITIALIZER;
    unwind(store, doc, &element, &one);
    hf_code code = mongo_document_read_named(store, name, &one, entry, out, err);
    bson_destroy(&one);
    return code;
}
