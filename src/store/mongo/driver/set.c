/* SPDX-License-Identifier: Apache-2.0 */
/* set.c: notes what the servers that answer say of their replica set: which one it is (the driver
 * passes over those of another set than the URI names, without a word), and who is its primary.
 * pool.c and server.c call it. */
#include "store/mongo/driver/set.h"
#include "core/error.h"
#include "store/mongo/driver/reply.h"
#include "sync/mutex_scope.h"

#include <stdio.h>

static void note_set(mongo_store *store, const bson_t *hello)
{
    const char *wanted = mongoc_uri_get_replica_set(store->uri.driver);
    const char *set = mongo_text_at(hello, "setName", NULL);
    if (!wanted || bson_has_field(hello, "isreplicaset")) /* that one waits for its initiation */
        return;
    pthread_mutex_lock(&store->mutex);
    if (set && strcmp(set, wanted) == 0)
        store->set_seen.is_right = true;
    else if (set)
        snprintf(store->set_seen.other, sizeof store->set_seen.other,
                 "belongs to the set \"%.60s\": name that one", set);
    else
        snprintf(store->set_seen.other, sizeof store->set_seen.other,
                 "belongs to no set: leave out replicaSet");
    pthread_mutex_unlock(&store->mutex);
}

/* Older servers, and the first hello of each connection, have the older word. */
static bool is_primary(const bson_t *hello)
{
    bson_iter_t it;
    return (bson_iter_init_find(&it, hello, "isWritablePrimary") ||
            bson_iter_init_find(&it, hello, "ismaster")) &&
           bson_iter_as_bool(&it) && bson_has_field(hello, "setName");
}

/* The driver goes to the URI's one host, whatever it is, or looks for a set. */
static bool looks_for_a_set(const mongoc_uri_t *uri)
{
    const mongoc_host_list_t *hosts = mongoc_uri_get_hosts(uri);
    return hosts && (hosts->next || mongoc_uri_get_replica_set(uri)) &&
           !mongoc_uri_get_option_as_bool(uri, MONGOC_URI_DIRECTCONNECTION, false);
}

static void note_primary(mongo_store *store, const bson_t *hello)
{
    const char *host = mongo_text_at(hello, "me", "");
    if (!is_primary(hello) || strlen(host) >= MONGO_HOST_SIZE ||
        !looks_for_a_set(store->uri.driver))
        return;
    MUTEX_SCOPE(&store->mutex);
    strcpy(store->primary, host);
}

void mongo_note_hello(mongo_store *store, const bson_t *hello)
{
    note_set(store, hello);
    note_primary(store, hello);
}

bool mongo_primary_of(mongo_store *store, char out[MONGO_HOST_SIZE])
{
    MUTEX_SCOPE(&store->mutex);
    strcpy(out, store->primary);
    return *out;
}

void mongo_forget_primary(mongo_store *store)
{
    MUTEX_SCOPE(&store->mutex);
    store->primary[0] = '\0';
}

hf_code mongo_other_set(mongo_store *store, hf_error *err)
{
    char other[sizeof store->set_seen.other] = "";
    pthread_mutex_lock(&store->mutex);
    if (!store->set_seen.is_right)
        memcpy(other, store->set_seen.other, sizeof other);
    pthread_mutex_unlock(&store->mutex);
    if (!*other)
        return HF_OK;
    return error_set(err, HF_INVALID, "replicaSet=%.60s: mongodb at %.120s %s",
                     mongoc_uri_get_replica_set(store->uri.driver), store->uri.hosts, other);
}
