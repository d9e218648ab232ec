/* SPDX-License-Identifier: Apache-2.0 */
/* text.c: makes documents, and updates by a pipeline of one stage, from texts in which ' stands for
 * "; called by the files that have such texts. Everything from outside is in one $literal, the
 * variable x, so that the server never reads it as an expression. */
#include "store/mongo/driver/text.h"
#include "store/mongo/driver/builder.h"

#include <assert.h>

bson_t *pipeline_json(const char *text)
{
    bson_error_t error;
    mongo_builder json = builder_begin("");
    for (; *text; text++)
        builder_add_char(&json, *text == '\'' ? '"' : *text);
    bson_t *body = bson_new_from_json((const uint8_t *)json.text, -1, &error);
    assert(body);
    builder_done(&json);
    return body;
}

/* [{$replaceWith: {$let: {vars: vars, in: body}}}] */
void pipeline_append_let(bson_t *command, const char *field, const bson_t *vars, const bson_t *body)
{
    bson_t stages, stage, replace, let;
    BSON_APPEND_ARRAY_BEGIN(command, field, &stages);
    BSON_APPEND_DOCUMENT_BEGIN(&stages, "0", &stage);
    BSON_APPEND_DOCUMENT_BEGIN(&stage, "$replaceWith", &replace);
    BSON_APPEND_DOCUMENT_BEGIN(&replace, "$let", &let);
    BSON_APPEND_DOCUMENT(&let, "vars", vars);
    BSON_APPEND_DOCUMENT(&let, "in", body);
    bson_append_document_end(&replace, &let);
    bson_append_document_end(&stage, &replace);
    bson_append_document_end(&stages, &stage);
    bson_append_array_end(command, &stages);
}

/* vars: {x: {$literal: x}} */
void pipeline_append_body(bson_t *command, const char *field, const bson_t *body, const bson_t *x)
{
    bson_t vars = BSON_INITIALIZER, literal;
    BSON_APPEND_DOCUMENT_BEGIN(&vars, "x", &literal);
    BSON_APPEND_DOCUMENT(&literal, "$literal", x);
    bson_append_document_end(&vars, &literal);
    pipeline_append_let(command, field, &vars, body);
    bson_destroy(&vars);
}

void pipeline_append_text(bson_t *command, const char *field, const char *text, const bson_t *x)
{
    bson_t *body = pipeline_json(text);
    pipeline_append_body(command, field, body, x);
    bson_destroy(body);
}
