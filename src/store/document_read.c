/* SPDX-License-Identifier: Apache-2.0 */
/* document_read.c: reads the BSON shapes of protocol `queue`, and says what is wrong with a
 * document of another shape; called by the stores mongo and sqlite. */
#include "core/alloc.h"
#include "core/error.h"
#include "core/record.h"
#include "store/document.h"

#include <stdio.h>

#define TOKEN_MAX ((int64_t)1 << 53)

/* A later format has another number in `format`, and a type that programs of this one refuse in
 * `notify` (a record) or `beat` (a session): they leave such documents alone, and say why. */
#define FORMAT 1

/* The place in a document: at its top (list NULL), in `last`, or in item `key` of a list.
 */
typedef struct reader {
    const char *collection;
    char id[160];
    const bson_t *doc; /* the whole one */
    const char *list, *key;
    hf_error *err;
} reader;

/* The fields of a document. In documents that we wrote, the next field is the one that is read
 * next. */
typedef struct fields {
    const bson_t *doc;
    bson_iter_t at; /* the last one found */
} fields;

static fields fields_of(const bson_t *doc)
{
    fields f = {.doc = doc};
    bson_iter_init(&f.at, doc);
    return f;
}

static bool find(fields *f, const char *name, bson_iter_t *out)
{
    *out = f->at;
    bool is_next = bson_iter_next(out) && strcmp(bson_iter_key(out), name) == 0;
    if (!is_next && !bson_iter_init_find(out, f->doc, name))
        return false;
    f->at = *out;
    return true;
}

static bool integral(const bson_iter_t *it, int64_t *out)
{
    if (BSON_ITER_HOLDS_INT32(it) || BSON_ITER_HOLDS_INT64(it)) {
        *out = bson_iter_as_int64(it);
        return true;
    }
    if (!BSON_ITER_HOLDS_DOUBLE(it))
        return false;
    double value = bson_iter_double(it);
    if (!(value >= -(double)TOKEN_MAX && value <= (double)TOKEN_MAX))
        return false;
    *out = (int64_t)value;
    return (double)*out == value;
}

static bool is_newer(const bson_t *doc, int64_t *format)
{
    bson_iter_t it;
    return bson_iter_init_find(&it, doc, "format") && integral(&it, format) && *format > FORMAT;
}

/* Says what is wrong with a field; always false. */
static bool refuse(const reader *r, const char *field, const char *expected)
{
    int64_t format;
    if (is_newer(r->doc, &format)) {
        error_set(r->err, HF_SHAPE,
                  "document %s in collection %s has format %lld, of a newer Holdfast; this one "
                  "knows format %d and left it alone: upgrade this program",
                  r->id, r->collection, (long long)format, FORMAT);
        return false;
    }
    error_set(r->err, HF_SHAPE,
              "document %s in collection %s is not Holdfast's: field %s%s%.10s%s%s should be %s; "
              "it was left alone, as it may be in use: find out whose it is, or use another "
              "collection",
              r->id, r->collection, r->list ? r->list : "", r->list ? "." : "",
              r->key ? r->key : "", r->key ? "." : "", field, expected);
    return false;
}

enum { OPTIONAL = false, REQUIRED = true };

/* An absent optional number leaves *out unchanged. */
static bool read_int(const reader *r, fields *doc, const char *field, bool required, int64_t min,
                     int64_t max, int64_t *out)
{
    bson_iter_t it;
    int64_t value;
    char expected[80];
    bool is_there = find(doc, field, &it);
    if (!is_there && !required)
        return true;
    if (is_there && integral(&it, &value) && value >= min && value <= max) {
        *out = value;
        return true;
    }
    snprintf(expected, sizeof expected, "a whole number from %lld to %lld", (long long)min,
             (long long)max);
    return refuse(r, field, expected);
}

static bool read_int32(const reader *r, fields *doc, const char *field, bool required, int32_t min,
                       int32_t *out)
{
    int64_t value = *out;
    if (!read_int(r, doc, field, required, min, INT32_MAX, &value))
        return false;
    *out = (int32_t)value;
    return true;
}

/* size counts the NUL. An absent optional text is "". */
static bool read_text(const reader *r, fields *doc, const char *field, bool required, size_t size,
                      char *out)
{
    bson_iter_t it;
    uint32_t length;
    char expected[80];
    out[0] = '\0';
    if (!find(doc, field, &it)) {
        if (!required)
            return true;
    } else if (BSON_ITER_HOLDS_UTF8(&it)) {
        const char *text = bson_iter_utf8(&it, &length);
        if (length < size && strlen(text) == length) {
            memcpy(out, text, length + 1);
            return true;
        }
    }
    snprintf(expected, sizeof expected, "a string of at most %zu bytes without NUL", size - 1);
    return refuse(r, field, expected);
}

static bool read_id(const reader *r, fields *doc, const char *field, hf_id *out)
{
    bson_iter_t it;
    if (!find(doc, field, &it) || !BSON_ITER_HOLDS_OID(&it))
        return refuse(r, field, "an ObjectId");
    memcpy(out->bytes, bson_iter_oid(&it)->bytes, sizeof out->bytes);
    return true;
}

static bool read_date(const reader *r, fields *doc, const char *field, bool required, int64_t *out)
{
    bson_iter_t it;
    if (!find(doc, field, &it))
        return !required || refuse(r, field, "a date");
    if (!BSON_ITER_HOLDS_DATE_TIME(&it))
        return refuse(r, field, "a date");
    *out = bson_iter_date_time(&it);
    return true;
}

static bool read_bool(const reader *r, fields *doc, const char *field, bool *out)
{
    bson_iter_t it;
    if (!find(doc, field, &it))
        return true;
    if (!BSON_ITER_HOLDS_BOOL(&it))
        return refuse(r, field, "true or false");
    *out = bson_iter_bool(&it);
    return true;
}

static bool read_entry(const reader *r, fields *doc, hf_entry *out)
{
    *out = (hf_entry){.permits = 0};
    return read_id(r, doc, "ticket", &out->ticket) && read_id(r, doc, "session", &out->session) &&
           read_int32(r, doc, "ttl_ms", REQUIRED, 1, &out->ttl_ms) &&
           read_text(r, doc, "actor", OPTIONAL, sizeof out->actor, out->actor) &&
           read_int32(r, doc, "permits", REQUIRED, 1, &out->permits) &&
           read_date(r, doc, "since", REQUIRED, &out->since.ms) &&
           read_text(r, doc, "why", OPTIONAL, sizeof out->why, out->why) &&
           read_int(r, doc, "token", REQUIRED, 0, TOKEN_MAX, &out->token) &&
           read_int(r, doc, "number", OPTIONAL, 0, TOKEN_MAX, &out->number) &&
           read_date(r, doc, "granted_at", OPTIONAL, &out->granted_at.ms) &&
           read_bool(r, doc, "yields", &out->yields) &&
           read_int32(r, doc, "block", OPTIONAL, 0, &out->block) &&
           read_int32(r, doc, "bell", OPTIONAL, 0, &out->bell);
}

static bool read_entries(reader *r, fields *doc, const char *field, hf_record *out)
{
    bson_iter_t it, item;
    bson_t entry_doc;
    hf_entry entry;
    if (!find(doc, field, &it) || !BSON_ITER_HOLDS_ARRAY(&it) || !bson_iter_recurse(&it, &item))
        return refuse(r, field, "an array");
    r->list = field;
    while (bson_iter_next(&item)) {
        r->key = bson_iter_key(&item);
        if (!BSON_ITER_HOLDS_DOCUMENT(&item) || !bson_view_at(&item, &entry_doc))
            return refuse(r, "", "a document");
        if (out->holders + out->queued == HF_ENTRIES_MAX)
            return refuse(r, "", "absent: a lock has at most 1000 holders and waiters");
        fields of_entry = fields_of(&entry_doc);
        if (!read_entry(r, &of_entry, &entry))
            return false;
        record_append(out, &entry, field[0] == 'h');
    }
    r->list = r->key = NULL;
    return true;
}

static bool read_outcome(const reader *r, fields *doc, hf_outcome *out)
{
    char text[16];
    if (!read_text(r, doc, "outcome", REQUIRED, sizeof text, text))
        return false;
    for (hf_outcome each = HF_OUTCOME_RELEASED; each <= HF_OUTCOME_ABANDONED; each++)
        if (strcmp(text, document_outcome_text(each)) == 0) {
            *out = each;
            return true;
        }
    return refuse(r, "outcome", "\"released\" or \"abandoned\"");
}

static bool is_given(fields *doc, const char *field)
{
    bson_iter_t it;
    return find(doc, field, &it) && !BSON_ITER_HOLDS_NULL(&it);
}

static bool read_exit_status(const reader *r, fields *doc, hf_last_mark *out)
{
    out->has_exit_status = is_given(doc, "exit_status");
    return !out->has_exit_status ||
           read_int32(r, doc, "exit_status", REQUIRED, INT32_MIN, &out->exit_status);
}

/* Bounded like a token, so that arithmetic with it cannot overflow. */
static bool read_period(const reader *r, fields *doc, hf_period *out)
{
    if (!is_given(doc, "period"))
        return true;
    return read_int(r, doc, "period", REQUIRED, 0, TOKEN_MAX - 1, &out->start.ms) &&
           read_int(r, doc, "period_end", REQUIRED, out->start.ms + 1, TOKEN_MAX, &out->end.ms);
}

static bool read_mark(const reader *r, fields *doc, hf_last_mark *out)
{
    return read_outcome(r, doc, &out->outcome) && read_id(r, doc, "session", &out->session) &&
           read_text(r, doc, "who", OPTIONAL, sizeof out->who, out->who) &&
           read_int(r, doc, "token", REQUIRED, 0, TOKEN_MAX, &out->token) &&
           read_exit_status(r, doc, out) && read_period(r, doc, &out->period) &&
           read_text(r, doc, "reason", OPTIONAL, sizeof out->reason, out->reason) &&
           read_date(r, doc, "at", REQUIRED, &out->at.ms);
}

static bool read_done(const reader *r, fields *doc, hf_last_mark *out)
{
    hf_done_mark *done = &out->done;
    done->is_known = true;
    return read_text(r, doc, "who", OPTIONAL, sizeof done->who, done->who) &&
           read_int32(r, doc, "exit_status", REQUIRED, INT32_MIN, &done->exit_status) &&
           read_period(r, doc, &done->period) &&
           read_int(r, doc, "token", REQUIRED, 0, TOKEN_MAX, &done->token) &&
           read_date(r, doc, "at", REQUIRED, &done->at.ms);
}

typedef bool part_fn(const reader *r, fields *doc, hf_last_mark *out);

/* A document inside the record's, or none. */
static bool read_part(reader *r, fields *doc, const char *field, part_fn *read, hf_last_mark *out)
{
    bson_iter_t it;
    bson_t part;
    if (!find(doc, field, &it) || BSON_ITER_HOLDS_NULL(&it))
        return true;
    if (!BSON_ITER_HOLDS_DOCUMENT(&it) || !bson_view_at(&it, &part))
        return refuse(r, field, "a document");
    fields of_part = fields_of(&part);
    r->list = field;
    if (!read(r, &of_part, out))
        return false;
    r->list = NULL;
    return true;
}

/* Bounded by what a 16 MB document can hold; "" reads as NULL. */
static bool read_notify(const reader *r, fields *doc, char **out)
{
    bson_iter_t it;
    if (!find(doc, "notify", &it) || !BSON_ITER_HOLDS_UTF8(&it))
        return refuse(r, "notify", "a string");
    const char *text = bson_iter_utf8(&it, NULL);
    *out = text[0] ? alloc_text(text) : NULL;
    return true;
}

static reader reader_of(const bson_t *doc, const char *collection, hf_error *err)
{
    reader r = {.collection = collection, .id = "without _id", .doc = doc, .err = err};
    bson_iter_t it;
    char hex[25];
    if (!bson_iter_init_find(&it, doc, "_id"))
        return r;
    if (BSON_ITER_HOLDS_UTF8(&it))
        snprintf(r.id, sizeof r.id, "\"%.150s\"", bson_iter_utf8(&it, NULL));
    else if (BSON_ITER_HOLDS_OID(&it)) {
        bson_oid_to_string(bson_iter_oid(&it), hex);
        snprintf(r.id, sizeof r.id, "ObjectId(\"%s\")", hex);
    } else
        snprintf(r.id, sizeof r.id, "(its _id is of BSON type %d)", (int)bson_iter_type(&it));
    return r;
}

static bool read_name(const reader *r, fields *doc, hf_record *out)
{
    return read_text(r, doc, "_id", REQUIRED, sizeof out->name, out->name) &&
           (out->name[0] || refuse(r, "_id", "a name, not empty"));
}

hf_code document_to_record(const bson_t *doc, const char *collection, hf_record *out, hf_error *err)
{
    reader r = reader_of(doc, collection, err);
    fields f = fields_of(doc);
    *out = (hf_record){.exists = true};
    if (read_name(&r, &f, out) && read_int32(&r, &f, "limit", REQUIRED, 1, &out->limit) &&
        read_int(&r, &f, "token", REQUIRED, 0, TOKEN_MAX, &out->token) &&
        read_int(&r, &f, "given", OPTIONAL, 0, TOKEN_MAX, &out->given) &&
        read_int(&r, &f, "reached", OPTIONAL, 0, TOKEN_MAX, &out->reached) &&
        read_entries(&r, &f, "holders", out) && read_entries(&r, &f, "queue", out) &&
        read_notify(&r, &f, &out->notify) && read_part(&r, &f, "last", read_mark, &out->last) &&
        read_part(&r, &f, "done", read_done, &out->last))
        return HF_OK;
    record_done(out);
    return HF_SHAPE;
}

static bool read_ask(const reader *r, fields *doc, hf_ask *out)
{
    return read_id(r, doc, "ticket", &out->ticket) &&
           read_text(r, doc, "by", OPTIONAL, sizeof out->by, out->by) &&
           read_text(r, doc, "reason", OPTIONAL, sizeof out->reason, out->reason);
}

static bool read_asked(reader *r, fields *doc, hf_session_state *out)
{
    bson_iter_t it, item;
    bson_t ask;
    if (!find(doc, "asked", &it))
        return true;
    if (!BSON_ITER_HOLDS_ARRAY(&it) || !bson_iter_recurse(&it, &item))
        return refuse(r, "asked", "an array");
    r->list = "asked";
    while (bson_iter_next(&item) && out->n_asked < HF_ASKS_MAX) {
        r->key = bson_iter_key(&item);
        if (!BSON_ITER_HOLDS_DOCUMENT(&item) || !bson_view_at(&item, &ask))
            return refuse(r, "", "a document");
        fields of_ask = fields_of(&ask);
        if (!read_ask(r, &of_ask, &out->asked[out->n_asked]))
            return false;
        out->n_asked++;
    }
    r->list = r->key = NULL;
    return true;
}

static bool read_session(const reader *r, fields *doc, hf_session *out)
{
    return read_id(r, doc, "_id", &out->id) &&
           read_int32(r, doc, "ttl_ms", REQUIRED, 1, &out->ttl_ms) &&
           read_text(r, doc, "app", OPTIONAL, sizeof out->app, out->app) &&
           read_text(r, doc, "host", OPTIONAL, sizeof out->host, out->host) &&
           read_int(r, doc, "pid", OPTIONAL, INT64_MIN, INT64_MAX, &out->pid) &&
           read_date(r, doc, "started_at", OPTIONAL, &out->started_at.ms);
}

hf_code document_to_state(const bson_t *doc, const char *collection, hf_session_state *out,
                          hf_error *err)
{
    reader r = reader_of(doc, collection, err);
    fields f = fields_of(doc);
    bool dead = false;
    *out = (hf_session_state){.presence = HF_LIVE};
    if (!read_session(&r, &f, &out->session) ||
        !read_int(&r, &f, "beat", REQUIRED, 0, INT64_MAX, &out->beat) ||
        !read_bool(&r, &f, "dead", &dead) ||
        !read_int(&r, &f, "left", OPTIONAL, INT64_MIN, INT64_MAX, &out->lease_left_ms) ||
        !read_asked(&r, &f, out))
        return HF_SHAPE;
    if (dead)
        out->presence = HF_DEAD;
    return HF_OK;
}
