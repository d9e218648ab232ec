/* SPDX-License-Identifier: Apache-2.0 */
/* protocol.h: what each protocol tells the files that all protocols share. */
#ifndef STORE_MONGO_SHARED_PROTOCOL_H
#define STORE_MONGO_SHARED_PROTOCOL_H

#include "core/lease.h"
#include "store/mongo/driver/store.h"

/* The ttl of clients that ask for none. By default a set takes 10 to 12 s to elect another primary
 * after a crash. If the primary hangs it has taken up to 24 s, when the first ballot failed. No
 * holder is to lose its lock in that time. */
#define MONGO_TTL_MS 40000

/* The same where documents may last no longer than most_ms. */
static inline int64_t mongo_ttl_within(int64_t most_ms)
{
    int64_t ttl_ms = most_ms < MONGO_TTL_MS ? most_ms : MONGO_TTL_MS;
    return ttl_ms > LEASE_TTL_DEFAULT_MS ? ttl_ms : LEASE_TTL_DEFAULT_MS;
}

/* One shape of the documents, and the rules that go with it. mongo.c has a table of the store's
 * calls for each. All of it is constant. */
typedef struct mongo_protocol {
    unsigned can;
    int64_t wait_ms; /* the default wait; 0: for ever */

    /* The ttl of clients that ask for none. NULL: MONGO_TTL_MS. */
    int64_t (*default_ttl_ms)(const mongo_uri *uri);

    /* Checks the URI's keys and the ttl. NULL: nothing more to check. */
    hf_code (*check)(const mongo_uri *uri, int64_t ttl_ms, hf_error *err);
    void (*open)(mongo_store *store); /* NULL: nothing more to do */
    /* is_ours: false in a forked child, whose connections and mutexes are the parent's (R11). */
    void (*close)(mongo_store *store, bool is_ours); /* NULL: nothing more to do */

    /* The two kinds of step of protocols without a queue (plain.c): with an enter, and without. */
    hf_code (*take)(mongo_store *store, const mongo_call *call, const hf_step *step, hf_record *out,
                    hf_step_reply *reply, hf_error *err);
    hf_code (*leave)(mongo_store *store, const mongo_call *call, const hf_step *step,
                     hf_step_reply *reply, hf_error *err);

    /* The renewal of an ID lease (plain.c): which document, and its change; and what came back,
     * NULL if none matched (HF_LOST). NULL: the store renews in a way of its own. */
    void (*append_lease_renewal)(mongo_store *store, const char *name, hf_id ticket,
                                 bson_t *command);
    hf_code (*read_lease)(mongo_store *store, const char *name, hf_id ticket, const bson_t *doc,
                          hf_record *out, hf_error *err);

    /* Reads a document from a look as a record; HF_SHAPE: it is no lock of this protocol. */
    hf_code (*read)(mongo_store *store, const bson_t *doc, hf_record *out, hf_error *err);

    /* NULL: as `queue`, whose names are the _id and whose documents say all that is asked. */
    void (*append_key)(bson_t *to, const char *field, const char *name); /* as the _id */
    bool (*read_key)(const bson_iter_t *id, char name[HF_NAME_MAX + 1]);
    /* To a query: which document has the lock; NULL: the one with that _id. */
    void (*append_name)(const mongo_store *store, bson_t *query, const char *name);
    /* To n stages that begin with that filter: those that give `left`, ms. */
    void (*append_left)(mongo_store *store, bson_t *stages, size_t n, const bson_t *filter);
    void (*append_listed)(const mongo_store *store, bson_t *filter);
    const char *in_use; /* the filter for locks in use, as a text; NULL: others do not stay */
    const char *(*changing)(const mongo_store *store); /* the field whose change is news */
    const char *ticket_field; /* the field of the holder's ticket, whose change is news, too; NULL:
                               * the same */
    /* The ticket in that field's value; NULL: it is an ObjectId. False: it is none. */
    bool (*read_ticket)(const mongo_store *store, const bson_iter_t *value, hf_id *out);
    const char *pings; /* the collection of sessions in a form of their own; NULL: none */
    /* {field: {$in: tickets}} for enters without an answer: what the name "" stands for. */
    void (*append_doubtful)(mongo_store *store, bson_t *filter);
} mongo_protocol;

#endif
