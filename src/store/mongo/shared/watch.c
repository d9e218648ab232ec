/* SPDX-License-Identifier: Apache-2.0 */
/* watch.c: listens to a change stream for grants to this client's session, filtered on the server;
 * the client's listener calls it through the store interface.
 *
 * The stream is driven by raw aggregate and getMore commands: the driver's own change stream
 * resumes by itself inside `next`, so that a wake() could be swallowed. wake() kills the cursor:
 * whether the getMore is on its way or not, it then ends at once; the stream goes on from its
 * resume token. */
#include "store/mongo/shared/watch.h"
#include "core/alloc.h"
#include "core/error.h"
#include "core/id.h"
#include "core/notify.h"
#include "store/mongo/driver/command.h"
#include "store/mongo/driver/fault.h"
#include "store/mongo/driver/path.h"
#include "store/mongo/driver/pool.h"
#include "store/mongo/driver/reply.h"
#include "store/mongo/driver/server.h"
#include "store/mongo/driver/text.h"
#include "store/mongo/shared/protocol.h"
#include "sync/mutex_scope.h"

#include <stdio.h>

#define SLICE_MS 1000 /* one getMore; what a wake that does not arrive costs */
#define LAG_S 2 /* a stream that is so far behind is opened anew: it reads all that it missed */

static const char replica_set_only[] =
    "this MongoDB server is a standalone, which has no change streams: waiting is by polling; "
    "a replica set (one member is enough) has them";

/* ---- The stream ---- */

static void forget(mongo_store *store, mongo_watch *watch)
{
    pthread_mutex_lock(&store->mutex);
    watch->cursor = 0;
    pthread_mutex_unlock(&store->mutex);
}

static void kill_cursor(mongo_store *store, int64_t cursor)
{
    static const mongo_call call = {.what = "waking the listener"};
    mongo_kill_cursor(store, &call, cursor);
}

/* Takes a connection, and keeps it: the listener's own. */
static hf_code connect_watch(mongo_store *store, const mongo_call *call, hf_error *err)
{
    mongo_watch *watch = store->watch;
    bson_error_t error;
    if (watch->client)
        return HF_OK;
    hf_code code = mongo_pool_take(store, &store->work, call, &watch->client, err);
    if (code)
        return code;
    watch->session = mongoc_client_start_session(watch->client, NULL, &error);
    return watch->session ? HF_OK : mongo_fault(store, call, &error, NULL, err);
}

static void disconnect(mongo_store *store, bool has_failed)
{
    mongo_watch *watch = store->watch;
    forget(store, watch);
    if (watch->session)
        mongoc_client_session_destroy(watch->session);
    if (watch->client)
        mongo_pool_give(&store->work, watch->client, has_failed);
    bson_destroy(watch->resume);
    watch->session = NULL;
    watch->client = NULL;
    watch->resume = NULL;
}

void mongo_watch_init(mongo_store *store)
{
    store->watch = alloc_zeroed(sizeof *store->watch);
}

void mongo_watch_done(mongo_store *store)
{
    disconnect(store, false);
}

static hf_code talk(mongo_store *store, const mongo_call *call, const bson_t *command,
                    mongo_reply *reply, hf_error *err)
{
    bson_t opts = BSON_INITIALIZER;
    bson_error_t error;
    *reply = (mongo_reply){.server_code = 0};
    mongo_watch *watch = store->watch;
    mongoc_client_session_append(watch->session, &opts, NULL);
    bool ok = mongoc_client_command_with_opts(watch->client, store->uri.database, command, NULL,
                                              &opts, &reply->doc, &error);
    bson_destroy(&opts);
    if (ok)
        return HF_OK;
    reply->server_code = (int32_t)mongo_int_at(&reply->doc, "code", 0);
    return mongo_fault(store, call, &error, &reply->doc, err);
}

/* The filter names what ends a stream too: otherwise it would die without a word. */
static const char filter_text[] =
    "{'1': {'$match': {'$or': ["
    "{'operationType': 'update', 'updateDescription.updatedFields.notify': {'$regex': '@'}},"
    " {'operationType': 'replace', 'fullDocument.notify': {'$regex': '@'}},"
    " {'operationType': {'$in': ['drop', 'rename', 'dropDatabase', 'invalidate']}}]}},"
    " '2': {'$project': {'operationType': 1, 'clusterTime': 1, 'documentKey._id': 1,"
    " 'fullDocument.notify': 1, 'updateDescription.updatedFields.notify': 1}}}";

/* Of protocols without a queue: who holds has changed. '@' is the field that says so, '#' the one
 * that has the new holder's ticket. */
static const char named_filter_text[] =
    "{'1': {'$match': {'$or': ["
    "{'operationType': 'update', 'updateDescription.updatedFields.@': {'$exists': true}},"
    " {'operationType': 'update', 'updateDescription.updatedFields.#': {'$exists': true}},"
    " {'operationType': 'update', 'updateDescription.removedFields': '@'},"
    " {'operationType': {'$in': ['replace', 'delete', 'drop', 'rename', 'dropDatabase',"
    " 'invalidate']}}]}},"
    " '2': {'$project': {'operationType': 1, 'clusterTime': 1, 'documentKey._id': 1,"
    " 'fullDocument.#': 1, 'updateDescription.updatedFields.#': 1}}}";

static const char *ticket_field_of(const mongo_store *store)
{
    const mongo_protocol *protocol = store->protocol;
    return protocol->ticket_field ? protocol->ticket_field : protocol->changing(store);
}

static bson_t *named_filter_of(const mongo_store *store)
{
    const char *field = store->protocol->changing(store), *ticket = ticket_field_of(store);
    if (strchr(field, '.'))
        return mongo_path_filter(field);
    bson_string_t *text = bson_string_new(NULL);
    for (const char *from = named_filter_text; *from; from++)
        if (*from == '@' || *from == '#')
            bson_string_append(text, *from == '@' ? field : ticket);
        else
            bson_string_append_c(text, *from);
    bson_t *stages = pipeline_json(text->str);
    bson_string_free(text, true);
    return stages;
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

/* Where the stream begins: where it was, at a stamp, or now. */
static void append_start(bson_t *stage, const mongo_watch *watch, hf_stamp from)
{
    bson_t start;
    BSON_APPEND_DOCUMENT_BEGIN(stage, "$changeStream", &start);
    if (watch->resume)
        BSON_APPEND_DOCUMENT(&start, "resumeAfter", watch->resume);
    else if (from.value && !watch->is_stale)
        BSON_APPEND_TIMESTAMP(&start, "startAtOperationTime", (uint32_t)(from.value >> 32),
                              (uint32_t)from.value);
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

/* Of what `notify` says, what is for our session. What a change stream brings a majority has, so a
 * grant's token is as good as one that a look shows (R1). */
static void give_notes(listener *to, const bson_t *event, const char *notify, hf_stamp stamp)
{
    const char *name = mongo_text_at(event, "documentKey._id", "");
    notify_note note;
    while (notify_next(&notify, &note)) {
        if (!id_equal(note.session, to->store->watch->self))
            continue;
        hf_notice notice = {.kind = note.kind == NOTE_RECALL ? HF_NOTICE_RECALL : HF_NOTICE_GRANT,
                            .ticket = note.ticket,
                            .token = note.token,
                            .block = note.block,
                            .stamp = stamp,
                            .name = name};
        to->given++;
        to->each(to->ctx, &notice);
    }
}

static hf_id ticket_at(const bson_t *event, const char *under, const char *field)
{
    bson_t fields;
    bson_iter_t found;
    hf_id id = {{0}};
    if (mongo_view(event, under, &fields) && mongo_path_find_updated(&fields, field, &found) &&
        BSON_ITER_HOLDS_OID(&found))
        memcpy(id.bytes, bson_iter_oid(&found)->bytes, sizeof id.bytes);
    return id;
}

/* The lock's name; false: no lock has such an _id. */
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

/* False: the event is of no document. */
static bool give_named(listener *to, const bson_t *event, hf_stamp stamp)
{
    const mongo_protocol *protocol = to->store->protocol;
    const char *field = ticket_field_of(to->store);
    char name[HF_NAME_MAX + 1];
    bson_iter_t it, id;
    if (!bson_iter_init(&it, event) || !bson_iter_find_descendant(&it, "documentKey._id", &id))
        return false;
    hf_notice notice = {.kind = HF_NOTICE_NAME, .stamp = stamp, .name = name};
    notice.ticket = ticket_at(event, "updateDescription.updatedFields", field);
    if (id_is_zero(notice.ticket))
        notice.ticket = ticket_at(event, "fullDocument", field);
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

/* Too high only means that less is skipped. */
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
    raise_read_to(watch, mongo_stamp_at(reply, "operationTime"));
    if (mongo_view(reply, field, &batch) && bson_iter_init(&it, &batch))
        while (mongo_next(&it, &event))
            give_event(to, &event);
    int64_t cursor = mongo_int_at(reply, "cursor.id", 0);
    pthread_mutex_lock(&to->store->mutex);
    watch->cursor = cursor;
    pthread_mutex_unlock(&to->store->mutex);
    to->has_ended |= cursor == 0;
}

/* ---- Await ---- */

/* The stream is lost: the next one opens from now, and then everybody looks (L2). */
static void drop_stream(mongo_store *store, bool has_failed)
{
    disconnect(store, has_failed);
    store->watch->is_stale = true;
}

static bool is_refusal(int32_t server_code)
{
    return server_code == 13        /* no privilege */
           || server_code == 40573  /* only on a replica set */
           || server_code == 73     /* not on the database config */
           || server_code == 40324; /* no such stage: no MongoDB at all */
}

static hf_code refuse(mongo_watch *watch, hf_error *err)
{
    return error_set(err, HF_UNSUPPORTED, "%s", watch->refusal);
}

static hf_code open_stream(listener *to, hf_stamp from, hf_error *err)
{
    static const mongo_call call = {.what = "opening a change stream"};
    mongo_watch *watch = to->store->watch;
    bson_t command = BSON_INITIALIZER;
    mongo_reply reply;
    hf_code code = connect_watch(to->store, &call, err);
    if (code)
        return code;
    append_aggregate(to->store, from, &command);
    code = talk(to->store, &call, &command, &reply, err);
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

static bool take_wake(mongo_store *store)
{
    pthread_mutex_lock(&store->mutex);
    bool woken = store->watch->woken;
    store->watch->woken = false;
    pthread_mutex_unlock(&store->mutex);
    return woken;
}

static bool is_woken(mongo_store *store)
{
    MUTEX_SCOPE(&store->mutex);
    return store->watch->woken;
}

/* From here on a wake() kills the cursor. False: there has been one before. */
static bool begin_reading(mongo_store *store)
{
    MUTEX_SCOPE(&store->mutex);
    return store->watch->is_reading = !store->watch->woken;
}

static void end_reading(mongo_store *store)
{
    pthread_mutex_lock(&store->mutex);
    store->watch->is_reading = false;
    pthread_mutex_unlock(&store->mutex);
}

/* A killed cursor is how wake() reaches us; the place in the stream is kept. */
static hf_code read_more(listener *to, int64_t wait_ms, hf_error *err)
{
    static const mongo_call call = {.what = "reading the change stream"};
    mongo_store *store = to->store;
    bson_t command = BSON_INITIALIZER;
    mongo_reply reply;
    BSON_APPEND_INT64(&command, "getMore", store->watch->cursor);
    BSON_APPEND_UTF8(&command, "collection", store->uri.collection);
    BSON_APPEND_INT64(&command, "maxTimeMS", wait_ms > 0 ? wait_ms : 1);
    hf_code code = talk(store, &call, &command, &reply, err);
    end_reading(store);
    if (!code) {
        give_batch(to, &reply.doc, "cursor.nextBatch");
    } else if (reply.server_code && is_woken(store)) {
        forget(store, store->watch);
        code = HF_OK;
    }
    bson_destroy(&reply.doc);
    bson_destroy(&command);
    return code;
}

/* Opens the stream if there is none, then reads for at most wait_ms. */
static hf_code listen_once(listener *to, hf_stamp from, int64_t wait_ms, hf_error *err)
{
    hf_code code = HF_OK;
    to->has_ended = false;
    if (!to->store->watch->cursor)
        code = open_stream(to, from, err);
    if (!code && !to->given && !to->has_ended && begin_reading(to->store))
        code = read_more(to, wait_ms, err);
    if (code || to->has_ended)
        drop_stream(to->store, code != HF_OK);
    return code;
}

/* The next one begins anew. */
static void leave_stream(mongo_store *store)
{
    if (store->watch->cursor)
        kill_cursor(store, store->watch->cursor);
    disconnect(store, false);
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

/* What came before `from` nobody waits for. */
static void skip_to(mongo_store *store, hf_stamp from)
{
    mongo_watch *watch = store->watch;
    bool is_open = watch->cursor || watch->resume;
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

hf_code mongo_await(hf_store *base, hf_id session, hf_stamp from, int64_t timeout_ms,
                    hf_notice_fn each, void *ctx, hf_error *err)
{
    mongo_store *store = (mongo_store *)base;
    listener to = {.store = store, .each = each, .ctx = ctx};
    hf_code code = check(store, err);
    if (code)
        return code;
    turn_to(store, session);
    skip_to(store, from);
    int64_t left_ms = timeout_ms;
    do {
        int64_t wait_ms = left_ms < SLICE_MS ? left_ms : SLICE_MS;
        if (take_wake(store))
            return HF_OK;
        code = listen_once(&to, from, wait_ms, err);
        left_ms -= SLICE_MS;
    } while (!code && !to.given && left_ms > 0);
    take_wake(store);
    return code;
}

/* Lets the oplog grow; nothing depends on it, so no majority is waited for. */
static void stir(mongo_store *store, hf_id session)
{
    static const mongo_call call = {.what = "waking the listener", .writes = true};
    bson_t *command = pipeline_json("{'update': 'sessions', 'writeConcern': {'w': 1}}");
    bson_t *change = pipeline_json("{'$inc': {'wakes': 1}}");
    bson_t updates, update;
    mongo_reply reply;
    BSON_APPEND_ARRAY_BEGIN(command, "updates", &updates);
    BSON_APPEND_DOCUMENT_BEGIN(&updates, "0", &update);
    mongo_append_by_id(&update, "q", session);
    BSON_APPEND_DOCUMENT(&update, "u", change);
    bson_append_document_end(&updates, &update);
    bson_append_array_end(command, &updates);
    mongo_run(store, &call, command, &reply, NULL);
    bson_destroy(&reply.doc);
    bson_destroy(change);
    bson_destroy(command);
}

/* The same where no document is ours to write to: a linearizable read leaves a note in the oplog.
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

void mongo_wake(hf_store *base)
{
    mongo_store *store = (mongo_store *)base;
    pthread_mutex_lock(&store->mutex);
    int64_t cursor = store->watch->cursor;
    hf_id session = store->watch->self;
    bool is_reading = store->watch->is_reading;
    store->watch->woken = true;
    pthread_mutex_unlock(&store->mutex);
    if (!cursor || !is_reading)
        return;
    kill_cursor(store, cursor);
    if (store->protocol->changing)
        stir_by_reading(store);
    else
        stir(store, session);
}
