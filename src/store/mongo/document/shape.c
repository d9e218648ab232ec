/* SPDX-License-Identifier: Apache-2.0 */
/* shape.c: reads the lock in the user's own documents: whether it is free, or held and by whom, or
 * foreign; document.c calls it.
 *
 * In the texts @ stands for the path of lockId, # for that of lockTs, % for that of the token, *
 * for the array and & for its elements' key. A lockId that is none of the type that we write is
 * waited for and never taken: the programs that write it have rules of their own. */
#include "core/alloc.h"
#include "core/error.h"
#include "core/id.h"
#include "core/record.h"
#include "store/mongo/document/document.h"
#include "store/mongo/document/element.h"
#include "store/mongo/document/lock_id.h"
#include "store/mongo/driver/builder.h"
#include "store/mongo/driver/command.h"
#include "store/mongo/driver/path.h"
#include "store/mongo/driver/reply.h"
#include "store/mongo/driver/text.h"
#include "store/mongo/shared/held.h"
#include "store/mongo/shared/id_text.h"

#include <stdio.h>

static const char *field_of(const mongo_uri *uri, char placeholder)
{
    switch (placeholder) {
    case '@':
        return uri->lock_field;
    case '#':
        return uri->time_field;
    case '%':
        return uri->token_field;
    case '*':
        return uri->array;
    case '&':
        return uri->element_key;
    default:
        return NULL;
    }
}

/* In an element, "$@" becomes "$$e.lockId". */
static char *filled_in(const mongo_store *store, const char *text)
{
    mongo_builder out = builder_begin("");
    for (; *text; text++) {
        const char *field = field_of(&store->uri, *text);
        if (field)
            builder_add(&out, field);
        else
            builder_add_char(&out, *text);
        if (store->uri.array && *text == '$' && text[1] && strchr("@#%", text[1]))
            builder_add(&out, "$e.");
    }
    return out.text;
}

const char *mongo_document_path(const mongo_store *store, const char *between, const char *field,
                                char out[MONGO_DOCUMENT_PATH])
{
    const char *array = store->uri.array;
    snprintf(out, MONGO_DOCUMENT_PATH, "%s%s%s", array ? array : "", array ? between : "", field);
    return out;
}

/* ---- The URI ---- */

static hf_code check_paths(const char *a, const char *b, hf_error *err)
{
    size_t length = strlen(a) < strlen(b) ? strlen(a) : strlen(b);
    bool overlap = strncmp(a, b, length) == 0 && (!a[length] || a[length] == '.') &&
                   (!b[length] || b[length] == '.');
    if (!overlap)
        return HF_OK;
    return error_set(err, HF_INVALID, "the fields %.80s and %.80s of protocol document overlap", a,
                     b);
}

hf_code mongo_document_check(const mongo_uri *uri, int64_t ttl_ms, hf_error *err)
{
    int64_t stale_ms = mongo_document_stale_ms(uri);
    if (!uri->given)
        return error_set(err, HF_INVALID,
                         "hfProtocol=document wants hfCollection=NAME: in which collection are the "
                         "documents that are to be locked?");
    if (ttl_ms > stale_ms)
        return error_set(err, HF_INVALID,
                         "a ttl of %lld ms is longer than the %lld ms after which a document is "
                         "stale and others take it (hfRefreshMS=%lld times "
                         "hfStaleMultiplier=%lld): give a shorter ttl (--ttl)",
                         (long long)ttl_ms, (long long)stale_ms, (long long)uri->refresh_ms,
                         (long long)uri->multiplier);
    hf_code code = mongo_element_check(uri, err);
    if (!code)
        code = check_paths(uri->lock_field, uri->time_field, err);
    if (!code && uri->token_field)
        code = check_paths(uri->lock_field, uri->token_field, err);
    if (!code && uri->token_field)
        code = check_paths(uri->time_field, uri->token_field, err);
    return code;
}

/* ---- Queries ---- */

void mongo_document_append_text(const mongo_store *store, bson_t *to, const char *field,
                                const char *text)
{
    char *json = filled_in(store, text);
    bson_t *doc = pipeline_json(json);
    bson_append_document(to, field, -1, doc);
    bson_destroy(doc);
    free(json);
}

/* A document can be taken if lockId is absent or null, or if lockTs is too old by the server's
 * clock: a time that is set ahead, too. Fields of other types are foreign. ~ is the test of
 * lockId's type, ! the stale time. */
static const char free_text[] = "{'$or': ["
                                "{'$and': [{'$in': [{'$type': '$@'}, ['missing', 'null']]},"
                                " {'$in': [{'$type': '$#'}, ['missing', 'null', 'date']]}]},"
                                " {'$and': [~, {'$eq': [{'$type': '$#'}, 'date']},"
                                " {'$lte': ['$#', {'$subtract': ['$$NOW', !]}]}]}";
static const char no_time_text[] =
    ", {'$and': [~, {'$in': [{'$type': '$#'}, ['missing', 'null']]}]}";
static const char free_end[] = "]}";

static void append_text(const mongo_uri *uri, mongo_builder *out, const char *text)
{
    for (; *text; text++)
        if (*text == '!')
            builder_add_format(out, "%lld", (long long)mongo_document_stale_ms(uri));
        else if (*text == '~')
            mongo_lock_id_append_test(uri, out, "$@");
        else
            builder_add_char(out, *text);
}

void mongo_document_write_free(const mongo_uri *uri, mongo_builder *out)
{
    append_text(uri, out, free_text);
    if (uri->no_time_means == MONGO_NO_TIME_STALE)
        append_text(uri, out, no_time_text);
    append_text(uri, out, free_end);
}

/* Stale, but for the type of its lockId, which is one that programs write. */
void mongo_document_write_other_type(const mongo_uri *uri, mongo_builder *out)
{
    append_text(
        uri, out,
        "{'$and': [{'$not': [~]}, {'$in': [{'$type': '$@'}, ['objectId', 'binData']]},"
        " {'$eq': [{'$type': '$#'}, 'date']}, {'$lte': ['$#', {'$subtract': ['$$NOW', !]}]}]}");
}

static void append_expr(const mongo_store *store, bson_t *to, const char *field,
                        void (*write)(const mongo_uri *uri, mongo_builder *out))
{
    mongo_builder text = builder_begin("{'$expr': ");
    write(&store->uri, &text);
    builder_add(&text, "}");
    mongo_document_append_text(store, to, field, text.text);
    builder_done(&text);
}

void mongo_document_append_free(const mongo_store *store, bson_t *to, const char *field)
{
    append_expr(store, to, field, mongo_document_write_free);
}

static void append_parents(mongo_builder *out, const char *path)
{
    mongo_path_parents(out, path, "{'$in': [{'$type': '$", "'}, ['missing', 'object']]},");
}

/* Whether the token is a usable number, as in is_token(). No date or text reaches $trunc. */
static const char token_text[] =
    "{'$switch': {'branches': ["
    "{'case': {'$in': [{'$type': '$%'}, ['missing', 'null', 'int']]}, 'then': true},"
    " {'case': {'$in': [{'$type': '$%'}, ['long', 'double']]}, 'then': {'$and': ["
    "{'$gt': ['$%', -9007199254740992]}, {'$lt': ['$%', 9007199254740992]},"
    " {'$eq': ['$%', {'$trunc': '$%'}]}]}}], 'default': false}},";

/* A write to a.b would replace a if it is not an object, and would change all elements if it is an
 * array. */
void mongo_document_write_sound(const mongo_uri *uri, mongo_builder *out)
{
    builder_add(out, "{'$and': [");
    append_parents(out, uri->lock_field);
    append_parents(out, uri->time_field);
    if (uri->token_field) {
        append_parents(out, uri->token_field);
        builder_add(out, token_text);
    }
    builder_add(out, "true]}");
}

void mongo_document_append_sound(const mongo_store *store, bson_t *to, const char *field)
{
    append_expr(store, to, field, mongo_document_write_sound);
}

/* ---- What a look gives ---- */

/* The first parent, on any of the three paths, that is not an object; null if there is none. */
static void append_odd(mongo_builder *out, const char *path)
{
    for (const char *dot = path ? strchr(path, '.') : NULL; dot; dot = strchr(dot + 1, '.')) {
        int length = (int)(dot - path);
        builder_add_format(out,
                           "{'case': {'$not': [{'$in': [{'$type': '$%.*s'},"
                           " ['missing', 'object']]}]}, 'then': '%.*s'},",
                           length, path, length, path);
    }
}

/* Nothing is added to lockTs: another program may have set it as far ahead as there are dates. */
static void append_look_text(const mongo_store *store, mongo_builder *out)
{
    const mongo_uri *uri = &store->uri;
    char lock[MONGO_DOCUMENT_PATH], time[MONGO_DOCUMENT_PATH], token[MONGO_DOCUMENT_PATH];
    mongo_document_path(store, ".", uri->lock_field, lock);
    mongo_document_path(store, ".", uri->time_field, time);
    builder_add_format(out, "{'hf': {'lock': '$%s', 'time': '$%s',", lock, time);
    if (uri->token_field)
        builder_add_format(out, " 'token': '$%s',",
                           mongo_document_path(store, ".", uri->token_field, token));
    builder_add_format(out,
                       " 'left': {'$cond': [{'$eq': [{'$type': '$%s'}, 'date']},"
                       " {'$subtract': [{'$max': ['$%s', {'$date': {'$numberLong': '0'}}]},"
                       " {'$subtract': ['$$NOW', %lld]}]}, null]},"
                       " 'odd': {'$switch': {'branches': [",
                       time, time, (long long)mongo_document_stale_ms(&store->uri));
    append_odd(out, lock);
    append_odd(out, time);
    append_odd(out, uri->token_field ? token : NULL);
    builder_add(out, "{'case': false, 'then': null}], 'default': null}}}");
    if (uri->array)
        builder_add_format(out, ", '_id': ['$_id', '$%s']", uri->element);
    builder_add(out, "}");
}

void mongo_document_append_left(mongo_store *store, bson_t *stages, size_t n, const bson_t *filter)
{
    mongo_builder text = builder_begin("");
    (void)filter;
    append_look_text(store, &text);
    bson_t *fields = pipeline_json(text.text);
    mongo_append_stage(stages, &n, "$project", fields);
    bson_destroy(fields);
    builder_done(&text);
}

/* ---- Reading it ---- */

/* setting: of the URI, with which the value would be taken; or NULL. */
static hf_code shape_or(const mongo_store *store, const char *name, const char *field,
                        const char *expected, const char *setting, hf_error *err)
{
    return error_set(err, HF_SHAPE,
                     "%.120s, _id %.80s: field %.80s: expected %s: it is left alone; correct it, "
                     "%s%sor name other fields (hfLockField, hfTimeField, hfTokenField)",
                     store->uri.collection, name, field, expected, setting ? setting : "",
                     setting ? " accepts it, " : "");
}

static hf_code shape(const mongo_store *store, const char *name, const char *field,
                     const char *expected, hf_error *err)
{
    return shape_or(store, name, field, expected, NULL, err);
}

static bool is_empty(const bson_t *doc, const char *path)
{
    bson_iter_t it;
    return !mongo_path_find(doc, path, &it) || BSON_ITER_HOLDS_NULL(&it);
}

/* A whole number between -2^53 and 2^53: others cannot be raised by 1, or not every reader can read
 * them. */
static bool is_token(const bson_iter_t *it)
{
    static const double end = 9007199254740992.0;
    if (!BSON_ITER_HOLDS_NUMBER(it))
        return false;
    double value =
        BSON_ITER_HOLDS_DOUBLE(it) ? bson_iter_double(it) : (double)bson_iter_as_int64(it);
    if (!(value > -end && value < end))
        return false;
    double whole = (double)(int64_t)value;
    return !(value < whole || value > whole);
}

static const char *lock_id_types(const mongo_uri *uri)
{
    return uri->lock_id_type == MONGO_LOCK_ID_STRING ? "an ObjectId, a UUID, a string, or null"
                                                     : "an ObjectId, a UUID, or null";
}

static hf_code refuse_lock_id(const mongo_store *store, const char *name, const bson_iter_t *lock,
                              hf_error *err)
{
    const mongo_uri *uri = &store->uri;
    bool is_type = BSON_ITER_HOLDS_UTF8(lock) && uri->lock_id_type != MONGO_LOCK_ID_STRING;
    return shape_or(store, name, uri->lock_field, lock_id_types(uri),
                    is_type ? "hfLockIdType=string" : NULL, err);
}

/* hf.lock and hf.time are both valid, and so is hf.token. */
static hf_code check_shape(const mongo_store *store, const bson_t *doc, const char *name,
                           hf_error *err)
{
    const mongo_uri *uri = &store->uri;
    bson_iter_t lock, time, token, odd;
    bool is_held = !is_empty(doc, "hf.lock");
    if (mongo_path_find(doc, "hf.odd", &odd) && BSON_ITER_HOLDS_UTF8(&odd))
        return shape(store, name, bson_iter_utf8(&odd, NULL), "an object, or nothing", err);
    if (is_held && mongo_path_find(doc, "hf.lock", &lock) && !mongo_lock_id_is_one(uri, &lock))
        return refuse_lock_id(store, name, &lock, err);
    bool has_date =
        mongo_path_find(doc, "hf.time", &time) && bson_iter_type(&time) == BSON_TYPE_DATE_TIME;
    bool wants_date = is_held && uri->no_time_means == MONGO_NO_TIME_HELD;
    if (!has_date && (wants_date || !is_empty(doc, "hf.time")))
        return shape_or(store, name, uri->time_field,
                        is_held ? "a date, as it is locked" : "a date, or null",
                        is_empty(doc, "hf.time") ? "hfNoTimeMeans=stale" : NULL, err);
    if (uri->token_field && !is_empty(doc, "hf.token") &&
        mongo_path_find(doc, "hf.token", &token) && !is_token(&token))
        return shape(store, name, uri->token_field,
                     "a whole number between -2^53 and 2^53, or null", err);
    return HF_OK;
}

hf_code mongo_document_unnamed(const mongo_store *store, hf_error *err)
{
    return shape(store, "(it cannot be shown)", store->uri.array ? store->uri.element : "_id",
                 "at most 512 bytes as JSON, in UTF-8", err);
}

static hf_code read_name(const mongo_store *store, const bson_t *doc, char name[HF_NAME_MAX + 1],
                         hf_error *err)
{
    bson_iter_t id;
    bool is_well = bson_iter_init_find(&id, doc, "_id") &&
                   (store->uri.array ? mongo_element_name_of(&id, name) : mongo_id_read(&id, name));
    return is_well ? HF_OK : mongo_document_unnamed(store, err);
}

static void begin_record(hf_record *out, const char *name)
{
    record_init(out, name);
    out->exists = true;
    out->limit = HF_LIMIT_RW;
}

/* The document does not name its holder. We know our own tickets, and every ObjectId contains the
 * time when it was made. */
static char *who_of(mongo_store *store, const hf_entry *entry, const char *lock_id)
{
    char who[HF_TEXT_MAX + 1];
    bool is_ours = memcmp(&entry->session, &entry->ticket, sizeof entry->ticket) != 0;
    pthread_mutex_lock(&store->mutex);
    if (is_ours)
        snprintf(who, sizeof who, "%.100s@%.100s:%lld", store->self.app, store->self.host,
                 (long long)store->self.pid);
    else
        snprintf(who, sizeof who, "%.60s %s", store->uri.lock_field, lock_id);
    pthread_mutex_unlock(&store->mutex);
    return alloc_text(who);
}

/* When an ObjectId was made. (libbson would say so in a time_t, which may be narrower than ours.)
 */
static int64_t made_ms(hf_id ticket)
{
    const uint8_t *at = ticket.bytes;
    return ((int64_t)at[0] << 24 | at[1] << 16 | at[2] << 8 | at[3]) * 1000;
}

static void add_holder(mongo_store *store, const mongo_lock_id *id, const char *text,
                       hf_record *out)
{
    hf_entry entry = {.ticket = id->ticket,
                      .ttl_ms = (int32_t)mongo_document_stale_ms(&store->uri),
                      .permits = HF_LIMIT_RW,
                      .token = out->token};
    entry.session = mongo_held_session(store, entry.ticket);
    if (id->is_exact)
        entry.since.ms = entry.granted_at.ms = made_ms(id->ticket);
    out->who = who_of(store, &entry, text);
    record_append(out, &entry, true);
}

static void note_refresh(mongo_store *store, const bson_t *doc, const hf_record *record)
{
    const hf_entry *holder = &record->entries[0];
    int64_t time_ms;
    bool is_ours = memcmp(&holder->session, &holder->ticket, sizeof holder->ticket) != 0;
    if (!is_ours && mongo_date_at(doc, "hf.time", &time_ms))
        mongo_document_note_refresh(store, record->name, holder->ticket, time_ms);
}

/* Nothing ends such a lock but its own program. */
static void note_other_type(mongo_store *store, const char *type, hf_record *record)
{
    if (record->lease_left_ms < 0)
        mongo_document_note_other_type(store, record->name, type);
    record->lease_left_ms = 0;
}

hf_code mongo_document_read(mongo_store *store, const bson_t *doc, hf_record *out, hf_error *err)
{
    bson_iter_t lock;
    mongo_lock_id id;
    char text[MONGO_LOCK_ID_TEXT], name[HF_NAME_MAX + 1];
    hf_code code = read_name(store, doc, name, err);
    if (!code)
        code = check_shape(store, doc, name, err);
    if (code)
        return code;
    begin_record(out, name);
    out->token = mongo_int_at(doc, "hf.token", 0);
    out->lease_left_ms = mongo_int_at(doc, "hf.left", 0);
    if (mongo_path_find(doc, "hf.lock", &lock) && mongo_lock_id_read(&store->uri, &lock, &id)) {
        mongo_lock_id_text(&lock, text);
        add_holder(store, &id, text, out);
        if (id.is_our_type)
            note_refresh(store, doc, out);
        else
            note_other_type(store, id.type, out);
    }
    return HF_OK;
}

hf_code mongo_document_read_named(mongo_store *store, const char *name, const bson_t *doc,
                                  const hf_entry *entry, hf_record *out, hf_error *err)
{
    char token[MONGO_DOCUMENT_PATH];
    char *json = mongo_document_json(doc);
    if (!json)
        return shape(store, name, "(any)", "BSON that can be read", err);
    const mongo_lock_id id = {.ticket = entry->ticket, .is_exact = true};
    begin_record(out, name);
    if (store->uri.token_field)
        out->token =
            mongo_int_at(doc, mongo_document_path(store, ".", store->uri.token_field, token), 0);
    out->lease_left_ms = mongo_document_stale_ms(&store->uri);
    add_holder(store, &id, "", out);
    out->document = alloc_text(json);
    bson_free(json);
    return HF_OK;
}

hf_code mongo_document_read_taken(mongo_store *store, const bson_t *doc, const hf_entry *entry,
                                  hf_record *out, hf_error *err)
{
    char name[HF_NAME_MAX + 1];
    hf_code code = read_name(store, doc, name, err);
    return code ? code : mongo_document_read_named(store, name, doc, entry, out, err);
}
