/* SPDX-License-Identifier: Apache-2.0 */
/* checked.h: a stream of the driver's that passes on no reply which the driver does not survive. */
#ifndef STORE_MONGO_DRIVER_CHECKED_H
#define STORE_MONGO_DRIVER_CHECKED_H

#include "store/mongo/driver/connection.h"

/* Around a stream of this connection, TLS or plain, which it takes over. It sets
 * connection->is_odd when it refuses a reply; reading then fails with EBADMSG. */
mongoc_stream_t *mongo_checked_around(mongoc_stream_t *inner, mongo_connection *connection);

#endif
