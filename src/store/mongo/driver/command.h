/* SPDX-License-Identifier: Apache-2.0 */
/* command.h: one command, from its parts to its answer. */
#ifndef STORE_MONGO_DRIVER_COMMAND_H
#define STORE_MONGO_DRIVER_COMMAND_H

#include "store/mongo/driver/connection.h"
#include "store/mongo/driver/store.h"

typedef struct mongo_call {
    const char *what;     /* for error texts: "acquiring" */
    const char *name;     /* of the lock, or NULL */
    const char *database; /* NULL: the store's */
    bool writes;          /* without an answer the outcome is unknown */
    bool is_beat;         /* does not wait for long, and uses a connection of its own, unless: */
    bool can_wait;        /* for a moment, until one of the connections is free */
} mongo_call;

/* doc is always the caller's to destroy. server_code: the server's error code, or 0. */
typedef struct mongo_reply {
    bson_t doc;
    int32_t server_code;
    hf_stamp stamp;
} mongo_reply;

void mongo_append_write_concern(const mongo_store *store, bson_t *command, bool is_beat);
/* A read that the present primary confirms. */
void mongo_append_linearizable(mongo_store *store, bson_t *command);
/* A majority read (R1), not older than `after`. */
void mongo_append_read_concern(mongo_store *store, bson_t *command, hf_stamp after);

/* Sends a command to the primary. */
hf_code mongo_run(mongo_store *store, const mongo_call *call, const bson_t *command,
                  mongo_reply *reply, hf_error *err);
/* The same for an upsert: repeats it, within bounds, while it loses the race for a new document. */
hf_code mongo_run_repeated(mongo_store *store, const mongo_call *call, const bson_t *command,
                           mongo_reply *reply, hf_error *err);
/* The same for a read after a stamp: repeats it, within bounds, while the server is behind the
 * stamp. */
hf_code mongo_run_behind(mongo_store *store, const mongo_call *call, const bson_t *command,
                         mongo_reply *reply, hf_error *err);
/* What a cursor of this connection has met; HF_OK: nothing. */
hf_code mongo_cursor_fault(mongo_store *store, const mongo_call *call,
                           const mongo_connection *connection, mongoc_cursor_t *cursor,
                           hf_error *err);
/* Ends a cursor of a collection; best effort. */
void mongo_kill_cursor(mongo_store *store, const mongo_call *call, const char *collection,
                       int64_t cursor);
void mongo_append_stamp(bson_t *to, const char *field, hf_stamp stamp); /* as a timestamp */
/* Begins a command that names a collection: {command: collection ... }. */
void mongo_begin(bson_t *command, const char *verb, const char *collection);
/* A write that waits for the primary alone: nothing depends on it. */
void mongo_append_quick_write_concern(bson_t *command);
/* To a find: the first document only, by a read that may be believed (R1). */
void mongo_append_first(mongo_store *store, bson_t *command);
/* To the deletes of a delete, as the i-th: one document. */
void mongo_append_delete(bson_t *deletes, size_t i, const bson_t *query);
/* Appends {_id: id} as `field`. */
void mongo_append_by_id(bson_t *command, const char *field, hf_id id);
/* To a query: none of these fields (up to a NULL) is an array. Equality looks into arrays, too. */
void mongo_append_no_array(bson_t *query, const char *const *fields);
/* Appends the stage {verb: what} to n stages of a pipeline, which are one more then. */
void mongo_append_stage(bson_t *stages, size_t *n, const char *verb, const bson_t *what);
/* The key of an array's item. */
const char *mongo_key(size_t i, char buffer[16]);

#endif
