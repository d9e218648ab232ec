/* SPDX-License-Identifier: Apache-2.0 */
/* set.c: notes which replica sets the servers belong to that answer: the driver passes over those
 * of another set than the URI names, without a word. pool.c and server.c call it. */
#include "store/mongo/driver/set.h"
#include "core/error.h"
#include "store/mongo/driver/reply.h"

#include <stdio.h>

void mongo_note_set(mongo_store *store, const bson_t *hello)
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
