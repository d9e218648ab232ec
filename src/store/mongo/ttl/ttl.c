/* SPDX-License-Identifier: Apache-2.0 */
/* ttl.c: protocol `ttl`: a lock is held exactly while its document exists and its time has not
 * passed, by the server's clock; it follows two articles; programs written after them and ours
 * exclude each other. The client calls it through the store interface.
 *
 * Two shapes: `updated` (the heartbeat writes now, the index adds the time) and `expire-at` (the
 * document says until when). text.h says what the signs in the texts below stand for. */
#include "store/mongo/ttl/ttl.h"
#include "core/alloc.h"
#include "core/error.h"
#include "core/id.h"
#include "core/record.h"
#include "store/document.h"
#include "store/mongo/driver/builder.h"
#include "store/mongo/driver/command.h"
#include "store/mongo/driver/fault.h"
#include "store/mongo/driver/reply.h"
#include "store/mongo/driver/text.h"
#include "store/mongo/shared/fair.h"
#include "store/mongo/shared/held.h"
#include "store/mongo/shared/look.h"
#include "store/mongo/shared/outcome_list.h"
#include "store/mongo/shared/plain.h"
#include "store/mongo/ttl/text.h"

#include <stdio.h>

#define RACES 3 /* tries again at once, if the document was gone or renewed at the look */

/* A lease that is there already, made by another call with its key, keeps the longer ttl: its owner
 * believes in that. */
static const char take_text[] =
    "{'$let': {'vars': {'x': {'new': '$$x.new', 'ttl_ms': {'$cond': ["
    "{'$eq': ['$ticket', '$$x.new.ticket']}, {'$max': ['$ttl_ms', '$$x.new.ttl_ms']},"
    " '$$x.new.ttl_ms']}}}, 'in': {'$mergeObjects': ['$$x.new',"
    " {'since': '$$NOW', 'ttl_ms': '$$x.ttl_ms', '@': #f}]}}}";
static const char renew_text[] = "{'$mergeObjects': ['$$ROOT', {'@': #f}]}";
static const char renew_lease_text[] = "{'$mergeObjects': ['$$ROOT', {'@': #r}]}";

/* A takeover needs a date that has passed: a document without a date is held. One that is no lock
 * is somebody's data. */
static const char passed_text[] = "{'$and': [{'$eq': [{'$type': '$@'}, 'date']},"
                                  " {'$lte': ['$@', #o]}, " TTL_IS_LOCK "]}";

/* No date is so early that the difference overflows. */
static const char left_text[] =
    "{'$cond': [{'$eq': [{'$type': '$@'}, 'date']},"
    " {'$subtract': [{'$max': ['$@', {'$date': {'$numberLong': '0'}}]}, #o]}, null]}";

static void append_text(const mongo_store *store, bson_t *to, const char *field, const char *text,
                        const bson_t *x)
{
    char *whole = mongo_ttl_text(store, text);
    pipeline_append_text(to, field, whole, x);
    free(whole);
}

/* ---- Documents ---- */

/* "app@host:pid/session": what the articles' programs compare when they release. */
static void append_owner(const mongo_store *store, const hf_session *self, bson_t *doc)
{
    char owner[HF_TEXT_MAX * 2 + 64], session[ID_TEXT_SIZE];
    id_write(self->id, session);
    snprintf(owner, sizeof owner, "%s@%s:%lld/%s", self->app, self->host, (long long)self->pid,
             session);
    BSON_APPEND_UTF8(doc, store->uri.owner_field, owner);
}

/* All but its dates. */
static void append_new(mongo_store *store, const char *name, const hf_enter *enter, bson_t *x)
{
    bson_t doc;
    const hf_entry *entry = &enter->entry;
    const hf_session *self = enter->lease ? enter->lease : &store->self;
    BSON_APPEND_DOCUMENT_BEGIN(x, "new", &doc);
    BSON_APPEND_UTF8(&doc, "_id", name);
    append_owner(store, self, &doc);
    document_append_id(&doc, "ticket", entry->ticket);
    document_append_id(&doc, "session", enter->lease ? self->id : entry->session);
    BSON_APPEND_INT32(&doc, "ttl_ms", entry->ttl_ms);
    BSON_APPEND_UTF8(&doc, "app", self->app);
    BSON_APPEND_UTF8(&doc, "host", self->host);
    BSON_APPEND_INT64(&doc, "pid", self->pid);
    BSON_APPEND_UTF8(&doc, "why", entry->why);
    bson_append_document_end(x, &doc);
}

/* Another program's document has no ticket: one is made from its contents, to name it. */
static hf_id ticket_of(const char *name, const char *owner)
{
    uint64_t hash = id_hash(ID_HASH, name, strlen(name));
    hash = id_hash(hash, "\xff", 1);
    return id_of_hash(id_hash(hash, owner, strlen(owner)));
}

static char *who_of(const bson_t *doc, const char *owner)
{
    char who[HF_TEXT_MAX + 1];
    const char *app = mongo_text_at(doc, "app", "");
    int64_t pid = mongo_int_at(doc, "pid", 0);
    const char *host = mongo_text_at(doc, "host", "");
    if (app[0] && pid)
        snprintf(who, sizeof who, "%.100s@%.100s:%lld", app, host, (long long)pid);
    else if (app[0])
        snprintf(who, sizeof who, "%.100s@%.100s", app, host);
    else
        snprintf(who, sizeof who, "%.200s", owner[0] ? owner : "a program that does not say");
    return alloc_text(who);
}

static hf_entry entry_of(const mongo_store *store, const bson_t *doc, const char *name)
{
    const char *owner = mongo_text_at(doc, store->uri.owner_field, "");
    hf_entry entry = {.ttl_ms = mongo_ttl_of(doc), .permits = HF_LIMIT_RW};
    if (!entry.ttl_ms || !mongo_id_at(doc, "ticket", &entry.ticket))
        entry.ticket = ticket_of(name, owner);
    if (!mongo_id_at(doc, "session", &entry.session))
        entry.session = entry.ticket;
    mongo_date_at(doc, "since", &entry.since.ms);
    entry.granted_at = entry.since;
    snprintf(entry.why, sizeof entry.why, "%s", mongo_text_at(doc, "why", ""));
    return entry;
}

/* The articles' first program writes only an _id: its lock is held as long as the document stands.
 * With an owner besides, it is treated the same. */
static bool is_bare(const mongo_store *store, const bson_t *doc)
{
    bson_iter_t it;
    if (!bson_iter_init(&it, doc))
        return false;
    while (bson_iter_next(&it)) {
        const char *key = bson_iter_key(&it);
        if (strcmp(key, "_id") != 0 && strcmp(key, "hf_left") != 0 &&
            strcmp(key, store->uri.owner_field) != 0)
            return false;
    }
    return true;
}

static hf_code read_document(mongo_store *store, const bson_t *doc, hf_record *out, hf_error *err)
{
    const char *name = mongo_text_at(doc, "_id", "");
    int64_t time_ms;
    if (!name[0] || strlen(name) > HF_NAME_MAX)
        return mongo_plain_shape(store, name, "_id", "a string of 1 to 512 bytes", err);
    if (!is_bare(store, doc) && !mongo_date_at(doc, store->uri.time_field, &time_ms))
        return mongo_plain_shape(store, name, store->uri.time_field, "a date", err);
    if (!mongo_ttl_is_lock(store, doc))
        return mongo_plain_shape(store, name, store->uri.owner_field,
                                 "an owner's name, because there are other fields", err);
    hf_entry entry = entry_of(store, doc, name);
    record_init(out, name);
    out->exists = true;
    out->limit = HF_LIMIT_RW;
    out->who = who_of(doc, mongo_text_at(doc, store->uri.owner_field, ""));
    out->lease_left_ms = mongo_int_at(doc, "hf_left", 0);
    record_append(out, &entry, true);
    return HF_OK;
}

/* What the texts call x.foreign_ms. */
static void append_foreign_ms(bson_t *x, int64_t foreign_ms)
{
    if (foreign_ms == MONGO_FOR_EVER)
        BSON_APPEND_NULL(x, "foreign_ms");
    else
        BSON_APPEND_INT64(x, "foreign_ms", foreign_ms);
}

/* {field: {$let: {vars: {x: {foreign_ms}}, in: text}}} */
static void append_judged(const mongo_store *store, bson_t *to, const char *field, const char *text,
                          int64_t foreign_ms)
{
    bson_t let, part, vars, x;
    char *whole = mongo_ttl_text(store, text);
    mongo_builder wrapped = builder_begin("");
    builder_add_format(&wrapped, "{'in': %s}", whole);
    bson_t *in = pipeline_json(wrapped.text);
    bson_append_document_begin(to, field, -1, &let);
    BSON_APPEND_DOCUMENT_BEGIN(&let, "$let", &part);
    BSON_APPEND_DOCUMENT_BEGIN(&part, "vars", &vars);
    BSON_APPEND_DOCUMENT_BEGIN(&vars, "x", &x);
    append_foreign_ms(&x, foreign_ms);
    bson_append_document_end(&vars, &x);
    bson_append_document_end(&part, &vars);
    bson_concat(&part, in);
    bson_append_document_end(&let, &part);
    bson_append_document_end(to, &let);
    bson_destroy(in);
    builder_done(&wrapped);
    free(whole);
}

static void append_left(mongo_store *store, bson_t *stages, size_t n, const bson_t *filter)
{
    bson_t stage, fields;
    char key[16];
    (void)filter;
    BSON_APPEND_DOCUMENT_BEGIN(stages, mongo_key(n, key), &stage);
    BSON_APPEND_DOCUMENT_BEGIN(&stage, "$addFields", &fields);
    append_judged(store, &fields, "hf_left", left_text, mongo_ttl_foreign_ms(store));
    bson_append_document_end(&stage, &fields);
    bson_append_document_end(stages, &stage);
}

/* ---- Taking ---- */

static const char *const ticket_field[] = {"ticket", NULL};

/* {ticket: {$in: [ours, those that this step leaves]}}: if the document has this ticket already,
 * from a taking without an answer, its time begins anew, because perhaps no beat has renewed it
 * since. */
static void append_own(const hf_step *step, bson_t *query)
{
    bson_t field, in;
    char key[16];
    BSON_APPEND_DOCUMENT_BEGIN(query, "ticket", &field);
    BSON_APPEND_ARRAY_BEGIN(&field, "$in", &in);
    document_append_id(&in, "0", step->enter->entry.ticket);
    for (size_t i = 0; i < step->n_leaves; i++)
        document_append_id(&in, mongo_key(i + 1, key), step->leaves[i].ticket);
    bson_append_array_end(&field, &in);
    bson_append_document_end(query, &field);
    mongo_append_no_array(query, ticket_field);
}

/* Everything behind the query. */
static void append_taking(mongo_store *store, const char *name, const hf_step *step,
                          bson_t *command)
{
    bson_t x = BSON_INITIALIZER;
    append_new(store, name, step->enter, &x);
    append_text(store, command, "update", take_text, &x);
    BSON_APPEND_BOOL(command, "new", true);
    mongo_append_write_concern(store, command, false);
    bson_destroy(&x);
}

/* Makes the document if there is none. A foreign document is not matched, and the insert fails:
 * 11000. */
static void append_insert(mongo_store *store, const char *name, const hf_step *step,
                          bson_t *command)
{
    bson_t query;
    mongo_begin(command, "findAndModify", store->uri.collection);
    BSON_APPEND_DOCUMENT_BEGIN(command, "query", &query);
    BSON_APPEND_UTF8(&query, "_id", name);
    append_own(step, &query);
    bson_append_document_end(command, &query);
    BSON_APPEND_BOOL(command, "upsert", true);
    append_taking(store, name, step, command);
}

/* Of one of ours: then it is certain who was overtaken. */
static void append_seen(const hf_entry *seen, bson_t *query)
{
    if (!seen->ttl_ms)
        return;
    document_append_id(query, "ticket", seen->ticket);
    mongo_append_no_array(query, ticket_field);
}

static void append_takeover(mongo_store *store, const char *name, const hf_step *step,
                            const hf_entry *seen, int64_t foreign_ms, bson_t *command)
{
    bson_t query;
    mongo_begin(command, "findAndModify", store->uri.collection);
    BSON_APPEND_DOCUMENT_BEGIN(command, "query", &query);
    BSON_APPEND_UTF8(&query, "_id", name);
    append_seen(seen, &query);
    append_judged(store, &query, "$expr", passed_text, foreign_ms);
    bson_append_document_end(command, &query);
    append_taking(store, name, step, command);
}

/* *is_there: another holder's document is there. Otherwise out has this ticket as its holder, or
 * none. */
static hf_code send_taking(mongo_store *store, const mongo_call *call, const bson_t *command,
                           hf_record *out, hf_stamp *stamp, bool *is_there, hf_error *err)
{
    bson_t value;
    mongo_reply answer;
    hf_code code = mongo_run(store, call, command, &answer, err);
    *stamp = answer.stamp;
    *is_there = code && answer.server_code == MONGO_DUPLICATE;
    if (*is_there)
        code = HF_OK;
    else if (!code && mongo_view(&answer.doc, "value", &value))
        code = read_document(store, &value, out, err);
    bson_destroy(&answer.doc);
    return code;
}

static bool keep(void *ctx, const hf_record *record)
{
    record_done(ctx);
    record_copy(ctx, record);
    return false;
}

static bool has_passed(const hf_record *record)
{
    return record->holders && record->lease_left_ms < 0;
}

/* Reads again how long foreign documents last before it takes one over, because the index may have
 * changed. A takeover of one of ours leaves a foreign document alone, should one stand there by
 * now. */
static hf_code take_over(mongo_store *store, const mongo_call *call, const hf_step *step,
                         hf_record *out, hf_step_reply *reply, hf_error *err)
{
    bson_t command = BSON_INITIALIZER;
    hf_overtaken seen = {.entry = out->entries[0]};
    bool is_there, is_foreign = !seen.entry.ttl_ms;
    int64_t foreign_ms = MONGO_FOR_EVER;
    snprintf(seen.who, sizeof seen.who, "%s", out->who);
    hf_code code = is_foreign ? mongo_ttl_read_index_again(store, &foreign_ms, err) : HF_OK;
    if (code)
        return code;
    record_done(out);
    record_init(out, call->name);
    append_takeover(store, call->name, step, &seen.entry, foreign_ms, &command);
    code = send_taking(store, call, &command, out, &reply->stamp, &is_there, err);
    bson_destroy(&command);
    if (!code && out->holders && !is_foreign)
        reply->overtaken = seen;
    return code;
}

/* No holder in the end: the document was gone or renewed meanwhile. */
static hf_code take_once(mongo_store *store, const mongo_call *call, const hf_step *step,
                         hf_record *out, hf_step_reply *reply, hf_error *err)
{
    bson_t command = BSON_INITIALIZER;
    bool is_there;
    append_insert(store, call->name, step, &command);
    hf_code code = send_taking(store, call, &command, out, &reply->stamp, &is_there, err);
    bson_destroy(&command);
    if (!code && !is_there && !out->holders)
        code = mongo_odd_reply(store, call, err);
    if (code || !is_there)
        return code;
    code = mongo_look(&store->base, &call->name, 1, reply->stamp, false, keep, out, err);
    reply->is_out = code == HF_SHAPE;
    return code || !has_passed(out) ? code : take_over(store, call, step, out, reply, err);
}

/* Only our documents do. */
static bool says_its_ttl(const hf_record *record)
{
    return record->holders && record->entries[0].ttl_ms > 0;
}

static hf_code take(mongo_store *store, const mongo_call *call, const hf_step *step, hf_record *out,
                    hf_step_reply *reply, hf_error *err)
{
    hf_id ticket = step->enter->entry.ticket;
    hf_code code = mongo_ttl_check(store, false, err);
    if (!code && step->enter->lease)
        code = mongo_ttl_check_lease(store, step->enter->entry.ttl_ms, err);
    if (code)
        return code;
    for (size_t i = 0; i < step->n_leaves; i++)
        mongo_held_drop(store, step->leaves[i].ticket);
    if (!step->enter->lease)
        mongo_held_add(store, call->name, ticket);
    if (!step->enter->try_only)
        mongo_fair_wait(store, call->name);
    code = take_once(store, call, step, out, reply, err);
    for (int i = 0; !code && !out->holders && i < RACES; i++)
        code = take_once(store, call, step, out, reply, err);
    bool is_ours = !code && record_find(out, ticket);
    if (!is_ours && code != HF_UNKNOWN)
        mongo_held_drop(store, ticket);
    if (code)
        record_done(out);
    else
        mongo_fair_note(store, out, says_its_ttl(out) ? MONGO_FAIR_OURS : MONGO_FAIR_THEIRS);
    reply->confirmed = is_ours;
    reply->again_ms = store->uri.poll_ms;
    return code;
}

/* ---- Leaving ---- */

/* {$expr: {$eq: ["$$ROOT", doc]}} */
static void append_as_seen(const bson_t *doc, bson_t *query)
{
    bson_t expr, both, literal;
    BSON_APPEND_DOCUMENT_BEGIN(query, "$expr", &expr);
    BSON_APPEND_ARRAY_BEGIN(&expr, "$eq", &both);
    BSON_APPEND_UTF8(&both, "0", "$$ROOT");
    BSON_APPEND_DOCUMENT_BEGIN(&both, "1", &literal);
    BSON_APPEND_DOCUMENT(&literal, "$literal", doc);
    bson_append_document_end(&both, &literal);
    bson_append_array_end(&expr, &both);
    bson_append_document_end(query, &expr);
}

/* Takes out another program's document only if it is still as seen. False: it is ours, or gone. */
static bool append_foreign(mongo_store *store, const char *name, hf_id ticket, bson_t *query)
{
    static const mongo_call call = {.what = "looking at"};
    bson_t command = BSON_INITIALIZER, filter, doc;
    mongo_reply reply;
    hf_error err;
    mongo_begin(&command, "find", store->uri.collection);
    BSON_APPEND_DOCUMENT_BEGIN(&command, "filter", &filter);
    BSON_APPEND_UTF8(&filter, "_id", name);
    bson_append_document_end(&command, &filter);
    mongo_append_read_concern(store, &command, (hf_stamp){0});
    bool is_foreign = !mongo_run_behind(store, &call, &command, &reply, &err) &&
                      mongo_first(&reply.doc, &doc) && !mongo_ttl_of(&doc) &&
                      mongo_ttl_is_lock(store, &doc) &&
                      id_equal(entry_of(store, &doc, name).ticket, ticket);
    if (is_foreign)
        append_as_seen(&doc, query);
    bson_destroy(&reply.doc);
    bson_destroy(&command);
    return is_foreign;
}

static void append_leave(mongo_store *store, const char *name, const hf_leave *leave, size_t i,
                         bson_t *deletes)
{
    bson_t query = BSON_INITIALIZER;
    BSON_APPEND_UTF8(&query, "_id", name);
    bool breaks = leave->outcome == HF_OUTCOME_ABANDONED;
    if (!breaks || !append_foreign(store, name, leave->ticket, &query)) {
        document_append_id(&query, "ticket", leave->ticket);
        mongo_append_no_array(&query, ticket_field);
    }
    mongo_append_delete(deletes, i, &query);
    bson_destroy(&query);
}

static hf_code leave(mongo_store *store, const mongo_call *call, const hf_step *step,
                     hf_step_reply *reply, hf_error *err)
{
    bson_t command = BSON_INITIALIZER, deletes;
    mongo_reply answer;
    mongo_begin(&command, "delete", store->uri.collection);
    BSON_APPEND_ARRAY_BEGIN(&command, "deletes", &deletes);
    for (size_t i = 0; i < step->n_leaves; i++) {
        mongo_held_drop(store, step->leaves[i].ticket);
        append_leave(store, call->name, &step->leaves[i], i, &deletes);
    }
    bson_append_array_end(&command, &deletes);
    mongo_append_write_concern(store, &command, false);
    hf_code code = mongo_run(store, call, &command, &answer, err);
    bool all = mongo_int_at(&answer.doc, "n", 0) >= (int64_t)step->n_leaves;
    *reply = (hf_step_reply){.stamp = answer.stamp, .confirmed = !code && all};
    bson_destroy(&answer.doc);
    bson_destroy(&command);
    return code;
}

/* ---- Beats ---- */

static void append_held(const mongo_held *all, size_t n, bson_t *update)
{
    bson_t query, part, in;
    char key[16];
    BSON_APPEND_DOCUMENT_BEGIN(update, "q", &query);
    BSON_APPEND_DOCUMENT_BEGIN(&query, "_id", &part);
    BSON_APPEND_ARRAY_BEGIN(&part, "$in", &in);
    for (size_t i = 0; i < n; i++) {
        const char *at = mongo_key(i, key);
        BSON_APPEND_UTF8(&in, at, all[i].name);
    }
    bson_append_array_end(&part, &in);
    bson_append_document_end(&query, &part);
    BSON_APPEND_DOCUMENT_BEGIN(&query, "ticket", &part);
    BSON_APPEND_ARRAY_BEGIN(&part, "$in", &in);
    for (size_t i = 0; i < n; i++)
        document_append_id(&in, mongo_key(i, key), all[i].ticket);
    bson_append_array_end(&part, &in);
    bson_append_document_end(&query, &part);
    mongo_append_no_array(&query, ticket_field);
    bson_append_document_end(update, &query);
}

static void append_renewal(mongo_store *store, const mongo_held *all, size_t n, bson_t *command)
{
    bson_t updates, update, x = BSON_INITIALIZER;
    BSON_APPEND_INT64(&x, "ttl_ms", store->config.ttl_ms);
    mongo_begin(command, "update", store->uri.collection);
    BSON_APPEND_ARRAY_BEGIN(command, "updates", &updates);
    BSON_APPEND_DOCUMENT_BEGIN(&updates, "0", &update);
    append_held(all, n, &update);
    append_text(store, &update, "u", renew_text, &x);
    BSON_APPEND_BOOL(&update, "multi", true);
    bson_append_document_end(&updates, &update);
    bson_append_array_end(command, &updates);
    mongo_append_write_concern(store, command, true);
    bson_destroy(&x);
}

/* An index that has become shorter than the ttl, the store's or a lease's, can remove a held
 * document between two renewals, so belief ends at once. What was just renewed stands as long as
 * the index still allows. */
static hf_code end_unless_it_fits(mongo_store *store, bool is_beat, int64_t ttl_ms, hf_error *err)
{
    hf_error why;
    hf_code code = mongo_ttl_check(store, is_beat, &why);
    if (!code)
        code = mongo_ttl_check_lease(store, ttl_ms, &why);
    return code ? error_set(err, code == HF_INVALID ? HF_LOST : code, "%s", why.text) : HF_OK;
}

/* Renews everything that is held or asked for in one command. If fewer match, some may be lost. */
hf_code mongo_ttl_beat(hf_store *base, hf_id id, const hf_beat *says, hf_session_state *out,
                       hf_error *err)
{
    static const mongo_call call = {
        .what = "renewing what is held", .writes = true, .is_beat = true};
    mongo_store *store = (mongo_store *)base;
    bson_t command = BSON_INITIALIZER;
    mongo_reply reply;
    size_t n;
    (void)says;
    *out = (hf_session_state){.session = {.id = id}, .presence = HF_LIVE};
    mongo_held *all = mongo_held_copy(store, &n);
    hf_code code = HF_OK;
    if (n) {
        append_renewal(store, all, n, &command);
        code = mongo_run(store, &call, &command, &reply, err);
        out->misses = mongo_int_at(&reply.doc, "n", 0) < (int64_t)n;
        bson_destroy(&reply.doc);
        if (!code)
            code = end_unless_it_fits(store, true, store->config.ttl_ms, err);
    }
    bson_destroy(&command);
    mongo_held_free_copy(all, n);
    return code;
}

/* ---- ID leases ---- */

static void append_lease_renewal(mongo_store *store, const char *name, hf_id ticket,
                                 bson_t *command)
{
    bson_t query, none = BSON_INITIALIZER;
    BSON_APPEND_DOCUMENT_BEGIN(command, "query", &query);
    BSON_APPEND_UTF8(&query, "_id", name);
    document_append_id(&query, "ticket", ticket);
    mongo_append_no_array(&query, ticket_field);
    bson_append_document_end(command, &query);
    append_text(store, command, "update", renew_lease_text, &none);
    bson_destroy(&none);
}

static hf_code read_lease(mongo_store *store, const char *name, hf_id ticket, const bson_t *doc,
                          hf_record *out, hf_error *err)
{
    (void)ticket;
    if (!doc)
        return error_set(err, HF_LOST, "%.128s: its document is gone, or another holds it", name);
    hf_code code = read_document(store, doc, out, err);
    if (code)
        return code;
    code = end_unless_it_fits(store, false, out->entries[0].ttl_ms, err);
    if (code)
        record_done(out);
    return code;
}

/* ---- The protocol ---- */

hf_code mongo_ttl_begin(hf_store *base, const hf_session *self, hf_error *err)
{
    mongo_store *store = (mongo_store *)base;
    hf_code code = mongo_plain_begin(base, self, err);
    return code ? code : mongo_ttl_settle(store, err);
}

/* Before anything has been taken: what the index says of other programs' documents. */
hf_code mongo_ttl_look(hf_store *base, const char *const *names, size_t n, hf_stamp after,
                       bool linearizable, hf_record_fn each, void *ctx, hf_error *err)
{
    hf_code code = mongo_ttl_read_index((mongo_store *)base, err);
    return code ? code : mongo_look(base, names, n, after, linearizable, each, ctx, err);
}

hf_code mongo_ttl_list(hf_store *base, const hf_list_part *part, hf_record_fn each, void *ctx,
                       hf_error *err)
{
    hf_code code = mongo_ttl_read_index((mongo_store *)base, err);
    return code ? code : mongo_outcome_list(base, part, each, ctx, err);
}

static const char *changing(const mongo_store *store)
{
    (void)store;
    return "ticket";
}

static void open_protocol(mongo_store *store)
{
    mongo_ttl_index_open(store);
}

static void close_protocol(mongo_store *store, bool is_ours)
{
    mongo_ttl_index_close(store, is_ours);
}

/* The index that is made may be short on purpose. */
static int64_t default_ttl_ms(const mongo_uri *uri)
{
    return uri->shape == MONGO_SHAPE_EXPIRE_AT ? MONGO_TTL_MS
                                               : mongo_ttl_within(uri->expire_after_s * 1000);
}

const mongo_protocol mongo_ttl = {
    .can = HF_CAN_NOTIFY | HF_CAN_PROCESSES | HF_CAN_TELL_LOST | HF_CAN_LAST | HF_CAN_DATE,
    .wait_ms = 10000,
    .default_ttl_ms = default_ttl_ms,
    .open = open_protocol,
    .close = close_protocol,
    .take = take,
    .leave = leave,
    .append_lease_renewal = append_lease_renewal,
    .read_lease = read_lease,
    .read = read_document,
    .append_left = append_left,
    .changing = changing,
};
