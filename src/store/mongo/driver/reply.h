/* SPDX-License-Identifier: Apache-2.0 */
/* reply.h: values in a reply or a document. */
#ifndef STORE_MONGO_DRIVER_REPLY_H
#define STORE_MONGO_DRIVER_REPLY_H

#include "store/bson.h"

#include <holdfast/store.h>

/* A document inside a reply, for as long as the reply lives. False: there is none. */
bool mongo_view(const bson_t *doc, const char *path, bson_t *out);
bool mongo_next(bson_iter_t *batch, bson_t *doc); /* the next document of a batch */
/* The first document that a find gave; false: none. */
bool mongo_first(const bson_t *reply, bson_t *doc);
int64_t mongo_int_at(const bson_t *doc, const char *path, int64_t otherwise);
hf_stamp mongo_stamp_at(const bson_t *doc, const char *path);
const char *mongo_text_at(const bson_t *doc, const char *path, const char *otherwise);
bool mongo_date_at(const bson_t *doc, const char *path, int64_t *out); /* false: *out stays */
bool mongo_id_at(const bson_t *doc, const char *path, hf_id *out);
bool mongo_true_at(const bson_t *doc, const char *path); /* a number but 0 is, too */

#endif
