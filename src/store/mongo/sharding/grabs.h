/* SPDX-License-Identifier: Apache-2.0 */
/* grabs.h: what this store holds, asks for, or is leaving. */
#ifndef STORE_MONGO_SHARDING_GRABS_H
#define STORE_MONGO_SHARDING_GRABS_H

#include "core/sharding.h"
#include "store/mongo/driver/store.h"

typedef enum sharding_stage { SHARDING_ASKED, SHARDING_HELD, SHARDING_LEAVING } sharding_stage;

/* Guarded by the mutex of `mongo_sharding`; copies are their caller's. */
typedef struct sharding_grab {
    struct sharding_grab *next;
    char *name;
    hf_id ticket; /* as the client knows it; the ts too, unless the lock session id was given */
    hf_id ts, session;
    int64_t when_ms; /* as it was last written */
    sharding_stage stage;
} sharding_grab;

/* This machine's time, but later than every time given before. */
int64_t sharding_date(mongo_store *store);

/* Notes a grab that is asked for, with a date of its own. It replaces an earlier grab of the same
 * ticket. False: this store asks for that name, or has it, with the same ts under another ticket,
 * and nothing is noted; *other is that grab, without its name. Of several threads with one lock
 * session id, one asks: each could overtake what has that ts. */
bool sharding_grab_add(mongo_store *store, const sharding_grab *grab, sharding_grab *other);
void sharding_grab_set_date(mongo_store *store, hf_id ticket, int64_t when_ms);
void sharding_grab_set_stage(mongo_store *store, hf_id ticket, sharding_stage stage);
void sharding_grab_drop(mongo_store *store, hf_id ticket);
void sharding_grabs_drop_of(mongo_store *store, hf_id session);
void sharding_grabs_clear(mongo_store *store);
bool sharding_grab_find(mongo_store *store, hf_id ticket, sharding_grab *out); /* without name */
bool sharding_grabs_any_of(mongo_store *store, hf_id session);

/* Finds the grab of a document with this ts and date; out has no name. */
bool sharding_grab_of_lock(mongo_store *store, const char *name, const sharding_lock *lock,
                           sharding_grab *out);
/* Whether another grab with the same ts, but another date, holds. */
bool sharding_grab_is_older(mongo_store *store, const sharding_lock *lock);
/* Whether a known grab, under way or held since that date, accounts for a lock of ours. */
bool sharding_grab_accounts_for(mongo_store *store, const char *name, const sharding_lock *lock);

typedef struct sharding_mark {
    hf_id ts;
    int64_t when_ms;
} sharding_mark;

/* What a session holds, sorted for sharding_mark_compare; the caller frees it. */
sharding_mark *sharding_grabs_marks(mongo_store *store, hf_id session, size_t *n);
int sharding_mark_compare(const void *a, const void *b);

#endif
