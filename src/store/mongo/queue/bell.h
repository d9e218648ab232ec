/* SPDX-License-Identifier: Apache-2.0 */
/* bell.h: protocol `queue`: notices through bells. A bell is a small capped collection on which
 * sessions listen with tailable cursors. A client whose step granted something rings the bell that
 * the granted entry names, after a majority has acknowledged the step. Nothing depends on a ring:
 * it may be lost, and a waiter looks from time to time (L2). */
#ifndef STORE_MONGO_QUEUE_BELL_H
#define STORE_MONGO_QUEUE_BELL_H

#include "store/mongo/driver/store.h"

/* Several bells, because a ring wakes all cursors of its collection. A session's id chooses its
 * bell; entries name it, so the number may change. */
#define MONGO_BELLS 64

#define MONGO_BELL_NAME_SIZE 320

typedef struct mongo_bells {
    atomic_uint_least64_t made; /* bit n: bell n + 1 was seen to have been made */
    atomic_bool are_refused;    /* there are none on this server: a change stream, or polling */
} mongo_bells;

/* What an entry of that session says; 0: it does not listen to a bell. */
int32_t mongo_bell_of(mongo_store *store, hf_id session);

/* The name of its collection. */
void mongo_bell_name(const mongo_store *store, int32_t bell, char name[MONGO_BELL_NAME_SIZE]);

/* Whether somebody has made the bell: an insert must not, as its collection would not be capped. */
bool mongo_bell_is_made(mongo_store *store, int32_t bell);
void mongo_bell_note_made(mongo_store *store, int32_t bell);

/* A ring for one session; `text` is a note (core/notify.h), or "": look. "" without a lock
 * only wakes the listener. */
void mongo_bell_ring(mongo_store *store, int32_t bell, hf_id session, const char *lock,
                     const char *text, hf_stamp stamp);

/* Rings for what the step told in the record's `notify`. The record is as a majority has it since
 * the step; of its entries only the holders' tickets, sessions, bells and `yields` are read. */
void mongo_bells_tell(mongo_store *store, const hf_record *record, const hf_step *step,
                      hf_stamp stamp);

/* The same for a record that was looked at some time after the step: a later one may have put its
 * own notes in the place of the step's. Therefore the last who came to hold are rung, too; holders
 * stand in the order of their grants. */
void mongo_bells_tell_later(mongo_store *store, const hf_record *record, hf_stamp stamp);

/* The same for the document of a record, of which MONGO_TOLD_FIELDS are enough. */
void mongo_bells_tell_document(mongo_store *store, const bson_t *doc, const char *name,
                               const hf_step *step, hf_stamp stamp);

#define MONGO_TOLD_FIELDS                                                                          \
    "{'notify': 1, 'holders.ticket': 1, 'holders.session': 1, 'holders.bell': 1,"                  \
    " 'holders.yields': 1}"

#endif
