/* SPDX-License-Identifier: Apache-2.0 */
/* ttl_index.c: the index that lets MongoDB remove documents of protocol `ttl` whose time has
 * passed, once a minute: read, respected, and made where there is none. */
#include "core/error.h"
#include "store/mongo/parts.h"

#include <stdio.h>

#define NO_COLLECTION 26
#define FOR_EVER_MS (INT64_C(10) * 365 * 86400 * 1000) /* where nothing ends it */

static const char *field_of(const mongo_store *store)
{
    return store->uri.time_field;
}

/* expireAfterSeconds of an index on the date alone, or -1. */
static int64_t seconds_of(const mongo_store *store, const bson_t *index)
{
    bson_t key;
    if (!mongo_view(index, "key", &key) || bson_count_keys(&key) != 1 ||
        !bson_has_field(&key, field_of(store)))
        return -1;
    return mongo_int_at(index, "expireAfterSeconds", -1);
}

/* *out is -1 where there is no such index. */
static hf_code read_seconds(mongo_store *store, int64_t *out, hf_error *err)
{
    static const mongo_call call = {.what = "reading the indexes"};
    bson_t command = BSON_INITIALIZER, batch, index;
    bson_iter_t it;
    mongo_reply reply;
    *out = -1;
    mongo_begin(&command, "listIndexes", store->uri.collection);
    hf_code code = mongo_run(store, &call, &command, &reply, err);
    if (!code && mongo_view(&reply.doc, "cursor.firstBatch", &batch) && bson_iter_init(&it, &batch))
        while (*out < 0 && mongo_next(&it, &index))
            *out = seconds_of(store, &index);
    if (reply.server_code == NO_COLLECTION)
        code = HF_OK;
    bson_destroy(&reply.doc);
    bson_destroy(&command);
    return code;
}

static void adopt(mongo_store *store, int64_t seconds)
{
    int64_t otherwise = store->uri.expires_at ? 0 : FOR_EVER_MS;
    pthread_mutex_lock(&store->mutex);
    store->foreign_ms = seconds < 0 ? otherwise : seconds * 1000;
    store->knows_index = true;
    pthread_mutex_unlock(&store->mutex);
}

static bool is_known(mongo_store *store, bool made)
{
    pthread_mutex_lock(&store->mutex);
    bool known = made ? store->has_indexes : store->knows_index;
    pthread_mutex_unlock(&store->mutex);
    return known;
}

hf_code mongo_ttl_read_index(mongo_store *store, hf_error *err)
{
    int64_t seconds;
    if (is_known(store, false))
        return HF_OK;
    hf_code code = mongo_ready(store, err);
    if (!code)
        code = read_seconds(store, &seconds, err);
    if (code == HF_DENIED) {
        seconds = -1;
        code = HF_OK;
    }
    if (!code)
        adopt(store, seconds);
    return code;
}

/* Under the name that drivers give it: another one would make theirs fail. */
static hf_code make(mongo_store *store, hf_error *err)
{
    static const mongo_call call = {.what = "making the TTL index", .writes = true};
    bson_t command = BSON_INITIALIZER, indexes, index, key;
    char name[128];
    mongo_reply reply;
    mongo_begin(&command, "createIndexes", store->uri.collection);
    BSON_APPEND_ARRAY_BEGIN(&command, "indexes", &indexes);
    BSON_APPEND_DOCUMENT_BEGIN(&indexes, "0", &index);
    BSON_APPEND_DOCUMENT_BEGIN(&index, "key", &key);
    bson_append_int32(&key, field_of(store), -1, 1);
    bson_append_document_end(&index, &key);
    snprintf(name, sizeof name, "%s_1", field_of(store));
    BSON_APPEND_UTF8(&index, "name", name);
    BSON_APPEND_INT64(&index, "expireAfterSeconds", store->uri.expire_after_s);
    bson_append_document_end(&indexes, &index);
    bson_append_array_end(&command, &indexes);
    mongo_append_write_concern(store, &command, false);
    hf_code code = mongo_run(store, &call, &command, &reply, err);
    bson_destroy(&reply.doc);
    bson_destroy(&command);
    return code;
}

/* Locks work without it: it only cleans up after crashes where nobody waits. */
static void warn_of_none(mongo_store *store, const hf_error *why)
{
    mongo_log(store, HF_LOG_WARNING,
              "no TTL index on %s.%s could be made, so documents of dead programs stay until "
              "somebody wants their lock: %.200s. An administrator can run: "
              "db.%s.createIndex({%s: 1}, {expireAfterSeconds: %lld})",
              store->uri.database, store->uri.collection, why->text, store->uri.collection,
              field_of(store), (long long)store->uri.expire_after_s);
}

static void warn_of_other(mongo_store *store, int64_t seconds)
{
    if (seconds != store->uri.expire_after_s)
        mongo_log(store, HF_LOG_WARNING,
                  "the TTL index on %s.%s, field %s, has expireAfterSeconds %lld, not %lld: it is "
                  "left as it is, and respected",
                  store->uri.database, store->uri.collection, field_of(store), (long long)seconds,
                  (long long)store->uri.expire_after_s);
}

hf_code mongo_ttl_settle_index(mongo_store *store, hf_error *err)
{
    int64_t seconds = -1;
    hf_error refused;
    if (is_known(store, true))
        return HF_OK;
    hf_code code = read_seconds(store, &seconds, err);
    if (code && code != HF_DENIED)
        return code;
    bool made = seconds < 0 && make(store, &refused) == HF_OK;
    if (made)
        seconds = store->uri.expire_after_s;
    else if (seconds < 0)
        warn_of_none(store, &refused);
    else
        warn_of_other(store, seconds);
    adopt(store, seconds);
    pthread_mutex_lock(&store->mutex);
    store->has_indexes = true;
    pthread_mutex_unlock(&store->mutex);
    return HF_OK;
}
