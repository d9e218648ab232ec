/* SPDX-License-Identifier: Apache-2.0 */
/* parts.h: what the files of the mongo store share: the store, its connections, one command. */
#ifndef STORE_MONGO_PARTS_H
#define STORE_MONGO_PARTS_H

#include "store/mongo/pipeline.h"

#include <holdfast/store.h>
#include <mongoc/mongoc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#define MONGO_SESSIONS "sessions"
#define MONGO_READ_MS 4000 /* a read takes no longer on the server */

/* ---- URI (uri.c) ---- */

/* What a URI says, ours taken out of what the driver sees. */
typedef struct mongo_protocol mongo_protocol;
typedef struct mongo_store mongo_store;

typedef struct mongo_uri {
    mongoc_uri_t *driver;
    char *hosts; /* for error texts */
    char *database;
    char *collection;
    const mongo_protocol *protocol;
    bool expires_at;        /* hfShape=expire-at */
    char *time_field;       /* hfTimeField */
    char *owner_field;      /* hfOwnerField */
    int64_t expire_after_s; /* hfExpireAfterSeconds: of the index that is made */
    int64_t poll_ms;        /* hfPollMS: between tries where nothing tells that a lock is free */
    unsigned keys;          /* which of the keys that are for some protocols were given */
    bool weak;              /* hfWeakWrites: the user insists on writes that a failover can undo */
} mongo_uri;

hf_code mongo_uri_read(const char *text, mongo_uri *out, hf_error *err);
void mongo_uri_done(mongo_uri *uri);

/* ---- Store ---- */

/* A ticket that this store asked for. */
typedef struct mongo_held {
    struct mongo_held *next;
    char *name;
    hf_id ticket;
} mongo_held;

typedef enum mongo_topology { MONGO_UNSEEN, MONGO_SET, MONGO_ROUTER, MONGO_ALONE } mongo_topology;

#define MONGO_IDLE_MAX 16 /* connections that are kept for the next call */

/* Connections with time-outs of their own, each for one call at a time. See lane.c. */
typedef struct mongo_lane {
    mongoc_uri_t *uri;
    int64_t wait_ms; /* wtimeout */
    pthread_mutex_t mutex;
    mongoc_client_t *idle[MONGO_IDLE_MAX];
    size_t n_idle;
} mongo_lane;

/* What the last serverStatus said of the server that takes our beats (R3). */
typedef struct mongo_server {
    bool is_known, is_denied;
    hf_mono seen_at;
    bson_oid_t election;
    int64_t clock_base_ms, local_ms;
} mongo_server;

/* The listener's stream. Only the thread in await() writes to it, except for woken; cursor, self,
 * is_reading and woken are guarded by the store's mutex. */
typedef struct mongo_watch {
    int64_t cursor;
    hf_id self;
    bool is_reading, woken;
    mongoc_client_t *client;
    mongoc_client_session_t *session;
    bool has_self, is_stale; /* stale: something may have been missed */
    bson_t *resume;
    char refusal[256]; /* why there are no notices here; "": there are */
} mongo_watch;

struct mongo_store {
    hf_store base;
    const mongo_protocol *protocol;
    hf_store_config config;
    pid_t owner;
    mongo_uri uri;
    pipeline_texts texts;
    mongo_lane work, beats;
    atomic_int topology, wire;    /* found out at the first use */
    atomic_uint_least64_t latest; /* the latest stamp that a reply brought */
    pthread_mutex_t mutex;        /* pools, server, watch, swept */
    mongo_server server;
    mongo_watch watch;
    bool has_indexes, knows_index;
    hf_session self;    /* protocols without sessions: who their documents name */
    mongo_held *held;   /* and what they hold */
    int64_t foreign_ms; /* ttl: how long documents of other programs last */
};

/* One shape of the documents, and the rules that go with it: the store's calls, and what the files
 * that all protocols share have to know. */
struct mongo_protocol {
    const char *name;
    const hf_store_ops *ops;
    unsigned can;
    int64_t wait_ms; /* how long one waits who says nothing; 0: for ever */

    /* A document as a record; HF_SHAPE: it is no lock of this protocol. */
    hf_code (*read)(mongo_store *store, const bson_t *doc, hf_record *out, hf_error *err);

    /* NULL: as `queue`, whose names are the _id and whose documents say all that is asked. */
    void (*append_key)(bson_t *to, const char *field, const char *name); /* as the _id */
    bool (*read_key)(const bson_iter_t *id, char name[HF_NAME_MAX + 1]);
    void (*append_left)(const mongo_store *store, bson_t *stages, const char *key); /* `left`, ms */
    void (*append_listed)(const mongo_store *store, bson_t *filter);
    const char *(*changing)(const mongo_store *store); /* the field whose change is news */
};

extern const mongo_protocol mongo_queue, mongo_ttl;

void mongo_log(mongo_store *store, hf_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- One command (mongo.c) ---- */

typedef struct mongo_call {
    const char *what;     /* for error texts: "acquiring" */
    const char *name;     /* of the lock, or NULL */
    const char *database; /* NULL: the store's */
    bool writes;          /* without an answer the outcome is unknown */
    bool is_beat;         /* goes by its own connection */
} mongo_call;

/* doc is always the caller's to destroy. server_code: of an error that the server gave, or 0. */
typedef struct mongo_reply {
    bson_t doc;
    int32_t server_code;
    hf_stamp stamp;
} mongo_reply;

/* Finds out, once, what kind of server there is; for the start of every call. */
hf_code mongo_ready(mongo_store *store, hf_error *err);
mongo_topology mongo_topology_of(mongo_store *store);
pipeline_clock mongo_clock_of(mongo_store *store);

void mongo_append_write_concern(const mongo_store *store, bson_t *command, bool is_beat);
/* A majority read (R1), not older than `after`. */
void mongo_append_read_concern(mongo_store *store, bson_t *command, hf_stamp after);

/* Sends a command to the primary. */
hf_code mongo_run(mongo_store *store, const mongo_call *call, const bson_t *command,
                  mongo_reply *reply, hf_error *err);
/* The same for an upsert, repeated, within bounds, while it loses races for a new document. */
hf_code mongo_run_repeated(mongo_store *store, const mongo_call *call, const bson_t *command,
                           mongo_reply *reply, hf_error *err);
/* The same for reads after a stamp: repeated, within bounds, while the server is behind it. */
hf_code mongo_run_behind(mongo_store *store, const mongo_call *call, const bson_t *command,
                         mongo_reply *reply, hf_error *err);
/* Begins a command that names a collection: {command: collection ... }. */
void mongo_begin(bson_t *command, const char *verb, const char *collection);
/* Appends {_id: id} as `field`. */
void mongo_append_by_id(bson_t *command, const char *field, hf_id id);
/* The key of an array's item. */
const char *mongo_key(size_t i, char buffer[16]);

/* A document inside a reply, for as long as the reply lives. False: there is none. */
bool mongo_view(const bson_t *doc, const char *path, bson_t *out);
bool mongo_next(bson_iter_t *batch, bson_t *doc); /* the next document of a batch */
int64_t mongo_int_at(const bson_t *doc, const char *path, int64_t otherwise);
hf_stamp mongo_stamp_at(const bson_t *doc, const char *path);

/* ---- Connections (lane.c) ---- */

typedef struct mongo_limits {
    int64_t connect_ms, socket_ms, wait_ms;
} mongo_limits;

void mongo_lane_init(mongo_lane *lane, const mongoc_uri_t *uri, mongo_limits limits);
void mongo_lane_done(mongo_lane *lane);

/* A connection for the caller alone, to be given back; after a failure *out is NULL. */
hf_code mongo_take(mongo_store *store, mongo_lane *lane, const mongo_call *call,
                   mongoc_client_t **out, hf_error *err);
/* has_failed: it, and all that are idle, may be connected to what is no primary any more. */
void mongo_give(mongo_lane *lane, mongoc_client_t *client, bool has_failed);

/* ---- Errors (fault.c) ---- */

/* What an error of driver or server means. reply may be NULL. */
hf_code mongo_fault(const mongo_store *store, const mongo_call *call, const bson_error_t *error,
                    const bson_t *reply, hf_error *err);
/* Errors inside a reply that says ok: of a write, or of its write concern. */
hf_code mongo_write_fault(const mongo_store *store, const mongo_call *call, mongo_reply *reply,
                          hf_error *err);

/* A reply that says ok and has not what was asked for: never taken for "there is none". */
hf_code mongo_odd_reply(const mongo_store *store, const mongo_call *call, hf_error *err);

/* ---- Tickets of this store (held.c) ---- */

/* It will be asked for. */
void mongo_held_add(mongo_store *store, const char *name, hf_id ticket);
void mongo_held_drop(mongo_store *store, hf_id ticket);
bool mongo_held_knows(mongo_store *store, hf_id ticket);
void mongo_held_clear(mongo_store *store); /* the caller has the mutex */
/* All of them, for the caller to free. */
mongo_held *mongo_held_copy(mongo_store *store, size_t *n);
void mongo_held_free_copy(mongo_held *all, size_t n);

/* ---- Protocols without sessions (plain.c) ---- */

hf_code mongo_plain_begin(hf_store *base, const hf_session *self, hf_error *err);
hf_code mongo_plain_mark(hf_store *base, const hf_session_state *seen, hf_error *err);
hf_code mongo_plain_end(hf_store *base, hf_id id, hf_error *err);
hf_code mongo_plain_sessions_look(hf_store *base, const hf_id *ids, size_t n,
                                  int64_t clock_trust_ms, hf_session_state *states, hf_error *err);
hf_code mongo_plain_ask(hf_store *base, hf_id session, const hf_ask *ask, hf_error *err);
/* Who holds something, by the locks' own words. */
hf_code mongo_plain_list_sessions(hf_store *base, hf_state_fn each, void *ctx, hf_error *err);
hf_code mongo_plain_sweep(hf_store *base, hf_session_state *overdue, size_t max, size_t *n,
                          hf_error *err);

/* ---- The index of protocol ttl (ttl_index.c) ---- */

/* Reads, once, how long documents last that do not say it themselves. */
hf_code mongo_ttl_read_index(mongo_store *store, hf_error *err);
/* The same, and makes the index where there is none. */
hf_code mongo_ttl_settle_index(mongo_store *store, hf_error *err);

/* ---- The server's clock (server.c) ---- */

/* Asks serverStatus; false: no right, no answer, or no election there. */
bool mongo_server_ask(mongo_store *store, bool is_beat, mongo_server *out);
/* R6: is a session, overdue by the server's clock, gone? `asked` is filled at its first use. */
bool mongo_server_judges_gone(mongo_store *store, const bson_t *session, int64_t overdue_ms,
                              int64_t trust_ms, mongo_server *asked);

/* ---- The calls ---- */

void mongo_close(hf_store *base);
hf_code mongo_session_begin(hf_store *base, const hf_session *self, hf_error *err);
hf_code mongo_session_beat(hf_store *base, hf_id id, const hf_id *answered, size_t n,
                           hf_session_state *out, hf_error *err);
hf_code mongo_session_mark(hf_store *base, const hf_session_state *seen, hf_error *err);
hf_code mongo_session_end(hf_store *base, hf_id id, hf_error *err);
hf_code mongo_sessions_look(hf_store *base, const hf_id *ids, size_t n, int64_t clock_trust_ms,
                            hf_session_state *states, hf_error *err);
hf_code mongo_session_ask(hf_store *base, hf_id session, const hf_ask *ask, hf_error *err);
hf_code mongo_list_sessions(hf_store *base, hf_state_fn each, void *ctx, hf_error *err);
hf_code mongo_look(hf_store *base, const char *const *names, size_t n, hf_stamp after,
                   bool linearizable, hf_record_fn each, void *ctx, hf_error *err);
hf_code mongo_list(hf_store *base, const char *prefix, hf_record_fn each, void *ctx, hf_error *err);
hf_code mongo_await(hf_store *base, hf_id session, hf_stamp from, int64_t timeout_ms,
                    hf_notice_fn each, void *ctx, hf_error *err);
void mongo_wake(hf_store *base);
void mongo_watch_done(mongo_store *store);
hf_code mongo_overdue(mongo_store *store, hf_session_state *overdue, size_t max, size_t *n,
                      hf_error *err);
hf_code mongo_sweep(hf_store *base, hf_session_state *overdue, size_t max, size_t *n,
                    hf_error *err);
hf_code mongo_doctor(hf_store *base, hf_finding_fn each, void *ctx, hf_error *err);

#endif
