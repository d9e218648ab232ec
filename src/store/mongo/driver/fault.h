/* SPDX-License-Identifier: Apache-2.0 */
/* fault.h: what an error of the driver or the server means. */
#ifndef STORE_MONGO_DRIVER_FAULT_H
#define STORE_MONGO_DRIVER_FAULT_H

#include "store/mongo/driver/command.h"

/* Codes of the server. */
#define MONGO_UNAUTHORIZED 13     /* the user lacks a privilege */
#define MONGO_DUPLICATE 11000     /* in a reply of mongo_run(): this _id is there already */
#define MONGO_FOREIGN_INDEX 11001 /* of no server: another unique index has this key already */

/* Whether an error of the server, the reply itself or one of its writeErrors, says that this _id is
 * there already. */
bool mongo_is_duplicate_id(const bson_t *error);

/* What an error of driver or server means. reply may be NULL. The first refusal of an
 * authentication is HF_UNREACHABLE: see refusal.h. */
hf_code mongo_fault(mongo_store *store, const mongo_call *call, const bson_error_t *error,
                    const bson_t *reply, hf_error *err);
/* No server is asked, because a certificate does not verify: HF_UNUSABLE, as that does not pass. */
hf_code mongo_untrusted(const mongo_store *store, const mongo_call *call, const bson_error_t *error,
                        hf_error *err);
/* After a failure: if a unique index but that of _id was in the way, makes that
 * MONGO_FOREIGN_INDEX and HF_UNUSABLE. Otherwise it is `code`. */
hf_code mongo_index_fault(const mongo_store *store, const mongo_call *call, hf_code code,
                          mongo_reply *reply, hf_error *err);
/* Errors inside a reply that says ok: of a write, or of its write concern. */
hf_code mongo_write_fault(const mongo_store *store, const mongo_call *call, mongo_reply *reply,
                          hf_error *err);

/* A reply that says ok but lacks what was asked for. It never means "there is none". */
hf_code mongo_odd_reply(const mongo_store *store, const mongo_call *call, hf_error *err);

#endif
