/* SPDX-License-Identifier: Apache-2.0 */
/* fault.h: what an error of the driver or the server means. */
#ifndef STORE_MONGO_DRIVER_FAULT_H
#define STORE_MONGO_DRIVER_FAULT_H

#include "store/mongo/driver/command.h"

#define MONGO_UNAUTHORIZED 13 /* a server's code: the user lacks a privilege */

/* What an error of driver or server means. reply may be NULL. The first refusal of an
 * authentication is HF_UNREACHABLE: see refusal.h. */
hf_code mongo_fault(mongo_store *store, const mongo_call *call, const bson_error_t *error,
                    const bson_t *reply, hf_error *err);
/* No server is asked, because a certificate does not verify: HF_UNUSABLE, as that does not pass. */
hf_code mongo_untrusted(const mongo_store *store, const mongo_call *call, const bson_error_t *error,
                        hf_error *err);
/* Errors inside a reply that says ok: of a write, or of its write concern. */
hf_code mongo_write_fault(const mongo_store *store, const mongo_call *call, mongo_reply *reply,
                          hf_error *err);

/* A reply that says ok but lacks what was asked for. It never means "there is none". */
hf_code mongo_odd_reply(const mongo_store *store, const mongo_call *call, hf_error *err);

#endif
