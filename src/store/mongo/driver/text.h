/* SPDX-License-Identifier: Apache-2.0 */
/* text.h: makes documents, and updates by a pipeline, from texts. */
#ifndef STORE_MONGO_DRIVER_TEXT_H
#define STORE_MONGO_DRIVER_TEXT_H

#include "store/bson.h"

/* Of such texts: whether the field's value is a number that we write. */
#define PIPELINE_IS_NUMBER(field) "{'$in': [{'$type': '$" field "'}, ['int', 'long', 'double']]}"

/* The document for a text in which ' stands for "; the caller destroys it. */
bson_t *pipeline_json(const char *text);

/* Appends [{$replaceWith: {$let: {vars: vars, in: body}}}] as the array `field`. */
void pipeline_append_let(bson_t *command, const char *field, const bson_t *vars,
                         const bson_t *body);
/* The same with x as what $$x stands for, ... */
void pipeline_append_body(bson_t *command, const char *field, const bson_t *body, const bson_t *x);
/* ... and for a body that is written as a text. */
void pipeline_append_text(bson_t *command, const char *field, const char *text, const bson_t *x);

#endif
