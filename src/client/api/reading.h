/* SPDX-License-Identifier: Apache-2.0 */
/* reading.h: public calls that only read ask again while the store gives no answer, as in an
 * election. */
#ifndef CLIENT_API_READING_H
#define CLIENT_API_READING_H

#include "client/base/client.h"

/* Reads what a call wants, from the beginning or from where it was interrupted. */
typedef hf_code (*reading_fn)(void *ctx, hf_error *err);

/* Calls read(ctx) until it ends in something else than a missing answer, or the patience of calls
 * that read is over. Within a bound (bound.h) that ends earlier, it ends with that. Only stores
 * behind a network are asked again: others have waited already. */
hf_code reading_repeat(hf_client *client, reading_fn read, void *ctx, hf_error *err);

/* hf_show(), which asks once: for callers that repeat it themselves. */
hf_code reading_show(hf_client *client, const char *name, hf_lock_info_fn each, void *ctx,
                     hf_error *err);

#endif
