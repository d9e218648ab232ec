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
#include "store/mongo/document/element.h"
#include "store/mongo/document/lock_id.h"
#include "store/mongo/document/parts.h"
#include "store/mongo/document/seen.h"
#include "store/mongo/driver/command.h"
#include "store/mongo/driver/reply.h"
#include "store/mongo/driver/text.h"
#include "store/mongo/shared/fair.h"
#include "store/mongo/shared/held.h"
#include "store/mongo/shared/id_text.h"
#include "store/mongo/shared/look.h"

#include <stdio.h>

#define LEAST_BEAT_MS 100
#define RACES 3 /* seen free after it was not: tried again at once */

/* ---- Leaving ---- */

/* Whose lock is broken may be another program. */
static void append_leave(mongo_store *store, const char *name, const hf_leave *leave,
                         bson_t *update)
{
    bool breaks = leave->outcome == HF_OUTCOME_ABANDONED;
    bson_t query;
    BSON_APPEND_DOCUMENT_BEGIN(update, "q", &query);
    if (!breaks || !mongo_document_append_seen(store, &query, name, leave->ticket))
        mongo_document_append_own(store, &query, name, leave->ticket);
    bson_append_document_end(update, &query);
    mongo_document_append_set_free(store, update);
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
    mongo_document_append_own(store, &query, "", ticket);
    bson_append_document_end(&update, &query);
    mongo_document_append_set_free(store, &update);
    bson_append_document_end(&updates, &update);
    bson_append_array_end(&command, &updates);
    mongo_append_write_concern(store, &command, false);
    mongo_run(store, &call, &command, &reply, NULL);
    bson_destroy(&reply.doc);
    bson_destroy(&command);
}

/* ---- Taking ---- */

void mongo_document_append_taking(const mongo_store *store, const char *name, const hf_enter *enter,
                                  bson_t *command)
{
    mongo_document_append_taken(store, command, "update", name, enter->entry.ticket);
    BSON_APPEND_BOOL(command, "new", true);
    mongo_append_write_concern(store, command, false);
}

static hf_code read_taken(mongo_store *store, const bson_t *doc, const hf_entry *entry,
                          hf_record *out, hf_error *err)
{
    return store->uri.array ? mongo_element_read_taken(store, doc, entry, out, err)
                            : mongo_document_read_taken(store, doc, entry, out, err);
}

hf_code mongo_document_read_answer(mongo_store *store, const bson_t *answer, const hf_enter *enter,
                                   hf_record *out, bool *is_taken, hf_error *err)
{
    bson_t value;
    *is_taken = mongo_view(answer, "value", &value);
    if (!*is_taken)
        return HF_OK;
    hf_code code = read_taken(store, &value, &enter->entry, out, err);
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
    mongo_document_append_query(store, call->name, step, &command);
    mongo_document_append_taking(store, call->name, step->enter, &command);
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
    hf_code code = store->uri.array ? mongo_element_see(store, name, after, out, err)
                                    : mongo_look_at(store, name, after, out, err);
    if (code || out->exists)
        return code;
    record_done(out);
    if (store->uri.array)
        return error_set(err, HF_NOT_FOUND,
                         "there is no element %.200s in %.120s: a name is the document's _id and "
                         "the element's %.80s",
                         name, store->uri.collection, store->uri.element);
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
    if (!step->enter->try_only)
        mongo_fair_wait(store, call->name);
    code = take(store, call, step, out, reply, &is_taken, err);
    mongo_document_settle(store, step->enter, code,
                          !code && record_find(out, step->enter->entry.ticket));
    if (!code)
        mongo_fair_note(store, out, is_taken ? MONGO_FAIR_OURS : mongo_fair_guess(store, out));
    reply->confirmed = is_taken;
    reply->is_out = code == HF_SHAPE && !is_taken;
    reply->again_ms = store->uri.poll_ms;
    return code;
}

/* ---- Renewing ---- */

/* How many were renewed. */
static hf_code renew(mongo_store *store, const mongo_call *call, const mongo_held *all, size_t n,
                     int64_t *n_matched, hf_error *err)
{
    bson_t command = BSON_INITIALIZER;
    mongo_reply reply;
    mongo_begin(&command, "update", store->uri.collection);
    mongo_document_append_renewals(store, &command, all, n);
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
    mongo_document_append_own(store, &query, name, ticket);
    bson_append_document_end(command, &query);
    mongo_document_append_renewed(store, command, "update", ticket);
}

static hf_code read_lease(mongo_store *store, const char *name, hf_id ticket, const bson_t *doc,
                          hf_record *out, hf_error *err)
{
    const hf_entry entry = {.ticket = ticket};
    return doc ? read_taken(store, doc, &entry, out, err) : lost(store, name, err);
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
    const mongo_uri *uri = &((mongo_store *)base)->uri;
    if (uri->array)
        return mongo_element_canonical(uri, given, name, err);
    if (mongo_id_canonical(given, name))
        return HF_OK;
    return error_set(err, HF_INVALID, "the _id %.80s...: at most %d bytes are taken", given,
                     HF_NAME_MAX);
}

/* Everything that is held, by any program. */
static void append_listed(const mongo_store *store, bson_t *filter)
{
    bson_t field;
    if (store->uri.array) {
        mongo_element_append_listed(store, filter);
        return;
    }
    bson_append_document_begin(filter, store->uri.lock_field, -1, &field);
    bson_append_null(&field, "$ne", -1);
    bson_append_document_end(filter, &field);
}

/* If a claim got no answer, its document's name is not known. Its ticket was sent only in that one
 * command, so it shows which document the claim took, if any. */
static void append_doubtful(mongo_store *store, bson_t *filter)
{
    bson_t field, in;
    char key[16], path[MONGO_DOCUMENT_PATH];
    size_t n;
    mongo_held *all = mongo_held_copy_doubtful(store, &n);
    bson_append_document_begin(filter, mongo_document_path(store, ".", store->uri.lock_field, path),
                               -1, &field);
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

static int64_t default_ttl_ms(const mongo_uri *uri)
{
    return mongo_ttl_within(mongo_document_stale_ms(uri));
}

#define COMMON                                                                                     \
    .default_ttl_ms = default_ttl_ms, .check = mongo_document_check, .open = open_protocol,        \
    .close = mongo_document_refresh_close, .take = enter, .leave = leave,                          \
    .append_lease_renewal = append_lease_renewal, .read_lease = read_lease,                        \
    .read = mongo_document_read, .append_listed = append_listed,                                   \
    .append_doubtful = append_doubtful

const mongo_protocol mongo_document = {
    .can = HF_CAN_NOTIFY | HF_CAN_PROCESSES | HF_CAN_TELL_LOST | HF_CAN_LAST,
    COMMON,
    .append_left = mongo_document_append_left,
    .append_key = mongo_id_append,
    .read_key = mongo_id_read,
    .changing = changing,
    .read_ticket = read_ticket,
};

/* A change event tells the place of an element in the array, and not which one it is: so there are
 * no notices. */
const mongo_protocol mongo_element = {
    .can = HF_CAN_PROCESSES | HF_CAN_LAST,
    COMMON,
    .append_left = mongo_element_append_left,
    .append_name = mongo_element_append_name,
};
