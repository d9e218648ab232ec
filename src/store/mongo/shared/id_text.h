/* SPDX-License-Identifier: Apache-2.0 */
/* id_text.h: names that are an _id of any type. */
#ifndef STORE_MONGO_SHARED_ID_TEXT_H
#define STORE_MONGO_SHARED_ID_TEXT_H

#include <bson/bson.h>
#include <holdfast/store.h>

/* The value that a text is as extended JSON; doc holds it, and is the caller's to destroy, when
 * true. */
bool mongo_json_parse(const char *text, bson_t **doc, bson_iter_t *value);
/* The value that a name means: what is extended JSON of a value that an _id can have, or else the
 * text itself. */
void mongo_id_append(bson_t *to, const char *field, const char *name);
/* The one name of an _id; false: it has none that is short enough, or its text is no UTF-8. */
bool mongo_id_read(const bson_iter_t *id, char name[HF_NAME_MAX + 1]);
/* The name by which the _id that is meant is known; false: too long. */
bool mongo_id_canonical(const char *given, char name[HF_NAME_MAX + 1]);

#endif
