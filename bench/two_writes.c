/* SPDX-License-Identifier: Apache-2.0 */
/* two_writes.c: connects and does two majority writes: what `holdfast run` is measured against. */
#include "mongo.h"

int main(void)
{
    mongoc_init();
    mongoc_client_t *client = mongoc_client_new(bench_uri());
    mongoc_collection_t *raw = raw_open(client);
    raw_put(raw, 0);
    raw_remove(raw, 0);
    mongoc_collection_destroy(raw);
    mongoc_client_destroy(client);
    mongoc_cleanup();
}
