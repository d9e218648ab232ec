/* SPDX-License-Identifier: Apache-2.0 */
/* watch.c: listens to a change stream for grants to this client's session, filtered on the server;
 * the client's listener calls it through the store interface.
 *
 * The stream is driven by raw aggregate and getMore commands: the driver's own change stream
 * resumes by itself inside `next`, so a wake() could get lost. wake() kills the cursor. The getMore
 * then ends at once, even if it was not sent yet, and the stream goes on from its resume token. */
#include "store/mongo/shared/watch.h"
#include "core/alloc.h"
#include "core/error.h"
#include "core/id.h"
#include "core/notify.h"
#include "store/kernel_time.h"
#include "store/mongo/driver/builder.h"
#include "store/mongo/driver/command.h"
#include "store/mongo/driver/fault.h"
#include "store/mongo/driver/log.h"
#include "store/mongo/driver/path.h"
#include "store/mongo/driver/reply.h"
#include "store/mongo/driver/server.h"
#include "store/mongo/driver/text.h"
#include "store/mongo/shared/protocol.h"
#include "sync/mutex_scope.h"

#include <stdio.h>

#define LOOKS_MS 500 /* between two looks where a stream would cost more */
#define LAG_S 2 /* a stream that is so far behind is opened anew: it reads all that it missed */

static const char replica_set_only[] =
    "this MongoDB server is a standalone, which has no change streams: waiting is by polling; "
    "a replica set (one member is enough) has them";

/* ---- The stream ---- */

static void kill_cursor(mongo_store *store, int64_t cursor)
{
    static const mongo_call call = {.what = "waking the listener"};
    mongo_kill_cursor(store, &call, store->uri.collection, cursor);
}

static void disconnect(mongo_store *store, bool has_failed)
{
    mongo_watch *watch = store->watch;
    mongo_reading_disconnect(store, &watch->reading, has_failed);
    bson_destroy(watch->resume);
    watch->resume = NULL;
}

void mongo_watch_init(mongo_store *store)
{
    store->watch = alloc_zeroed(sizeof *store->watch);
    pthread_cond_init(&store->watch->is_told, NULL);
}

void mongo_watch_done(mongo_store *store)
{
    disconnect(store, false);
    pthread_cond_destroy(&store->watch->is_told);
}

/* The filter also lets through the events that end a stream: otherwise it would end unnoticed. */
static const char filter_text[] =
    "{'1': {'$match': {'$or': ["
    "{'operationType': 'update', 'updateDescription.updatedFields.notify': {'$regex': '@'}},"
    " {'operationType': 'replace', 'fullDocument.notify': {'$regex': '@'}},"
    " {'operationType': {'$in': ['drop', 'rename', 'dropDatabase', 'invalidate']}}]}},"
    " '2': {'$project': {'operationType': 1, 'clusterTime': 1, 'documentKey._id': 1,"
    " 'fullDocument.notify': 1, 'updateDescription.updatedFields.notify': 1}}}";

/* For protocols without a queue: the holder has changed. '@' is the field that shows it, '#' the
 * field of the new holder's ticket. */
static const char named_filter_text[] =
    "{'1': {'$match': {'$or': ["
    "{'operationType': 'update', 'updateDescription.updatedFields.@': {'$exists': true}},"
    " {'operationType': 'update', 'updateDescription.updatedFields.#': {'$exists': true}},"
    " {'operationType': 'update', 'updateDescription.removedFields': '@'},"
    " {'operationType': {'$in': ['replace', 'delete', 'drop', 'rename', 'dropDatabase',"
    " 'invalidate']}}]}},"
    " '2': {'$project': {'operationType': 1, 'clusterTime': 1, 'documentKey._id': 1,"
    " 'fullDocument.#': 1, 'updateDescription.updatedFields.#': 1}}}";

/* The same for claims: all that is new, or was changed but for the time of its lock, '@', which
 * each holder refreshes. '#' is the lock's field. */
static const char claim_filter_text[] =
    "{'1': {'$match': {'$or': ["
    "{'operationType': 'update', '$expr': {'$ne': [['@'], {'$map': {'input': {'$objectToArray':"
    " {'$ifNull': ['$updateDescription.updatedFields', {}]}}, 'in': '$$this.k'}}]}},"
    " {'operationType': {'$in': ['insert', 'replace', 'delete', 'drop', 'rename', 'dropDatabase',"
    " 'invalidate']}}]}},"
    " '2': {'$project': {'operationType': 1, 'clusterTime': 1, 'documentKey._id': 1,"
    " 'fullDocument.#': 1, 'updateDescription.updatedFields': 1}}}";

static const char *ticket_field_of(const mongo_store *store)
{
    const mongo_protocol *protocol = store->protocol;
    return protocol->ticket_field ? protocol->ticket_field : protocol->changing(store);
}

static bson_t *filled_in(const char *from, const char *at, const char *hash)
{
    mongo_builder text = builder_begin("");
    for (; *from; from++)
        if (*from == '@' || *from == '#')
            builder_add(&text, *from == '@' ? at : hash);
        else
            builder_add_char(&text, *from);
    bson_t *stages = pipeline_json(text.text);
    builder_done(&text);
    return stages;
}

static bson_t *named_filter_of(const mongo_store *store)
{
    const char *field = store->protocol->changing(store);
    if (store->watch->has_all)
        return filled_in(claim_filter_text, store->uri.time_field, field);
    return strchr(field, '.') ? mongo_path_filter(field)
                              : filled_in(named_filter_text, field, ticket_field_of(store));
}

static bson_t *filter_of(hf_id session)
{
    char text[sizeof filter_text + 2 * ID_TEXT_SIZE], hex[ID_TEXT_SIZE];
    char *to = text;
    id_write(session, hex);
    for (const char *from = filter_text; *from; from++)
        to += *from == '@' ? sprintf(to, "%s", hex) : sprintf(to, "%c", *from);
    return pipeline_json(text);
}

/* The stream begins where it was, at a stamp, or now. */
static void append_start(bson_t *stage, const mongo_watch *watch, hf_stamp from)
{
    bson_t start;
    BSON_APPEND_DOCUMENT_BEGIN(stage, "$changeStream", &start);
    if (watch->resume)
        BSON_APPEND_DOCUMENT(&start, "resumeAfter", watch->resume);
    else if (from.value && !watch->is_stale)
        mongo_append_stamp(&start, "startAtOperationTime", from);
    bson_append_document_end(stage, &start);
}

static void append_aggregate(mongo_store *store, hf_stamp from, bson_t *command)
{
    bson_t stages, stage, cursor, concern;
    bson_t *filter =
        store->protocol->changing ? named_filter_of(store) : filter_of(store->watch->self);
    mongo_begin(command, "aggregate", store->uri.collection);
    BSON_APPEND_ARRAY_BEGIN(command, "pipeline", &stages);
    BSON_APPEND_DOCUMENT_BEGIN(&stages, "0", &stage);
    append_start(&stage, store->watch, from);
    bson_append_document_end(&stages, &stage);
    bson_concat(&stages, filter);
    bson_append_array_end(command, &stages);
    BSON_APPEND_DOCUMENT_BEGIN(command, "cursor", &cursor);
    bson_append_document_end(command, &cursor);
    BSON_APPEND_DOCUMENT_BEGIN(command, "readConcern", &concern);
    BSON_APPEND_UTF8(&concern, "level", "majority");
    bson_append_document_end(command, &concern);
    bson_destroy(filter);
}

/* ---- What it brings ---- */

typedef struct listener {
    mongo_store *store;
    hf_stamp from;
    hf_notice_fn each;
    void *ctx;
    size_t given;
    bool has_ended; /* the collection was dropped or renamed, or the cursor is no more */
} listener;

static void give(listener *to, hf_notice_kind kind, hf_stamp stamp)
{
    hf_notice notice = {.kind = kind, .stamp = stamp};
    to->given++;
    to->each(to->ctx, &notice);
}

/* Passes on the parts of `notify` that are for our session. A majority has what a change stream
 * delivers, so the token of a grant is as good as one from a look (R1). */
static void give_notes(listener *to, const bson_t *event, const char *notify, hf_stamp stamp)
{
    const char *name = mongo_text_at(event, "documentKey._id", "");
    notify_note note;
    while (notify_next(&notify, &note)) {
        if (!id_equal(note.session, to->store->watch->self))
            continue;
        hf_notice notice = notify_notice(&note, stamp, name);
        to->given++;
        to->each(to->ctx, &notice);
    }
}

static hf_id ticket_at(const mongo_store *store, const bson_t *event, const char *under)
{
    const mongo_protocol *protocol = store->protocol;
    bson_t fields;
    bson_iter_t found;
    hf_id id = {{0}};
    if (!mongo_view(event, under, &fields) ||
        !mongo_path_find_updated(&fields, ticket_field_of(store), &found))
        return id;
    if (protocol->read_ticket)
        protocol->read_ticket(store, &found, &id);
    else if (BSON_ITER_HOLDS_OID(&found))
        memcpy(id.bytes, bson_iter_oid(&found)->bytes, sizeof id.bytes);
    return id;
}

/* Reads the lock's name; false: no lock has such an _id. */
static bool read_key(const mongo_protocol *protocol, const bson_iter_t *id,
                     char name[HF_NAME_MAX + 1])
{
    if (protocol->read_key)
        return protocol->read_key(id, name);
    if (!BSON_ITER_HOLDS_UTF8(id))
        return false;
    snprintf(name, HF_NAME_MAX + 1, "%s", bson_iter_utf8(id, NULL));
    return true;
}

/* False: the event concerns no document. */
static bool give_named(listener *to, const bson_t *event, hf_stamp stamp)
{
    const mongo_protocol *protocol = to->store->protocol;
    char name[HF_NAME_MAX + 1];
    bson_iter_t it, id;
    if (!bson_iter_init(&it, event) || !bson_iter_find_descendant(&it, "documentKey._id", &id))
        return false;
    hf_notice notice = {.kind = HF_NOTICE_NAME, .stamp = stamp, .name = name};
    notice.ticket = ticket_at(to->store, event, "updateDescription.updatedFields");
    if (id_is_zero(notice.ticket))
        notice.ticket = ticket_at(to->store, event, "fullDocument");
    if (!read_key(protocol, &id, name))
        return true; /* no name of a lock */
    to->given++;
    to->each(to->ctx, &notice);
    return true;
}

static void give_event(listener *to, const bson_t *event)
{
    hf_stamp stamp = mongo_stamp_at(event, "clusterTime");
    if (to->store->protocol->changing && give_named(to, event, stamp))
        return;
    const char *notify = mongo_text_at(event, "fullDocument.notify", NULL);
    notify = mongo_text_at(event, "updateDescription.updatedFields.notify", notify);
    if (notify) {
        give_notes(to, event, notify, stamp);
        return;
    }
    if (!to->has_ended)
        give(to, HF_NOTICE_VERIFY, stamp);
    to->has_ended = true;
}

static void keep_place(mongo_watch *watch, const bson_t *reply)
{
    bson_t token;
    if (!mongo_view(reply, "cursor.postBatchResumeToken", &token))
        return;
    bson_destroy(watch->resume);
    watch->resume = bson_copy(&token);
}

/* If it is too high, only less is skipped. */
static void raise_read_to(mongo_watch *watch, hf_stamp stamp)
{
    if (stamp.value > watch->read_to.value)
        watch->read_to = stamp;
}

static void give_batch(listener *to, const bson_t *reply, const char *field)
{
    mongo_watch *watch = to->store->watch;
    bson_t batch, event;
    bson_iter_t it;
    keep_place(watch, reply);
    hf_stamp stamp = mongo_stamp_at(reply, "operationTime");
    raise_read_to(watch, stamp);
    mongo_pace_note(&watch->pace, stamp);
    if (mongo_view(reply, field, &batch) && bson_iter_init(&it, &batch))
        while (mongo_next(&it, &event))
            give_event(to, &event);
    int64_t cursor = mongo_int_at(reply, "cursor.id", 0);
    mongo_reading_set_cursor(to->store, &watch->reading, cursor);
    to->has_ended |= cursor == 0;
}

/* ---- Await ---- */

/* The stream is lost: the next one starts from now, and then every waiter looks (L2). */
static void drop_stream(mongo_store *store, bool has_failed)
{
    disconnect(store, has_failed);
    store->watch->is_stale = true;
}

static bool is_refusal(int32_t server_code)
{
    return server_code == MONGO_UNAUTHORIZED || server_code == 40573 /* only on a replica set */
           || server_code == 73     /* not on the database config */
           || server_code == 40324; /* no such stage: no MongoDB at all */
}

static hf_code refuse(mongo_watch *watch, hf_error *err)
{
    return error_set(err, HF_UNSUPPORTED, "%s", watch->refusal);
}

static hf_code open_stream(listener *to, hf_error *err)
{
    static const mongo_call call = {.what = "opening a change stream"};
    mongo_watch *watch = to->store->watch;
    bson_t command = BSON_INITIALIZER;
    mongo_reply reply;
    hf_code code = mongo_reading_connect(to->store, &watch->reading, &call, err);
    if (code)
        return code;
    append_aggregate(to->store, to->from, &command);
    code = mongo_reading_run(to->store, &watch->reading, &call, &command, &reply, err);
    if (!code && watch->is_stale)
        give(to, HF_NOTICE_LOOK, (hf_stamp){0});
    if (!code) {
        watch->is_stale = false;
        give_batch(to, &reply.doc, "cursor.firstBatch");
    } else if (is_refusal(reply.server_code)) {
        snprintf(watch->refusal, sizeof watch->refusal,
                 "no change stream on %.60s.%.60s (server error %d): waiting is by polling",
                 to->store->uri.database, to->store->uri.collection, (int)reply.server_code);
        code = refuse(watch, err);
    }
    bson_destroy(&reply.doc);
    bson_destroy(&command);
    return code;
}

/* A killed cursor is how wake() reaches us; the place in the stream is kept. */
static hf_code read_more(listener *to, int64_t wait_ms, hf_error *err)
{
    static const mongo_call call = {.what = "reading the change stream"};
    mongo_store *store = to->store;
    mongo_reading *reading = &store->watch->reading;
    mongo_reply reply;
    hf_code code =
        mongo_reading_more(store, reading, &call, store->uri.collection, wait_ms, &reply, err);
    if (!code) {
        give_batch(to, &reply.doc, "cursor.nextBatch");
    } else if (reply.server_code && mongo_reading_is_woken(store, reading)) {
        mongo_reading_set_cursor(store, reading, 0);
        code = HF_OK;
    }
    bson_destroy(&reply.doc);
    return code;
}

/* The next one begins anew. */
static void leave_stream(mongo_store *store)
{
    if (store->watch->reading.cursor)
        kill_cursor(store, store->watch->reading.cursor);
    disconnect(store, false);
}

/* The stream of a program that claims lets more through. Every waiter looks once at its beginning.
 */
static void widen(mongo_store *store)
{
    mongo_watch *watch = store->watch;
    if (watch->has_all || !atomic_load(&watch->wants_all))
        return;
    leave_stream(store);
    watch->has_all = watch->is_stale = true;
}

/* Opens the stream if there is none, then reads for at most wait_ms. */
static hf_code listen_once(void *ctx, int64_t wait_ms, bool *has_given, hf_error *err)
{
    listener *to = ctx;
    hf_code code = HF_OK;
    mongo_watch *watch = to->store->watch;
    to->has_ended = false;
    widen(to->store);
    if (!watch->reading.cursor)
        code = open_stream(to, err);
    if (!code && !to->given && !to->has_ended && mongo_reading_begin(to->store, &watch->reading))
        code = read_more(to, wait_ms, err);
    if (code || to->has_ended)
        drop_stream(to->store, code != HF_OK);
    *has_given = to->given;
    return code;
}

/* A new session listens for itself from its first enter on. */
static void turn_to(mongo_store *store, hf_id session)
{
    mongo_watch *watch = store->watch;
    if (watch->has_self && id_equal(watch->self, session))
        return;
    leave_stream(store);
    pthread_mutex_lock(&store->mutex);
    watch->self = session;
    pthread_mutex_unlock(&store->mutex);
    watch->has_self = true;
    watch->is_stale = false;
}

/* Nobody waits for what came before `from`. */
static void skip_to(mongo_store *store, hf_stamp from)
{
    mongo_watch *watch = store->watch;
    bool is_open = watch->reading.cursor || watch->resume;
    if (!is_open || from.value <= watch->read_to.value + ((uint64_t)LAG_S << 32))
        return;
    leave_stream(store);
    raise_read_to(watch, from);
}

static hf_code check(mongo_store *store, hf_error *err)
{
    hf_code code = mongo_ready(store, err);
    if (code)
        return code;
    if (mongo_topology_of(store) == MONGO_ALONE)
        snprintf(store->watch->refusal, sizeof store->watch->refusal, "%s", replica_set_only);
    return store->watch->refusal[0] ? refuse(store->watch, err) : HF_OK;
}

/* ---- Looks instead of a stream ---- */

/* A stream comes back only at half as many writes, so that it does not come and go. */
static bool prefers_looks(mongo_store *store)
{
    mongo_watch *watch = store->watch;
    mongo_pace_note(&watch->pace, (hf_stamp){atomic_load(&store->latest)});
    int64_t writes = mongo_pace_writes(&watch->pace), most = store->uri.stream_writes;
    bool looks = writes > (watch->looks ? most / 2 : most);
    if (looks && !watch->looks)
        mongo_log(store, HF_LOG_INFO,
                  "%.60s.%.60s: about %lld writes a second reach the server: looking each %d ms "
                  "instead of reading them all (hfStreamWrites=%lld)",
                  store->uri.database, store->uri.collection, (long long)writes, LOOKS_MS,
                  (long long)most);
    return watch->looks = looks;
}

/* Waits for LOOKS_MS, or for a wake. False: it was a wake. */
static bool rest(mongo_store *store, int64_t ms)
{
    struct timespec until = kernel_time_in(ms);
    mongo_reading *reading = &store->watch->reading;
    MUTEX_SCOPE(&store->mutex);
    int status = 0;
    while (!reading->woken && !status)
        status =
            pthread_cond_clockwait(&store->watch->is_told, &store->mutex, CLOCK_MONOTONIC, &until);
    bool is_over = !reading->woken;
    reading->woken = false;
    return is_over;
}

/* The stream that is opened when this is over makes everybody look once more. Only the queue knows
 * recalls, which a look must make up for. */
static void look_instead(listener *to, int64_t timeout_ms)
{
    leave_stream(to->store);
    to->store->watch->is_stale = true;
    if (rest(to->store, timeout_ms < LOOKS_MS ? timeout_ms : LOOKS_MS))
        give(to, to->store->queue ? HF_NOTICE_LOOK : HF_NOTICE_VERIFY, (hf_stamp){0});
}

hf_code mongo_await(hf_store *base, hf_id session, hf_stamp from, int64_t timeout_ms,
                    hf_notice_fn each, void *ctx, hf_error *err)
{
    mongo_store *store = (mongo_store *)base;
    listener to = {.store = store, .from = from, .each = each, .ctx = ctx};
    hf_code code = check(store, err);
    if (code)
        return code;
    turn_to(store, session);
    if (prefers_looks(store)) {
        look_instead(&to, timeout_ms);
        return HF_OK;
    }
    skip_to(store, from);
    return mongo_reading_await(store, &store->watch->reading, timeout_ms, listen_once, &to, err);
}

/* Makes the oplog grow. Nothing depends on it, so it waits for no majority. */
static void stir(mongo_store *store, hf_id session)
{
    static const mongo_call call = {.what = "waking the listener", .writes = true};
    bson_t command = BSON_INITIALIZER;
    bson_t *change = pipeline_json("{'$inc': {'wakes': 1}}");
    bson_t updates, update;
    mongo_reply reply;
    mongo_begin(&command, "update", store->uri.names.sessions);
    mongo_append_quick_write_concern(&command);
    BSON_APPEND_ARRAY_BEGIN(&command, "updates", &updates);
    BSON_APPEND_DOCUMENT_BEGIN(&updates, "0", &update);
    mongo_append_by_id(&update, "q", session);
    BSON_APPEND_DOCUMENT(&update, "u", change);
    bson_append_document_end(&updates, &update);
    bson_append_array_end(&command, &updates);
    mongo_run(store, &call, &command, &reply, NULL);
    bson_destroy(&reply.doc);
    bson_destroy(change);
    bson_destroy(&command);
}

/* The same if we may write to no document: a linearizable read leaves an entry in the oplog.
 */
static void stir_by_reading(mongo_store *store)
{
    static const mongo_call call = {.what = "waking the listener"};
    bson_t command = BSON_INITIALIZER;
    bson_t *rest = pipeline_json("{'filter': {'_id': null}, 'limit': 1, 'singleBatch': true,"
                                 " 'readConcern': {'level': 'linearizable'}, 'maxTimeMS': 1000}");
    mongo_reply reply;
    mongo_begin(&command, "find", store->uri.collection);
    bson_concat(&command, rest);
    mongo_run(store, &call, &command, &reply, NULL);
    bson_destroy(&reply.doc);
    bson_destroy(rest);
    bson_destroy(&command);
}

static hf_id self_of(mongo_store *store)
{
    MUTEX_SCOPE(&store->mutex);
    return store->watch->self;
}

void mongo_wake(hf_store *base)
{
    mongo_store *store = (mongo_store *)base;
    int64_t cursor;
    bool is_reading = mongo_reading_wake(store, &store->watch->reading, &cursor);
    pthread_cond_signal(&store->watch->is_told);
    if (!is_reading || !cursor)
        return;
    kill_cursor(store, cursor);
    if (store->protocol->changing)
        stir_by_reading(store);
    else
        stir(store, self_of(store));
}

void mongo_watch_all(mongo_store *store)
{
    if (!atomic_exchange(&store->watch->wants_all, true))
        mongo_wake(&store->base);
}
