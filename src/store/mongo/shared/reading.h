/* SPDX-License-Identifier: Apache-2.0 */
/* reading.h: a cursor that the listener reads, on a connection of its own, and how another thread
 * wakes the listener meanwhile. The listeners of watch.c and queue/bell_listen.c each have one. */
#ifndef STORE_MONGO_SHARED_READING_H
#define STORE_MONGO_SHARED_READING_H

#include "store/mongo/driver/command.h"

/* One getMore: what a wake costs that does not arrive, and how late a server that is silent is
 * noticed by one that makes no other calls. */
#define MONGO_AWAIT_MS 10000

/* Written by reading.c: for the listening thread, but for `woken`. */
typedef struct mongo_reading {
    int64_t cursor;                   /* store's mutex; 0: none is open */
    bool is_reading;                  /* store's mutex: a getMore is on its way */
    bool woken;                       /* store's mutex */
    mongo_connection *connection;     /* own thread, as the next */
    mongoc_client_session_t *session; /* cursors belong to a session */
} mongo_reading;

/* Takes a connection, and keeps it. */
hf_code mongo_reading_connect(mongo_store *store, mongo_reading *reading, const mongo_call *call,
                              hf_error *err);
void mongo_reading_disconnect(mongo_store *store, mongo_reading *reading, bool has_failed);

/* Sends a command on that connection. reply->doc is the caller's to destroy. */
hf_code mongo_reading_run(mongo_store *store, mongo_reading *reading, const mongo_call *call,
                          const bson_t *command, mongo_reply *reply, hf_error *err);
/* Sends a getMore for at most wait_ms, and notes that it has ended. */
hf_code mongo_reading_more(mongo_store *store, mongo_reading *reading, const mongo_call *call,
                           const char *collection, int64_t wait_ms, mongo_reply *reply,
                           hf_error *err);

/* Reads once for at most wait_ms, and says whether that brought anything. */
typedef hf_code (*mongo_reading_fn)(void *ctx, int64_t wait_ms, bool *has_given, hf_error *err);

/* Reads again and again until something was brought, a wake comes, or timeout_ms is over. */
hf_code mongo_reading_await(mongo_store *store, mongo_reading *reading, int64_t timeout_ms,
                            mongo_reading_fn once, void *ctx, hf_error *err);

void mongo_reading_set_cursor(mongo_store *store, mongo_reading *reading, int64_t cursor);

/* From here on a wake can tell that there is a getMore to end. False: there has been a wake. */
bool mongo_reading_begin(mongo_store *store, mongo_reading *reading);

/* Any thread. True: a getMore is on its way. *cursor: of which cursor; 0: none is open. */
bool mongo_reading_wake(mongo_store *store, mongo_reading *reading, int64_t *cursor);
bool mongo_reading_is_woken(mongo_store *store, mongo_reading *reading);

#endif
