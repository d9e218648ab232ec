/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_place.c: looks at the collections that locks are kept in, and takes trial locks there;
 * doctor.c calls it. A collection can be of a kind in which nothing can be locked, or have rules
 * and documents of other programs. */
#include "core/alloc.h"
#include "core/error.h"
#include "core/id.h"
#include "core/lease.h"
#include "core/record.h"
#include "store/document.h"
#include "store/mongo/doctor_internal.h"
#include "store/mongo/driver/fault.h"
#include "store/mongo/driver/reply.h"
#include "store/mongo/driver/text.h"
#include "store/mongo/shared/protocol.h"
#include "store/mongo/ttl/text.h"
#include "store/mongo/ttl/ttl.h"

#include <stdio.h>

/* In the documents of the user, whose collection may have any rules. */
static bool is_users(const doctor *to)
{
    return to->store->uri.protocol == MONGO_DOCUMENT;
}

/* ---- What kind of collection ---- */

static void tell_kind(doctor *to, const char *collection, const bson_t *found)
{
    bson_t options;
    const char *type = mongo_text_at(found, "type", "collection");
    if (strcmp(type, "collection") != 0)
        doctor_tell(to, "collection", true,
                    "%.120s is no collection of documents (%.40s), so nothing can be locked there: "
                    "name another one (hfCollection)",
                    collection, type);
    if (!mongo_view(found, "options", &options))
        return;
    if (mongo_true_at(&options, "capped"))
        doctor_tell(to, "collection", true,
                    "%.120s is capped, so documents vanish there though their locks are held: name "
                    "another one (hfCollection)",
                    collection);
    if (bson_has_field(&options, "collation") && is_users(to))
        doctor_advise(to, "collection",
                      "%.120s has a collation: names that differ can mean one document",
                      collection);
    else if (bson_has_field(&options, "collation"))
        doctor_tell(to, "collection", true,
                    "%.120s has a collation, by which names that differ can be one lock, such as "
                    "Job and job: use a collection without one (hfCollection)",
                    collection);
    if (bson_has_field(&options, "validator") && !is_users(to))
        doctor_advise(to, "collection",
                      "%.120s has a validator, which must let each document of Holdfast pass: have "
                      "an administrator take it off, or name another collection (hfCollection)",
                      collection);
}

static hf_code find_kind(doctor *to, const char *collection, hf_error *err)
{
    static const mongo_call call = {.what = "looking at the collection"};
    bson_t command = BSON_INITIALIZER, filter, found;
    mongo_reply reply;
    BSON_APPEND_INT32(&command, "listCollections", 1);
    BSON_APPEND_DOCUMENT_BEGIN(&command, "filter", &filter);
    BSON_APPEND_UTF8(&filter, "name", collection);
    bson_append_document_end(&command, &filter);
    hf_code code = mongo_run(to->store, &call, &command, &reply, err);
    if (!code && mongo_first(&reply.doc, &found))
        tell_kind(to, collection, &found);
    bson_destroy(&reply.doc);
    bson_destroy(&command);
    return code;
}

/* ---- Its indexes ---- */

static bool is_on_field(const bson_t *index, const char *field)
{
    bson_t key;
    return mongo_view(index, "key", &key) && bson_has_field(&key, field);
}

/* Of our own: that of ended sessions, and that of protocol ttl. */
static bool may_expire(const doctor *to, const bson_t *index)
{
    return is_on_field(index, "dead_at") || is_on_field(index, "ended_at") ||
           (to->store->protocol == &mongo_ttl && is_on_field(index, to->store->uri.time_field));
}

static void tell_index(doctor *to, const char *collection, const bson_t *index)
{
    const char *name = mongo_text_at(index, "name", "?");
    if (mongo_true_at(index, "unique"))
        doctor_tell(to, "collection", true,
                    "%.120s has the unique index %.80s of another program, in which locks can "
                    "clash: have an administrator drop it, or use a database of Holdfast's own",
                    collection, name);
    if (bson_has_field(index, "expireAfterSeconds") && !may_expire(to, index))
        doctor_tell(to, "collection", true,
                    "%.120s has the TTL index %.80s of another program, which can remove what is "
                    "held: have an administrator drop it, or use a database of Holdfast's own",
                    collection, name);
}

static hf_code find_indexes(doctor *to, const char *collection, hf_error *err)
{
    static const mongo_call call = {.what = "reading the indexes"};
    bson_t command = BSON_INITIALIZER, batch, index;
    bson_iter_t it;
    mongo_reply reply;
    mongo_begin(&command, "listIndexes", collection);
    hf_code code = mongo_run(to->store, &call, &command, &reply, err);
    if (!code && mongo_view(&reply.doc, "cursor.firstBatch", &batch) && bson_iter_init(&it, &batch))
        while (mongo_next(&it, &index))
            tell_index(to, collection, &index);
    bool is_none = code && reply.server_code; /* no such collection yet, or a view */
    bson_destroy(&reply.doc);
    bson_destroy(&command);
    return is_none && code != HF_DENIED ? HF_OK : code;
}

/* ---- Other programs' documents ---- */

/* {$expr: ...} of what is not Holdfast's; the caller frees it. NULL: any document may stand there.
 */
static char *foreign_text(const doctor *to, const char *collection)
{
    const mongo_store *store = to->store;
    if (store->protocol == &mongo_ttl)
        return mongo_ttl_text(store, "{'$not': [" TTL_IS_LOCK "]}");
    if (!store->queue)
        return NULL;
    return alloc_text(strcmp(collection, store->uri.collection) == 0
                          ? "{'$eq': [{'$type': '$holders'}, 'missing']}"
                          : "{'$eq': [{'$type': '$beat'}, 'missing']}"); /* a sweep has one, too */
}

static hf_code count_foreign(doctor *to, const char *collection, const char *text, int64_t *n,
                             hf_error *err)
{
    static const mongo_call call = {.what = "counting other programs' documents"};
    bson_t command = BSON_INITIALIZER, found;
    mongo_reply reply;
    char whole[2000];
    snprintf(whole, sizeof whole,
             "{'pipeline': [{'$match': {'$expr': %s}}, {'$count': 'n'}], 'cursor': {}}", text);
    bson_t *rest = pipeline_json(whole);
    mongo_begin(&command, "aggregate", collection);
    bson_concat(&command, rest);
    hf_code code = mongo_run(to->store, &call, &command, &reply, err);
    *n = !code && mongo_first(&reply.doc, &found) ? mongo_int_at(&found, "n", 0) : 0;
    bson_destroy(&reply.doc);
    bson_destroy(&command);
    bson_destroy(rest);
    return code;
}

static hf_code find_foreign(doctor *to, const char *collection, hf_error *err)
{
    int64_t n = 0;
    char *text = foreign_text(to, collection);
    hf_code code = text ? count_foreign(to, collection, text, &n, err) : HF_OK;
    free(text);
    if (n)
        doctor_advise(to, "collection",
                      "%.120s has %lld documents that are not Holdfast's; they are left alone, and "
                      "their names cannot be locked: use a collection of Holdfast's own",
                      collection, (long long)n);
    return code;
}

static void look_at(doctor *to, const char *collection)
{
    hf_error error;
    hf_code code = find_kind(to, collection, &error);
    if (!code && !is_users(to))
        code = find_indexes(to, collection, &error);
    if (!code)
        code = find_foreign(to, collection, &error);
    if (code)
        doctor_tell_unknown(to, "collection", &error);
}

void doctor_find_place(doctor *to, const char *sessions)
{
    if (!to->stopped)
        look_at(to, to->store->uri.collection);
    if (sessions && !to->stopped)
        look_at(to, sessions);
}

/* ---- Trial locks ---- */

typedef struct trial {
    doctor *to;
    char name[64];
    hf_session session;
    hf_id tickets[4];
    const char *what; /* is being done */
} trial;

static hf_id new_id(void)
{
    hf_id id;
    bson_oid_t oid;
    bson_oid_init(&oid, NULL);
    memcpy(id.bytes, oid.bytes, sizeof id.bytes);
    return id;
}

static void begin(trial *t, doctor *to)
{
    char id[ID_TEXT_SIZE];
    *t =
        (trial){.to = to, .session = {.id = new_id(), .ttl_ms = LEASE_TTL_MIN_MS, .app = "doctor"}};
    for (size_t i = 0; i < sizeof t->tickets / sizeof *t->tickets; i++)
        t->tickets[i] = new_id();
    id_write(t->session.id, id);
    snprintf(t->name, sizeof t->name,
             !is_users(to)          ? "holdfast doctor %s"
             : to->store->uri.array ? "[{\"$oid\":\"%s\"},1]"
                                    : "{\"$oid\":\"%s\"}",
             id);
}

static hf_code step(trial *t, const hf_step *step, hf_error *err)
{
    hf_step_reply reply;
    hf_record record;
    hf_store *store = &t->to->store->base;
    hf_code code = store->ops->step(store, t->name, step, &record, &reply, err);
    if (!code)
        record_done(&record);
    return code;
}

static hf_enter enter_of(const trial *t, size_t i, int32_t permits, int32_t limit)
{
    return (hf_enter){.entry = {.ticket = t->tickets[i],
                                .session = t->session.id,
                                .ttl_ms = t->session.ttl_ms,
                                .permits = permits,
                                .why = "a trial"},
                      .limit = limit,
                      .queue_max = HF_QUEUE_MAX,
                      .try_only = true};
}

static hf_code leave(trial *t, size_t i, hf_error *err)
{
    const hf_leave leave = {.ticket = t->tickets[i], .outcome = HF_OUTCOME_RELEASED};
    const hf_step leaves = {.leaves = &leave, .n_leaves = 1};
    hf_step_reply reply;
    hf_store *store = &t->to->store->base;
    t->what = "released";
    return store->ops->step(store, t->name, &leaves, NULL, &reply, err);
}

/* Taken alone, passed on to one that shares it, and from that to one of two places, and made a
 * lease. */
static hf_code try_queue(trial *t, hf_error *err)
{
    static const int32_t forms[][2] = {{HF_LIMIT_RW, HF_LIMIT_RW}, {1, HF_LIMIT_RW}, {1, 2}};
    hf_store *store = &t->to->store->base;
    t->what = "taken";
    hf_code code = store->ops->session_begin(store, &t->session, err);
    for (size_t i = 0; i < sizeof forms / sizeof *forms && !code; i++) {
        const hf_leave before = {.ticket = t->tickets[i ? i - 1 : 0],
                                 .outcome = HF_OUTCOME_RELEASED};
        const hf_enter enter = enter_of(t, i, forms[i][0], forms[i][1]);
        const hf_step takes = {.leaves = &before, .n_leaves = i > 0, .enter = &enter};
        t->what = i ? "passed on" : "taken";
        code = step(t, &takes, err);
    }
    const hf_pass pass = {.ticket = t->tickets[2],
                          .to = t->tickets[3],
                          .session = t->session.id,
                          .ttl_ms = t->session.ttl_ms};
    const hf_step passes = {.pass = &pass};
    if (code)
        return code;
    t->what = "made a lease";
    code = step(t, &passes, err);
    return code ? code : leave(t, 3, err);
}

static hf_code try_plain(trial *t, hf_error *err)
{
    hf_record record;
    hf_store *store = &t->to->store->base;
    hf_enter enter = enter_of(t, 0, HF_LIMIT_RW, HF_LIMIT_RW);
    enter.lease = &t->session;
    const hf_step takes = {.enter = &enter};
    t->what = "taken";
    hf_code code = step(t, &takes, err);
    if (is_users(t->to) && code == HF_NOT_FOUND)
        return HF_OK; /* the trial has no document: the server took the command */
    if (code)
        return code;
    t->what = "renewed";
    code = store->ops->lease_renew(store, t->name, t->session.id, t->tickets[0], &record, err);
    if (code)
        return code;
    record_done(&record);
    return leave(t, 0, err);
}

hf_code doctor_delete(mongo_store *store, const mongo_call *call, const char *collection,
                      const bson_t *query, hf_error *err)
{
    bson_t command = BSON_INITIALIZER, deletes;
    mongo_reply reply;
    mongo_begin(&command, "delete", collection);
    BSON_APPEND_ARRAY_BEGIN(&command, "deletes", &deletes);
    mongo_append_delete(&deletes, 0, query);
    bson_append_array_end(&command, &deletes);
    mongo_append_write_concern(store, &command, false);
    hf_code code = mongo_run(store, call, &command, &reply, err);
    bson_destroy(&reply.doc);
    bson_destroy(&command);
    return code;
}

/* What a trial has left. Its session goes last: a sweep finds what stands of one that is there. */
static void clear_away(const trial *t)
{
    static const mongo_call call = {.what = "removing a trial lock", .writes = true};
    mongo_store *store = t->to->store;
    bson_t name = BSON_INITIALIZER, session = BSON_INITIALIZER;
    BSON_APPEND_UTF8(&name, "_id", t->name);
    document_append_id(&session, "_id", t->session.id);
    hf_code code = doctor_delete(store, &call, store->uri.collection, &name, NULL);
    if (!code && store->queue)
        code = doctor_delete(store, &call, store->uri.names.sessions, &session, NULL);
    if (code && store->queue)
        store->base.ops->session_end(&store->base, t->session.id, true, NULL);
    bson_destroy(&session);
    bson_destroy(&name);
}

void doctor_find_trial(doctor *to)
{
    trial t;
    hf_error error;
    if (to->stopped || to->cannot_write)
        return;
    begin(&t, to);
    hf_code code = to->store->queue ? try_queue(&t, &error) : try_plain(&t, &error);
    if (!is_users(to) && code != HF_DENIED)
        clear_away(&t);
    if (code == HF_DENIED || error_is_no_answer(code))
        doctor_tell_unknown(to, "trial lock", &error);
    else if (code)
        doctor_tell(to, "trial lock", true, "it cannot be %s: %s", t.what, error.text);
    else
        doctor_tell(to, "trial lock", false, "%s",
                    is_users(to)       ? "the server takes the command that locks a document"
                    : to->store->queue ? "taken, passed on, shared, made a lease, and released"
                                       : "taken, renewed, and released");
}
