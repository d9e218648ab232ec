/* SPDX-License-Identifier: Apache-2.0 */
/* held.h: the tickets that this store holds or has asked for. */
#ifndef STORE_MONGO_SHARED_HELD_H
#define STORE_MONGO_SHARED_HELD_H

#include "store/mongo/driver/store.h"

/* A ticket that this store asked for; guarded by the store's mutex. Copies are their caller's. */
typedef struct mongo_held {
    struct mongo_held *next;
    char *name;
    hf_id ticket;
    bool is_by_hand;  /* its holder renews it, beats do not */
    bool is_doubtful; /* an enter with it got no answer: it may still arrive (R8) */
    bool is_left;     /* and was dropped since: known, and not renewed */
} mongo_held;

/* Notes a ticket before it is asked for. */
void mongo_held_add(mongo_store *store, const char *name, hf_id ticket);
void mongo_held_drop(mongo_store *store, hf_id ticket);
/* An enter got no answer: the ticket stays known when it is dropped, until the session ends. */
void mongo_held_doubt(mongo_store *store, hf_id ticket);
void mongo_held_by_hand(mongo_store *store, hf_id ticket);
/* The session of a document that names none: this session for our ticket, else the ticket. */
hf_id mongo_held_session(mongo_store *store, hf_id ticket);
void mongo_held_clear(mongo_store *store); /* the caller has the mutex */
/* The tickets that beats renew, and those in doubt; the caller frees them. */
mongo_held *mongo_held_copy(mongo_store *store, size_t *n);
mongo_held *mongo_held_copy_doubtful(mongo_store *store, size_t *n);
void mongo_held_free_copy(mongo_held *all, size_t n);

#endif
