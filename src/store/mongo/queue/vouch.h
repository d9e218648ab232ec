/* SPDX-License-Identifier: Apache-2.0 */
/* vouch.h: sessions that are long overdue (R6). */
#ifndef STORE_MONGO_QUEUE_VOUCH_H
#define STORE_MONGO_QUEUE_VOUCH_H

#include "store/mongo/driver/store.h"

#define MONGO_BOOT_MAX 96

void mongo_find_boot(char out[MONGO_BOOT_MAX]);
/* Appends the host's clock to a beat: {clock: {boot, at}}. */
void mongo_append_clock(const mongo_store *store, bson_t *to);
/* R6: is a session that is overdue by the server's clock gone? If that cannot be said yet, it
 * leaves a sighting, so that a later look from this host can say it. */
bool mongo_is_gone(mongo_store *store, const bson_t *doc, const hf_session_state *state,
                   int64_t trust_ms);

#endif
