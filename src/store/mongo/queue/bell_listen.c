/* SPDX-License-Identifier: Apache-2.0 */
/* bell_listen.c: listens to this session's bell for what others' steps granted it; the client's
 * listener calls it through the store interface.
 *
 * The cursor reads the bell from its oldest ring on. So a ring that came between the enter and the
 * opening of the cursor is heard, unless the bell was made after it. When the cursor is lost, rings
 * may have been missed: then every waiter looks (L2). */
#include "store/mongo/queue/bell_listen.h"
#include "core/error.h"
#include "core/id.h"
#include "core/notify.h"
#include "store/document.h"
#include "store/mongo/driver/log.h"
#include "store/mongo/driver/reply.h"
#include "store/mongo/driver/server.h"
#include "store/mongo/driver/text.h"
#include "store/mongo/queue/bell.h"
#include "store/mongo/queue/state.h"
#include "store/mongo/shared/watch.h"
#include "sync/mutex_scope.h"

#define SIZE 65536 /* bytes of a bell: some hundred rings */

enum { NO_PRIVILEGE = 13, NOT_CAPPED = 2, EXISTS = 48, UNKNOWN_COMMAND = 59, NOT_ALLOWED = 8000 };
enum { CURSOR_NOT_FOUND = 43, POSITION_LOST = 136, PLAN_KILLED = 175 };

typedef struct listener {
    mongo_store *store;
    hf_notice_fn each;
    void *ctx;
    size_t given;
    int32_t bell;
    char name[MONGO_BELL_NAME_SIZE]; /* of the bell's collection */
} listener;

static mongo_bell_listener *listening(const mongo_store *store)
{
    return &store->queue->listener;
}

/* ---- What it hears ---- */

static void give(listener *to, const hf_notice *notice)
{
    to->given++;
    to->each(to->ctx, notice);
}

static void give_look(listener *to)
{
    give(to, &(hf_notice){.kind = HF_NOTICE_LOOK});
}

/* What it tells of was before this answer, and tokens keep to the cluster's time. Another one is
 * forged, or its record comes from a backup. */
static bool is_likely(const notify_note *note, hf_stamp stamp, hf_stamp answered)
{
    return !answered.value ||
           (stamp.value <= answered.value && note->token >> 20 <= (int64_t)(answered.value >> 32));
}

/* The ringer had the grant acknowledged by a majority: the ring is its look, told to us (R1). The
 * client looks for itself soon after (verify_rung_locked). */
static void give_ring(listener *to, const bson_t *ring, hf_stamp answered)
{
    const char *lock = mongo_text_at(ring, "lock", ""), *text = mongo_text_at(ring, "notify", "");
    hf_stamp stamp = mongo_stamp_at(ring, "stamp");
    notify_note note;
    if (notify_next(&text, &note) && is_likely(&note, stamp, answered)) {
        hf_notice notice = notify_notice(&note, stamp, lock);
        give(to, &notice);
    } else if (lock[0]) {
        give_look(to);
    }
}

static void give_batch(listener *to, const bson_t *reply, const char *field)
{
    bson_t batch, ring;
    bson_iter_t it;
    mongo_reading_set_cursor(to->store, &listening(to->store)->reading,
                             mongo_int_at(reply, "cursor.id", 0));
    if (mongo_view(reply, field, &batch) && bson_iter_init(&it, &batch))
        while (mongo_next(&it, &ring))
            give_ring(to, &ring, mongo_stamp_at(reply, "operationTime"));
}

/* ---- The cursor ---- */

static void drop_cursor(mongo_store *store, bool has_failed)
{
    mongo_reading_disconnect(store, &listening(store)->reading, has_failed);
    listening(store)->is_stale = true;
}

static hf_code find(listener *to, int32_t *server_code, hf_error *err)
{
    static const mongo_call call = {.what = "listening to a bell"};
    mongo_reading *reading = &listening(to->store)->reading;
    bson_t command = BSON_INITIALIZER, filter;
    mongo_reply reply;
    mongo_begin(&command, "find", to->name);
    BSON_APPEND_DOCUMENT_BEGIN(&command, "filter", &filter);
    document_append_id(&filter, "session", listening(to->store)->self);
    bson_append_document_end(&command, &filter);
    BSON_APPEND_BOOL(&command, "tailable", true);
    BSON_APPEND_BOOL(&command, "awaitData", true);
    hf_code code = mongo_reading_run(to->store, reading, &call, &command, &reply, err);
    *server_code = reply.server_code;
    if (!code)
        give_batch(to, &reply.doc, "cursor.firstBatch");
    bson_destroy(&reply.doc);
    bson_destroy(&command);
    return code;
}

/* ---- Making a bell ---- */

static hf_code convert(listener *to, int32_t *server_code, hf_error *err)
{
    static const mongo_call call = {.what = "making a bell", .can_wait = true, .writes = true};
    bson_t command = BSON_INITIALIZER;
    mongo_reply reply;
    mongo_begin(&command, "convertToCapped", to->name);
    BSON_APPEND_INT64(&command, "size", SIZE);
    mongo_append_write_concern(to->store, &command, false);
    hf_code code = mongo_run(to->store, &call, &command, &reply, err);
    *server_code = reply.server_code;
    bson_destroy(&reply.doc);
    bson_destroy(&command);
    return code;
}

/* A bell that was dropped, and rung (or given its first document) before a listener made it anew,
 * is not capped: that insert made it. */
static hf_code find_capped(listener *to, int32_t *server_code, hf_error *err)
{
    hf_code code = find(to, server_code, err);
    if (!code || *server_code != NOT_CAPPED)
        return code;
    listening(to->store)->is_stale = true;
    code = convert(to, server_code, err);
    return code ? code : find(to, server_code, err);
}

static hf_code create(listener *to, int32_t *server_code, hf_error *err)
{
    static const mongo_call call = {.what = "making a bell", .can_wait = true, .writes = true};
    bson_t command = BSON_INITIALIZER;
    mongo_reply reply;
    mongo_begin(&command, "create", to->name);
    BSON_APPEND_BOOL(&command, "capped", true);
    BSON_APPEND_INT64(&command, "size", SIZE);
    mongo_append_write_concern(to->store, &command, false);
    hf_code code = mongo_run(to->store, &call, &command, &reply, err);
    *server_code = reply.server_code;
    bson_destroy(&reply.doc);
    bson_destroy(&command);
    return *server_code == EXISTS ? HF_OK : code;
}

/* A tailable cursor on an empty collection is dead, and a bell without any document is rung by
 * nobody. */
static hf_code put_first(listener *to, hf_error *err)
{
    static const mongo_call call = {.what = "making a bell", .can_wait = true, .writes = true};
    bson_t command = BSON_INITIALIZER;
    bson_t *rest = pipeline_json("{'documents': [{'lock': '', 'notify': ''}]}");
    mongo_reply reply;
    mongo_begin(&command, "insert", to->name);
    bson_concat(&command, rest);
    mongo_append_write_concern(to->store, &command, false);
    hf_code code = mongo_run(to->store, &call, &command, &reply, err);
    bson_destroy(&reply.doc);
    bson_destroy(rest);
    bson_destroy(&command);
    return code;
}

/* Rings that came before are lost: look. */
static hf_code make(listener *to, int32_t *server_code, hf_error *err)
{
    hf_code code = create(to, server_code, err);
    if (!code)
        code = put_first(to, err);
    if (!code)
        code = find_capped(to, server_code, err);
    if (!code && !listening(to->store)->reading.cursor)
        code = error_set(err, HF_UNREACHABLE, "mongodb at %s: %s was removed while it was opened",
                         to->store->uri.hosts, to->name);
    listening(to->store)->is_stale = true;
    return code;
}

static bool is_refusal(int32_t server_code)
{
    return server_code == NO_PRIVILEGE || server_code == NOT_CAPPED ||
           server_code == UNKNOWN_COMMAND || server_code == NOT_ALLOWED;
}

hf_code mongo_bell_try(mongo_store *store, hf_error *err)
{
    listener to = {.store = store, .bell = 1};
    int32_t server_code = 0;
    if (mongo_bell_is_made(store, to.bell))
        return HF_OK;
    mongo_bell_name(store, to.bell, to.name);
    hf_code code = create(&to, &server_code, err);
    if (!code)
        code = put_first(&to, err);
    return is_refusal(server_code) ? HF_UNSUPPORTED : code;
}

static hf_code refuse(listener *to, int32_t server_code, hf_error *err)
{
    atomic_store(&to->store->queue->bells.are_refused, true);
    mongo_log(to->store, HF_LOG_INFO,
              "there can be no capped collection %.100s here (server error %d): a change stream "
              "brings the notices",
              to->name, (int)server_code);
    return error_set(err, HF_UNSUPPORTED, "no bells");
}

static hf_code open_cursor(listener *to, hf_error *err)
{
    static const mongo_call call = {.what = "listening to a bell"};
    mongo_bell_listener *l = listening(to->store);
    int32_t server_code = 0;
    hf_code code = mongo_reading_connect(to->store, &l->reading, &call, err);
    if (!code)
        code = find_capped(to, &server_code, err);
    if (!code && !l->reading.cursor)
        code = make(to, &server_code, err);
    if (code)
        return is_refusal(server_code) ? refuse(to, server_code, err) : code;
    mongo_bell_note_made(to->store, to->bell);
    if (l->is_stale)
        give_look(to);
    l->is_stale = false;
    return HF_OK;
}

/* ---- Await ---- */

static bool ends_cursor_only(int32_t server_code)
{
    return server_code == CURSOR_NOT_FOUND || server_code == POSITION_LOST ||
           server_code == PLAN_KILLED;
}

static hf_code read_more(listener *to, int64_t wait_ms, hf_error *err)
{
    static const mongo_call call = {.what = "listening to a bell"};
    mongo_reply reply;
    hf_code code = mongo_reading_more(to->store, &listening(to->store)->reading, &call, to->name,
                                      wait_ms, &reply, err);
    if (!code)
        give_batch(to, &reply.doc, "cursor.nextBatch");
    if (ends_cursor_only(reply.server_code)) {
        mongo_reading_set_cursor(to->store, &listening(to->store)->reading, 0);
        code = HF_OK;
    }
    bson_destroy(&reply.doc);
    return code;
}

static hf_code listen_once(void *ctx, int64_t wait_ms, bool *has_given, hf_error *err)
{
    listener *to = ctx;
    mongo_reading *reading = &listening(to->store)->reading;
    hf_code code = reading->cursor ? HF_OK : open_cursor(to, err);
    if (!code && !to->given && mongo_reading_begin(to->store, reading))
        code = read_more(to, wait_ms, err);
    if (code || !reading->cursor)
        drop_cursor(to->store, code != HF_OK);
    *has_given = to->given;
    return code;
}

static void kill_cursor(mongo_store *store)
{
    static const mongo_call call = {.what = "leaving a bell"};
    mongo_bell_listener *l = listening(store);
    char name[MONGO_BELL_NAME_SIZE];
    if (!l->reading.cursor)
        return;
    mongo_bell_name(store, mongo_bell_of(store, l->self), name);
    mongo_kill_cursor(store, &call, name, l->reading.cursor);
}

static void turn_to(mongo_store *store, hf_id session)
{
    mongo_bell_listener *l = listening(store);
    if (id_equal(l->self, session))
        return;
    kill_cursor(store);
    mongo_reading_disconnect(store, &l->reading, false);
    l->is_stale = false;
    MUTEX_SCOPE(&store->mutex);
    l->self = session;
}

hf_code mongo_bell_await(hf_store *base, hf_id session, hf_stamp from, int64_t timeout_ms,
                         hf_notice_fn each, void *ctx, hf_error *err)
{
    mongo_store *store = (mongo_store *)base;
    listener to = {.store = store, .each = each, .ctx = ctx};
    hf_code code = mongo_ready(store, err);
    if (code)
        return code;
    to.bell = mongo_bell_of(store, session);
    if (to.bell) {
        mongo_bell_name(store, to.bell, to.name);
        turn_to(store, session);
        code = mongo_reading_await(store, &listening(store)->reading, timeout_ms, listen_once, &to,
                                   err);
    }
    return atomic_load(&store->queue->bells.are_refused)
               ? mongo_await(base, session, from, timeout_ms, each, ctx, err)
               : code;
}

void mongo_bell_wake(hf_store *base)
{
    mongo_store *store = (mongo_store *)base;
    mongo_bell_listener *l = listening(store);
    int64_t cursor;
    if (atomic_load(&store->queue->bells.are_refused)) {
        mongo_wake(base);
        return;
    }
    if (!mongo_reading_wake(store, &l->reading, &cursor) || !cursor)
        return;
    pthread_mutex_lock(&store->mutex);
    hf_id self = l->self;
    pthread_mutex_unlock(&store->mutex);
    mongo_bell_ring(store, mongo_bell_of(store, self), self, "", "", (hf_stamp){0});
}

void mongo_bell_listener_done(mongo_store *store)
{
    mongo_reading_disconnect(store, &listening(store)->reading, false);
}
