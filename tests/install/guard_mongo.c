/* SPDX-License-Identifier: Apache-2.0 */
/* A user's program that guards a write to MongoDB: the library can use its collection, which is of
 * the driver that pkg-config names. No server is there. */
#include <holdfast/holdfast.h>
#include <mongoc/mongoc.h>
#include <stdio.h>

static const char uri[] = "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=200";

int main(void)
{
    hf_error err;
    mongoc_init();
    mongoc_client_t *client = mongoc_client_new(uri);
    mongoc_collection_t *collection = mongoc_client_get_collection(client, "app", "reports");
    bson_t *filter = BCON_NEW("_id", BCON_INT32(1));
    bson_t *update = BCON_NEW("$set", "{", "pages", BCON_INT32(17), "}");
    hf_guard_mongo(collection, filter, update, NULL, 1, &err);
    printf("%s: %s\n", hf_code_name(err.code), err.text);
    bson_destroy(update);
    bson_destroy(filter);
    mongoc_collection_destroy(collection);
    mongoc_client_destroy(client);
    mongoc_cleanup();
    return 0;
}
