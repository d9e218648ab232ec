/* SPDX-License-Identifier: Apache-2.0 */
/* raw.c: writes by hand to MongoDB, and to an SQLite file; see raw.h. */
#include "raw.h"

#include <mongoc/mongoc.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"

#define DUPLICATE_KEY 11000
#define UNAUTHORIZED 13

struct raw {
    mongoc_client_pool_t *pool;
    mongoc_client_t *client;
    mongoc_collection_t *collection;
    sqlite3 *db;
    sqlite3_stmt *begin, *commit, *put, *try, *remove;
};

bool raw_is_there(const struct place *place)
{
    return place->kind != PLACE_MEMORY;
}

/* ---- MongoDB ---- */

/* From a pool: a client without one would stop writing to wait for members that are silent. */
static void open_mongo(struct raw *on, const struct place *place)
{
    mongoc_uri_t *uri = mongoc_uri_new(place->driver_uri);
    on->pool = uri ? mongoc_client_pool_new(uri) : NULL;
    mongoc_uri_destroy(uri);
    if (!on->pool)
        fail(EX_DATAERR, "the driver", "it does not take the URI");
    on->client = mongoc_client_pool_pop(on->pool);
    on->collection = mongoc_client_get_collection(on->client, place->database, place->raw);
    mongoc_write_concern_t *concern = mongoc_write_concern_new();
    mongoc_write_concern_set_wmajority(concern, 0);
    mongoc_write_concern_set_journal(concern, true);
    mongoc_collection_set_write_concern(on->collection, concern);
    mongoc_write_concern_destroy(concern);
}

static void close_mongo(struct raw *on)
{
    mongoc_collection_destroy(on->collection);
    mongoc_client_pool_push(on->pool, on->client);
    mongoc_client_pool_destroy(on->pool);
}

void raw_connect(struct raw *on)
{
    bson_error_t error;
    if (!on->client)
        return;
    mongoc_server_description_t *primary =
        mongoc_client_select_server(on->client, true, NULL, &error);
    if (!primary)
        fail(EX_UNAVAILABLE, "the driver", error.message);
    mongoc_server_description_destroy(primary);
}

static void put_mongo(struct raw *on, int id)
{
    bson_error_t error;
    bson_t *filter = BCON_NEW("_id", BCON_INT32(id));
    bson_t *update = BCON_NEW("$set", "{", "at", BCON_INT64(now_ns()), "}");
    bson_t *options = BCON_NEW("upsert", BCON_BOOL(true));
    if (!mongoc_collection_update_one(on->collection, filter, update, options, NULL, &error))
        fail(EX_UNAVAILABLE, "raw upsert", error.message);
    bson_destroy(options);
    bson_destroy(update);
    bson_destroy(filter);
}

void raw_put_many(struct raw *on, int n)
{
    bson_error_t error;
    bson_t *options =
        BCON_NEW("ordered", BCON_BOOL(false), "writeConcern", "{", "w", BCON_INT32(1), "}");
    mongoc_bulk_operation_t *bulk =
        mongoc_collection_create_bulk_operation_with_opts(on->collection, options);
    for (int i = 1; i <= n; i++) {
        bson_t *filter = BCON_NEW("_id", BCON_INT32(i));
        bson_t *update = BCON_NEW("$set", "{", "at", BCON_INT64(now_ns()), "}");
        mongoc_bulk_operation_update_one(bulk, filter, update, true);
        bson_destroy(update);
        bson_destroy(filter);
    }
    if (!mongoc_bulk_operation_execute(bulk, NULL, &error))
        fail(EX_UNAVAILABLE, "raw upserts", error.message);
    mongoc_bulk_operation_destroy(bulk);
    bson_destroy(options);
}

static bool try_mongo(struct raw *on, int id)
{
    bson_error_t error;
    bson_t *document = BCON_NEW("_id", BCON_INT32(id));
    bool is_in = mongoc_collection_insert_one(on->collection, document, NULL, NULL, &error);
    if (!is_in && error.code != DUPLICATE_KEY)
        fail(EX_UNAVAILABLE, "raw insert", error.message);
    bson_destroy(document);
    return is_in;
}

static void remove_mongo(struct raw *on, int id)
{
    bson_error_t error;
    bson_t *filter = BCON_NEW("_id", BCON_INT32(id));
    if (!mongoc_collection_delete_one(on->collection, filter, NULL, NULL, &error))
        fail(EX_UNAVAILABLE, "raw delete", error.message);
    bson_destroy(filter);
}

static bool is_denied(bool is_done, const bson_error_t *error)
{
    return !is_done && error->code == UNAUTHORIZED;
}

static void check_mongo(const struct raw *on)
{
    bson_error_t error;
    bson_t *document = BCON_NEW("_id", BCON_INT32(0));
    if (is_denied(mongoc_collection_drop(on->collection, &error), &error) ||
        is_denied(mongoc_collection_insert_one(on->collection, document, NULL, NULL, &error),
                  &error))
        fail(EX_UNAVAILABLE, error.message,
             "nothing is measured: it takes find, insert, update, remove, createCollection, "
             "convertToCapped and dropCollection on all collections of the database");
    mongoc_collection_drop(on->collection, NULL);
    bson_destroy(document);
}

/* ---- SQLite ---- */

static void check(const struct raw *on, int rc)
{
    if (rc != SQLITE_OK && rc != SQLITE_DONE)
        fail(EX_UNAVAILABLE, "raw transaction", sqlite3_errmsg(on->db));
}

static sqlite3_stmt *prepare(const struct raw *on, const char *text)
{
    sqlite3_stmt *statement;
    check(on, sqlite3_prepare_v2(on->db, text, -1, &statement, NULL));
    return statement;
}

static void open_sqlite(struct raw *on, const struct place *place)
{
    char path[PLACE_URI_MAX];
    place_raw_path(place, path);
    check(on, sqlite3_open(path, &on->db));
    sqlite3_busy_timeout(on->db, 60000);
    check(on, sqlite3_exec(on->db,
                           "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;"
                           "CREATE TABLE IF NOT EXISTS raw (name INTEGER PRIMARY KEY,"
                           " owner BLOB NOT NULL)",
                           NULL, NULL, NULL));
    on->begin = prepare(on, "BEGIN IMMEDIATE");
    on->commit = prepare(on, "COMMIT");
    on->put = prepare(on, "INSERT INTO raw VALUES(?1, zeroblob(100))"
                          " ON CONFLICT DO UPDATE SET owner = excluded.owner");
    on->try = prepare(on, "INSERT OR IGNORE INTO raw VALUES(?1, zeroblob(100))");
    on->remove = prepare(on, "DELETE FROM raw WHERE name = ?1");
}

static void close_sqlite(struct raw *on)
{
    sqlite3_finalize(on->begin);
    sqlite3_finalize(on->commit);
    sqlite3_finalize(on->put);
    sqlite3_finalize(on->try);
    sqlite3_finalize(on->remove);
    sqlite3_close(on->db);
}

/* How many rows it changed. */
static int transact(const struct raw *on, sqlite3_stmt *change, int id)
{
    sqlite3_stmt *const all[] = {on->begin, change, on->commit};
    int changed = 0;
    check(on, sqlite3_bind_int(change, 1, id));
    for (size_t i = 0; i < 3; i++) {
        check(on, sqlite3_step(all[i]));
        if (all[i] == change)
            changed = sqlite3_changes(on->db);
        sqlite3_reset(all[i]);
    }
    return changed;
}

/* ---- Either ---- */

struct raw *raw_open(const struct place *place)
{
    struct raw *on = calloc(1, sizeof *on);
    if (!on)
        fail(EX_SOFTWARE, "raw", "out of memory");
    if (place->kind == PLACE_MONGO)
        open_mongo(on, place);
    else
        open_sqlite(on, place);
    return on;
}

void raw_check_rights(const struct place *place)
{
    if (place->kind != PLACE_MONGO)
        return;
    struct raw *on = raw_open(place);
    check_mongo(on);
    raw_close(on);
}

void raw_close(struct raw *on)
{
    if (on->db)
        close_sqlite(on);
    else
        close_mongo(on);
    free(on);
}

void raw_put(struct raw *on, int id)
{
    if (on->db)
        transact(on, on->put, id);
    else
        put_mongo(on, id);
}

bool raw_try(struct raw *on, int id)
{
    return on->db ? transact(on, on->try, id) == 1 : try_mongo(on, id);
}

void raw_remove(struct raw *on, int id)
{
    if (on->db)
        transact(on, on->remove, id);
    else
        remove_mongo(on, id);
}
