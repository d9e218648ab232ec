/* SPDX-License-Identifier: Apache-2.0 */
/* protocols.c: the protocols on MongoDB, in a database of their own: acquire + release in turn with
 * the loop by hand; and how soon a holder hears that its document was deleted. */
#include <mongoc/mongoc.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "bench.h"
#include "raw.h"
#include "table.h"

#define ROUND_NS INT64_C(500000000)
#define LOSSES 4 /* for each run that was asked for */
#define NAME "pair"

typedef struct protocol {
    const char *title, *keys, *collection;
    bool tells_lost, is_in_document;
} protocol;

static const protocol protocols[] = {
    {"queue", "hfProtocol=queue", "queue", false, false},
    {"ttl, updated", "hfProtocol=ttl", "updated", true, false},
    {"ttl, expire-at", "hfProtocol=ttl&hfShape=expire-at", "expire_at", true, false},
    {"document", "hfProtocol=document", "documents", true, true},
    {"sharding", "hfProtocol=sharding", "sharding", true, false},
};

/* The same server, with a database of our own and these keys. A user with a password and no
 * authSource is looked up in the database that the URI names. */
static void write_uri(const struct place *place, const protocol *p, char *out, size_t size)
{
    const char *uri = place->driver_uri, *hosts = strstr(uri, "://") + 3;
    const char *options = strchr(uri, '?');
    int n = (int)(hosts - uri) + (int)strcspn(hosts, "/?");
    bool has_source = !strchr(hosts, '@') || (options && strstr(options, "authSource="));
    snprintf(out, size, "%.*s/%s%s%s%s%s%s&hfCollection=%s", n, uri, place->side,
             options ? options : "?",
             has_source ? ""
             : options  ? "&authSource="
                        : "authSource=",
             has_source                           ? ""
             : hosts[strcspn(hosts, "/?")] == '/' ? place->database
                                                  : "admin",
             has_source && !options ? "" : "&", p->keys, p->collection);
}

static double raw_pairs_per_s(struct raw *raw)
{
    int64_t from = now_ns(), pairs = 0;
    for (; now_ns() - from < ROUND_NS; pairs++) {
        raw_put(raw, 0);
        raw_remove(raw, 0);
    }
    return (double)pairs * 1e9 / (double)(now_ns() - from);
}

static double pairs_per_s(hf_client *client)
{
    int64_t from = now_ns(), pairs = 0;
    hf_error err;
    hf_lock *lock;
    for (; now_ns() - from < ROUND_NS; pairs++) {
        must(hf_lock_acquire(client, NAME, NULL, &lock, &err), &err);
        must(hf_lock_release(lock, &err), &err);
        hf_lock_close(lock);
    }
    return (double)pairs * 1e9 / (double)(now_ns() - from);
}

static void measure_pairs_of(const struct bench *bench, const protocol *p, hf_client *client,
                             struct raw *raw)
{
    series ours = {.n = 0}, loop = {.n = 0};
    pairs_per_s(client);
    for (int run = 0; run < bench->runs; run++) {
        series_add(&loop, raw_pairs_per_s(raw));
        series_add(&ours, pairs_per_s(client));
    }
    table_ratio(&ours, &loop, NO_GOAL, "protocol %s, pairs/s", p->title);
}

static void delete_all(mongoc_collection_t *locks)
{
    bson_error_t error;
    bson_t all = BSON_INITIALIZER;
    if (!mongoc_collection_delete_many(locks, &all, NULL, NULL, &error))
        fail(EX_UNAVAILABLE, "deleting the locks", error.message);
}

/* The user's document, that the lock stands in. False: no documents can be made there. */
static bool place_document(mongoc_collection_t *documents)
{
    bson_t *document = BCON_NEW("_id", BCON_UTF8(NAME));
    bool is_there = mongoc_collection_insert_one(documents, document, NULL, NULL, NULL);
    bson_destroy(document);
    return is_there;
}

static double lose(hf_client *client, mongoc_collection_t *locks, const protocol *p)
{
    hf_error err;
    hf_lock *lock;
    must(hf_lock_acquire(client, NAME, NULL, &lock, &err), &err);
    struct pollfd lost = {hf_lock_fd(lock), POLLIN, 0};
    pause_ms(100); /* the stream is open */
    int64_t from = now_ns();
    delete_all(locks);
    if (poll(&lost, 1, 20000) != 1)
        fail(EX_UNAVAILABLE, "lost notice", "it did not come");
    double ms = (double)(now_ns() - from) / 1e6;
    hf_lock_close(lock);
    if (p->is_in_document)
        place_document(locks);
    return ms;
}

static void measure_losses(const struct bench *bench, const protocol *p, hf_client *client,
                           mongoc_collection_t *locks)
{
    series ms = {.n = 0};
    lose(client, locks, p);
    for (int i = 0; i < bench->runs * LOSSES; i++)
        series_add(&ms, lose(client, locks, p));
    table_row(&ms, AT_MOST(200), "protocol %s, deletion to lost notice, ms", p->title);
}

static void measure(const struct bench *bench, const protocol *p, mongoc_client_t *driver,
                    struct raw *raw)
{
    char uri[PLACE_URI_MAX + 512];
    hf_error err;
    hf_client *client;
    hf_options options = {.app = bench->place.prefix};
    mongoc_collection_t *locks =
        mongoc_client_get_collection(driver, bench->place.side, p->collection);
    write_uri(&bench->place, p, uri, sizeof uri);
    if (p->is_in_document)
        place_document(locks);
    must(hf_open(uri, &options, &client, &err), &err);
    measure_pairs_of(bench, p, client, raw);
    if (p->tells_lost)
        measure_losses(bench, p, client, locks);
    hf_close(client);
    mongoc_collection_destroy(locks);
}

static bool may_make(const struct place *place, mongoc_client_t *driver)
{
    mongoc_collection_t *first = mongoc_client_get_collection(driver, place->side, "first");
    bool may = place_document(first);
    mongoc_collection_destroy(first);
    return may;
}

void measure_protocols(const struct bench *bench)
{
    if (bench->place.kind != PLACE_MONGO) {
        table_note("needs MongoDB", "the other protocols");
        return;
    }
    mongoc_client_t *driver = mongoc_client_new(bench->place.driver_uri);
    struct raw *raw = raw_open(&bench->place);
    if (may_make(&bench->place, driver))
        for (size_t i = 0; i < sizeof protocols / sizeof *protocols; i++)
            measure(bench, &protocols[i], driver, raw);
    else
        table_note("need a database of their own, which this user may not make",
                   "the other protocols");
    raw_close(raw);
    mongoc_client_destroy(driver);
}
