/* SPDX-License-Identifier: Apache-2.0 */
/* filter.h: the filter and the sort order of a claim. */
#ifndef STORE_MONGO_DOCUMENT_FILTER_H
#define STORE_MONGO_DOCUMENT_FILTER_H

#include "store/bson.h"

#include <holdfast/store.h>

/* Appends the user's filter or sort order, which is an object in extended JSON. */
hf_code mongo_filter_append(bson_t *to, const char *field, const char *what, const char *text,
                            hf_error *err);
/* The code for a server's error: HF_INVALID, if it does not understand the filter. */
hf_code mongo_filter_explain(hf_code code, int32_t server_code, hf_error *err);

#endif
