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

typedef enum mongo_verdict {
    MONGO_OVERDUE_LIVES,  /* or may */
    MONGO_OVERDUE_UNSEEN, /* the same, and no request from this host has noted that it saw this beat
                           */
    MONGO_OVERDUE_GONE,
} mongo_verdict;

/* The same for many: the caller leaves the sightings. */
mongo_verdict mongo_judge_overdue(const mongo_store *store, const bson_t *doc,
                                  const hf_session_state *state, int64_t trust_ms);
/* Appends {q: {_id, beat, dead: {$ne: true}}}: that session, if it has not beaten since (R5). */
void mongo_append_unchanged(const hf_session_state *state, bson_t *statement);
/* Appends {q, u} of an update that notes it. */
void mongo_append_sighting(const mongo_store *store, const hf_session_state *state,
                           bson_t *statement);

#endif
