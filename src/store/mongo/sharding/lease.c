/* SPDX-License-Identifier: Apache-2.0 */
/* lease.c: ID leases in protocol `sharding`. Here a lease is a process of its own, whose name
 * follows from the lease's id. Renewals are its pings. Other programs take its lock over when it
 * has not pinged for hfExpiryMS, as with any process.
 *
 * A ping revives nothing: it counts only if the one before is younger than the lease. So nobody can
 * have seen the lease expire, and take its lock over, while it is renewed. */
#include "store/mongo/sharding/lease.h"
#include "core/error.h"
#include "core/id.h"
#include "core/record.h"
#include "store/mongo/driver/command.h"
#include "store/mongo/driver/reply.h"
#include "store/mongo/driver/server.h"
#include "store/mongo/driver/text.h"
#include "store/mongo/sharding/calls.h"
#include "store/mongo/sharding/sharding.h"
#include "store/mongo/shared/look.h"

#include <stdio.h>

/* The client's own ttl is asked for where nothing was said. */
hf_code sharding_lease_check(const mongo_store *store, const hf_enter *enter, hf_error *err)
{
    int32_t ttl_ms = enter->entry.ttl_ms;
    if (!enter->lease || ttl_ms <= sharding_lease_ttl_ms(store) || ttl_ms == store->config.ttl_ms)
        return HF_OK;
    return error_set(
        err, HF_INVALID,
        "a lease of %lld ms is longer than half of hfExpiryMS=%lld, after which others "
        "take its lock over: give a shorter ttl",
        (long long)ttl_ms, (long long)store->sharding->settings.expiry_ms);
}

/* ---- Pings ---- */

/* The first makes the document; others count only if the one before is young enough. */
static void append_query(const mongo_store *store, hf_id session, bool is_first, bson_t *command)
{
    static const char young_text[] =
        "{'$gte': ['$ping', {'$subtract': ['$$NOW', {'$numberLong': '%lld'}]}]}";
    char process[SHARDING_PROCESS_MAX + 1], text[sizeof young_text + 32];
    bson_t query;
    sharding_lease_process(session, process);
    BSON_APPEND_DOCUMENT_BEGIN(command, "query", &query);
    BSON_APPEND_UTF8(&query, "_id", process);
    if (!is_first) {
        snprintf(text, sizeof text, young_text, (long long)sharding_lease_ttl_ms(store));
        bson_t *young = pipeline_json(text);
        BSON_APPEND_DOCUMENT(&query, "$expr", young);
        bson_destroy(young);
    }
    bson_append_document_end(command, &query);
}

/* *is_done: it was made, or counts. */
static hf_code ping(mongo_store *store, hf_id session, bool is_first, bool *is_done, hf_error *err)
{
    static const mongo_call call = {.what = "renewing a lease", .writes = true};
    bson_t command = BSON_INITIALIZER, value, x = BSON_INITIALIZER;
    mongo_reply reply;
    mongo_begin(&command, "findAndModify", SHARDING_PINGS);
    append_query(store, session, is_first, &command);
    pipeline_append_text(&command, "update", "{'$mergeObjects': ['$$ROOT', {'ping': '$$NOW'}]}",
                         &x);
    BSON_APPEND_BOOL(&command, "new", true);
    if (is_first)
        BSON_APPEND_BOOL(&command, "upsert", true);
    mongo_append_write_concern(store, &command, false);
    hf_code code = mongo_run(store, &call, &command, &reply, err);
    *is_done = !code && mongo_view(&reply.doc, "value", &value);
    bson_destroy(&reply.doc);
    bson_destroy(&command);
    bson_destroy(&x);
    return code;
}

hf_code sharding_lease_begin(mongo_store *store, hf_id session, hf_error *err)
{
    bool is_done;
    hf_code code = ping(store, session, true, &is_done, err);
    return code == HF_UNREACHABLE ? error_set(err, HF_UNKNOWN, "the lease's first ping failed")
                                  : code;
}

void sharding_lease_end(mongo_store *store, const char *process)
{
    sharding_sent sent;
    if (!sharding_is_lease(process))
        return;
    sharding_stop_ping_of(store, process, &sent, NULL);
    sharding_sent_done(&sent);
}

/* ---- Renewing ---- */

/* Nobody takes over what has just pinged, but it may be free, or forced out. */
static hf_code look(mongo_store *store, const char *name, hf_id ticket, hf_record *out,
                    hf_error *err)
{
    hf_stamp latest = {atomic_load(&store->latest)};
    hf_code code = mongo_look_at(store, name, latest, out, err);
    if (code || record_find(out, ticket))
        return code;
    record_done(out);
    return error_set(err, HF_LOST, "%.128s: it was released, or another holds it", name);
}

hf_code sharding_lease_renew(hf_store *base, const char *name, hf_id session, hf_id ticket,
                             hf_record *out, hf_error *err)
{
    mongo_store *store = (mongo_store *)base;
    bool is_done;
    hf_code code = mongo_ready(store, err);
    if (!code)
        code = ping(store, session, false, &is_done, err);
    if (code)
        return code;
    if (!is_done)
        return error_set(err, HF_LOST, "%.128s: its lease was not renewed in time", name);
    return look(store, name, ticket, out, err);
}
