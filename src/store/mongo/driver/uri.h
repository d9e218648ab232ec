/* SPDX-License-Identifier: Apache-2.0 */
/* uri.h: our keys in a URI. */
#ifndef STORE_MONGO_DRIVER_URI_H
#define STORE_MONGO_DRIVER_URI_H

#include "store/bson.h"
#include "store/mongo/driver/names.h"

#include <holdfast/store.h>
#include <mongoc/mongoc.h>

/* How long a command may take on the server, unless hfCommandMS says otherwise. */
#define MONGO_COMMAND_MS 4000

/* The form of the documents, which the URI names. */
typedef enum mongo_protocol_id {
    MONGO_QUEUE,
    MONGO_TTL,
    MONGO_DOCUMENT,
    MONGO_SHARDING
} mongo_protocol_id;

extern const char *const mongo_protocol_names[];

/* The type of a lockId that we write, and that can be stale; hfLockIdType. */
typedef enum mongo_lock_id_type {
    MONGO_LOCK_ID_OBJECT_ID,
    MONGO_LOCK_ID_UUID,
    MONGO_LOCK_ID_UUID_LEGACY,
    MONGO_LOCK_ID_STRING,
} mongo_lock_id_type;

enum { MONGO_HISTORY_ON, MONGO_HISTORY_OFF };
enum { MONGO_SHAPE_UPDATED, MONGO_SHAPE_EXPIRE_AT };
enum { MONGO_TIME_REFRESHED, MONGO_TIME_EXPIRES };
enum { MONGO_NO_TIME_HELD, MONGO_NO_TIME_STALE };

/* Constant once it has been read. */
typedef struct mongo_uri {
    mongoc_uri_t *driver;
    char *hosts;   /* for error texts */
    char *ignored; /* options that have no effect, for a warning; NULL: there are none */
    char *database;
    char *given;       /* hfCollection, or NULL */
    char *collection;  /* of the locks */
    mongo_names names; /* of what is kept beside it */
    mongo_protocol_id protocol;
    unsigned shape;          /* hfShape: what time_field means */
    char *time_field;        /* hfTimeField */
    char *owner_field;       /* hfOwnerField */
    int64_t expire_after_s;  /* hfExpireAfterSeconds: of the index that is made */
    char *lock_field;        /* hfLockField: of protocol document, a dotted path as time_field is */
    char *token_field;       /* hfTokenField, or NULL */
    char *element;           /* hfElement: "lines.id", if elements of arrays are locked, or NULL: */
    char *array;             /* the array's part of it, */
    const char *element_key; /* and the field that tells its elements apart */
    unsigned lock_id_type;   /* a mongo_lock_id_type */
    unsigned time_means;    /* hfTimeMeans: lockTs is when a lock was refreshed, or ahead of that */
    unsigned no_time_means; /* hfNoTimeMeans: a lockId without lockTs is held for ever, or stale */
    int64_t refresh_ms;     /* hfRefreshMS, and ... */
    int64_t multiplier;     /* ... hfStaleMultiplier: how many of those make a document stale */
    int64_t foreign_refresh_ms; /* how often other programs should refresh their locks */
    int64_t poll_ms;            /* hfPollMS: between tries if there are no notices */
    int64_t fair;               /* hfFair: 1: gives other programs their turn */
    int64_t stream_writes; /* hfStreamWrites: up to so many a second, change streams are read */
    int64_t ping_ms;       /* hfPingMS, hfExpiryMS */
    int64_t expiry_ms;
    int64_t command_ms; /* hfCommandMS: how long a command may take on the server */
    char *name_prefix;  /* hfNamePrefix, or NULL */
    unsigned api;       /* hfApi: the version of the Stable API that commands name; 0: none */
    unsigned history;   /* hfHistory: whether turns that have ended are kept */
    char *process;      /* hfProcess, or NULL */
    char *lock_session; /* hfLockSession: 24 lower-case hexadecimal digits, or NULL */
    unsigned keys;      /* which of the keys that are for some protocols were given */
    bool weak;          /* hfWeakWrites: the user insists on writes that a failover can undo */
} mongo_uri;

hf_code mongo_uri_read(const char *text, mongo_uri *out, hf_error *err);
void mongo_uri_done(mongo_uri *uri);

#endif
