/* SPDX-License-Identifier: Apache-2.0 */
/* parts.h: what the files of the mongo store share: the store, its connections, one command. */
#ifndef STORE_MONGO_PARTS_H
#define STORE_MONGO_PARTS_H

#include "store/mongo/queue/pipeline.h"

#include <holdfast/store.h>
#include <mongoc/mongoc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#define MONGO_SESSIONS "sessions"
#define MONGO_READ_MS 4000 /* a read takes no longer on the server */
#define MONGO_BOOT_MAX 80

/* ---- URI (uri.c) ---- */

/* What a URI says, ours taken out of what the driver sees. */
typedef struct mongo_protocol mongo_protocol;
typedef struct mongo_call mongo_call;
typedef struct mongo_store mongo_store;

/* Which documents there are; the URI says it by name. */
typedef enum mongo_protocol_id {
    MONGO_QUEUE,
    MONGO_TTL,
    MONGO_DOCUMENT,
    MONGO_SHARDING
} mongo_protocol_id;

extern const char *const mongo_protocol_names[];

typedef struct mongo_uri {
    mongoc_uri_t *driver;
    char *hosts; /* for error texts */
    char *database;
    char *collection;
    mongo_protocol_id protocol;
    bool expires_at;        /* hfShape=expire-at */
    char *time_field;       /* hfTimeField */
    char *owner_field;      /* hfOwnerField */
    int64_t expire_after_s; /* hfExpireAfterSeconds: of the index that is made */
    char *lock_field;       /* hfLockField: of protocol document, a dotted path as time_field is */
    char *token_field;      /* hfTokenField, or NULL */
    int64_t refresh_ms;     /* hfRefreshMS, and ... */
    int64_t multiplier;     /* ... hfStaleMultiplier: how many of those make a document stale */
    int64_t foreign_refresh_ms; /* how often other programs are to refresh theirs */
    bool has_collection;        /* hfCollection was given */
    int64_t poll_ms; /* hfPollMS: between tries where nothing tells that a lock is free */
    int64_t ping_ms; /* hfPingMS, hfExpiryMS */
    int64_t expiry_ms;
    char *process;      /* hfProcess, or NULL */
    char *lock_session; /* hfLockSession: 24 hexadecimal digits, or NULL */
    unsigned keys;      /* which of the keys that are for some protocols were given */
    bool weak;          /* hfWeakWrites: the user insists on writes that a failover can undo */
} mongo_uri;

hf_code mongo_uri_read(const char *text, mongo_uri *out, hf_error *err);
void mongo_uri_done(mongo_uri *uri);

/* ---- Store ---- */

/* A ticket that this store asked for. */
typedef struct mongo_held {
    struct mongo_held *next;
    char *name;
    hf_id ticket;
    bool is_by_hand;  /* its holder renews it, beats do not */
    bool is_doubtful; /* an enter of it got no answer: it may still land (R8) */
    bool is_left;     /* and was dropped since: known, and not renewed */
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

/* Protocol document: when a lock of another program was refreshed, as it was last seen. */
typedef struct mongo_refresh {
    hf_id ticket;
    int64_t time_ms;
    hf_mono looked_at;
} mongo_refresh;

#define MONGO_REFRESHES 32 /* locks that are watched so at once */

#define MONGO_BATCH_MOST 32 /* steps in one command */
#define MONGO_NAMES 65536   /* a power of two */

typedef enum mongo_member_state {
    MEMBER_WAITS, /* for its turn */
    MEMBER_GOES,  /* with what another sends */
    MEMBER_LEADS, /* sends what has gathered */
    MEMBER_DONE,  /* code, reply and out say what came of it */
    MEMBER_ALONE, /* nothing was done: it is to go by itself */
    MEMBER_AGAIN, /* the same, and it may have been done */
} mongo_member_state;

/* One of several steps that may travel together: what its thread asked for, and what came of it.
 * Guarded by the group's mutex while it waits; then it is its batch's until it is settled. */
typedef struct mongo_member {
    struct mongo_member *next;
    const char *name;
    const hf_step *step;
    hf_record *out;
    hf_step_reply reply;
    hf_error err;
    hf_code code;
    mongo_member_state state;
    bool is_read; /* out was */
    pthread_cond_t changed;
} mongo_member;

/* Steps on different locks that travel together. See group.c. */
typedef struct mongo_group {
    pthread_mutex_t mutex;
    mongo_member *first; /* of those that wait, in the order of their coming */
    size_t n_waiting, n_in_flight;
    size_t few;                    /* steps in flight that need no company */
    int64_t best_ns;               /* that a command took */
    uint8_t seen[MONGO_NAMES / 8]; /* names, by a hash, whose record was seen to exist */
} mongo_group;

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
    hf_stamp read_to;  /* nothing up to here is to come */
    char refusal[256]; /* why there are no notices here; "": there are */
} mongo_watch;

/* How far a sweep has come. Only the thread that sweeps uses it. */
typedef struct mongo_sweeping {
    int part;
    int64_t now_ms; /* the server's, when it began */
    bool may_hint;  /* the indexes are there */
    hf_id *dead;    /* sessions without a date, in order */
    bool *stands;   /* a ticket of it was found */
    size_t n_dead, n_dated;
    bson_value_t after; /* the last lock that was looked at */
} mongo_sweeping;

struct mongo_store {
    hf_store base;
    const mongo_protocol *protocol;
    hf_store_config config;
    pid_t owner;
    char boot[MONGO_BOOT_MAX]; /* whose CLOCK_BOOTTIME is ours; "": unknown */
    mongo_uri uri;
    pipeline_texts texts;
    mongo_lane work, beats;
    mongo_group group;
    atomic_int topology, wire;    /* found out at the first use */
    atomic_uint_least64_t latest; /* the latest stamp that a reply brought */
    pthread_mutex_t mutex;        /* pools, watch, swept */
    mongo_watch watch;
    mongo_sweeping sweep;
    bool has_indexes, knows_index;
    hf_session self;    /* protocols without sessions: who their documents name */
    mongo_held *held;   /* and what they hold */
    int64_t foreign_ms; /* ttl: how long others' documents last; see index.c */
    mongo_refresh refreshes[MONGO_REFRESHES]; /* see refresh.c; under the mutex, as the next */
    hf_mono refresh_said;
    struct mongo_sharding *sharding; /* see sharding.h; NULL in other protocols */
};

/* One shape of the documents, and the rules that go with it: the store's calls, and what the files
 * that all protocols share have to know. */
struct mongo_protocol {
    unsigned can;
    int64_t wait_ms; /* how long one waits who says nothing; 0: for ever */

    /* What the keys of the URI, and the lease, must be like. NULL: nothing more to check. */
    hf_code (*check)(const mongo_uri *uri, int64_t ttl_ms, hf_error *err);
    void (*open)(mongo_store *store); /* NULL: nothing more to do */
    /* is_ours: false in a forked child, whose connections and mutexes are the parent's (R11). */
    void (*close)(mongo_store *store, bool is_ours); /* NULL: nothing more to do */

    /* The two kinds of step of protocols without a queue (plain.c): with an enter, and without. */
    hf_code (*take)(mongo_store *store, const mongo_call *call, const hf_step *step, hf_record *out,
                    hf_step_reply *reply, hf_error *err);
    hf_code (*leave)(mongo_store *store, const mongo_call *call, const hf_step *step,
                     hf_step_reply *reply, hf_error *err);

    /* A document, as a look gives it, as a record; HF_SHAPE: it is no lock of this protocol. */
    hf_code (*read)(mongo_store *store, const bson_t *doc, hf_record *out, hf_error *err);

    /* NULL: as `queue`, whose names are the _id and whose documents say all that is asked. */
    void (*append_key)(bson_t *to, const char *field, const char *name); /* as the _id */
    bool (*read_key)(const bson_iter_t *id, char name[HF_NAME_MAX + 1]);
    void (*append_left)(mongo_store *store, bson_t *stages, const char *key); /* `left`, ms */
    void (*append_listed)(const mongo_store *store, bson_t *filter);
    const char *(*changing)(const mongo_store *store); /* the field whose change is news */
    const char *ticket_field; /* has the holder's ticket, its change is news too; NULL: the same */
    const char *pings;        /* where sessions stand that are none of `queue`; NULL: nowhere */
    /* {field: {$in: tickets}} of the answers that are missing: what the name "" stands for. */
    void (*append_doubtful)(mongo_store *store, bson_t *filter);
};

extern const mongo_protocol mongo_queue, mongo_ttl, mongo_document, mongo_sharding_protocol;

void mongo_log(mongo_store *store, hf_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- One command (mongo.c) ---- */

struct mongo_call {
    const char *what;     /* for error texts: "acquiring" */
    const char *name;     /* of the lock, or NULL */
    const char *database; /* NULL: the store's */
    bool writes;          /* without an answer the outcome is unknown */
    bool is_beat;         /* goes by its own connection */
};

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
/* A read that the primary of this moment confirms. */
void mongo_append_linearizable(mongo_store *store, bson_t *command);
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

/* ---- What stands in a reply or a document (reply.c) ---- */

/* A document inside a reply, for as long as the reply lives. False: there is none. */
bool mongo_view(const bson_t *doc, const char *path, bson_t *out);
bool mongo_next(bson_iter_t *batch, bson_t *doc); /* the next document of a batch */
int64_t mongo_int_at(const bson_t *doc, const char *path, int64_t otherwise);
hf_stamp mongo_stamp_at(const bson_t *doc, const char *path);
const char *mongo_text_at(const bson_t *doc, const char *path, const char *otherwise);
bool mongo_date_at(const bson_t *doc, const char *path, int64_t *out); /* false: *out stays */
bool mongo_id_at(const bson_t *doc, const char *path, hf_id *out);

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
/* An enter got no answer: the ticket stays known when it is dropped, until the session ends. */
void mongo_held_doubt(mongo_store *store, hf_id ticket);
void mongo_held_by_hand(mongo_store *store, hf_id ticket);
/* Of a document that does not say it: this session for a ticket of ours, else the ticket. */
hf_id mongo_held_session(mongo_store *store, hf_id ticket);
void mongo_held_clear(mongo_store *store); /* the caller has the mutex */
/* Those that beats renew, and those in doubt, for the caller to free. */
mongo_held *mongo_held_copy(mongo_store *store, size_t *n);
mongo_held *mongo_held_copy_doubtful(mongo_store *store, size_t *n);
void mongo_held_free_copy(mongo_held *all, size_t n);

/* ---- Protocols without sessions (plain.c) ---- */

hf_code mongo_plain_begin(hf_store *base, const hf_session *self, hf_error *err);
/* HF_SHAPE, for a document that the protocol did not write. */
hf_code mongo_plain_shape(const mongo_store *store, const char *name, const char *field,
                          const char *expected, hf_error *err);
hf_code mongo_plain_step(hf_store *base, const char *name, const hf_step *step, hf_record *out,
                         hf_step_reply *reply, hf_error *err);
hf_code mongo_plain_mark(hf_store *base, const hf_session_state *seen, hf_error *err);
hf_code mongo_plain_end(hf_store *base, hf_id id, bool leaves_any, hf_error *err);
hf_code mongo_plain_sessions_look(hf_store *base, const hf_id *ids, size_t n,
                                  int64_t clock_trust_ms, hf_session_state *states, hf_error *err);
hf_code mongo_plain_ask(hf_store *base, hf_id session, const hf_ask *ask, hf_error *err);
/* Who holds something, by the locks' own words. */
hf_code mongo_plain_list_sessions(hf_store *base, hf_state_fn each, void *ctx, hf_error *err);
hf_code mongo_plain_sweep(hf_store *base, hf_session_state *overdue, size_t max, size_t *n,
                          bool *more, hf_error *err);

/* ---- Names that are an _id of any type (id_text.c) ---- */

/* The value that a text is as extended JSON; doc holds it, and is the caller's to destroy, when
 * true. */
bool mongo_json_parse(const char *text, bson_t **doc, bson_iter_t *value);
/* The value that a name means: what is extended JSON of a value that an _id can have, or else the
 * text itself. */
void mongo_id_append(bson_t *to, const char *field, const char *name);
/* The one name of an _id; false: it has none that is short enough. */
bool mongo_id_read(const bson_iter_t *id, char name[HF_NAME_MAX + 1]);
/* The name by which the _id that is meant is known; false: too long. */
bool mongo_id_canonical(const char *given, char name[HF_NAME_MAX + 1]);

/* ---- Dotted paths (path.c) ---- */

/* A document's value at a path; false: there is none. */
bool mongo_path_find(const bson_t *doc, const char *path, bson_iter_t *out);
/* The same in updatedFields of a change event, whose keys are paths, of the field or of a parent.
 */
bool mongo_path_find_updated(const bson_t *fields, const char *path, bson_iter_t *out);
/* The stages of a change stream that tells of changes of the field at a path with dots. */
bson_t *mongo_path_filter(const char *path);
/* Appends each parent of a path, a and a.b of a.b.c, between two texts. */
void mongo_path_parents(bson_string_t *out, const char *path, const char *before,
                        const char *after);

/* ---- The index of protocol ttl (index.c) ---- */

#define MONGO_FOR_EVER (-1) /* nothing ends what another program has not ended */

/* Reads, once, how long documents last that do not say it themselves. */
hf_code mongo_ttl_read_index(mongo_store *store, hf_error *err);
/* The same at any time, before one of them is taken over: somebody may have changed the index. */
hf_code mongo_ttl_read_index_again(mongo_store *store, int64_t *foreign_ms, hf_error *err);
/* What was read last, in ms, or MONGO_FOR_EVER. */
int64_t mongo_ttl_foreign_ms(mongo_store *store);
/* The same, and makes the index where there is none; warns, once, of what is odd there. */
hf_code mongo_ttl_settle(mongo_store *store, hf_error *err);

/* ---- _ids of other types in protocol ttl (ids.c) ---- */

/* One that is no string; false: there is none, or it cannot be looked for. */
bool mongo_ttl_find_odd_id(mongo_store *store, char out[HF_NAME_MAX + 1]);
void mongo_ttl_warn_of_odd_id(mongo_store *store);

/* ---- The lock inside the user's own document (shape.c, own.c, claim.c) ---- */

int64_t mongo_own_stale_ms(const mongo_uri *uri);
hf_code mongo_own_check(const mongo_uri *uri, int64_t ttl_ms, hf_error *err);
/* A text in which @ stands for the field of lockId, # for that of lockTs, % for the token's. */
char *mongo_own_text(const mongo_store *store, const char *text);
/* {$and: [... ]}: what an unlocked or stale document is like, and one whose fields can be written
 * without touching any other; both are for a query. */
void mongo_own_append_free(const mongo_store *store, bson_t *to, const char *field);
void mongo_own_append_sound(const mongo_store *store, bson_t *to, const char *field);
/* The calls of `mongo_protocol` on documents as a look gives them: without what is the user's. */
void mongo_own_append_left(mongo_store *store, bson_t *stages, const char *key);
hf_code mongo_own_read(mongo_store *store, const bson_t *doc, hf_record *out, hf_error *err);
/* The user's document, which has just been locked with this ticket. */
hf_code mongo_own_read_taken(mongo_store *store, const bson_t *doc, const hf_entry *entry,
                             hf_record *out, hf_error *err);

/* A look has shown that another holds the document, and when it was refreshed. Warns if that is
 * done slowly. */
void mongo_own_note_refresh(mongo_store *store, const char *name, hf_id ticket, int64_t time_ms);

/* An entrant is known before its enter is sent: what lands without an answer must be found. */
void mongo_own_expect(mongo_store *store, const char *name, const hf_enter *enter);
/* The change, and what else a findAndModify has. */
void mongo_own_append_taking(const mongo_store *store, const hf_enter *enter, bson_t *command);
/* Its answer: *is_taken, and the record of what it took. */
hf_code mongo_own_read_answer(mongo_store *store, const bson_t *answer, const hf_enter *enter,
                              hf_record *out, bool *is_taken, hf_error *err);
void mongo_own_settle(mongo_store *store, const hf_enter *enter, hf_code code, bool is_taken);
hf_code mongo_own_claim(hf_store *base, const hf_claim *wanted, const hf_enter *entrant,
                        hf_record *out, hf_step_reply *reply, hf_error *err);

/* ---- Protocol queue (queue.c, group.c, batch.c) ---- */

void mongo_group_init(mongo_group *group);
void mongo_group_done(mongo_group *group);
/* One step: by itself, or with those of other threads. */
hf_code mongo_group_step(mongo_store *store, const char *name, const hf_step *step, hf_record *out,
                         hf_step_reply *reply, hf_error *err);
hf_code mongo_step_alone(mongo_store *store, const char *name, const hf_step *step, hf_record *out,
                         hf_step_reply *reply, hf_error *err);
/* Sends the steps as one command, and settles each. All their names differ. */
void mongo_batch_send(mongo_store *store, mongo_member *const *members, size_t n);

/* ---- The server's clock (server.c) ---- */

/* {serverStatus: 1}, without what it has no need of. */
void mongo_append_server_status(bson_t *command);

/* ---- Sessions that are long overdue (vouch.c, R6) ---- */

/* Who is primary: asked for at the first use. */
typedef struct mongo_primary {
    bool is_asked, is_known;
    hf_id election;
} mongo_primary;

void mongo_find_boot(char out[MONGO_BOOT_MAX]);
/* Appends which primary and whose clock a beat goes by: {election, clock: {boot, at, wall}}. */
void mongo_append_origin(mongo_store *store, bool is_beat, bson_t *to);
/* R6: is a session, overdue by the server's clock, gone? One of which that cannot be said yet is
 * noted as seen, so that a later look from this host can say it. */
bool mongo_is_gone(mongo_store *store, const bson_t *doc, const hf_session_state *state,
                   int64_t trust_ms, mongo_primary *primary);

/* ---- The calls ---- */

hf_code mongo_step(hf_store *base, const char *name, const hf_step *step, hf_record *out,
                   hf_step_reply *reply, hf_error *err);
hf_code mongo_ttl_begin(hf_store *base, const hf_session *self, hf_error *err);
hf_code mongo_ttl_beat(hf_store *base, hf_id id, const hf_beat *says, hf_session_state *out,
                       hf_error *err);
hf_code mongo_ttl_look(hf_store *base, const char *const *names, size_t n, hf_stamp after,
                       bool linearizable, hf_record_fn each, void *ctx, hf_error *err);
hf_code mongo_ttl_list(hf_store *base, const char *prefix, hf_record_fn each, void *ctx,
                       hf_error *err);
hf_code mongo_own_beat(hf_store *base, hf_id id, const hf_beat *says, hf_session_state *out,
                       hf_error *err);
hf_code mongo_own_refresh(hf_store *base, const char *name, hf_id ticket, hf_error *err);
hf_code mongo_own_canonical(hf_store *base, const char *given, char name[HF_NAME_MAX + 1],
                            hf_error *err);
hf_code mongo_session_begin(hf_store *base, const hf_session *self, hf_error *err);
hf_code mongo_session_beat(hf_store *base, hf_id id, const hf_beat *says, hf_session_state *out,
                           hf_error *err);
hf_code mongo_session_mark(hf_store *base, const hf_session_state *seen, hf_error *err);
hf_code mongo_session_end(hf_store *base, hf_id id, bool leaves_any, hf_error *err);
hf_code mongo_waits(hf_store *base, const hf_id *ids, size_t n, hf_waits_fn each, void *ctx,
                    hf_error *err);
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
hf_code mongo_overdue(mongo_store *store, int64_t before_ms, hf_session_state *overdue, size_t max,
                      size_t *n, hf_error *err);
void mongo_sweep_done(mongo_store *store);
hf_code mongo_sweep(hf_store *base, hf_session_state *overdue, size_t max, size_t *n, bool *more,
                    hf_error *err);
hf_code mongo_doctor(hf_store *base, hf_finding_fn each, void *ctx, hf_error *err);

#endif
