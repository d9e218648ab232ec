/* SPDX-License-Identifier: Apache-2.0 */
/* mongo.c: opens and closes the mongo store. Its tables say which function makes each call of the
 * store interface, for each protocol. Called by store/open.c. */
#include "store/mongo/mongo.h"

#include "core/alloc.h"
#include "store/mongo/doctor.h"
#include "store/mongo/document/document.h"
#include "store/mongo/driver/log.h"
#include "store/mongo/driver/pool.h"
#include "store/mongo/driver/server.h"
#include "store/mongo/driver/tls.h"
#include "store/mongo/queue/bell_listen.h"
#include "store/mongo/queue/queue.h"
#include "store/mongo/queue/session.h"
#include "store/mongo/queue/sessions.h"
#include "store/mongo/queue/sweep.h"
#include "store/mongo/sharding/lease.h"
#include "store/mongo/sharding/session.h"
#include "store/mongo/sharding/sharding.h"
#include "store/mongo/shared/fair.h"
#include "store/mongo/shared/held.h"
#include "store/mongo/shared/history.h"
#include "store/mongo/shared/list.h"
#include "store/mongo/shared/look.h"
#include "store/mongo/shared/outcome.h"
#include "store/mongo/shared/outcome_list.h"
#include "store/mongo/shared/plain.h"
#include "store/mongo/shared/reading.h"
#include "store/mongo/shared/watch.h"
#include "store/mongo/ttl/ttl.h"

#include <unistd.h>

/* ---- Close ---- */

/* In a forked child the connections are the parent's and must not be touched (R11). */
static void close_store(hf_store *base)
{
    mongo_store *store = (mongo_store *)base;
    bool is_ours = store->owner == getpid();
    if (store->protocol->close)
        store->protocol->close(store, is_ours);
    if (is_ours) {
        mongo_watch_done(store);
        mongo_pool_done(store, &store->listens);
        mongo_pool_done(store, &store->beats);
        mongo_pool_done(store, &store->work);
        pthread_mutex_destroy(&store->mutex);
    }
    mongo_fair_close(store);
    free(store->watch);
    mongo_held_clear(store);
    mongo_outcomes_clear(store);
    mongo_uri_done(&store->uri);
    free(store);
}

/* ---- Which function does what ---- */

static const hf_store_ops queue_ops = {
    .scheme = "mongodb",
    .close = close_store,
    .hurry = mongo_hurry,
    .bound = mongo_bound,
    .connect = mongo_connect,
    .session_begin = mongo_session_begin,
    .session_beat = mongo_session_beat,
    .session_mark = mongo_session_mark,
    .session_end = mongo_session_end,
    .sessions_look = mongo_sessions_look,
    .waits = mongo_waits,
    .step = mongo_step,
    .steps = mongo_steps,
    .look = mongo_look,
    .list = mongo_list,
    .list_sessions = mongo_list_sessions,
    .ask = mongo_session_ask,
    .await = mongo_bell_await,
    .wake = mongo_bell_wake,
    .sweep = mongo_sweep,
    .doctor = mongo_doctor,
    .history_add = mongo_history_add,
    .history = mongo_history,
};

static const hf_store_ops ttl_ops = {
    .scheme = "mongodb",
    .close = close_store,
    .hurry = mongo_hurry,
    .bound = mongo_bound,
    .connect = mongo_connect,
    .session_begin = mongo_ttl_begin,
    .session_beat = mongo_ttl_beat,
    .session_mark = mongo_plain_mark,
    .session_end = mongo_plain_end,
    .sessions_look = mongo_plain_sessions_look,
    .step = mongo_plain_step,
    .lease_renew = mongo_plain_lease_renew,
    .look = mongo_ttl_look,
    .list = mongo_ttl_list,
    .list_sessions = mongo_plain_list_sessions,
    .ask = mongo_plain_ask,
    .await = mongo_await,
    .wake = mongo_wake,
    .sweep = mongo_plain_sweep,
    .doctor = mongo_doctor,
    .history_add = mongo_history_add,
    .history = mongo_history,
    .previous = mongo_outcome_previous,
    .lasts = mongo_outcome_lasts,
};

static const hf_store_ops document_ops = {
    .scheme = "mongodb",
    .close = close_store,
    .hurry = mongo_hurry,
    .bound = mongo_bound,
    .connect = mongo_connect,
    .session_begin = mongo_plain_begin,
    .session_beat = mongo_document_beat,
    .session_mark = mongo_plain_mark,
    .session_end = mongo_plain_end,
    .sessions_look = mongo_plain_sessions_look,
    .step = mongo_plain_step,
    .claim = mongo_document_claim,
    .refresh = mongo_document_refresh,
    .lease_renew = mongo_plain_lease_renew,
    .canonical = mongo_document_canonical,
    .look = mongo_look,
    .list = mongo_outcome_list,
    .list_sessions = mongo_plain_list_sessions,
    .ask = mongo_plain_ask,
    .await = mongo_await,
    .wake = mongo_wake,
    .sweep = mongo_plain_sweep,
    .doctor = mongo_doctor,
    .history_add = mongo_history_add,
    .history = mongo_history,
    .previous = mongo_outcome_previous,
    .lasts = mongo_outcome_lasts,
};

static const hf_store_ops sharding_ops = {
    .scheme = "mongodb",
    .close = close_store,
    .hurry = mongo_hurry,
    .bound = mongo_bound,
    .connect = mongo_connect,
    .session_begin = sharding_session_begin,
    .session_beat = sharding_session_beat,
    .session_mark = mongo_plain_mark,
    .session_end = sharding_session_end,
    .sessions_look = mongo_plain_sessions_look,
    .step = mongo_plain_step,
    .lease_renew = sharding_lease_renew,
    .unlock_all = sharding_process_end,
    .unlock_session = sharding_lock_session_end,
    .look = mongo_look,
    .list = mongo_outcome_list,
    .list_sessions = sharding_list_sessions,
    .ask = mongo_plain_ask,
    .await = mongo_await,
    .wake = mongo_wake,
    .sweep = sharding_sweep,
    .doctor = mongo_doctor,
    .history_add = mongo_history_add,
    .history = mongo_history,
    .previous = mongo_outcome_previous,
    .lasts = mongo_outcome_lasts,
};

static const struct {
    const mongo_protocol *is;
    const hf_store_ops *ops;
} protocols[] = {[MONGO_QUEUE] = {&mongo_queue, &queue_ops},
                 [MONGO_TTL] = {&mongo_ttl, &ttl_ops},
                 [MONGO_DOCUMENT] = {&mongo_document, &document_ops},
                 [MONGO_SHARDING] = {&mongo_sharding_protocol, &sharding_ops}};

/* ---- Open ---- */

static void start_driver(void)
{
    /* The driver writes warnings to stderr, also while it starts, but the library must print
     * nothing. The driver's log handler is global, and nobody can ask which one is set. So it is
     * removed once, instead of being set to one store's log. A program that wants the driver's log
     * sets its own handler after hf_open(). */
    mongoc_log_set_handler(NULL, NULL);
    mongoc_init();
}

void mongo_start(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, start_driver);
}

#define REPLY_MS 1000   /* the socket waits this much longer than the server */
#define CONNECT_MS 4000 /* four round trips to a server that is a second away, with TLS */

/* What a beat may take is a part of the lease, and no small one: a set that acknowledges late, and
 * a network that stands still for seconds, cost no lock. A beat whose server is no longer the
 * primary is given up sooner (connection.c). Two that fail one after the other leave time for a
 * third (R7). A beat that keeps no lock may go with the other calls, if one that hangs there leaves
 * time for another in the lease. Looks and such beats wait for each other for a little part of the
 * lease, so that a process that waits needs one connection for them. */
static void prepare_pools(mongo_store *store)
{
    int64_t ttl_ms = store->config.ttl_ms;
    int64_t command_ms = store->uri.command_ms;
    mongo_limits work = {.connect_ms = CONNECT_MS,
                         .socket_ms = command_ms + REPLY_MS,
                         .wait_ms = command_ms,
                         .turn_ms = ttl_ms / 40};
    mongo_limits beats = {.connect_ms = ttl_ms / 3, .socket_ms = ttl_ms / 3, .wait_ms = ttl_ms / 3};
    mongo_pool_init(&store->work, store->uri.driver, work);
    mongo_pool_init(&store->beats, store->uri.driver, beats);
    mongo_limits listens = work;
    listens.socket_ms += MONGO_AWAIT_MS;
    mongo_pool_init(&store->listens, store->uri.driver, listens);
    store->shares_beats = work.socket_ms <= ttl_ms / 2;
}

static void warn_if_weak(mongo_store *store)
{
    if (store->uri.weak)
        mongo_log(
            store, HF_LOG_WARNING,
            "hfWeakWrites=yes: writes are not confirmed by a majority, so that a failover can "
            "give one lock to two holders; use it in tests only");
}

static void warn_of_ignored(mongo_store *store)
{
    if (store->uri.ignored)
        mongo_log(store, HF_LOG_WARNING,
                  "the MongoDB URI has options that are not known here and change nothing: %.600s",
                  store->uri.ignored);
}

static const mongo_protocol *protocol_of(const mongo_uri *uri)
{
    return uri->array ? &mongo_element : protocols[uri->protocol].is;
}

static int64_t default_ttl_ms(const mongo_uri *uri)
{
    const mongo_protocol *protocol = protocol_of(uri);
    return protocol->default_ttl_ms ? protocol->default_ttl_ms(uri) : MONGO_TTL_MS;
}

int64_t mongo_default_ttl_ms(const char *uri)
{
    mongo_uri read;
    mongo_start();
    if (mongo_uri_read(uri, &read, NULL))
        return MONGO_TTL_MS;
    int64_t ttl_ms = default_ttl_ms(&read);
    mongo_uri_done(&read);
    return ttl_ms;
}

hf_code mongo_open(const char *uri, const hf_store_config *config, hf_store **out,
                   int64_t *patience_ms, hf_error *err)
{
    mongo_uri read;
    mongo_start();
    hf_code code = mongo_uri_read(uri, &read, err);
    if (code)
        return code;
    const mongo_protocol *protocol = protocol_of(&read);
    int64_t ttl_ms = config->chooses_ttl ? default_ttl_ms(&read) : config->ttl_ms;
    code = protocol->check ? protocol->check(&read, ttl_ms, err) : HF_OK;
    if (!code)
        code = mongo_tls_check(read.driver, err);
    if (code) {
        mongo_uri_done(&read);
        return code;
    }
    mongo_store *store = alloc_zeroed(sizeof *store);
    store->protocol = protocol;
    store->base = (hf_store){.ops = protocols[read.protocol].ops,
                             .is_remote = true,
                             .await_ms = MONGO_AWAIT_MS,
                             .can = protocol->can | (read.token_field ? HF_CAN_TOKENS : 0) |
                                    (mongo_history_is_kept(&read) ? HF_CAN_HISTORY : 0),
                             .wait_ms = protocol->wait_ms,
                             .name_prefix = read.name_prefix,
                             .protocol = mongo_protocol_names[read.protocol]};
    store->config = *config;
    store->config.ttl_ms = store->base.ttl_ms = ttl_ms;
    store->owner = getpid();
    store->uri = read;
    pthread_mutex_init(&store->mutex, NULL);
    prepare_pools(store);
    mongo_watch_init(store);
    mongo_fair_open(store);
    warn_if_weak(store);
    warn_of_ignored(store);
    *patience_ms = mongoc_uri_get_option_as_int32(read.driver, MONGOC_URI_SERVERSELECTIONTIMEOUTMS,
                                                  (int32_t)*patience_ms);
    if (protocol->open)
        protocol->open(store);
    *out = &store->base;
    return HF_OK;
}
