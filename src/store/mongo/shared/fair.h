/* SPDX-License-Identifier: Apache-2.0 */
/* fair.h: hfFair: gives programs that poll their turn. */
#ifndef STORE_MONGO_SHARED_FAIR_H
#define STORE_MONGO_SHARED_FAIR_H

#include "store/mongo/driver/store.h"

/* Whose turn it was, as far as the lock's document says. */
typedef enum mongo_fair_holder {
    MONGO_FAIR_THEIRS, /* another program's */
    MONGO_FAIR_UNTOLD, /* another client's, of Holdfast or not */
    MONGO_FAIR_OURS    /* a client's of Holdfast */
} mongo_fair_holder;

void mongo_fair_open(mongo_store *store);
void mongo_fair_close(mongo_store *store);
/* Before a try: pauses for up to hfPollMS, if others use the lock, and the turn before was not
 * certainly theirs. */
void mongo_fair_wait(mongo_store *store, const char *name);
/* After a try: who holds the lock now. */
void mongo_fair_note(mongo_store *store, const hf_record *record, mongo_fair_holder holder);
/* Of documents that do not tell whose program it is: whether it is this very client. */
mongo_fair_holder mongo_fair_guess(mongo_store *store, const hf_record *record);

#endif
