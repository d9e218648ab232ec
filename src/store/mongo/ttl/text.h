/* SPDX-License-Identifier: Apache-2.0 */
/* text.h: texts of protocol `ttl` for the server, with the names of the fields put in.
 *
 * In a text, @ stands for the field of the date, ~ for that of the owner, #o for the date from
 * before which a document's time has passed, #f for a date that has just begun, and #r for one that
 * begins anew, in a document that says how long it lasts. */
#ifndef STORE_MONGO_TTL_TEXT_H
#define STORE_MONGO_TTL_TEXT_H

#include "store/mongo/driver/store.h"

/* Written by us. */
#define TTL_IS_OURS                                                                                \
    "{'$and': [{'$eq': [{'$type': '$ticket'}, 'objectId']},"                                       \
    " {'$eq': [{'$type': '$ttl_ms'}, 'int']}, {'$gt': ['$ttl_ms', 0]}]}"

/* The article spells its owner's field in two ways. */
#define TTL_OWNER "acquirer"
#define TTL_OWNER_TOO "aqcuirer"

/* A lock, ours or not: its owner is named, or nothing is there but a time. Other documents are
 * somebody's data. */
#define TTL_IS_LOCK                                                                                \
    "{'$or': [" TTL_IS_OURS ", {'$ne': [{'$type': '$~'}, 'missing']},"                             \
    " {'$ne': [{'$type': '$" TTL_OWNER "'}, 'missing']},"                                          \
    " {'$ne': [{'$type': '$" TTL_OWNER_TOO "'}, 'missing']},"                                      \
    " {'$setIsSubset': [{'$map': {'input': {'$objectToArray': '$$ROOT'}, 'in': '$$this.k'}},"      \
    " ['_id', '@']]}]}"

/* The caller frees it. */
char *mongo_ttl_text(const mongo_store *store, const char *text);

/* Whether a document that was read is a lock: as TTL_IS_LOCK on the server. */
bool mongo_ttl_is_lock(const mongo_store *store, const bson_t *doc);
/* How long a document of ours says that it lasts, in ms; 0: another program wrote it. As
 * TTL_IS_OURS on the server. */
int32_t mongo_ttl_of(const bson_t *doc);

#endif
