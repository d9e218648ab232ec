/* SPDX-License-Identifier: Apache-2.0 */
/* stream.h: the driver's way to a member, through sockets of the driver, with waits that end early.
 */
#ifndef STORE_MONGO_DRIVER_STREAM_H
#define STORE_MONGO_DRIVER_STREAM_H

#include "store/mongo/driver/connection.h"

/* The driver calls this for each member that it asks; ctx is the mongo_connection. It does not wait
 * until the member answers. */
mongoc_stream_t *mongo_stream_open(const mongoc_uri_t *uri, const mongoc_host_list_t *host,
                                   void *ctx, bson_error_t *error);

#endif
