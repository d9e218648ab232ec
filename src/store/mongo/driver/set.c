/* SPDX-License-Identifier: Apache-2.0 */
/* set.c: notes what the servers that answer say of their replica set: which one it is (the driver
 * passes over those of another set than the URI names, without a word), and who is its primary.
 * connection.c tells it; connection.c, pool.c and server.c ask. */
#include "store/mongo/driver/set.h"
#include "core/error.h"
#include "core/id.h"
#include "store/mongo/driver/reply.h"
#include "sync/mutex_scope.h"

#include <stdio.h>

static void note_set_locked(mongo_store *store, const bson_t *hello)
{
    const char *wanted = mongoc_uri_get_replica_set(store->uri.driver);
    const char *set = mongo_text_at(hello, "setName", NULL);
    mongo_set_seen *seen = &store->set_seen;
    if (!wanted || bson_has_field(hello, "isreplicaset")) /* that one waits for its initiation */
        return;
    if (set && strcmp(set, wanted) == 0)
        seen->is_right = true;
    else if (set)
        snprintf(seen->other, sizeof seen->other, "belongs to the set \"%.60s\": name that one",
                 set);
    else
        snprintf(seen->other, sizeof seen->other, "belongs to no set: leave out replicaSet");
}

static bool is_primary(const bson_t *hello)
{
    return mongo_hello_takes_writes(hello) && bson_has_field(hello, "setName");
}

void mongo_hello_primary(const bson_t *hello, char out[MONGO_HOST_SIZE])
{
    const char *host = mongo_text_at(hello, "me", "");
    if (is_primary(hello) && strlen(host) < MONGO_HOST_SIZE)
        strcpy(out, host);
}

/* The driver goes to the URI's one host, whatever it is, or looks for a set, as it does behind
 * mongodb+srv, whose URI names no host. */
bool mongo_looks_for_a_set(const mongoc_uri_t *uri)
{
    const mongoc_host_list_t *hosts = mongoc_uri_get_hosts(uri);
    return (!hosts || hosts->next || mongoc_uri_get_replica_set(uri)) &&
           !mongoc_uri_get_option_as_bool(uri, MONGOC_URI_DIRECTCONNECTION, false);
}

static void add_host(char members[MONGO_MEMBERS_SIZE], const char *host)
{
    size_t used = strlen(members);
    if (used + strlen(host) + 2 <= MONGO_MEMBERS_SIZE)
        snprintf(members + used, MONGO_MEMBERS_SIZE - used, "%s%s", used ? "," : "", host);
}

/* Those of the URI stand behind those that the set has named: the driver takes each host once. */
static void note_members_locked(mongo_store *store, const bson_t *hello)
{
    bson_t hosts;
    bson_iter_t it;
    char *members = store->set_seen.members;
    if (!mongo_view(hello, "hosts", &hosts) || !bson_iter_init(&it, &hosts))
        return;
    members[0] = '\0';
    while (bson_iter_next(&it))
        if (BSON_ITER_HOLDS_UTF8(&it))
            add_host(members, bson_iter_utf8(&it, NULL));
    const mongoc_host_list_t *host = mongoc_uri_get_hosts(store->uri.driver);
    for (; host; host = host->next)
        add_host(members, host->host_and_port);
}

/* Two members may say that they are the primary; the one that was elected later is. */
static bool is_stale(const mongo_set_seen *seen, hf_id election)
{
    return *seen->primary && !id_is_zero(election) &&
           memcmp(election.bytes, seen->election.bytes, sizeof election.bytes) < 0;
}

static void note_primary_locked(mongo_store *store, const bson_t *hello, int64_t took_ms)
{
    mongo_set_seen *seen = &store->set_seen;
    const char *wanted = mongoc_uri_get_replica_set(store->uri.driver);
    const char *set = mongo_text_at(hello, "setName", "");
    hf_id election = {{0}};
    mongo_id_at(hello, "electionId", &election);
    if (!is_primary(hello) || !mongo_looks_for_a_set(store->uri.driver) ||
        strlen(set) >= sizeof seen->name || (wanted && strcmp(set, wanted) != 0) ||
        is_stale(seen, election))
        return;
    seen->election = election;
    mongo_hello_primary(hello, seen->primary);
    strcpy(seen->name, set);
    seen->took_ms = took_ms;
    note_members_locked(store, hello);
}

void mongo_note_hello(mongo_store *store, const bson_t *hello, int64_t took_ms)
{
    if (!mongo_true_at(hello, "ok"))
        return;
    MUTEX_SCOPE(&store->mutex);
    note_set_locked(store, hello);
    note_primary_locked(store, hello, took_ms);
}

void mongo_set_get(mongo_store *store, mongo_set_seen *out)
{
    MUTEX_SCOPE(&store->mutex);
    *out = store->set_seen;
}

bool mongo_set_is_former(mongo_store *store, const char *primary)
{
    MUTEX_SCOPE(&store->mutex);
    const mongo_set_seen *seen = &store->set_seen;
    return *seen->name && *seen->primary && *primary && strcmp(seen->primary, primary) != 0;
}

void mongo_forget_primary(mongo_store *store, const char *host)
{
    MUTEX_SCOPE(&store->mutex);
    if (strcmp(store->set_seen.primary, host) == 0)
        store->set_seen.primary[0] = '\0';
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
