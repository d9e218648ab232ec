/* SPDX-License-Identifier: Apache-2.0 */
/* data_mongo.c: the counters as documents {_id, value, fence} of the collection "torture", in the
 * database of the locks; they are made by the campaign. */
#include "data.h"

#include <mongoc/mongoc.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct mongo {
    counters base;
    mongoc_client_t *client;
    mongoc_collection_t *collection;
} mongo;

static hf_code failed(hf_code code, const bson_error_t *error, hf_error *err)
{
    err->code = code;
    snprintf(err->text, sizeof err->text, "%.400s", error->message);
    return code;
}

static void close_mongo(counters *data)
{
    mongo *self = (mongo *)data;
    mongoc_collection_destroy(self->collection);
    mongoc_client_destroy(self->client);
    free(self);
}

static hf_code update_guarded(mongo *self, const char *name, int64_t token, const char *field,
                              int64_t value, hf_error *err)
{
    bson_t *filter = BCON_NEW("_id", BCON_UTF8(name));
    bson_t *update = BCON_NEW("$set", "{", field, BCON_INT64(value), "}");
    hf_code code = hf_guard_mongo(self->collection, filter, update, NULL, token, err);
    bson_destroy(update);
    bson_destroy(filter);
    return code;
}

static hf_code fence_mongo(counters *data, const char *name, int64_t token, hf_error *err)
{
    return update_guarded((mongo *)data, name, token, "reader", token, err);
}

static hf_code read_mongo(counters *data, const char *name, int64_t *fence, int64_t *value,
                          hf_error *err)
{
    mongo *self = (mongo *)data;
    bson_t *filter = BCON_NEW("_id", BCON_UTF8(name));
    bson_t *options = BCON_NEW("readConcern", "{", "level", "majority", "}");
    mongoc_cursor_t *cursor =
        mongoc_collection_find_with_opts(self->collection, filter, options, NULL);
    const bson_t *found = NULL;
    bson_error_t error = {.message = "the counter is not there"};
    bson_iter_t at;
    hf_code code = HF_OK;
    if (!mongoc_cursor_next(cursor, &found)) {
        mongoc_cursor_error(cursor, &error);
        code = failed(HF_UNREACHABLE, &error, err);
    } else {
        *fence = bson_iter_init_find(&at, found, "fence") ? bson_iter_as_int64(&at) : 0;
        *value = bson_iter_init_find(&at, found, "value") ? bson_iter_as_int64(&at) : 0;
    }
    mongoc_cursor_destroy(cursor);
    bson_destroy(options);
    bson_destroy(filter);
    return code;
}

static hf_code update_plain(mongo *self, const char *name, int64_t value, hf_error *err)
{
    bson_t *filter = BCON_NEW("_id", BCON_UTF8(name));
    bson_t *update = BCON_NEW("$set", "{", "value", BCON_INT64(value), "}");
    bson_t *options =
        BCON_NEW("writeConcern", "{", "w", "majority", "wtimeout", BCON_INT32(10000), "}");
    bson_error_t error;
    hf_code code = HF_OK;
    if (!mongoc_collection_update_one(self->collection, filter, update, options, NULL, &error))
        code = failed(HF_UNKNOWN, &error, err);
    bson_destroy(options);
    bson_destroy(update);
    bson_destroy(filter);
    return code;
}

static hf_code write_mongo(counters *data, const char *name, int64_t token, int64_t value,
                           hf_error *err)
{
    if (token)
        return update_guarded((mongo *)data, name, token, "value", value, err);
    return update_plain((mongo *)data, name, value, err);
}

counters *data_open_mongo(const char *text)
{
    mongoc_init();
    mongoc_uri_t *uri = mongoc_uri_new(text);
    if (!uri)
        return NULL;
    mongoc_uri_set_option_as_int32(uri, MONGOC_URI_SERVERSELECTIONTIMEOUTMS, 3000);
    mongoc_uri_set_option_as_int32(uri, MONGOC_URI_CONNECTTIMEOUTMS, 1000);
    mongoc_uri_set_option_as_int32(uri, MONGOC_URI_SOCKETTIMEOUTMS, 5000);
    mongo *self = calloc(1, sizeof *self);
    if (!self)
        abort();
    self->base = (counters){
        .close = close_mongo, .fence = fence_mongo, .read = read_mongo, .write = write_mongo};
    self->client = mongoc_client_new_from_uri(uri);
    self->collection =
        mongoc_client_get_collection(self->client, mongoc_uri_get_database(uri), "torture");
    mongoc_uri_destroy(uri);
    return &self->base;
}
