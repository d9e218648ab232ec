/* SPDX-License-Identifier: Apache-2.0 */
/* id_text.h: names for an _id of any type. */
#ifndef STORE_MONGO_SHARED_ID_TEXT_H
#define STORE_MONGO_SHARED_ID_TEXT_H

#include "store/bson.h"

#include <holdfast/store.h>

/* Reads a text as the extended JSON of a value. If true, doc holds the value, and the caller
 * destroys doc. */
bool mongo_json_parse(const char *text, bson_t **doc, bson_iter_t *value);
/* The value that a name means: that of the extended JSON, if an _id can have it, or else the text
 * itself. */
void mongo_id_append(bson_t *to, const char *field, const char *name);
/* The one name of an _id; false: it is too long, or its text is not UTF-8. */
bool mongo_id_read(const bson_iter_t *id, char name[HF_NAME_MAX + 1]);
/* The same as JSON, strings too. */
bool mongo_id_json(const bson_iter_t *id, char json[HF_NAME_MAX + 1]);
/* The name of a document's _id, or words that say that it cannot be shown. */
void mongo_id_show(const bson_t *doc, char name[HF_NAME_MAX + 1]);
/* Whether MongoDB takes the value as an _id. */
bool mongo_id_is_possible(const bson_iter_t *value);
/* The one name of the _id that a given name means; false: too long. */
bool mongo_id_canonical(const char *given, char name[HF_NAME_MAX + 1]);

#endif
