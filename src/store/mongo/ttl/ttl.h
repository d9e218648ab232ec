/* SPDX-License-Identifier: Apache-2.0 */
/* ttl.h: protocol `ttl`: its calls, and what its files share. */
#ifndef STORE_MONGO_TTL_TTL_H
#define STORE_MONGO_TTL_TTL_H

#include "store/mongo/shared/protocol.h"

extern const mongo_protocol mongo_ttl;

hf_code mongo_ttl_begin(hf_store *base, const hf_session *self, hf_error *err);
hf_code mongo_ttl_beat(hf_store *base, hf_id id, const hf_beat *says, hf_session_state *out,
                       hf_error *err);
hf_code mongo_ttl_look(hf_store *base, const char *const *names, size_t n, hf_stamp after,
                       bool linearizable, hf_record_fn each, void *ctx, hf_error *err);
hf_code mongo_ttl_list(hf_store *base, const hf_list_part *part, hf_record_fn each, void *ctx,
                       hf_error *err);

/* ---- The index (index.c) ---- */

#define MONGO_FOR_EVER (-1) /* only its program ends a foreign document */

void mongo_ttl_index_open(mongo_store *store);
void mongo_ttl_index_close(mongo_store *store, bool is_ours);

/* Reads, once, how long documents last that do not say so themselves. */
hf_code mongo_ttl_read_index(mongo_store *store, hf_error *err);
/* The same at any time, before one of them is taken over: somebody may have changed the index. Also
 * refuses as mongo_ttl_check(). */
hf_code mongo_ttl_read_index_again(mongo_store *store, int64_t *foreign_ms, hf_error *err);
/* What was read last, in ms, or MONGO_FOR_EVER. */
int64_t mongo_ttl_foreign_ms(mongo_store *store);
/* Reads the index, and makes it if there is none. Warns once about oddities; refuses like
 * mongo_ttl_check(), and with HF_SHAPE if it would delete what it should not. */
hf_code mongo_ttl_settle(mongo_store *store, hf_error *err);
/* HF_INVALID: MongoDB would remove our documents before our ttl is over. Reads the index again if
 * the last reading is older than a ttl. */
hf_code mongo_ttl_check(mongo_store *store, bool is_beat, hf_error *err);
/* The same for an ID lease, by the last reading. */
hf_code mongo_ttl_check_lease(mongo_store *store, int64_t ttl_ms, hf_error *err);

/* ---- Documents that an index would delete (strangers.c) ---- */

/* HF_SHAPE: there are documents that an index of so many seconds must not be put on. */
hf_code mongo_ttl_refuse_strangers(mongo_store *store, int64_t seconds, hf_error *err);
/* For how long a lock of another program has not been renewed, the longest of all; 0: there is
 * none. */
hf_code mongo_ttl_longest_gap(mongo_store *store, int64_t *gap_ms, hf_error *err);

/* ---- _ids of other types (ids.c) ---- */

/* Finds an _id that is not a string; false: there is none, or the search failed. */
bool mongo_ttl_find_odd_id(mongo_store *store, char out[HF_NAME_MAX + 1]);
void mongo_ttl_warn_of_odd_id(mongo_store *store);

#endif
