/* SPDX-License-Identifier: Apache-2.0 */
/* calls.c: the commands of protocol `sharding`, with the filters and changes that
 * MongoDB's own lock manager sends; called by sharding.c and session.c. */
#include "store/mongo/sharding/calls.h"
#include "core/sharding.h"
#include "store/document.h"
#include "store/mongo/driver/command.h"
#include "store/mongo/driver/reply.h"
#include "store/mongo/driver/server.h"
#include "store/mongo/sharding/document.h"
#include "store/mongo/sharding/grabs.h"
#include "store/mongo/sharding/sharding.h"

#define HOST_UNREACHABLE 6
#define UNKNOWN_ERROR 8
#define SOCKET_EXCEPTION 9001

/* ---- Sending ---- */

void sharding_sent_done(sharding_sent *sent)
{
    bson_destroy(&sent->reply.doc);
}

static int32_t number_of(hf_code code, const mongo_reply *reply)
{
    int64_t concern = mongo_int_at(&reply->doc, "writeConcernError.code", 0);
    if (!code || reply->server_code)
        return reply->server_code;
    if (concern)
        return (int32_t)concern;
    return code == HF_UNREACHABLE ? HOST_UNREACHABLE
           : code == HF_UNKNOWN   ? SOCKET_EXCEPTION
                                  : UNKNOWN_ERROR;
}

void sharding_may_have_more(mongo_store *store)
{
    pthread_mutex_lock(&store->sharding->mutex);
    store->sharding->may_have_more = true;
    pthread_mutex_unlock(&store->sharding->mutex);
}

static hf_code send_once(mongo_store *store, const mongo_call *call, const bson_t *command,
                         sharding_sent *out, hf_error *err)
{
    out->code = call->writes || call->is_beat
                    ? mongo_run(store, call, command, &out->reply, err)
                    : mongo_run_behind(store, call, command, &out->reply, err);
    out->number = number_of(out->code, &out->reply);
    out->was_sent = out->code != HF_UNREACHABLE || out->reply.server_code;
    if (out->code == HF_UNKNOWN)
        sharding_may_have_more(store);
    return out->code;
}

/* A beat is tried once: the client sends the next one at once, and no lease waits for it. */
static hf_code run(mongo_store *store, sharding_call kind, const mongo_call *call, bson_t *command,
                   sharding_sent *out, hf_error *err)
{
    const sharding_settings *settings = &store->sharding->settings;
    hf_code code = send_once(store, call, command, out, err);
    out->tried = 1;
    while (code && !call->is_beat && out->was_sent &&
           sharding_tries_again(settings, kind, out->number, out->tried)) {
        out->tried++;
        sharding_sent_done(out);
        code = send_once(store, call, command, out, err);
    }
    bson_destroy(command);
    return code;
}

static void end_write(mongo_store *store, bson_t *command, bool is_beat)
{
    mongo_append_write_concern(store, command, is_beat);
    BSON_APPEND_INT64(command, "maxTimeMS",
                      is_beat ? store->beats.limits.wait_ms : store->work.limits.wait_ms);
}

/* ---- Taking ---- */

static void append_taking(bson_t *command, const sharding_taking *taking)
{
    bson_t update, set;
    BSON_APPEND_DOCUMENT_BEGIN(command, "update", &update);
    BSON_APPEND_DOCUMENT_BEGIN(&update, "$set", &set);
    document_append_id(&set, "ts", taking->ts);
    BSON_APPEND_INT32(&set, "state", 2);
    BSON_APPEND_UTF8(&set, "who", taking->who);
    BSON_APPEND_UTF8(&set, "process", taking->process);
    BSON_APPEND_DATE_TIME(&set, "when", taking->when_ms);
    BSON_APPEND_UTF8(&set, "why", taking->why);
    bson_append_document_end(&update, &set);
    bson_append_document_end(command, &update);
    BSON_APPEND_BOOL(command, "new", true);
}

static const char *const state_field[] = {"state", NULL};
static const char *const owner_fields[] = {"ts", "when", "process", "who", NULL};

static void append_free(bson_t *to, const char *field, const char *name)
{
    bson_t query;
    bson_append_document_begin(to, field, -1, &query);
    BSON_APPEND_UTF8(&query, "_id", name);
    BSON_APPEND_INT32(&query, "state", 0);
    mongo_append_no_array(&query, state_field);
    bson_append_document_end(to, &query);
}

hf_code sharding_grab_lock(mongo_store *store, const sharding_taking *taking, sharding_sent *out,
                           hf_error *err)
{
    mongo_call call = {.what = "acquiring", .name = taking->name, .writes = true};
    bson_t command = BSON_INITIALIZER;
    mongo_begin(&command, "findAndModify", store->uri.collection);
    append_free(&command, "query", taking->name);
    append_taking(&command, taking);
    BSON_APPEND_BOOL(&command, "upsert", true);
    end_write(store, &command, false);
    return run(store, SHARDING_GRAB_LOCK, &call, &command, out, err);
}

/* {_id, ts, when} as they were seen. MongoDB 6.0 gives all its locks one ts, so the date shows that
 * it is still the same holding. */
static void append_seen(bson_t *to, const char *field, const char *name, const sharding_lock *seen)
{
    bson_t query;
    bson_append_document_begin(to, field, -1, &query);
    BSON_APPEND_UTF8(&query, "_id", name);
    document_append_id(&query, "ts", seen->ts);
    if (seen->when_ms)
        BSON_APPEND_DATE_TIME(&query, "when", seen->when_ms);
    mongo_append_no_array(&query, owner_fields);
    bson_append_document_end(to, &query);
}

hf_code sharding_overtake_lock(mongo_store *store, const sharding_taking *taking,
                               const sharding_lock *seen, sharding_sent *out, hf_error *err)
{
    mongo_call call = {.what = "acquiring", .name = taking->name, .writes = true};
    bson_t command = BSON_INITIALIZER, query, either;
    mongo_begin(&command, "findAndModify", store->uri.collection);
    BSON_APPEND_DOCUMENT_BEGIN(&command, "query", &query);
    BSON_APPEND_ARRAY_BEGIN(&query, "$or", &either);
    append_free(&either, "0", taking->name);
    append_seen(&either, "1", taking->name, seen);
    bson_append_array_end(&query, &either);
    bson_append_document_end(&command, &query);
    append_taking(&command, taking);
    end_write(store, &command, false);
    return run(store, SHARDING_OVERTAKE_LOCK, &call, &command, out, err);
}

/* ---- Unlocking ---- */

static void append_set_free(bson_t *to, const char *field)
{
    bson_t update, set;
    bson_append_document_begin(to, field, -1, &update);
    BSON_APPEND_DOCUMENT_BEGIN(&update, "$set", &set);
    BSON_APPEND_INT32(&set, "state", 0);
    bson_append_document_end(&update, &set);
    bson_append_document_end(to, &update);
}

static void append_unlock(bson_t *updates, const char *key, const sharding_unlocking *one)
{
    bson_t update, query;
    bson_append_document_begin(updates, key, -1, &update);
    BSON_APPEND_DOCUMENT_BEGIN(&update, "q", &query);
    document_append_id(&query, "ts", one->ts);
    BSON_APPEND_UTF8(&query, "_id", one->name);
    if (one->when_ms)
        BSON_APPEND_DATE_TIME(&query, "when", one->when_ms);
    if (one->process)
        BSON_APPEND_UTF8(&query, "process", one->process);
    mongo_append_no_array(&query, owner_fields);
    bson_append_document_end(&update, &query);
    append_set_free(&update, "u");
    bson_append_document_end(updates, &update);
}

hf_code sharding_unlock(mongo_store *store, const sharding_unlocking *all, size_t n, bool is_beat,
                        sharding_sent *out, hf_error *err)
{
    mongo_call call = {.what = "releasing",
                       .name = n == 1 ? all[0].name : "several locks",
                       .writes = true,
                       .is_beat = is_beat};
    bson_t command = BSON_INITIALIZER, updates;
    char key[16];
    mongo_begin(&command, "update", store->uri.collection);
    BSON_APPEND_ARRAY_BEGIN(&command, "updates", &updates);
    for (size_t i = 0; i < n; i++)
        append_unlock(&updates, mongo_key(i, key), &all[i]);
    bson_append_array_end(&command, &updates);
    BSON_APPEND_BOOL(&command, "ordered", false);
    end_write(store, &command, is_beat);
    return run(store, SHARDING_UNLOCK_ONE, &call, &command, out, err);
}

/* With hfProcess, other sessions may have the same process name: `who` names the session. */
static void append_owner(const mongo_store *store, hf_id session, bson_t *query)
{
    char process[SHARDING_PROCESS_MAX + 1], who[SHARDING_WHO_MAX + 1];
    sharding_process(store, session, process);
    BSON_APPEND_UTF8(query, "process", process);
    mongo_append_no_array(query, owner_fields);
    if (!store->uri.process)
        return;
    sharding_who(store, session, who);
    BSON_APPEND_UTF8(query, "who", who);
}

/* All locks that match the query. */
static hf_code unlock_matching(mongo_store *store, const bson_t *query, bool is_beat,
                               sharding_sent *out, hf_error *err)
{
    mongo_call call = {.what = "releasing all locks", .writes = true, .is_beat = is_beat};
    bson_t command = BSON_INITIALIZER, updates, update;
    mongo_begin(&command, "update", store->uri.collection);
    BSON_APPEND_ARRAY_BEGIN(&command, "updates", &updates);
    BSON_APPEND_DOCUMENT_BEGIN(&updates, "0", &update);
    BSON_APPEND_DOCUMENT(&update, "q", query);
    append_set_free(&update, "u");
    BSON_APPEND_BOOL(&update, "multi", true);
    bson_append_document_end(&updates, &update);
    bson_append_array_end(&command, &updates);
    end_write(store, &command, is_beat);
    return run(store, SHARDING_UNLOCK_ALL, &call, &command, out, err);
}

hf_code sharding_unlock_all(mongo_store *store, hf_id session, bool is_beat, sharding_sent *out,
                            hf_error *err)
{
    bson_t query = BSON_INITIALIZER;
    append_owner(store, session, &query);
    hf_code code = unlock_matching(store, &query, is_beat, out, err);
    bson_destroy(&query);
    return code;
}

hf_code sharding_unlock_process(mongo_store *store, const char *process, sharding_sent *out,
                                hf_error *err)
{
    bson_t query = BSON_INITIALIZER;
    BSON_APPEND_UTF8(&query, "process", process);
    mongo_append_no_array(&query, owner_fields);
    hf_code code = unlock_matching(store, &query, false, out, err);
    bson_destroy(&query);
    return code;
}

hf_code sharding_unlock_lock_session(mongo_store *store, hf_id lock_session, const char *name,
                                     sharding_sent *out, hf_error *err)
{
    bson_t query = BSON_INITIALIZER;
    document_append_id(&query, "ts", lock_session);
    if (name)
        BSON_APPEND_UTF8(&query, "_id", name);
    mongo_append_no_array(&query, owner_fields);
    hf_code code = unlock_matching(store, &query, false, out, err);
    bson_destroy(&query);
    return code;
}

/* ---- Reading ---- */

/* Without its read concern, which is the last field. */
static void append_find(bson_t *command, const char *collection, const char *id)
{
    bson_t filter;
    mongo_begin(command, "find", collection);
    BSON_APPEND_DOCUMENT_BEGIN(command, "filter", &filter);
    BSON_APPEND_UTF8(&filter, "_id", id);
    bson_append_document_end(command, &filter);
    BSON_APPEND_INT32(command, "limit", 1);
    BSON_APPEND_BOOL(command, "singleBatch", true);
}

hf_code sharding_get_lock(mongo_store *store, const char *name, hf_stamp after, sharding_sent *out,
                          hf_error *err)
{
    mongo_call call = {.what = "looking at", .name = name};
    bson_t command = BSON_INITIALIZER;
    append_find(&command, store->uri.collection, name);
    mongo_append_read_concern(store, &command, after);
    return run(store, SHARDING_GET_LOCK, &call, &command, out, err);
}

hf_code sharding_get_ping(mongo_store *store, const char *process, bool linearizable,
                          sharding_sent *out, hf_error *err)
{
    mongo_call call = {.what = "looking at the ping of", .name = process};
    bson_t command = BSON_INITIALIZER;
    append_find(&command, SHARDING_PINGS, process);
    if (linearizable)
        mongo_append_linearizable(store, &command);
    else
        mongo_append_read_concern(store, &command, (hf_stamp){0});
    return run(store, SHARDING_GET_PING, &call, &command, out, err);
}

hf_code sharding_get_server(mongo_store *store, sharding_sent *out, hf_error *err)
{
    static const mongo_call call = {.what = "asking for the server's clock", .database = "admin"};
    bson_t command = BSON_INITIALIZER;
    mongo_append_server_status(&command);
    BSON_APPEND_INT32(&command, "maxTimeMS", (int32_t)store->work.limits.wait_ms);
    return run(store, SHARDING_SERVER_INFO, &call, &command, out, err);
}

static void append_held_by(const mongo_store *store, hf_id session, bson_t *command)
{
    bson_t filter, state, in, fields;
    BSON_APPEND_DOCUMENT_BEGIN(command, "filter", &filter);
    append_owner(store, session, &filter);
    BSON_APPEND_DOCUMENT_BEGIN(&filter, "state", &state);
    BSON_APPEND_ARRAY_BEGIN(&state, "$in", &in);
    BSON_APPEND_INT32(&in, "0", 1);
    BSON_APPEND_INT32(&in, "1", 2);
    bson_append_array_end(&state, &in);
    bson_append_document_end(&filter, &state);
    bson_append_document_end(command, &filter);
    BSON_APPEND_DOCUMENT_BEGIN(command, "projection", &fields);
    BSON_APPEND_INT32(&fields, "ts", 1);
    BSON_APPEND_INT32(&fields, "when", 1);
    bson_append_document_end(command, &fields);
}

/* Uses the beats' own connection; no older than anything that this store has seen. */
hf_code sharding_get_own(mongo_store *store, hf_id session, sharding_sent *out, hf_error *err)
{
    static const mongo_call call = {.what = "looking at what is held", .is_beat = true};
    bson_t command = BSON_INITIALIZER;
    mongo_begin(&command, "find", store->uri.collection);
    append_held_by(store, session, &command);
    BSON_APPEND_INT32(&command, "batchSize", 100000);
    BSON_APPEND_BOOL(&command, "singleBatch", true);
    mongo_append_read_concern(store, &command, (hf_stamp){atomic_load(&store->latest)});
    return run(store, SHARDING_GET_LOCK, &call, &command, out, err);
}

/* ---- Pings ---- */

static void append_process(const char *process, bson_t *command)
{
    bson_t query;
    BSON_APPEND_DOCUMENT_BEGIN(command, "query", &query);
    BSON_APPEND_UTF8(&query, "_id", process);
    bson_append_document_end(command, &query);
}

hf_code sharding_ping(mongo_store *store, hf_id session, bool is_beat, sharding_sent *out,
                      hf_error *err)
{
    mongo_call call = {.what = "pinging", .writes = true, .is_beat = is_beat};
    bson_t command = BSON_INITIALIZER, update, set;
    char process[SHARDING_PROCESS_MAX + 1];
    sharding_process(store, session, process);
    mongo_begin(&command, "findAndModify", SHARDING_PINGS);
    append_process(process, &command);
    BSON_APPEND_DOCUMENT_BEGIN(&command, "update", &update);
    BSON_APPEND_DOCUMENT_BEGIN(&update, "$set", &set);
    BSON_APPEND_DATE_TIME(&set, "ping", sharding_date(store));
    bson_append_document_end(&update, &set);
    bson_append_document_end(&command, &update);
    BSON_APPEND_BOOL(&command, "upsert", true);
    end_write(store, &command, is_beat);
    return run(store, SHARDING_PING, &call, &command, out, err);
}

hf_code sharding_stop_ping(mongo_store *store, hf_id session, sharding_sent *out, hf_error *err)
{
    char process[SHARDING_PROCESS_MAX + 1];
    sharding_process(store, session, process);
    return sharding_stop_ping_of(store, process, out, err);
}

hf_code sharding_stop_ping_of(mongo_store *store, const char *process, sharding_sent *out,
                              hf_error *err)
{
    static const mongo_call call = {.what = "ending the pings", .writes = true};
    bson_t command = BSON_INITIALIZER;
    mongo_begin(&command, "findAndModify", SHARDING_PINGS);
    append_process(process, &command);
    BSON_APPEND_BOOL(&command, "remove", true);
    end_write(store, &command, false);
    return run(store, SHARDING_STOP_PING, &call, &command, out, err);
}
