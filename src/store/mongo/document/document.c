/* SPDX-License-Identifier: Apache-2.0 */
/* document.c: protocol `document`: the lock is two fields inside the user's own document, lockId
 * and lockTs, as an article describes it. Programs that follow the article and ours exclude each
 * other. The client calls it through the store interface.
 *
 * No document is made, no other field is touched, no index is put on the user's collection. Our
 * lockId is the ticket. A ticket is made for one lock, so it stands in one document at most. */
#include "store/mongo/document/document.h"
#include "core/alloc.h"
#include "core/error.h"
#include "core/id.h"
#include "core/record.h"
#include "store/mongo/document/lock_id.h"
#include "store/mongo/driver/command.h"
#include "store/mongo/driver/reply.h"
#include "store/mongo/driver/text.h"
#include "store/mongo/shared/held.h"
#include "store/mongo/shared/id_text.h"
#include "store/mongo/shared/look.h"

#include <stdio.h>

#define LEAST_BEAT_MS 100
#define RACES 3 /* seen free after it was not: tried again at once */

/* ---- Parts of commands ---- */

static void append_id(bson_t *query, const char *name)
{
    bson_t equal;
    BSON_APPEND_DOCUMENT_BEGIN(query, "_id", &equal);
    mongo_id_append(&equal, "$eq", name);
    bson_append_document_end(query, &equal);
}

static void append_no_array(const mongo_store *store, bson_t *query)
{
    const char *const fields[] = {store->uri.lock_field, NULL};
    mongo_append_no_array(query, fields);
}

/* The document of this name (any, for ""), as long as it carries this ticket. */
static void append_own(const mongo_store *store, bson_t *query, const char *name, hf_id ticket)
{
    if (name[0])
        append_id(query, name);
    mongo_lock_id_append(&store->uri, query, store->uri.lock_field, ticket);
    append_no_array(store, query);
}

static void append_token(const mongo_store *store, bson_t *set)
{
    char *json = mongo_document_text(
        store, "{'$add': [{'$toLong': {'$ifNull': ['$%', 0]}}, {'$toLong': 1}]}");
    bson_t *next = pipeline_json(json);
    bson_append_document(set, store->uri.token_field, -1, next);
    bson_destroy(next);
    bson_free(json);
}

/* lockTs: "$$NOW", or when that becomes stale. */
static void append_time(const mongo_store *store, bson_t *set)
{
    bson_t sum, terms;
    if (store->uri.time_means == MONGO_TIME_REFRESHED) {
        bson_append_utf8(set, store->uri.time_field, -1, "$$NOW", -1);
        return;
    }
    bson_append_document_begin(set, store->uri.time_field, -1, &sum);
    BSON_APPEND_ARRAY_BEGIN(&sum, "$add", &terms);
    BSON_APPEND_UTF8(&terms, "0", "$$NOW");
    BSON_APPEND_INT64(&terms, "1", mongo_document_stale_ms(&store->uri));
    bson_append_array_end(&sum, &terms);
    bson_append_document_end(set, &sum);
}

/* [{$set: {lockId: ticket, lockTs: "$$NOW", token: token + 1}}]; without a ticket lockTs only. */
static void append_change(const mongo_store *store, bson_t *command, const char *field,
                          const hf_id *ticket)
{
    bson_t stages, stage, set;
    bson_append_array_begin(command, field, -1, &stages);
    BSON_APPEND_DOCUMENT_BEGIN(&stages, "0", &stage);
    BSON_APPEND_DOCUMENT_BEGIN(&stage, "$set", &set);
    if (ticket)
        mongo_lock_id_append(&store->uri, &set, store->uri.lock_field, *ticket);
    append_time(store, &set);
    if (ticket && store->uri.token_field)
        append_token(store, &set);
    bson_append_document_end(&stage, &set);
    bson_append_document_end(&stages, &stage);
    bson_append_array_end(command, &stages);
}

/* ---- Leaving ---- */

static void append_set_free(const mongo_store *store, bson_t *update)
{
    bson_t change, set;
    BSON_APPEND_DOCUMENT_BEGIN(update, "u", &change);
    BSON_APPEND_DOCUMENT_BEGIN(&change, "$set", &set);
    bson_append_null(&set, store->uri.lock_field, -1);
    bson_append_null(&set, store->uri.time_field, -1);
    bson_append_document_end(&change, &set);
    bson_append_document_end(update, &change);
}

static void append_leave(const mongo_store *store, const char *name, const hf_leave *leave,
                         bson_t *update)
{
    bson_t query;
    BSON_APPEND_DOCUMENT_BEGIN(update, "q", &query);
    append_own(store, &query, name, leave->ticket);
    bson_append_document_end(update, &query);
    append_set_free(store, update);
}

static hf_code leave(mongo_store *store, const mongo_call *call, const hf_step *step,
                     hf_step_reply *reply, hf_error *err)
{
    bson_t command = BSON_INITIALIZER, updates, update;
    mongo_reply answer;
    char key[16];
    mongo_begin(&command, "update", store->uri.collection);
    BSON_APPEND_ARRAY_BEGIN(&command, "updates", &updates);
    for (size_t i = 0; i < step->n_leaves; i++) {
        mongo_held_drop(store, step->leaves[i].ticket);
        BSON_APPEND_DOCUMENT_BEGIN(&updates, mongo_key(i, key), &update);
        append_leave(store, call->name, &step->leaves[i], &update);
        bson_append_document_end(&updates, &update);
    }
    bson_append_array_end(&command, &updates);
    mongo_append_write_concern(store, &command, false);
    hf_code code = mongo_run(store, call, &command, &answer, err);
    bool all = mongo_int_at(&answer.doc, "n", 0) >= (int64_t)step->n_leaves;
    *reply = (hf_step_reply){.stamp = answer.stamp, .confirmed = !code && all};
    bson_destroy(&answer.doc);
    bson_destroy(&command);
    return code;
}

/* Gives back a document that cannot be named or handed over. If this fails, it becomes stale. */
static void give_back(mongo_store *store, const bson_t *doc, hf_id ticket)
{
    static const mongo_call call = {.what = "giving back a document", .writes = true};
    bson_t command = BSON_INITIALIZER, updates, update, query;
    bson_iter_t id;
    mongo_reply reply;
    mongo_begin(&command, "update", store->uri.collection);
    BSON_APPEND_ARRAY_BEGIN(&command, "updates", &updates);
    BSON_APPEND_DOCUMENT_BEGIN(&updates, "0", &update);
    BSON_APPEND_DOCUMENT_BEGIN(&update, "q", &query);
    if (bson_iter_init_find(&id, doc, "_id"))
        bson_append_iter(&query, "_id", -1, &id);
    mongo_lock_id_append(&store->uri, &query, store->uri.lock_field, ticket);
    bson_append_document_end(&update, &query);
    append_set_free(store, &update);
    bson_append_document_end(&updates, &update);
    bson_append_array_end(&command, &updates);
    mongo_append_write_concern(store, &command, false);
    mongo_run(store, &call, &command, &reply, NULL);
    bson_destroy(&reply.doc);
    bson_destroy(&command);
}

/* ---- Taking ---- */

/* {lockId: {$in: [ours, those that this step leaves]}} */
static void append_tickets(const mongo_store *store, const hf_step *step, bson_t *to)
{
    bson_t field, in;
    char key[16];
    bson_append_document_begin(to, store->uri.lock_field, -1, &field);
    BSON_APPEND_ARRAY_BEGIN(&field, "$in", &in);
    mongo_lock_id_append(&store->uri, &in, "0", step->enter->entry.ticket);
    for (size_t i = 0; i < step->n_leaves; i++)
        mongo_lock_id_append(&store->uri, &in, mongo_key(i + 1, key), step->leaves[i].ticket);
    bson_append_array_end(&field, &in);
    bson_append_document_end(to, &field);
    append_no_array(store, to);
}

static void append_query(const mongo_store *store, const char *name, const hf_step *step,
                         bson_t *command)
{
    bson_t query, all, any, each;
    BSON_APPEND_DOCUMENT_BEGIN(command, "query", &query);
    append_id(&query, name);
    BSON_APPEND_ARRAY_BEGIN(&query, "$and", &all);
    mongo_document_append_sound(store, &all, "0");
    BSON_APPEND_DOCUMENT_BEGIN(&all, "1", &each);
    BSON_APPEND_ARRAY_BEGIN(&each, "$or", &any);
    mongo_document_append_free(store, &any, "0");
    bson_t ours = BSON_INITIALIZER;
    append_tickets(store, step, &ours);
    BSON_APPEND_DOCUMENT(&any, "1", &ours);
    bson_destroy(&ours);
    bson_append_array_end(&each, &any);
    bson_append_document_end(&all, &each);
    bson_append_array_end(&query, &all);
    bson_append_document_end(command, &query);
}

void mongo_document_append_taking(const mongo_store *store, const hf_enter *enter, bson_t *command)
{
    append_change(store, command, "update", &enter->entry.ticket);
    BSON_APPEND_BOOL(command, "new", true);
    mongo_append_write_concern(store, command, false);
}

hf_code mongo_document_read_answer(mongo_store *store, const bson_t *answer, const hf_enter *enter,
                                   hf_record *out, bool *is_taken, hf_error *err)
{
    bson_t value;
    *is_taken = mongo_view(answer, "value", &value);
    if (!*is_taken)
        return HF_OK;
    hf_code code = mongo_document_read_taken(store, &value, &enter->entry, out, err);
    if (code)
        give_back(store, &value, enter->entry.ticket);
    return code;
}

static hf_code take_once(mongo_store *store, const mongo_call *call, const hf_step *step,
                         hf_record *out, hf_step_reply *reply, bool *is_taken, hf_error *err)
{
    bson_t command = BSON_INITIALIZER;
    mongo_reply answer;
    *is_taken = false;
    mongo_begin(&command, "findAndModify", store->uri.collection);
    append_query(store, call->name, step, &command);
    mongo_document_append_taking(store, step->enter, &command);
    hf_code code = mongo_run(store, call, &command, &answer, err);
    if (!code)
        code = mongo_document_read_answer(store, &answer.doc, step->enter, out, is_taken, err);
    reply->stamp = answer.stamp;
    bson_destroy(&answer.doc);
    bson_destroy(&command);
    return code;
}

/* Why the document was not taken: held, not there, or foreign. */
static hf_code see(mongo_store *store, const char *name, hf_stamp after, hf_record *out,
                   hf_error *err)
{
    hf_code code = mongo_look_at(store, name, after, out, err);
    if (code || out->exists)
        return code;
    record_done(out);
    return error_set(err, HF_NOT_FOUND,
                     "there is no document with _id %.200s in %.120s: with protocol document only "
                     "what is there can be locked",
                     name, store->uri.collection);
}

static hf_code take(mongo_store *store, const mongo_call *call, const hf_step *step, hf_record *out,
                    hf_step_reply *reply, bool *is_taken, hf_error *err)
{
    hf_code code = take_once(store, call, step, out, reply, is_taken, err);
    for (int i = 0; !code && !*is_taken; i++) {
        hf_step_reply again;
        code = see(store, call->name, reply->stamp, out, err);
        if (code || out->holders || i == RACES)
            return code;
        record_done(out);
        code = take_once(store, call, step, out, &again, is_taken, err);
    }
    return code;
}

void mongo_document_expect(mongo_store *store, const char *name, const hf_enter *enter)
{
    if (enter->lease)
        return;
    mongo_held_add(store, name, enter->entry.ticket);
    if (enter->by_hand)
        mongo_held_by_hand(store, enter->entry.ticket);
}

void mongo_document_settle(mongo_store *store, const hf_enter *enter, hf_code code, bool is_taken)
{
    if (code == HF_UNKNOWN)
        mongo_held_doubt(store, enter->entry.ticket);
    else if (!is_taken)
        mongo_held_drop(store, enter->entry.ticket);
}

/* An ID lease lasts until its document is stale. */
static hf_code check_lease(const mongo_store *store, const hf_enter *enter, hf_error *err)
{
    int64_t stale_ms = mongo_document_stale_ms(&store->uri);
    if (!enter->lease || enter->entry.ttl_ms <= stale_ms)
        return HF_OK;
    return error_set(err, HF_INVALID,
                     "a lease of %lld ms is longer than the %lld ms after which a document is "
                     "stale (hfRefreshMS times hfStaleMultiplier): give a shorter ttl",
                     (long long)enter->entry.ttl_ms, (long long)stale_ms);
}

static hf_code enter(mongo_store *store, const mongo_call *call, const hf_step *step,
                     hf_record *out, hf_step_reply *reply, hf_error *err)
{
    bool is_taken;
    hf_code code = check_lease(store, step->enter, err);
    if (code)
        return code;
    for (size_t i = 0; i < step->n_leaves; i++)
        mongo_held_drop(store, step->leaves[i].ticket);
    mongo_document_expect(store, call->name, step->enter);
    code = take(store, call, step, out, reply, &is_taken, err);
    mongo_document_settle(store, step->enter, code,
                          !code && record_find(out, step->enter->entry.ticket));
    reply->confirmed = is_taken;
    reply->again_ms = store->uri.poll_ms;
    return code;
}

/* ---- Renewing ---- */

/* {_id: {$in: names}, lockId: {$in: tickets}} */
static void append_held(const mongo_store *store, const mongo_held *all, size_t n, bson_t *update)
{
    bson_t query, part, in;
    char key[16];
    BSON_APPEND_DOCUMENT_BEGIN(update, "q", &query);
    BSON_APPEND_DOCUMENT_BEGIN(&query, "_id", &part);
    BSON_APPEND_ARRAY_BEGIN(&part, "$in", &in);
    for (size_t i = 0; i < n; i++)
        mongo_id_append(&in, mongo_key(i, key), all[i].name);
    bson_append_array_end(&part, &in);
    bson_append_document_end(&query, &part);
    bson_append_document_begin(&query, store->uri.lock_field, -1, &part);
    BSON_APPEND_ARRAY_BEGIN(&part, "$in", &in);
    for (size_t i = 0; i < n; i++)
        mongo_lock_id_append(&store->uri, &in, mongo_key(i, key), all[i].ticket);
    bson_append_array_end(&part, &in);
    bson_append_document_end(&query, &part);
    append_no_array(store, &query);
    bson_append_document_end(update, &query);
}

/* How many documents were renewed. */
static hf_code renew(mongo_store *store, const mongo_call *call, const mongo_held *all, size_t n,
                     int64_t *n_matched, hf_error *err)
{
    bson_t command = BSON_INITIALIZER, updates, update;
    mongo_reply reply;
    mongo_begin(&command, "update", store->uri.collection);
    BSON_APPEND_ARRAY_BEGIN(&command, "updates", &updates);
    BSON_APPEND_DOCUMENT_BEGIN(&updates, "0", &update);
    append_held(store, all, n, &update);
    append_change(store, &update, "u", NULL);
    BSON_APPEND_BOOL(&update, "multi", true);
    bson_append_document_end(&updates, &update);
    bson_append_array_end(&command, &updates);
    mongo_append_write_concern(store, &command, call->is_beat);
    hf_code code = mongo_run(store, call, &command, &reply, err);
    *n_matched = mongo_int_at(&reply.doc, "n", 0);
    bson_destroy(&reply.doc);
    bson_destroy(&command);
    return code;
}

/* Renews everything that is held in one command. If fewer match than are held, some are lost. */
hf_code mongo_document_beat(hf_store *base, hf_id id, const hf_beat *says, hf_session_state *out,
                            hf_error *err)
{
    static const mongo_call call = {
        .what = "refreshing what is held", .writes = true, .is_beat = true};
    mongo_store *store = (mongo_store *)base;
    int64_t matched = 0;
    size_t n;
    (void)says;
    *out = (hf_session_state){.session = {.id = id}, .presence = HF_LIVE};
    mongo_held *all = mongo_held_copy(store, &n);
    hf_code code = n ? renew(store, &call, all, n, &matched, err) : HF_OK;
    out->misses = matched < (int64_t)n;
    mongo_held_free_copy(all, n);
    return code;
}

static hf_code lost(const mongo_store *store, const char *name, hf_error *err)
{
    return error_set(err, HF_LOST,
                     "%.128s is not held any more: its %.80s was overwritten, or the document is "
                     "gone",
                     name, store->uri.lock_field);
}

static void append_lease_renewal(mongo_store *store, const char *name, hf_id ticket,
                                 bson_t *command)
{
    bson_t query;
    BSON_APPEND_DOCUMENT_BEGIN(command, "query", &query);
    append_own(store, &query, name, ticket);
    bson_append_document_end(command, &query);
    append_change(store, command, "update", NULL);
}

static hf_code read_lease(mongo_store *store, const char *name, hf_id ticket, const bson_t *doc,
                          hf_record *out, hf_error *err)
{
    const hf_entry entry = {.ticket = ticket};
    return doc ? mongo_document_read_taken(store, doc, &entry, out, err) : lost(store, name, err);
}

hf_code mongo_document_refresh(hf_store *base, const char *name, hf_id ticket, hf_error *err)
{
    mongo_store *store = (mongo_store *)base;
    mongo_call call = {.what = "refreshing", .name = name, .writes = true};
    char *copy = alloc_text(name);
    mongo_held one = {.name = copy, .ticket = ticket};
    int64_t matched = 0;
    hf_code code = renew(store, &call, &one, 1, &matched, err);
    free(copy);
    return code || matched ? code : lost(store, name, err);
}

/* ---- The protocol ---- */

hf_code mongo_document_canonical(hf_store *base, const char *given, char name[HF_NAME_MAX + 1],
                                 hf_error *err)
{
    (void)base;
    if (mongo_id_canonical(given, name))
        return HF_OK;
    return error_set(err, HF_INVALID, "the _id %.80s...: at most %d bytes are taken", given,
                     HF_NAME_MAX);
}

/* Everything that is held, by any program. */
static void append_listed(const mongo_store *store, bson_t *filter)
{
    bson_t field;
    bson_append_document_begin(filter, store->uri.lock_field, -1, &field);
    bson_append_null(&field, "$ne", -1);
    bson_append_document_end(filter, &field);
}

/* If a claim got no answer, its document's name is not known. Its ticket was sent only in that one
 * command, so it shows which document the claim took, if any. */
static void append_doubtful(mongo_store *store, bson_t *filter)
{
    bson_t field, in;
    char key[16];
    size_t n;
    mongo_held *all = mongo_held_copy_doubtful(store, &n);
    bson_append_document_begin(filter, store->uri.lock_field, -1, &field);
    BSON_APPEND_ARRAY_BEGIN(&field, "$in", &in);
    for (size_t i = 0; i < n; i++)
        mongo_lock_id_append(&store->uri, &in, mongo_key(i, key), all[i].ticket);
    bson_append_array_end(&field, &in);
    bson_append_document_end(filter, &field);
    mongo_held_free_copy(all, n);
}

static bool read_ticket(const mongo_store *store, const bson_iter_t *value, hf_id *out)
{
    mongo_lock_id id;
    if (!mongo_lock_id_read(&store->uri, value, &id))
        return false;
    *out = id.ticket;
    return true;
}

static const char *changing(const mongo_store *store)
{
    return store->uri.lock_field;
}

/* We refresh as often as the URI says, even if the lease does not need it. */
static void open_protocol(mongo_store *store)
{
    mongo_document_refresh_open(store);
    store->base.beat_ms =
        store->uri.refresh_ms > LEAST_BEAT_MS ? store->uri.refresh_ms : LEAST_BEAT_MS;
}

const mongo_protocol mongo_document = {
    .can = HF_CAN_NOTIFY | HF_CAN_PROCESSES | HF_CAN_TELL_LOST | HF_CAN_LAST,
    .check = mongo_document_check,
    .open = open_protocol,
    .close = mongo_document_refresh_close,
    .take = enter,
    .leave = leave,
    .append_lease_renewal = append_lease_renewal,
    .read_lease = read_lease,
    .read = mongo_document_read,
    .append_key = mongo_id_append,
    .read_key = mongo_id_read,
    .append_left = mongo_document_append_left,
    .append_listed = append_listed,
    .changing = changing,
    .read_ticket = read_ticket,
    .append_doubtful = append_doubtful,
};
