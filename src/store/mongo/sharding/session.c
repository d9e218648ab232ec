/* SPDX-License-Identifier: Apache-2.0 */
/* session.c: protocol `sharding` on sessions: each session is a process that pings. At each ping it
 * unlocks what it should no longer hold, and checks that it still holds what it should. The client
 * calls it through the store interface. */
#include "store/mongo/sharding/session.h"
#include "core/alloc.h"
#include "core/error.h"
#include "core/id.h"
#include "core/lease.h"
#include "store/mongo/driver/command.h"
#include "store/mongo/driver/log.h"
#include "store/mongo/driver/pool.h"
#include "store/mongo/driver/reply.h"
#include "store/mongo/driver/server.h"
#include "store/mongo/driver/text.h"
#include "store/mongo/sharding/calls.h"
#include "store/mongo/sharding/document.h"
#include "store/mongo/sharding/engine.h"
#include "store/mongo/sharding/grabs.h"
#include "store/mongo/sharding/indexes.h"
#include "store/mongo/sharding/sharding.h"
#include "store/mongo/shared/outcome.h"
#include "sync/mutex_scope.h"

#include <stdio.h>

/* ---- Pings ---- */

static void note_ping(mongo_store *store, hf_mono at)
{
    struct mongo_sharding *own = store->sharding;
    pthread_mutex_lock(&own->mutex);
    int64_t gap_ms = own->pinged_at.ns ? (at.ns - own->pinged_at.ns) / 1000000 : 0;
    own->pinged_at = at;
    pthread_mutex_unlock(&own->mutex);
    if (gap_ms > own->settings.late_ping_ms)
        mongo_log(store, HF_LOG_WARNING,
                  "the last ping is %lld ms old, and one is due every %lld ms: was this process "
                  "stopped, or is the database slow?",
                  (long long)gap_ms, (long long)own->settings.ping_ms);
}

static void introduce(mongo_store *store, const hf_session *self)
{
    struct mongo_sharding *own = store->sharding;
    pthread_mutex_lock(&own->mutex);
    if (!own->knows_self)
        own->self = *self;
    own->knows_self = true;
    own->pinged_at.ns = 0;
    pthread_mutex_unlock(&own->mutex);
    pthread_mutex_lock(&store->mutex);
    store->self = *self;
    pthread_mutex_unlock(&store->mutex);
}

hf_code sharding_session_begin(hf_store *base, const hf_session *self, hf_error *err)
{
    mongo_store *store = (mongo_store *)base;
    hf_code code = mongo_ready(store, err);
    if (!code)
        code = sharding_check_engine(store, err);
    if (code)
        return code;
    introduce(store, self);
    hf_mono began = mongo_mono(store);
    sharding_sent sent;
    code = sharding_ping(store, self->id, false, &sent, err);
    sharding_sent_done(&sent);
    if (!code)
        note_ping(store, began);
    return code;
}

/* ---- What stands there as ours, and what should ---- */

typedef struct comparison {
    mongo_store *store;
    sharding_mark *marks; /* what is held, sorted */
    size_t n_marks, n_seen;
    sharding_unlocking *strays;
    size_t n_strays;
} comparison;

/* Unlocks a grab without an answer that arrived after all, or a lock that could not be unlocked
 * before. It names the date, so it undoes no later grab with the same ts. */
static void add_stray(comparison *c, const char *name, const sharding_lock *lock)
{
    c->strays = alloc_array(c->strays, c->n_strays + 1, sizeof *c->strays);
    c->strays[c->n_strays++] =
        (sharding_unlocking){.name = name, .ts = lock->ts, .when_ms = lock->when_ms};
}

static void compare(comparison *c, const bson_t *doc)
{
    bson_iter_t it;
    sharding_lock lock = {.state = 2};
    if (!bson_iter_init_find(&it, doc, "ts") || !BSON_ITER_HOLDS_OID(&it))
        return;
    memcpy(lock.ts.bytes, bson_iter_oid(&it)->bytes, sizeof lock.ts.bytes);
    if (bson_iter_init_find(&it, doc, "when") && BSON_ITER_HOLDS_DATE_TIME(&it))
        lock.when_ms = bson_iter_date_time(&it);
    sharding_mark mark = {lock.ts, lock.when_ms};
    if (bsearch(&mark, c->marks, c->n_marks, sizeof mark, sharding_mark_compare))
        c->n_seen++;
    else if (bson_iter_init_find(&it, doc, "_id") && BSON_ITER_HOLDS_UTF8(&it) &&
             !sharding_grab_accounts_for(c->store, bson_iter_utf8(&it, NULL), &lock))
        add_stray(c, bson_iter_utf8(&it, NULL), &lock);
}

static void unlock_strays(comparison *c)
{
    hf_error err;
    sharding_sent sent;
    if (!c->n_strays)
        return;
    if (sharding_unlock(c->store, c->strays, c->n_strays, true, &sent, &err))
        mongo_log(c->store, HF_LOG_WARNING, "trying again at the next ping: %s", err.text);
    sharding_sent_done(&sent);
}

/* The list of what is held was made before the read; ask after it for what may be there. */
static void compare_all(comparison *c, const mongo_reply *reply, hf_session_state *out)
{
    bson_t batch, doc;
    bson_iter_t it;
    if (!mongo_view(&reply->doc, "cursor.firstBatch", &batch) || !bson_iter_init(&it, &batch))
        return;
    while (mongo_next(&it, &doc))
        compare(c, &doc);
    out->misses = c->n_seen < c->n_marks;
    unlock_strays(c);
    free(c->strays);
}

static bool may_have_more(mongo_store *store)
{
    MUTEX_SCOPE(&store->sharding->mutex);
    return store->sharding->may_have_more;
}

static void look_after(mongo_store *store, hf_id id, hf_session_state *out)
{
    hf_error err;
    comparison c = {.store = store};
    c.marks = sharding_grabs_marks(store, id, &c.n_marks);
    if (c.n_marks || may_have_more(store)) {
        sharding_sent sent;
        if (!sharding_get_own(store, id, &sent, &err))
            compare_all(&c, &sent.reply, out);
        sharding_sent_done(&sent);
    }
    free(c.marks);
}

/* ---- Sessions that have ended with locks that could not be unlocked ---- */

static void owe(mongo_store *store, hf_id session)
{
    struct mongo_sharding *own = store->sharding;
    pthread_mutex_lock(&own->mutex);
    own->owed = alloc_array(own->owed, own->n_owed + 1, sizeof *own->owed);
    own->owed[own->n_owed++] = session;
    pthread_mutex_unlock(&own->mutex);
}

static bool take_owed(mongo_store *store, hf_id *out)
{
    struct mongo_sharding *own = store->sharding;
    MUTEX_SCOPE(&own->mutex);
    if (!own->n_owed)
        return false;
    *out = own->owed[--own->n_owed];
    return true;
}

static hf_code settle(mongo_store *store, hf_id session, bool is_beat, hf_error *err)
{
    sharding_sent sent;
    hf_code code = sharding_unlock_all(store, session, is_beat, &sent, err);
    sharding_sent_done(&sent);
    if (code)
        owe(store, session);
    else
        sharding_grabs_drop_of(store, session);
    return code;
}

void sharding_session_settle(mongo_store *store)
{
    hf_id session;
    while (take_owed(store, &session))
        if (settle(store, session, false, NULL))
            return;
}

/* ---- Beats ---- */

/* A slow ping leaves no time for more: the lease counts from before the ping was sent, and could
 * end meanwhile. */
static bool has_time(const mongo_store *store, hf_mono began)
{
    return !mono_reached(mono_add_ms(began, store->config.ttl_ms / 12), mongo_mono(store));
}

hf_code sharding_session_beat(hf_store *base, hf_id id, const hf_beat *says, hf_session_state *out,
                              hf_error *err)
{
    mongo_store *store = (mongo_store *)base;
    hf_mono began = mongo_mono(store);
    hf_id owed;
    sharding_sent sent;
    (void)says;
    *out = (hf_session_state){.session = {.id = id}, .presence = HF_LIVE};
    hf_code code = sharding_ping(store, id, true, &sent, err);
    sharding_sent_done(&sent);
    if (code)
        return code;
    note_ping(store, began);
    if (has_time(store, began))
        look_after(store, id, out);
    if (has_time(store, began) && take_owed(store, &owed))
        settle(store, owed, true, NULL);
    return HF_OK;
}

/* ---- End ---- */

/* With hfProcess, the next session has the same name and already pings. */
static bool pings_still(mongo_store *store, hf_id id)
{
    MUTEX_SCOPE(&store->mutex);
    return store->uri.process && !id_equal(store->self.id, id);
}

hf_code sharding_session_end(hf_store *base, hf_id id, bool leaves_any, hf_error *err)
{
    mongo_store *store = (mongo_store *)base;
    sharding_sent sent;
    hf_code code = HF_OK;
    (void)leaves_any; /* what it pinged says it all */
    if (sharding_grabs_any_of(store, id) || may_have_more(store))
        code = settle(store, id, false, err);
    if (code || pings_still(store, id))
        return code;
    code = sharding_stop_ping(store, id, &sent, err);
    sharding_sent_done(&sent);
    return code;
}

/* As long as its ping is there, others wait for what it has locked since. */
hf_code sharding_process_end(hf_store *base, const char *process, int64_t *n, hf_error *err)
{
    mongo_store *store = (mongo_store *)base;
    sharding_sent sent;
    hf_code code = mongo_ready(store, err);
    if (code)
        return code;
    code = sharding_unlock_process(store, process, &sent, err);
    *n = mongo_int_at(&sent.reply.doc, "nModified", 0);
    sharding_sent_done(&sent);
    if (code)
        return code;
    code = sharding_stop_ping_of(store, process, &sent, err);
    sharding_sent_done(&sent);
    return code;
}

hf_code sharding_lock_session_end(hf_store *base, hf_id lock_session, const char *name, int64_t *n,
                                  hf_error *err)
{
    mongo_store *store = (mongo_store *)base;
    sharding_sent sent;
    hf_code code = mongo_ready(store, err);
    if (code)
        return code;
    code = sharding_unlock_lock_session(store, lock_session, name, &sent, err);
    *n = mongo_int_at(&sent.reply.doc, "nModified", 0);
    sharding_sent_done(&sent);
    return code;
}

/* ---- Listing ---- */

/* MongoDB's servers are among them: "host:port:seconds:number", or the name of a shard. */
static hf_session_state state_of(const char *process, int64_t ping_ms)
{
    hf_session_state state = {.presence = HF_LIVE};
    hf_session *session = &state.session;
    char *end;
    const char *colon = strchr(process, ':');
    session->id = sharding_session(process, "");
    session->started_at.ms = ping_ms;
    snprintf(session->app, sizeof session->app, "%s", process);
    if (!colon)
        return state;
    snprintf(session->host, sizeof session->host, "%.*s", (int)(colon - process), process);
    session->pid = strtoll(colon + 1, &end, 10);
    return state;
}

static bool give(const bson_t *doc, hf_state_fn each, void *ctx)
{
    bson_iter_t it;
    int64_t ping_ms;
    if (!sharding_read_ping(doc, &ping_ms) || !bson_iter_init_find(&it, doc, "_id") ||
        !BSON_ITER_HOLDS_UTF8(&it))
        return true;
    hf_session_state state = state_of(bson_iter_utf8(&it, NULL), ping_ms);
    return each(ctx, &state);
}

static mongoc_cursor_t *find_pings(mongo_store *store, mongoc_client_t *client)
{
    bson_t *opts = pipeline_json("{'sort': {'_id': 1}, 'maxTimeMS': 60000}");
    bson_t filter = BSON_INITIALIZER, part;
    bool is_alone = mongo_topology_of(store) == MONGO_ALONE;
    mongoc_read_prefs_t *primary = mongoc_read_prefs_new(MONGOC_READ_PRIMARY);
    mongoc_collection_t *pings =
        mongoc_client_get_collection(client, store->uri.database, SHARDING_PINGS);
    BSON_APPEND_DOCUMENT_BEGIN(opts, "readConcern", &part);
    BSON_APPEND_UTF8(&part, "level", is_alone ? "local" : "majority");
    bson_append_document_end(opts, &part);
    mongoc_cursor_t *cursor = mongoc_collection_find_with_opts(pings, &filter, opts, primary);
    mongoc_read_prefs_destroy(primary);
    mongoc_collection_destroy(pings);
    bson_destroy(&filter);
    bson_destroy(opts);
    return cursor;
}

hf_code sharding_list_sessions(hf_store *base, hf_state_fn each, void *ctx, hf_error *err)
{
    static const mongo_call call = {.what = "listing pings"};
    mongo_store *store = (mongo_store *)base;
    const bson_t *doc;
    mongo_connection *connection = NULL;
    hf_code code = mongo_ready(store, err);
    if (!code)
        code = mongo_pool_take(store, &store->work, &call, &connection, err);
    if (code)
        return code;
    mongoc_cursor_t *cursor = find_pings(store, connection->client);
    bool goes_on = true;
    while (goes_on && mongoc_cursor_next(cursor, &doc))
        goes_on = give(doc, each, ctx);
    code = mongo_cursor_fault(store, &call, connection, cursor, err);
    mongoc_cursor_destroy(cursor);
    mongo_pool_give(store, &store->work, &call, connection, code != HF_OK);
    return code;
}

/* ---- Sweeping ---- */

hf_code sharding_sweep(hf_store *base, hf_session_state *overdue, size_t max, size_t *n, bool *more,
                       hf_error *err)
{
    mongo_store *store = (mongo_store *)base;
    (void)overdue;
    (void)max;
    *n = 0;
    *more = false;
    hf_code code = mongo_ready(store, err);
    if (!code)
        sharding_settle_indexes(store);
    return code ? code : mongo_outcomes_prune(store, err);
}
