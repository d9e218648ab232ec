/* SPDX-License-Identifier: Apache-2.0 */
/* tls.h: TLS as a URI asks for it. */
#ifndef STORE_MONGO_DRIVER_TLS_H
#define STORE_MONGO_DRIVER_TLS_H

#include <holdfast/store.h>
#include <mongoc/mongoc.h>

/* HF_INVALID: a file that the URI names cannot be used. It is named, and the password is not. */
hf_code mongo_tls_check(const mongoc_uri_t *uri, hf_error *err);

/* TLS around a stream, as the driver does for streams of its own, and it takes the stream over;
 * NULL: it cannot be, and the stream stays the caller's. */
mongoc_stream_t *mongo_tls_around(mongoc_stream_t *base, const mongoc_uri_t *uri, const char *host);

#endif
