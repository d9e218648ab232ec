/* SPDX-License-Identifier: Apache-2.0 */
/* protocols.c: the protocols on a replica set: acquire + release against a raw loop of two majority
 * writes, in turn; and how soon a holder hears that its document was deleted. */
#include "mongo.h"

#include <poll.h>

#define ROUNDS 7
#define ROUND_MS 1000
#define LOSSES 20

typedef struct protocol {
    const char *title, *keys, *collection;
    const char *name; /* of the lock */
    bool tells_lost, is_in_document;
} protocol;

static const protocol protocols[] = {
    {"queue", "hfProtocol=queue", "queue", "pair", false, false},
    {"ttl, updated", "hfProtocol=ttl", "updated", "pair", true, false},
    {"ttl, expire-at", "hfProtocol=ttl&hfShape=expire-at", "expire_at", "pair", true, false},
    {"document", "hfProtocol=document", "documents", "pair", true, true},
    {"sharding", "hfProtocol=sharding", "sharding", "pair", true, false},
};

/* The set's URI with the database bench and these keys. */
static void write_uri(const protocol *p, char *out, size_t size)
{
    const char *uri = bench_uri(), *hosts = strstr(uri, "://") + 3;
    const char *options = strchr(uri, '?');
    int n = (int)(hosts - uri) + (int)strcspn(hosts, "/?");
    snprintf(out, size, "%.*s/bench%s%s%s&hfCollection=%s", n, uri, options ? options : "?",
             options ? "&" : "", p->keys, p->collection);
}

static double raw_pairs_per_s(mongoc_collection_t *raw)
{
    int64_t from = now_ns(), pairs = 0;
    for (; now_ns() - from < ROUND_MS * INT64_C(1000000); pairs++) {
        raw_put(raw, 0);
        raw_remove(raw, 0);
    }
    return (double)pairs * 1e9 / (double)(now_ns() - from);
}

static double pairs_per_s(hf_client *client, const char *name)
{
    int64_t from = now_ns(), pairs = 0;
    hf_error err;
    hf_lock *lock;
    for (; now_ns() - from < ROUND_MS * INT64_C(1000000); pairs++) {
        must(hf_lock_acquire(client, name, NULL, &lock, &err), &err);
        must(hf_lock_release(lock, &err), &err);
        hf_lock_close(lock);
    }
    return (double)pairs * 1e9 / (double)(now_ns() - from);
}

static void measure_pairs(const protocol *p, hf_client *client, mongoc_collection_t *raw)
{
    char title[80];
    series ours = {.n = 0}, loop = {.n = 0};
    pairs_per_s(client, p->name);
    for (int round = 0; round < ROUNDS; round++) {
        series_add(&loop, raw_pairs_per_s(raw));
        series_add(&ours, pairs_per_s(client, p->name));
    }
    snprintf(title, sizeof title, "protocol %s, pairs/s, 1 lock and thread", p->title);
    row(title, &ours, &loop, NO_GOAL);
}

static void delete_all(mongoc_client_t *driver, const protocol *p)
{
    bson_error_t error;
    mongoc_collection_t *locks = mongoc_client_get_collection(driver, "bench", p->collection);
    bson_t all = BSON_INITIALIZER;
    if (!mongoc_collection_delete_many(locks, &all, NULL, NULL, &error))
        fail("deleting the locks", error.message);
    mongoc_collection_destroy(locks);
}

/* The user's document, that the lock stands in. */
static void place(mongoc_client_t *driver, const protocol *p)
{
    if (!p->is_in_document)
        return;
    bson_error_t error;
    mongoc_collection_t *documents = mongoc_client_get_collection(driver, "bench", p->collection);
    bson_t *document = BCON_NEW("_id", BCON_UTF8(p->name));
    if (!mongoc_collection_insert_one(documents, document, NULL, NULL, &error))
        fail("inserting a document", error.message);
    bson_destroy(document);
    mongoc_collection_destroy(documents);
}

static double lose(hf_client *client, mongoc_client_t *driver, const protocol *p)
{
    hf_error err;
    hf_lock *lock;
    must(hf_lock_acquire(client, p->name, NULL, &lock, &err), &err);
    struct pollfd lost = {hf_lock_fd(lock), POLLIN, 0};
    pause_ms(100); /* the stream is open */
    int64_t from = now_ns();
    delete_all(driver, p);
    if (poll(&lost, 1, 20000) != 1)
        fail("lost notice", "it did not come");
    double ms = (double)(now_ns() - from) / 1e6;
    hf_lock_close(lock);
    place(driver, p);
    return ms;
}

static void measure_losses(const protocol *p, hf_client *client, mongoc_client_t *driver)
{
    char title[80];
    series ms = {.n = 0};
    lose(client, driver, p);
    for (int i = 0; i < LOSSES; i++)
        series_add(&ms, lose(client, driver, p));
    snprintf(title, sizeof title, "protocol %s, deletion to lost notice, ms", p->title);
    row(title, &ms, NULL, AT_MOST(200));
}

static void measure(const protocol *p, mongoc_client_t *driver, mongoc_collection_t *raw)
{
    char uri[1024];
    hf_error err;
    hf_client *client;
    write_uri(p, uri, sizeof uri);
    place(driver, p);
    must(hf_open(uri, NULL, &client, &err), &err);
    measure_pairs(p, client, raw);
    if (p->tells_lost)
        measure_losses(p, client, driver);
    hf_close(client);
}

int main(void)
{
    mongoc_init();
    mongoc_client_t *driver = mongoc_client_new(bench_uri());
    mongoc_collection_t *raw = raw_open(driver);
    for (size_t i = 0; i < sizeof protocols / sizeof *protocols; i++)
        measure(&protocols[i], driver, raw);
    mongoc_collection_destroy(raw);
    mongoc_client_destroy(driver);
    mongoc_cleanup();
}
