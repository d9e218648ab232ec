/* SPDX-License-Identifier: Apache-2.0 */
/* fair.h: hfFair: gives programs that poll their turn. */
#ifndef STORE_MONGO_SHARED_FAIR_H
#define STORE_MONGO_SHARED_FAIR_H

#include "store/mongo/driver/store.h"

void mongo_fair_open(mongo_store *store);
void mongo_fair_close(mongo_store *store);
/* Before a try: pauses if the last known turn was one of ours, and others use the lock. */
void mongo_fair_wait(mongo_store *store, const char *name);
/* After a try: who holds the lock now. is_ours: a client of Holdfast, as far as the document says.
 */
void mongo_fair_note(mongo_store *store, const hf_record *record, bool is_ours);
/* Whether this very client holds the lock: what documents say that do not tell whose program it is.
 */
bool mongo_fair_is_self(mongo_store *store, const hf_record *record);

#endif
