/* SPDX-License-Identifier: Apache-2.0 */
/* ignored.h: options of a URI that have no effect. */
#ifndef STORE_MONGO_DRIVER_IGNORED_H
#define STORE_MONGO_DRIVER_IGNORED_H

#include <mongoc/mongoc.h>

/* "foo, compressors=bogus": what the driver ignores of a URI that it has read as `uri`. NULL:
 * nothing. The caller frees it. */
char *mongo_ignored_options(const char *text, const mongoc_uri_t *uri);

#endif
