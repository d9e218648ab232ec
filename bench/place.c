/* SPDX-License-Identifier: Apache-2.0 */
/* place.c: reads the store's URI, and removes in the end what was made there; see place.h. */
#include "place.h"

#include <mongoc/mongoc.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <unistd.h>

#include "bench.h"

/* ---- Reading ---- */

static void read_key(struct place *out, const char *key, size_t length)
{
    if (strncmp(key, "hfCollection=", 13) == 0)
        snprintf(out->first, sizeof out->first, "%.*s", (int)length - 13, key + 13);
    else if (strncmp(key, "hfProtocol=", 11) == 0 && strncmp(key, "hfProtocol=queue", length) != 0)
        fail(EX_DATAERR, "hfProtocol",
             "what is measured is protocol queue, and by the part `protocols` the "
             "others: name the store without it");
}

static void copy(char *to, size_t size, const char *from, size_t length)
{
    if (length >= size)
        fail(EX_DATAERR, "the URI", "it is too long");
    memcpy(to, from, length);
    to[length] = '\0';
}

static void read_mongo(struct place *out)
{
    const char *database = strstr(out->uri, "://") + 3;
    size_t length = strcspn(out->uri, "?");
    database += strcspn(database, "/?");
    copy(out->driver_uri, sizeof out->driver_uri, out->uri, length);
    snprintf(out->first, sizeof out->first, "holdfast");
    snprintf(out->database, sizeof out->database, "holdfast");
    if (*database == '/' && strcspn(database + 1, "?"))
        copy(out->database, sizeof out->database, database + 1, strcspn(database + 1, "?"));
    char joint = '?';
    for (const char *key = out->uri + length; *key; key += length) {
        length = strcspn(++key, "&");
        if (strncasecmp(key, "hf", 2) == 0) {
            read_key(out, key, length);
        } else if (length) {
            size_t used = strlen(out->driver_uri);
            snprintf(out->driver_uri + used, sizeof out->driver_uri - used, "%c%.*s", joint,
                     (int)length, key);
            joint = '&';
        }
    }
}

void place_read(struct place *out, const char *uri)
{
    unsigned chance;
    *out = (struct place){.kind = PLACE_MONGO};
    if (getrandom(&chance, sizeof chance, 0) != sizeof chance)
        fail(EX_SOFTWARE, "getrandom", "no random numbers");
    snprintf(out->prefix, sizeof out->prefix, "holdfast-bench-%08x", chance);
    snprintf(out->raw, sizeof out->raw, "%s.raw", out->prefix);
    snprintf(out->side, sizeof out->side, "%s", out->prefix);
    copy(out->uri, sizeof out->uri, uri, strlen(uri));
    if (strncmp(uri, "sqlite:", 7) == 0) {
        out->kind = PLACE_SQLITE;
        copy(out->path, sizeof out->path, uri + 7, strlen(uri + 7));
    } else if (strncmp(uri, "memory:", 7) == 0) {
        out->kind = PLACE_MEMORY;
    } else if (strncmp(uri, "mongodb", 7) == 0 && strstr(uri, "://")) {
        read_mongo(out);
    } else {
        fail(EX_DATAERR, "the store",
             "its URI is like sqlite:PATH or mongodb://HOST:PORT/DATABASE");
    }
}

void place_name(const struct place *place, const char *name, char out[PLACE_NAME_MAX])
{
    snprintf(out, PLACE_NAME_MAX, "%s/%s", place->prefix, name);
}

void place_raw_path(const struct place *place, char out[PLACE_URI_MAX])
{
    int n = snprintf(out, PLACE_URI_MAX, "%s.%s", place->path, place->prefix);
    if (n >= PLACE_URI_MAX)
        fail(EX_DATAERR, place->path, "the path is too long");
}

/* ---- Removing: what fails here is not told; a user who may not delete keeps empty locks, as
 * everybody does ---- */

static void remove_matching(mongoc_database_t *database, const struct place *place, const char *of,
                            bson_t *filter)
{
    char name[PLACE_NAME_MAX + 16];
    snprintf(name, sizeof name, "%s.%s", place->first, of);
    mongoc_collection_t *collection = mongoc_database_get_collection(database, name);
    mongoc_collection_delete_many(collection, filter, NULL, NULL, NULL);
    mongoc_collection_destroy(collection);
    bson_destroy(filter);
}

static void drop_raw(mongoc_database_t *database, const char *name)
{
    mongoc_collection_t *raw = mongoc_database_get_collection(database, name);
    mongoc_collection_drop(raw, NULL);
    mongoc_collection_destroy(raw);
}

static void drop_side(mongoc_client_t *client, const char *name)
{
    mongoc_database_t *side = mongoc_client_get_database(client, name);
    mongoc_database_drop(side, NULL);
    mongoc_database_destroy(side);
}

static void remove_from_mongo(const struct place *place)
{
    mongoc_client_t *client = mongoc_client_new(place->driver_uri);
    if (!client)
        return;
    char ours[PLACE_NAME_MAX];
    snprintf(ours, sizeof ours, "^%s/", place->prefix);
    mongoc_database_t *database = mongoc_client_get_database(client, place->database);
    remove_matching(database, place, "locks", BCON_NEW("_id", BCON_REGEX(ours, "")));
    remove_matching(database, place, "sessions", BCON_NEW("app", BCON_UTF8(place->prefix)));
    drop_raw(database, place->raw);
    drop_side(client, place->side);
    mongoc_database_destroy(database);
    mongoc_client_destroy(client);
}

static void remove_from_sqlite(const struct place *place)
{
    static const char *const ends[] = {"", "-wal", "-shm"};
    char raw[PLACE_URI_MAX], file[PLACE_URI_MAX + 8];
    sqlite3 *db;
    char *text = sqlite3_mprintf("DELETE FROM locks WHERE name GLOB '%q/*';"
                                 "DELETE FROM sessions WHERE app = %Q AND dead_at IS NOT NULL",
                                 place->prefix, place->prefix);
    if (sqlite3_open_v2(place->path, &db, SQLITE_OPEN_READWRITE, NULL) == SQLITE_OK) {
        sqlite3_busy_timeout(db, 5000);
        sqlite3_exec(db, text, NULL, NULL, NULL);
    }
    sqlite3_close(db);
    sqlite3_free(text);
    place_raw_path(place, raw);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        snprintf(file, sizeof file, "%s%s", raw, ends[i]);
        unlink(file);
    }
}

void place_remove(const struct place *place)
{
    if (place->kind == PLACE_MONGO)
        remove_from_mongo(place);
    else if (place->kind == PLACE_SQLITE)
        remove_from_sqlite(place);
}
